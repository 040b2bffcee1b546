//! How the process ends.
//!
//! SIGTERM or SIGINT: not ready, listeners closed once what their queues hold is accepted, connections told; the end
//! is when the last one has gone. Each connection keeps the profile's `timeouts.drain` itself, as it does where only
//! its listener goes; [`LAST_WORDS`] later the process ends whatever is left. A second signal ends at once. An end
//! that cut a connection is not clean (exit code 1), so that a supervisor's log shows it; a WebSocket that was told to
//! close and closed is no cut.
//!
//! SIGPIPE is ignored by Rust's runtime. SIGHUP is caught and does nothing: sources watch their files, and the
//! default action would kill a router whose terminal was closed.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long after the profile's `timeouts.drain` connections may still take to end in order.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);

/// What the process was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Nothing yet.
    Run,
    /// End when connections have.
    Drain,
    /// End.
    Now,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every connection had ended.
    Clean,
    /// Some were cut.
    Cut,
}

/// Turns signals into a [`Stop`]. Must be called within a runtime.
///
/// # Errors
/// Where the system refuses a signal handler.
pub fn signals() -> io::Result<watch::Receiver<Stop>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (told, stop) = watch::channel(Stop::Run);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {
                    tracing::info!("SIGHUP ignored: files are re-read when they change");
                    continue;
                }
            }
            told.send_modify(|stop| {
                *stop = if *stop == Stop::Run {
                    Stop::Drain
                } else {
                    Stop::Now
                }
            });
        }
    });
    Ok(stop)
}

/// Ends when at least `least` was told, or when nobody is left to tell it.
pub(crate) async fn told(stop: &mut watch::Receiver<Stop>, least: Stop) {
    if stop.wait_for(|stop| *stop >= least).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until everything is closed (`closing`) and `open` says 0, at most `limit`, less where [`Stop::Now`] comes.
pub(crate) async fn wait(
    closing: impl Future<Output = ()>,
    open: impl Fn() -> usize,
    limit: Duration,
    stop: &mut watch::Receiver<Stop>,
) -> Ended {
    let all_ended = async {
        closing.await;
        // Twenty looks a second cost nothing at this stage, and spare each connection a wake-up of the main thread.
        while open() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        biased;
        () = all_ended => return Ended::Clean,
        () = told(stop, Stop::Now) => tracing::warn!(open = open(), "told twice: connections are cut"),
        () = tokio::time::sleep(limit) => tracing::warn!(open = open(), "drain time is over: connections are cut"),
    }
    Ended::Cut
}
