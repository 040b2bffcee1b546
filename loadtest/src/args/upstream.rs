//! `routed-loadtest upstream`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

use super::units;

#[derive(Debug, clap::Args)]
pub(crate) struct Upstream {
    /// Where to listen; port 0: any free one. The address is the first line of the output.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// Threads that answer.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,

    /// Certificate chain (PEM) for TLS, with HTTP/2 by ALPN.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// End after so many seconds; otherwise by a signal.
    #[arg(long, value_parser = units::seconds)]
    pub(crate) seconds: Option<f64>,

    #[command(flatten)]
    pub(crate) answer: Answer,

    /// From so long after the first request on ...
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "stall_for")]
    pub(crate) stall_after: Option<Duration>,

    /// ... nothing is answered for so long, once; then all that waited is.
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "stall_after")]
    pub(crate) stall_for: Option<Duration>,
}

/// How requests are answered, where their query does not say otherwise.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Answer {
    /// Status of answers.
    #[arg(long, value_name = "CODE", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) status: u16,

    /// Bytes of an answer's body.
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u64).range(..=MAX_SIZE))]
    pub(crate) size: u64,

    /// Time before an answer, to the millisecond.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = units::duration)]
    pub(crate) delay: Duration,

    /// Share of requests that fail, evenly spread: with 0.01 each hundredth.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = units::ratio)]
    pub(crate) fail: f64,

    /// How they fail.
    #[arg(long, value_enum, default_value_t = Fault::Status)]
    pub(crate) fail_with: Fault,
}

/// Largest body that is sent.
pub(crate) const MAX_SIZE: u64 = 1 << 40;

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// Answered with 503.
    Status,
    /// The connection is reset (in HTTP/2 the stream) before anything is said.
    Reset,
    /// Half of the body is sent, then the connection is closed (in HTTP/2 the stream reset).
    Truncate,
    /// Never answered.
    Hang,
}
