//! One record per request: counted once and, where the profile asks for it, logged as one line.
//!
//! A record is made with the request and travels with its response body. It is written when it is dropped, so that a
//! request whose client left, or whose task was ended, is recorded like any other: as `cancelled`.
//!
//! Lines go through a bounded channel to one writer thread. A reader of the log that is slow or gone costs lines,
//! which are counted, and never a request.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use routed_snapshot::Hash;
use routed_snapshot::index::RuleEntry;
use routed_snapshot::ir::LogFormat;
use serde::Serialize;

use crate::conn::ListenerContext;
use crate::http::Meter;
use crate::http::io::Activity;
use crate::metrics::Observed;
use crate::shared::Shared;
use crate::upstream::Upstream;

/// Lines that wait for the writer.
const QUEUE: usize = 8192;

/// The access log's writer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AccessLog {
    lines: SyncSender<String>,
    drops: Arc<AtomicU64>,
}

impl AccessLog {
    /// A log to standard output; lines that could not be written are counted in `drops`.
    pub fn stdout(drops: Arc<AtomicU64>) -> AccessLog {
        AccessLog::to(std::io::stdout(), drops)
    }

    /// A log to any writer.
    pub fn to(sink: impl Write + Send + 'static, drops: Arc<AtomicU64>) -> AccessLog {
        let (lines, queue) = sync_channel(QUEUE);
        let counter = drops.clone();
        let spawned = std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&queue, sink, &counter));
        if let Err(error) = spawned {
            // The channel is closed then, and every line counts as dropped.
            tracing::error!(%error, "the access log can't be written");
        }
        AccessLog { lines, drops }
    }

    fn write(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.drops.fetch_add(1, Relaxed);
        }
    }
}

fn write_lines(queue: &Receiver<String>, mut sink: impl Write, drops: &AtomicU64) {
    while let Ok(mut batch) = queue.recv() {
        batch.push('\n');
        let mut lines = 1;
        while batch.len() < 64 << 10
            && let Ok(line) = queue.try_recv()
        {
            batch.push_str(&line);
            batch.push('\n');
            lines += 1;
        }
        // A closed pipe may be opened again by nobody, but the next write says so at no cost.
        if sink
            .write_all(batch.as_bytes())
            .and_then(|()| sink.flush())
            .is_err()
        {
            drops.fetch_add(lines, Relaxed);
        }
    }
}

/// What is known of one request. Written when dropped.
#[derive(Debug)]
pub struct Record {
    shared: Arc<Shared>,
    activity: Arc<Activity>,
    begun: Instant,
    time: jiff::Timestamp,
    listener: Arc<ListenerContext>,
    log: Option<LogFormat>,
    /// Address of the client, as far as trusted proxies tell.
    pub client: IpAddr,
    /// Method as received.
    pub method: String,
    /// Host, normalised.
    pub host: String,
    /// Path, normalised, without query (queries carry secrets too often).
    pub path: String,
    /// Status sent; 0 until there is one.
    pub status: u16,
    /// The rule met.
    pub rule: Option<Arc<RuleEntry>>,
    /// The backend chosen.
    pub backend: Option<Upstream>,
    /// The endpoint tried last.
    pub endpoint: Option<SocketAddr>,
    /// The snapshot that decided.
    pub snapshot: Option<Hash>,
    /// Tries made on endpoints.
    pub tries: u32,
    /// Counts the request body.
    pub received: Rc<Meter>,
    sent: u64,
    reason: Option<Box<str>>,
    finished: bool,
}

impl Record {
    /// A request that begins now.
    pub fn new(
        shared: Arc<Shared>,
        activity: Arc<Activity>,
        listener: Arc<ListenerContext>,
        client: IpAddr,
    ) -> Box<Record> {
        Box::new(Record {
            shared,
            activity,
            begun: Instant::now(),
            time: jiff::Timestamp::now(),
            listener,
            log: None,
            client,
            method: String::new(),
            host: String::new(),
            path: String::new(),
            status: 0,
            rule: None,
            backend: None,
            endpoint: None,
            snapshot: None,
            tries: 0,
            received: Rc::default(),
            sent: 0,
            reason: None,
            finished: false,
        })
    }

    /// Asks for a log line.
    pub fn log(&mut self, format: LogFormat) {
        self.log = Some(format);
    }

    /// Why it went as it did; the first reason stays.
    pub fn reason(&mut self, reason: &str) {
        if self.reason.is_none() {
            self.reason = Some(reason.into());
        }
    }

    /// Bytes of the response body that were handed on.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// The response is complete, or ended in a way that has its reason.
    pub fn finish(mut self: Box<Self>) {
        self.finished = true;
    }

    fn line(&self, format: LogFormat, reason: &str) -> String {
        let line = Line {
            time: self.time.to_string(),
            listener: &self.listener.name,
            client: self.client,
            method: &self.method,
            host: &self.host,
            path: &self.path,
            status: self.status,
            reason,
            route: self.rule.as_ref().map(|rule| &*rule.name),
            backend: self.backend.as_ref().map(|backend| &*backend.entry.name),
            endpoint: self.endpoint,
            snapshot: self.snapshot.map(|hash| hash.to_string()),
            bytes_in: self.received.bytes.get(),
            bytes_out: self.sent,
            duration_us: u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            tries: self.tries,
        };
        match format {
            LogFormat::Json => serde_json::to_string(&line).unwrap_or_default(),
            LogFormat::Text => line.text(),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.activity.end();
        let reason = self.reason.take();
        let reason = match (&reason, self.finished) {
            (Some(reason), _) => reason,
            (None, true) => "ok",
            (None, false) => "cancelled",
        };
        let request = Observed {
            listener: &self.listener.name,
            route: self.rule.as_ref().map_or("", |rule| &rule.name),
            backend: self.backend.as_ref().map_or("", |backend| &backend.entry.name),
            method: &self.method,
            status: self.status,
            duration: self.begun.elapsed(),
        };
        self.shared.observe(self.snapshot, &request);
        if let Some(format) = self.log {
            self.shared.access.write(self.line(format, reason));
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    listener: &'a str,
    client: IpAddr,
    method: &'a str,
    host: &'a str,
    path: &'a str,
    status: u16,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    bytes_in: u64,
    bytes_out: u64,
    duration_us: u64,
    tries: u32,
}

impl Line<'_> {
    /// For people: fields by blanks, absent ones as `-`. No field can hold a blank or a line end: methods are tokens,
    /// hosts and paths are normalised, the rest is ours.
    fn text(&self) -> String {
        let endpoint = self.endpoint.map(|endpoint| endpoint.to_string());
        let absent = |text: &str| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text.to_owned()
            }
        };
        format!(
            "{} {} {} {} {} {} {} {} route={} backend={} endpoint={} in={} out={} us={} tries={}",
            self.time,
            self.listener,
            self.client,
            absent(self.method),
            absent(self.host),
            absent(self.path),
            self.status,
            self.reason,
            self.route.unwrap_or("-"),
            self.backend.unwrap_or("-"),
            endpoint.as_deref().unwrap_or("-"),
            self.bytes_in,
            self.bytes_out,
            self.duration_us,
            self.tries
        )
    }
}
