//! Profiles: what a router as a whole is told (listeners, trust, limits, logs).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{RedirectToHttps, is_default};

/// The part `profiles`: every RouterProfile by `namespace/name`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfilesPart {
    /// Profiles by `namespace/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub profiles: BTreeMap<String, Profile>,
}

/// One RouterProfile with the defaults applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Listeners by name (unique within the profile).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub listeners: BTreeMap<String, Listener>,
    /// Whose `X-Forwarded-*` are believed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trusted_proxies: TrustedProxies,
    /// How a request target is brought to the one form that is matched and forwarded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub normalization: Normalization,
    /// Sizes and counts a client may not exceed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// Time limits of the data plane that no rule sets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeouts: Timeouts,
    /// The access log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub access_log: AccessLog,
    /// Whether responses carry `x-routed-route`, `x-routed-backend` and `x-routed-snapshot`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decision_headers: bool,
}

/// One address and port that the router accepts connections on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// IP address to bind, for instance `0.0.0.0` or `::`.
    pub address: String,
    /// TCP port, 1 to 65535. Port 0 (any free one) is for tests: the address bound is announced in the log.
    pub port: u16,
    /// What is spoken on it.
    pub protocol: ListenerProtocol,
    /// TLS settings; present exactly where the protocol is HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Answer every request that came by plain HTTP with a redirect to HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_to_https: Option<RedirectToHttps>,
}

/// What a listener speaks. TLS, TCP and UDP listeners come with their routes as further values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListenerProtocol {
    /// HTTP/1.1 and HTTP/2 with prior knowledge, without TLS.
    Http,
    /// HTTP/1.1 and HTTP/2 by ALPN over TLS.
    Https,
}

/// How a listener terminates TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Certificates that travel beside the snapshot, chosen by SNI; the first one serves clients without SNI.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateRef>,
    /// Certificates that the router reads from its own file system and reloads when they change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificate_files: Vec<CertificateFiles>,
}

/// A certificate by name and content. The pair itself is never in the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRef {
    /// `namespace/name` of the Secret.
    pub name: String,
    /// SHA-256 of the leaf certificate's DER, lower-case hex.
    pub fingerprint: String,
}

/// A certificate in files on the router's machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateFiles {
    /// PEM file of the chain, leaf first.
    pub certificate: String,
    /// PEM file of the private key.
    pub key: String,
}

/// Whose forwarding headers are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustedProxies {
    /// Networks in CIDR notation (IPv4 or IPv6) whose peers may set `X-Forwarded-*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<String>,
    /// How many trusted hops stand in front; 0 means: walk the list from the right while addresses are in `cidrs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hops: u32,
}

/// How a request target is normalised (RFC 3986 §6.2.2). What is matched is what is forwarded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Normalization {
    /// `//` becomes `/`. Off by default: RFC 3986 allows empty segments.
    #[serde(default, skip_serializing_if = "is_default")]
    pub merge_slashes: bool,
    /// What happens to `%2F` and `%5C` in the path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub escaped_slashes: EscapedSlashes,
}

/// What happens to an escaped slash or backslash in the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub enum EscapedSlashes {
    /// Forwarded as it came, unless a decoding backend would see a dot segment in it: then 400.
    #[default]
    Keep,
    /// 400 Bad Request.
    Reject,
    /// Decoded to `/` before dot segments are resolved.
    Decode,
}

/// Sizes and counts. The same for HTTP/1.1 and HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Longest request target in bytes; above it 414. Default 16 KiB.
    pub target_bytes: u32,
    /// Largest sum of header names and values in bytes; above it 431. Default 64 KiB.
    pub header_bytes: u32,
    /// Most header lines; above it 431. Default 100.
    pub header_count: u32,
    /// Largest request body in bytes; above it 413. 0 means no limit (the default).
    pub body_bytes: u64,
    /// Most concurrent streams of one HTTP/2 connection. Default 128.
    pub http2_streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            target_bytes: 16 << 10,
            header_bytes: 64 << 10,
            header_count: 100,
            body_bytes: 0,
            http2_streams: 128,
        }
    }
}

/// Time limits in milliseconds; 0 switches one off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// From the first byte of a request head (or the accept) to its end; above it 408. Default 10 s.
    pub request_head_ms: u64,
    /// How long an idle client connection is kept. Default 60 s.
    pub idle_ms: u64,
    /// TLS handshake. Default 10 s.
    pub handshake_ms: u64,
    /// TCP (and TLS) connect to an endpoint. Default 5 s.
    pub connect_ms: u64,
    /// How long an idle connection to an endpoint is kept. Default 30 s.
    pub upstream_idle_ms: u64,
    /// How long SIGTERM waits for requests in flight. Default 30 s.
    pub drain_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            request_head_ms: 10_000,
            idle_ms: 60_000,
            handshake_ms: 10_000,
            connect_ms: 5_000,
            upstream_idle_ms: 30_000,
            drain_ms: 30_000,
        }
    }
}

/// The access log: one record per request on stdout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLog {
    /// Whether it is written. Off by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled: bool,
    /// The form of a line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub format: LogFormat,
}

/// The form of an access log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// A line for people.
    Text,
}

impl Profile {
    /// The profile used where no RouterProfile object of the name exists: HTTP on every address, port 8080, as
    /// listener `http`.
    pub fn built_in() -> Profile {
        let http = Listener {
            address: "0.0.0.0".into(),
            port: 8080,
            protocol: ListenerProtocol::Http,
            tls: None,
            redirect_to_https: None,
        };
        Profile {
            listeners: BTreeMap::from([("http".into(), http)]),
            ..Profile::default()
        }
    }
}
