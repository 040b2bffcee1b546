//! One stream, from its connection to its end.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use routed_proto::snapshot_service_client::SnapshotServiceClient;
use routed_proto::{SnapshotChunk, WatchRequest};
use tonic::Code;
use tonic::transport::Channel;

use super::apply::Offer;
use super::{End, Follower};
use crate::assemble::{AssembleError, MAX_CHUNK_BYTES};
use crate::channel::{Contact, moment};
use crate::feed::Feed;
use crate::keys::Keys;

/// Room in a message for what is not parts.
const MESSAGE_SLACK: usize = 1 << 20;

/// How often the age of the last contact is written down.
const TICK: Duration = Duration::from_secs(1);

type Client = SnapshotServiceClient<Channel>;

impl Follower {
    /// Connects, and follows a stream until it ends.
    pub(super) async fn stream(&mut self) -> End {
        let connection = match self.config.control_plane.connect().await {
            Ok(connection) => connection,
            Err(error) => return End::Connect(error),
        };
        let client = Client::new(connection.channel).max_decoding_message_size(self.max_message());
        let request = self.request(connection.carries_keys.is_ok());
        let (feed, keys) = (self.feed.clone(), self.keys.clone());
        let end = tokio::select! {
            end = self.receive(client, request, connection.carries_keys) => end,
            never = tick(&feed, &keys, &connection.contact) => match never {},
        };
        let silent = connection.contact.age();
        match end {
            // The client only knows that the connection is gone.
            End::Call(_) if silent >= self.config.control_plane.timing.ping_timeout => End::Silent(silent),
            end => end,
        }
    }

    async fn receive(
        &mut self,
        mut client: Client,
        request: WatchRequest,
        carries_keys: Result<(), &'static str>,
    ) -> End {
        let mut stream = match client.watch(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => return End::Call(status),
        };
        self.begin();
        let mut last_chunk = Instant::now();
        loop {
            let deadline = self.deadline(last_chunk);
            // What can happen: a chunk, the end of the stream, the end of a build, a standstill, a reset.
            tokio::select! {
                message = stream.message() => {
                    last_chunk = Instant::now();
                    let taken = match message {
                        Ok(Some(chunk)) => self.take(chunk, carries_keys),
                        Ok(None) => return End::Closed,
                        Err(status) => return self.ended(status),
                    };
                    if let Err(error) = taken {
                        return End::Refused(error);
                    }
                }
                Some(outcome) = self.applier.outcome() => self.judge(outcome),
                () = tokio::time::sleep_until(deadline.into()) => {
                    if self.assembler.is_open() && last_chunk.elapsed() >= self.config.control_plane.timing.stalled {
                        return End::Stalled;
                    }
                    if self.behind.is_some_and(|since| since.elapsed() >= self.config.control_plane.timing.behind) {
                        self.behind = None;
                        return End::Behind;
                    }
                }
                () = self.feed.status().reset_asked() => {
                    if self.was_reset() {
                        return End::Reset;
                    }
                }
            }
        }
    }

    fn begin(&mut self) {
        self.assembler.begin_stream();
        self.incoming_keys = Default::default();
        self.up = Some(Instant::now());
        self.behind = None;
        let status = self.feed.status();
        status.connect(true);
        if !status.is_refused() {
            status.succeed();
        }
    }

    /// When it must be looked whether a delivery stands still, or only older snapshots come.
    fn deadline(&self, last_chunk: Instant) -> Instant {
        let timing = &self.config.control_plane.timing;
        let stalled = self.assembler.is_open().then(|| last_chunk + timing.stalled);
        let behind = self.behind.map(|since| since + timing.behind);
        let far = Instant::now() + Duration::from_secs(3600);
        stalled.into_iter().chain(behind).fold(far, Instant::min)
    }

    fn take(
        &mut self,
        mut chunk: SnapshotChunk,
        carries_keys: Result<(), &'static str>,
    ) -> Result<(), AssembleError> {
        if let Some(keys) = chunk.keys.take() {
            if chunk != SnapshotChunk::default() {
                return Err(AssembleError::Field("keys came in the middle of something else"));
            }
            match carries_keys {
                Ok(()) => {
                    if let Some(table) = self.incoming_keys.take(keys, &self.keys.load())? {
                        self.feed.status().keys_problem(table.problem);
                        self.applier.store(table.pairs);
                    }
                }
                Err(why) => self
                    .feed
                    .status()
                    .keys_problem(Some(format!("{why}; they are not used"))),
            }
            return Ok(());
        }
        if !chunk.snapshot_json.is_empty() {
            let document = std::mem::take(&mut chunk.snapshot_json);
            if chunk != SnapshotChunk::default() || self.assembler.is_open() {
                return Err(AssembleError::Field(
                    "a whole document came in the middle of something else",
                ));
            }
            if document.len() > self.config.limit_bytes {
                let (bytes, limit) = (document.len() as u64, self.config.limit_bytes as u64);
                return Err(AssembleError::TooLarge { bytes, limit });
            }
            // Nothing is held that such a server could make use of.
            self.assembler.forget();
            self.applier.offer(Offer::Document(document));
            return Ok(());
        }
        if let Some(delivered) = self.assembler.push(chunk)? {
            self.applier.offer(Offer::Delivered(delivered));
        }
        Ok(())
    }

    /// The largest message: a chunk, or a whole document from a server that sends nothing else.
    fn max_message(&self) -> usize {
        self.config.limit_bytes.max(MAX_CHUNK_BYTES) + MESSAGE_SLACK
    }

    fn ended(&self, status: tonic::Status) -> End {
        // This is how the client says that a message is larger than it takes.
        if status.code() == Code::OutOfRange && status.message().contains("too large") {
            return End::Refused(AssembleError::MessageTooLarge(self.max_message()));
        }
        End::Call(status)
    }

    /// Whether the position was reset since the last look, and something may be taken now that was not before.
    fn was_reset(&mut self) -> bool {
        let resets = self.feed.status().resets();
        let is_new = resets != self.resets;
        self.resets = resets;
        is_new && self.feed.status().is_refused()
    }
}

/// Writes down how the contact ages, and tries again what the disk refused. Never ends.
async fn tick(feed: &Feed, keys: &Keys, contact: &Contact) -> Infallible {
    loop {
        feed.status().heard(moment(contact.age()));
        let keys = keys.clone();
        // Its end is awaited, so that a disk that hangs holds one thread and not one more each second.
        let caught_up = tokio::task::spawn_blocking(move || keys.catch_up());
        drop(caught_up.await);
        tokio::time::sleep(TICK).await;
    }
}
