//! What a result says about where it was measured. A figure without its machine can't be compared with another.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The machine and the build. What the system does not tell is `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Machine {
    /// Processors this process may use.
    pub(crate) cpus: usize,
    /// Processors the machine has online, whoever may use them.
    pub(crate) cores: Option<usize>,
    /// The processor's name.
    pub(crate) model: Option<String>,
    /// The kernel: system, release and architecture.
    pub(crate) kernel: Option<String>,
    /// Load average of 1, 5 and 15 minutes when the measurement began.
    pub(crate) load_average: Option<[f64; 3]>,
    /// Memory of the machine.
    pub(crate) memory_bytes: Option<u64>,
    /// Memory that could be had without swapping when the measurement began.
    pub(crate) memory_available_bytes: Option<u64>,
    /// What the kernel reads time from; anything but a processor's own counter makes each reading slow.
    pub(crate) clock_source: Option<String>,
    /// `release` or `debug`; times of a debug build say nothing.
    pub(crate) profile: &'static str,
    /// Version of routed: of this program, and of the crates measured within it.
    pub(crate) version: &'static str,
}

impl Machine {
    /// Looks around.
    pub(crate) fn look() -> Machine {
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cores: read("/sys/devices/system/cpu/online").and_then(|text| count_of_list(&text)),
            model: cpu_model(),
            kernel: kernel(),
            load_average: load_average(),
            memory_bytes: memory("MemTotal:"),
            memory_available_bytes: memory("MemAvailable:"),
            clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or("unknown processor");
        write!(out, "{} x {model}", self.cpus)?;
        if let Some(bytes) = self.memory_bytes {
            write!(out, ", {:.1} GiB", bytes as f64 / f64::from(1 << 30))?;
        }
        if let Some([load, ..]) = self.load_average {
            write!(out, ", load {load}")?;
        }
        if let Some(kernel) = &self.kernel {
            write!(out, ", {kernel}")?;
        }
        if let Some(clock) = &self.clock_source {
            write!(out, ", clock {clock}")?;
        }
        write!(out, ", routed {} ({} build)", self.version, self.profile)
    }
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// How many numbers a list such as `0-3,8` names.
fn count_of_list(list: &str) -> Option<usize> {
    let span = |span: &str| -> Option<usize> {
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.split(',').map(span).sum()
}

fn cpu_model() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kernel() -> Option<String> {
    let system = read("/proc/sys/kernel/ostype")?;
    let release = read("/proc/sys/kernel/osrelease")?;
    Some(format!("{system} {release} {}", std::env::consts::ARCH))
}

fn load_average() -> Option<[f64; 3]> {
    let text = read("/proc/loadavg")?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// A line of `/proc/meminfo`, in bytes.
fn memory(name: &str) -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_is_counted() {
        assert_eq!(count_of_list("0-1"), Some(2));
        assert_eq!(count_of_list("0-3,8,10-11"), Some(7));
        assert_eq!(count_of_list("3-1"), None);
        assert_eq!(count_of_list("all"), None);
    }

    #[test]
    fn linux_tells_all_of_it() {
        let machine = Machine::look();
        assert!(machine.cores >= Some(machine.cpus), "{machine:?}");
        assert!(
            machine.memory_bytes > machine.memory_available_bytes,
            "{machine:?}"
        );
        assert!(machine.kernel.is_some_and(|kernel| kernel.starts_with("Linux ")));
        assert!(machine.load_average.is_some());
        assert!(machine.clock_source.is_some());
    }
}
