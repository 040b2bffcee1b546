//! Header fields that belong to one hop, and those that say where a request came from.
//!
//! Only peers of the profile's trusted networks may say who the client is; what anybody else says is overwritten. No
//! `Via` is added: its one use, finding loops, is not worth telling every client and backend what stands here.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{
    CONNECTION, COOKIE, FORWARDED, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use routed_snapshot::ir::TrustedProxies;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// The profile's trusted networks, read once.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    networks: Vec<(IpAddr, u8)>,
    hops: usize,
}

impl Trust {
    /// Reads a profile's setting. The compiler has checked it; what can't be read trusts nobody.
    pub fn new(proxies: &TrustedProxies) -> Trust {
        Trust {
            networks: proxies.cidrs.iter().filter_map(|cidr| network(cidr)).collect(),
            hops: proxies.hops as usize,
        }
    }

    fn includes(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks
            .iter()
            .any(|(network, length)| match (network, address) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    let shift = 32 - u32::from((*length).min(32));
                    let bits = |address: std::net::Ipv4Addr| u64::from(address.to_bits()) >> shift;
                    bits(*network) == bits(address)
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    let shift = 128 - u32::from((*length).min(128));
                    let bits =
                        |address: std::net::Ipv6Addr| address.to_bits().checked_shr(shift).unwrap_or(0);
                    bits(*network) == bits(address)
                }
                _ => false,
            })
    }
}

fn network(cidr: &str) -> Option<(IpAddr, u8)> {
    match cidr.split_once('/') {
        Some((address, length)) => Some((address.parse().ok()?, length.parse().ok()?)),
        None => {
            let address: IpAddr = cidr.parse().ok()?;
            Some((address, if address.is_ipv4() { 32 } else { 128 }))
        }
    }
}

/// Who asks, and how the edge was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Whether the peer may speak for others.
    pub trusted: bool,
    /// The client's address.
    pub client: IpAddr,
    /// Whether the client used TLS.
    pub https: bool,
}

/// Finds out who asks. From a trusted peer: `hops` entries from the right of X-Forwarded-For, or, where no number is
/// set, the first from the right that is in no trusted network.
pub fn origin(peer: SocketAddr, tls: bool, headers: &HeaderMap, trust: &Trust) -> Origin {
    let peer = peer.ip().to_canonical();
    if !trust.includes(peer) {
        return Origin {
            trusted: false,
            client: peer,
            https: tls,
        };
    }
    let said = headers
        .get(PROTO)
        .and_then(|value| value.to_str().ok())
        .map(str::trim);
    let https = match said {
        Some(said) if said.eq_ignore_ascii_case("https") => true,
        Some(said) if said.eq_ignore_ascii_case("http") => false,
        _ => tls,
    };
    Origin {
        trusted: true,
        client: client(peer, headers, trust),
        https,
    }
}

fn client(peer: IpAddr, headers: &HeaderMap, trust: &Trust) -> IpAddr {
    let lines: Vec<&str> = headers
        .get_all(FOR)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    let entries = lines.iter().rev().flat_map(|line| line.rsplit(','));
    let mut client = peer;
    for (at, entry) in entries.enumerate() {
        // Behind an entry that is no address nothing can be believed.
        let Some(address) = address(entry.trim()) else {
            break;
        };
        client = address;
        let stop = match trust.hops {
            0 => !trust.includes(address),
            hops => at + 1 >= hops,
        };
        if stop {
            break;
        }
    }
    client
}

/// An address as proxies write it: with or without port, IPv6 with or without brackets.
fn address(entry: &str) -> Option<IpAddr> {
    let address: Option<IpAddr> = entry
        .parse()
        .ok()
        .or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    address.map(|address| address.to_canonical())
}

