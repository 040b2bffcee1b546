//! What was typed. What it means is [`crate::config`]'s.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// An HTTP edge router.
#[derive(Debug, Parser)]
#[command(name = "routed", version, about)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Route traffic.
    ///
    /// SIGTERM and SIGINT drain: not ready, no new connections, requests in flight finish, at most as long as the
    /// profile's `timeouts.drain`. A second one ends at once (exit code 1). SIGHUP does nothing: files are re-read
    /// when they change.
    ///
    /// One source is followed: --snapshot-addr, else --snapshot-path, else --resources; without any the process is
    /// alive, never ready.
    Serve(Box<ServeArgs>),
    /// Try it: backends that echo what reaches them, resources to edit, and a router before them.
    ///
    /// HTTP on 127.0.0.1:8080, HTTPS on 127.0.0.1:8443, admin on 127.0.0.1:9901, backends on 9101 to 9103.
    Demo,
}

/// The flags of `routed serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeArgs {
    /// Control plane to follow by gRPC: http://HOST:PORT, https://HOST:PORT or unix:/PATH.
    #[arg(long, env = "ROUTED_SNAPSHOT_ADDR", value_name = "URL")]
    pub snapshot_addr: Option<String>,
    /// Compiled snapshot to follow: a file written by `routedctl compile` or by an operator. Unused where
    /// --snapshot-addr is set.
    #[arg(long, env = "ROUTED_SNAPSHOT_PATH", value_name = "FILE")]
    pub snapshot_path: Option<PathBuf>,
    /// Folder of YAML to compile and follow. Unused where one of the above is set.
    #[arg(long, env = "ROUTED_RESOURCES", value_name = "DIR")]
    pub resources: Option<PathBuf>,
    /// Certificates that sign the control plane's; without it those that the system trusts. This file and the next two
    /// are read for each connection.
    #[arg(long, env = "ROUTED_SNAPSHOT_CA", value_name = "FILE")]
    pub snapshot_ca: Option<PathBuf>,
    /// The certificate that this router shows to the control plane.
    #[arg(long, env = "ROUTED_SNAPSHOT_CERT", value_name = "FILE")]
    pub snapshot_cert: Option<PathBuf>,
    /// Its private key.
    #[arg(long, env = "ROUTED_SNAPSHOT_KEY", value_name = "FILE")]
    pub snapshot_key: Option<PathBuf>,
    /// Name in the control plane's certificate, where it is not the host of the address.
    #[arg(long, env = "ROUTED_SNAPSHOT_SERVER_NAME", value_name = "NAME")]
    pub snapshot_server_name: Option<String>,
    /// Control plane that is told what is served and what was refused, whatever the source; by default the one of
    /// --snapshot-addr.
    #[arg(long, env = "ROUTED_REPORT_ADDR", value_name = "URL")]
    pub report_addr: Option<String>,
    /// What this router is called there; by default the host's name.
    #[arg(long, env = "ROUTED_CLIENT_NAME", value_name = "NAME")]
    pub client_name: Option<String>,
    /// RouterProfile to run, as namespace/name.
    #[arg(
        long,
        env = "ROUTED_PROFILE",
        value_name = "NS/NAME",
        default_value = "default/default"
    )]
    pub profile: String,
    /// Where health, metrics and explanations are served: an IP address and port, or unix:/path (mode 0600).
    #[arg(
        long,
        env = "ROUTED_ADMIN_ADDR",
        value_name = "ADDR",
        default_value = "127.0.0.1:9901"
    )]
    pub admin_addr: String,
    /// File that keeps the last good snapshot, served at start until the source answers.
    #[arg(long, env = "ROUTED_SNAPSHOT_CACHE", value_name = "FILE")]
    pub snapshot_cache: Option<PathBuf>,
    /// Folder (mode 0700) that keeps certificates and private keys, so that TLS survives a restart without a source.
    #[arg(long, env = "ROUTED_KEY_CACHE", value_name = "DIR")]
    pub key_cache: Option<PathBuf>,
    /// Folder of certificates for --snapshot-path: NAMESPACE/NAME/tls.crt and tls.key, re-read when they change.
    #[arg(long, env = "ROUTED_TLS_KEYS", value_name = "DIR")]
    pub tls_keys: Option<PathBuf>,
    /// Take a table without routes even where nothing says that it is newer.
    #[arg(long, env = "ROUTED_ALLOW_EMPTY")]
    pub allow_empty: bool,
    /// Time between two looks at files, for instance 1s or 500ms.
    #[arg(
        long,
        env = "ROUTED_POLL_INTERVAL",
        value_name = "DURATION",
        default_value = "1s"
    )]
    pub poll_interval: String,
    /// Worker threads; 0: one per core.
    #[arg(long, env = "ROUTED_WORKERS", value_name = "N", default_value_t = 0)]
    pub workers: usize,
    /// Form of the log on standard error.
    #[arg(long, env = "ROUTED_LOG_FORMAT", value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,
    /// What is logged.
    #[arg(long, env = "ROUTED_LOG_LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Lines for people.
    Text,
}

/// Least severity that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What may need attention.
    Warn,
    /// What happened.
    Info,
    /// Each connection's troubles.
    Debug,
    /// Everything.
    Trace,
}
