//! What the tests of sources share: documents, a running source, and waiting by condition.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test binary uses its share"
)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use routed_snapshot::ir::{Action, DirectResponse, HttpMatch, HttpTable, PathMatch, RoutesPart, Rule};
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Part, PartName, Position, Snapshot};
use routed_sources::{Keys, Live, Polling, Publisher, Source, SourceStatus};
use tokio::sync::oneshot;

/// How long a condition may take: far longer than it should, for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Fast looks; notices off where a test is about polling.
pub fn polling(notify: bool) -> Polling {
    Polling {
        interval: Duration::from_millis(60),
        notify,
    }
}

/// A table of one route whose answer is `body`.
pub fn snapshot(body: &str, position: Option<Position>) -> Snapshot {
    let name = "EdgeRoute/default/one/0".to_owned();
    let rule = Rule {
        name: None,
        action: Action::DirectResponse(DirectResponse {
            status: 200,
            body: body.to_owned(),
            content_type: None,
        }),
        request_headers: Default::default(),
        response_headers: Default::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: Default::default(),
        retry: None,
    };
    let table = HttpTable {
        host: "one.example.com".to_owned(),
        listeners: vec!["default/default/http".to_owned()],
        matches: vec![HttpMatch {
            path: PathMatch::PathPrefix("/".to_owned()),
            method: None,
            headers: Vec::new(),
            query_params: Vec::new(),
            cookies: Vec::new(),
            rule: name.clone(),
            index: 0,
        }],
    };
    let part = RoutesPart {
        rules: BTreeMap::from([(name, rule)]),
        tables: vec![table],
    };
    let part = Part::from_content(PartContent::Routes(part)).unwrap();
    let name = PartName::Routes(bucket_of("one.example.com"));
    Snapshot::new(BTreeMap::from([(name, Arc::new(part))]), position)
}

/// A well-formed table without routes.
pub fn empty(position: Option<Position>) -> Snapshot {
    Snapshot::new(BTreeMap::new(), position)
}

/// A position that has seen EdgeRoutes up to `at`.
pub fn position(cluster: &str, at: u64) -> Position {
    Position {
        cluster_id: cluster.to_owned(),
        resource_versions: BTreeMap::from([("edgeroutes".to_owned(), at)]),
    }
}

/// Writes a file whole, by rename.
pub fn put(path: &Path, bytes: &[u8]) {
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, bytes).unwrap();
    std::fs::rename(&temporary, path).unwrap();
}

/// A source that runs until it is dropped.
pub struct Running {
    pub live: Live,
    pub keys: Keys,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    pub fn start(source: Source) -> Running {
        let (publisher, live) = Publisher::new();
        Running::start_with(source, publisher, live, Keys::default())
    }

    pub fn start_with(source: Source, publisher: Publisher, live: Live, keys: Keys) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let for_source = keys.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(source.run(&publisher, for_source, async {
                let _ = stopped.await;
            }));
        });
        Running {
            live,
            keys,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn status(&self) -> SourceStatus {
        self.live.status().view()
    }

    /// Waits until the status is as wanted.
    pub fn until(&self, what: &str, wanted: impl Fn(&SourceStatus) -> bool) -> SourceStatus {
        let start = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "waited in vain for {what}: {status:#?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until `snapshot` is what requests see.
    pub fn until_serves(&self, snapshot: &Snapshot) {
        self.until("the snapshot", |_| self.serves(snapshot));
    }

    pub fn serves(&self, snapshot: &Snapshot) -> bool {
        self.live
            .load()
            .as_ref()
            .is_some_and(|index| index.hash() == snapshot.hash())
    }

    /// Waits until the source was looked at `looks` more times.
    pub fn looks(&self, looks: u32) {
        for _ in 0..looks {
            let before = self.status().last_contact;
            self.until("a look", |status| status.last_contact != before);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for a condition.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
