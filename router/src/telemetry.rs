//! The log: standard error, one line per event.

use tracing::level_filters::LevelFilter;

use crate::args::{LogFormat, LogLevel};

/// Starts the log. A second call changes nothing.
///
/// A log that can't be written (closed pipe, full disk) is lost in silence: the subscriber's own report of it would
/// go to the same place and panic there.
pub fn start(format: LogFormat, level: LogLevel) {
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(filter(level))
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
        LogFormat::Text => subscriber.try_init(),
    };
    if started.is_ok() {
        std::panic::set_hook(Box::new(|panic| {
            // The payload may quote a request; where it happened is enough to find it.
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(place, "panic");
        }));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
