//! What a result says about where it was measured. A figure without its machine can't be compared with another.

use serde::Serialize;

/// The machine and the build.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// Processors this process may use.
    pub(crate) cpus: usize,
    /// The processor's name, where the system gives it.
    pub(crate) model: Option<String>,
    /// Load average of 1, 5 and 15 minutes when the measurement began.
    pub(crate) load_average: Option<[f64; 3]>,
    /// `release` or `debug`; times of a debug build say nothing.
    pub(crate) profile: &'static str,
    /// Version of the measured crates.
    pub(crate) version: &'static str,
}

impl Machine {
    /// Looks around.
    pub(crate) fn look() -> Machine {
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            model: cpu_model(),
            load_average: load_average(),
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn load_average() -> Option<[f64; 3]> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}