/// Says where a request came from: one line of each field.
pub fn set_forwarded(headers: &mut HeaderMap, origin: &Origin, peer: SocketAddr, authority: &str, port: u16) {
    let aliases: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            name.as_str().contains('_') && name.as_str().replace('_', "-").starts_with("x-forwarded-")
        })
        .cloned()
        .collect();
    for alias in aliases {
        headers.remove(alias);
    }
    let peer = peer.ip().to_canonical().to_string();
    let mut chain = Vec::new();
    if origin.trusted {
        chain.extend(headers.get_all(FOR).iter().filter_map(|line| line.to_str().ok()));
    } else {
        headers.remove(FORWARDED);
    }
    let chain = chain
        .into_iter()
        .chain([peer.as_str()])
        .collect::<Vec<_>>()
        .join(", ");
    let said = |name: &HeaderName| headers.get(name).filter(|_| origin.trusted).cloned();
    let written = |text: &str| HeaderValue::from_str(text).ok();
    let host = said(&HOST).or_else(|| written(authority).filter(|_| !authority.is_empty()));
    let port = said(&PORT).or_else(|| Some(HeaderValue::from(port)));
    let proto = Some(HeaderValue::from_static(if origin.https {
        "https"
    } else {
        "http"
    }));
    for (name, value) in [(FOR, written(&chain)), (PROTO, proto), (HOST, host), (PORT, port)] {
        match value {
            Some(value) => headers.insert(name, value),
            None => headers.remove(name),
        };
    }
}

/// The port that the client reached. The listener's own is not it where a proxy in front terminated TLS.
pub fn port(origin: &Origin, tls: bool, headers: &HeaderMap, listener: u16) -> u16 {
    // Only a trusted peer's word makes the scheme differ.
    if origin.https == tls {
        return listener;
    }
    let said = headers.get(PORT).and_then(|port| port.to_str().ok());
    let said = said.and_then(|port| port.trim().parse().ok());
    said.filter(|port| *port != 0)
        .unwrap_or(if origin.https { 443 } else { 80 })
}

/// Joins the lines that HTTP/2 cuts cookies into for its compression; HTTP/1.1 knows one line only (RFC 9113 §8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if crumbs.len() < 2 {
        return;
    }
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, cookie);
    }
}

/// Makes Host the one authority of the request, wherever the client wrote it: a condition on Host then holds alike for
/// every version of HTTP and form of target.
pub fn set_host(headers: &mut HeaderMap, authority: &str) {
    let name = http::header::HOST;
    let written = headers.get(&name).map(HeaderValue::as_bytes);
    if authority.is_empty() || written == Some(authority.as_bytes()) {
        return;
    }
    if let Ok(value) = HeaderValue::from_str(authority) {
        headers.insert(name, value);
    }
}

/// Whether a request asks for a WebSocket, the one switch of protocols that is passed on.
pub fn wants_websocket(headers: &HeaderMap) -> bool {
    let named = headers.get(UPGRADE).is_some_and(|value| {
        let text = value.to_str().unwrap_or_default();
        text.trim().eq_ignore_ascii_case("websocket")
    });
    named && connection_names(headers).any(|name| name.eq_ignore_ascii_case("upgrade"))
}

/// Removes what belongs to one hop (RFC 9110 §7.6.1). A sender can't name away, in Connection, what frames,
/// authenticates or describes the message; `Trailer` stays because trailers do.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_names(headers)
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .filter(|name| !is_end_to_end(name))
        .collect();
    let trailers = headers
        .get_all(TE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().eq_ignore_ascii_case("trailers"));
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
        HTTP2_SETTINGS,
    ] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

