//! What the process needs, made once from the flags. All that is wrong with them is said at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use routed_sources::{FileConfig, Polling, ResourcesConfig, Source};
use serde_json::json;

use crate::args::ServeArgs;

/// Most worker threads: above, the flag is a typing error.
const MAX_WORKERS: usize = 1024;
/// Bounds of `--poll-interval`.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3600));

/// The configuration of `routed serve`.
#[derive(Debug, Clone)]
pub struct Config {
    /// What is followed; none: alive, never ready.
    pub source: Option<Source>,
    /// Flags that lost to another source.
    pub unused: Vec<&'static str>,
    /// `namespace/name` of the profile.
    pub profile: String,
    /// Where the admin interface is served.
    pub admin: AdminAddress,
    /// `--snapshot-cache`.
    pub snapshot_cache: Option<PathBuf>,
    /// `--key-cache`.
    pub key_cache: Option<PathBuf>,
    /// Worker threads, at least 1.
    pub workers: usize,
    /// The flags that took effect, for `/config`.
    pub effective: serde_json::Value,
}

/// Where the admin interface is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket, mode 0600.
    Unix(PathBuf),
}

/// One flag that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {why}")]
pub struct FlagError {
    /// The flag.
    pub flag: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Config {
    /// Reads the flags.
    ///
    /// # Errors
    /// Every flag that can't be used.
    pub fn new(args: &ServeArgs) -> Result<Config, Vec<FlagError>> {
        let mut errors = Vec::new();
        if args.snapshot_addr.is_some() {
            let why = "following a control plane by gRPC is not built in this version; use --snapshot-path or \
                       --resources";
            errors.push(refuse("--snapshot-addr", why));
        }
        if !is_object_name(&args.profile) {
            errors.push(refuse("--profile", "expected namespace/name"));
        }
        if args.workers > MAX_WORKERS {
            errors.push(refuse("--workers", "at most 1024"));
        }
        let admin = admin_address(&args.admin_addr)
            .map_err(|error| errors.push(error))
            .ok();
        let interval = poll_interval(&args.poll_interval)
            .map_err(|error| errors.push(error))
            .ok();
        let (Some(admin), Some(interval), true) = (admin, interval, errors.is_empty()) else {
            return Err(errors);
        };
        let workers = match args.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        let (source, unused) = source(args, interval);
        Ok(Config {
            source,
            unused,
            profile: args.profile.clone(),
            admin,
            snapshot_cache: args.snapshot_cache.clone(),
            key_cache: args.key_cache.clone(),
            workers,
            effective: effective(args, workers),
        })
    }
}

fn refuse(flag: &'static str, why: &str) -> FlagError {
    let why = why.to_owned();
    FlagError { flag, why }
}

/// The first source set wins.
fn source(args: &ServeArgs, interval: Duration) -> (Option<Source>, Vec<&'static str>) {
    let polling = Polling {
        interval,
        ..Polling::default()
    };
    let mut unused = Vec::new();
    if let Some(path) = &args.snapshot_path {
        if args.resources.is_some() {
            unused.push("--resources");
        }
        let file = FileConfig {
            tls_keys: args.tls_keys.clone(),
            polling,
            allow_empty: args.allow_empty,
            ..FileConfig::new(path)
        };
        return (Some(Source::File(file)), unused);
    }
    if args.tls_keys.is_some() {
        unused.push("--tls-keys");
    }
    let source = args.resources.as_ref().map(|path| {
        Source::Resources(ResourcesConfig {
            polling,
            allow_empty: args.allow_empty,
            ..ResourcesConfig::new(path)
        })
    });
    (source, unused)
}

fn effective(args: &ServeArgs, workers: usize) -> serde_json::Value {
    json!({
        "snapshotPath": args.snapshot_path,
        "resources": args.resources,
        "profile": args.profile,
        "adminAddr": args.admin_addr,
        "snapshotCache": args.snapshot_cache,
        "keyCache": args.key_cache,
        "tlsKeys": args.tls_keys,
        "allowEmpty": args.allow_empty,
        "pollInterval": args.poll_interval,
        "workers": workers,
        "logFormat": format!("{:?}", args.log_format).to_lowercase(),
        "logLevel": format!("{:?}", args.log_level).to_lowercase(),
    })
}

fn is_object_name(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 253
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
    };
    text.split_once('/')
        .is_some_and(|(namespace, name)| part(namespace) && part(name))
}

fn admin_address(text: &str) -> Result<AdminAddress, FlagError> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(refuse("--admin-addr", "unix: needs a path"));
        }
        return Ok(AdminAddress::Unix(path.into()));
    }
    text.parse()
        .map(AdminAddress::Tcp)
        .map_err(|_| refuse("--admin-addr", "expected an IP address and port, or unix:/path"))
}

fn poll_interval(text: &str) -> Result<Duration, FlagError> {
    let interval = duration(text).ok_or_else(|| {
        refuse(
            "--poll-interval",
            "expected a duration, for instance 1s, 500ms or 1m30s",
        )
    })?;
    if interval < POLL_BOUNDS.0 || interval > POLL_BOUNDS.1 {
        return Err(refuse("--poll-interval", "from 10ms to 1h"));
    }
    Ok(interval)
}

/// A Gateway API duration: one to four of `h`, `m`, `s`, `ms`, each after up to five digits.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    let mut terms = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let unit = match unit {
            "h" => Duration::from_secs(3600),
            "m" => Duration::from_secs(60),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return None,
        };
        if digits > 5 || terms == 4 {
            return None;
        }
        total += unit * number.parse().ok()?;
        terms += 1;
        rest = tail;
    }
    (terms > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn config(flags: &[&str]) -> Result<Config, Vec<FlagError>> {
        let Command::Serve(args) = Args::try_parse_from(["routed", "serve"].iter().chain(flags))
            .unwrap()
            .command
        else {
            panic!("not serve");
        };
        Config::new(&args)
    }

    #[test]
    fn all_errors_are_said_at_once() {
        let errors = config(&[
            "--profile=x",
            "--admin-addr=nowhere",
            "--poll-interval=soon",
            "--snapshot-addr=http://a",
            "--workers=5000",
        ]);
        assert_eq!(errors.unwrap_err().len(), 5);
    }

    #[test]
    fn the_first_source_wins_and_the_others_are_named() {
        let config = config(&["--resources=/r", "--snapshot-path=/s"]).unwrap();
        assert!(matches!(config.source, Some(Source::File(_))));
        assert_eq!(config.unused, ["--resources"]);
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        for wrong in ["", "1", "s", "1d", "123456s", "-1s", "1.5s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