fn connection_names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn is_end_to_end(name: &HeaderName) -> bool {
    const KEPT: [&str; 10] = [
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "authorization",
        "cookie",
        "set-cookie",
        "cache-control",
        "origin",
        "x-request-id",
    ];
    *name == TRAILER
        || KEPT.contains(&name.as_str())
        || name.as_str().starts_with("x-forwarded-")
        || name.as_str().starts_with("sec-")
        || name.as_str().starts_with("x-routed-")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn trust(cidrs: &[&str], hops: u32) -> Trust {
        Trust::new(&TrustedProxies {
            cidrs: cidrs.iter().map(|cidr| (*cidr).to_owned()).collect(),
            hops,
        })
    }

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 9)
    }

    #[test]
    fn a_stranger_is_overwritten() {
        let mut lines = headers(&[
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-for", "5.6.7.8"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-port", "1"),
            ("x_forwarded_for", "6.6.6.6"),
            ("forwarded", "for=1.2.3.4"),
        ]);
        let from = origin(peer("::ffff:9.9.9.9"), false, &lines, &trust(&["10.0.0.0/8"], 0));
        assert_eq!((from.trusted, from.https), (false, false));
        assert_eq!(from.client.to_string(), "9.9.9.9");
        set_forwarded(&mut lines, &from, peer("9.9.9.9"), "a.example:81", 8080);
        let expected = headers(&[
            ("x-forwarded-for", "9.9.9.9"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "a.example:81"),
            ("x-forwarded-port", "8080"),
        ]);
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_trusted_proxy_is_appended_to() {
        let mut lines = headers(&[
            ("x-forwarded-for", "1.2.3.4, 8.8.8.8"),
            ("x-forwarded-for", "10.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "front.example"),
        ]);
        for (hops, client) in [(0, "8.8.8.8"), (1, "10.1.1.1"), (3, "1.2.3.4"), (9, "1.2.3.4")] {
            let from = origin(peer("10.0.0.1"), false, &lines, &trust(&["10.0.0.0/8"], hops));
            assert_eq!(
                (from.client.to_string().as_str(), from.https),
                (client, true),
                "{hops}"
            );
        }
        let from = origin(peer("10.0.0.1"), false, &lines, &trust(&["10.0.0.0/8"], 0));
        set_forwarded(&mut lines, &from, peer("10.0.0.1"), "a.example", 80);
        let chain: Vec<_> = lines.get_all(FOR).iter().collect();
        assert_eq!(chain, ["1.2.3.4, 8.8.8.8, 10.1.1.1, 10.0.0.1"]);
        assert_eq!(lines[PROTO], "https");
        assert_eq!(lines[HOST], "front.example");
    }

    #[test]
    fn the_port_is_the_one_in_front() {
        let trust = trust(&["10.0.0.0/8"], 0);
        let port = |from, lines: &[_]| {
            let lines = headers(lines);
            port(&origin(peer(from), false, &lines, &trust), false, &lines, 8080)
        };
        let https = ("x-forwarded-proto", "https");
        assert_eq!(port("10.0.0.1", &[https]), 443);
        assert_eq!(port("10.0.0.1", &[https, ("x-forwarded-port", "8443")]), 8443);
        assert_eq!(port("10.0.0.1", &[https, ("x-forwarded-port", "x")]), 443);
        assert_eq!(port("10.0.0.1", &[("x-forwarded-port", "81")]), 8080);
        assert_eq!(port("9.9.9.9", &[https]), 8080);
    }

    #[test]
    fn cookie_lines_become_one() {
        let mut lines = headers(&[
            ("cookie", "a=1"),
            ("x", "y"),
            ("cookie", "b=2; c=3"),
            ("cookie", "d"),
        ]);
        join_cookies(&mut lines);
        assert_eq!(lines, headers(&[("cookie", "a=1; b=2; c=3; d"), ("x", "y")]));
    }

    #[test]
    fn host_is_the_one_authority() {
        for before in [vec![], vec![("host", "b")], vec![("host", "a")]] {
            let mut lines = headers(&before);
            set_host(&mut lines, "a");
            assert_eq!(lines, headers(&[("host", "a")]));
        }
        let mut lines = headers(&[]);
        set_host(&mut lines, "");
        assert!(lines.is_empty());
    }

    #[test]
    fn networks_end_where_they_say() {
        let trust = trust(&["10.0.0.0/8", "fd00::/8", "192.0.2.7", "::/0"], 0);
        for (address, included) in [
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("fd12::1", true),
        ] {
            assert_eq!(trust.includes(address.parse().unwrap()), included, "{address}");
        }
    }

    #[test]
    fn hop_by_hop_fields_end_here() {
        let mut lines = headers(&[
            (
                "connection",
                "close, x-private, x-forwarded-for, Authorization, trailer",
            ),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("te", "gzip, trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("x-private", "1"),
            ("x-forwarded-for", "9.9.9.9"),
            ("authorization", "Basic eA=="),
            ("trailer", "grpc-status"),
        ]);
        strip_hop_by_hop(&mut lines);
        let expected = headers(&[
            ("te", "trailers"),
            ("x-forwarded-for", "9.9.9.9"),
            ("authorization", "Basic eA=="),
            ("trailer", "grpc-status"),
        ]);
        assert_eq!(lines, expected);
    }

    #[test]
    fn only_a_websocket_is_an_upgrade() {
        let asks = |upgrade, connection| {
            wants_websocket(&headers(&[("upgrade", upgrade), ("connection", connection)]))
        };
        assert!(asks("WebSocket", "keep-alive, Upgrade"));
        assert!(!asks("websocket", "keep-alive"));
        assert!(!asks("h2c", "upgrade, http2-settings"));
    }
}
