//! Header fields that belong to one hop, and those that say where a request came from.
//!
//! Only peers of the profile's trusted networks may say who the client is, and by what scheme, host and port it reached
//! the edge; what anybody else says is overwritten. No
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
    /// The port that the client reached.
    pub port: u16,
    /// Which entry of the forwarding fields is of the proxy that met the client, from the right.
    entry: usize,
}

/// Finds out who asks, and what the client reached: `listener` is the port of the listener.
///
/// From a trusted peer the client is `hops` entries from the right of X-Forwarded-For, or, where no number is set, the
/// first from the right that is in no trusted network. The proxy that wrote that entry met the client, so its word
/// counts for the scheme, the host and the port too: of a list the entry at the same place, or the one nearest to it
/// where proxies on the way have overwritten instead of appended. What stands further left is the client's own. What
/// can't be read is as good as not said.
pub fn origin(peer: SocketAddr, tls: bool, headers: &HeaderMap, trust: &Trust, listener: u16) -> Origin {
    let peer = peer.ip().to_canonical();
    let mut origin = Origin {
        trusted: trust.includes(peer),
        client: peer,
        https: tls,
        port: listener,
        entry: 0,
    };
    if !origin.trusted {
        return origin;
    }
    (origin.client, origin.entry) = client(peer, headers, trust);
    origin.https = origin.said(headers, &PROTO, scheme).unwrap_or(tls);
    // A scheme other than the connection's was reached at another port.
    let unsaid = match (origin.https == tls, origin.https) {
        (true, _) => listener,
        (false, true) => 443,
        (false, false) => 80,
    };
    origin.port = origin.said(headers, &PORT, port).unwrap_or(unsaid);
    origin
}

impl Origin {
    /// What the proxy that met the client says in a field, where it may be believed and read.
    fn said<'h, T>(
        &self,
        headers: &'h HeaderMap,
        name: &HeaderName,
        read: impl FnOnce(&'h str) -> Option<T>,
    ) -> Option<T> {
        let entries = entries(headers, name).take(self.entry + 1);
        entries.last().filter(|_| self.trusted).and_then(read)
    }
}

/// The entries of a field, from the right: those of its last line first.
fn entries<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> + use<'h> {
    let lines = headers.get_all(name).iter().rev();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.rsplit(',').map(str::trim))
}

fn scheme(said: &str) -> Option<bool> {
    let is = |scheme: &str| said.eq_ignore_ascii_case(scheme);
    match (is("https"), is("http")) {
        (false, false) => None,
        (https, _) => Some(https),
    }
}

fn port(said: &str) -> Option<u16> {
    let digits = !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_digit());
    said.parse().ok().filter(|port| digits && *port != 0)
}

fn host(said: &str) -> Option<&str> {
    routed_snapshot::request::host::parse(said.as_bytes()).map(|_| said)
}

/// The client's address, and which entry it is, from the right.
fn client(peer: IpAddr, headers: &HeaderMap, trust: &Trust) -> (IpAddr, usize) {
    let mut client = (peer, 0);
    for (at, entry) in entries(headers, &FOR).enumerate() {
        // Behind an entry that is no address nothing can be believed.
        let Some(address) = address(entry) else {
            break;
        };
        client = (address, at);
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

/// Says where a request came from, one line of each field: the way that it took, and what its client reached.
pub fn set_forwarded(headers: &mut HeaderMap, origin: &Origin, peer: SocketAddr, authority: &str) {
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
    let own = Some(authority).filter(|authority| !authority.is_empty());
    let host = origin.said(headers, &HOST, host).or(own);
    let host = host.and_then(|host| HeaderValue::from_str(host).ok());
    let proto = HeaderValue::from_static(if origin.https { "https" } else { "http" });
    let fields = [
        (FOR, HeaderValue::from_str(&chain).ok()),
        (PROTO, Some(proto)),
        (HOST, host),
        (PORT, Some(HeaderValue::from(origin.port))),
    ];
    for (name, value) in fields {
        match value {
            Some(value) => headers.insert(name, value),
            None => headers.remove(name),
        };
    }
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

    /// What a backend is told, and who is taken for the client.
    fn told(from: &str, tls: bool, hops: u32, lines: &[(&'static str, &'static str)]) -> [String; 5] {
        let mut lines = headers(lines);
        let trust = trust(&["10.0.0.0/8"], hops);
        let origin = origin(peer(from), tls, &lines, &trust, 8080);
        set_forwarded(&mut lines, &origin, peer(from), "own.example:81");
        let one = |name: &HeaderName| {
            let all: Vec<_> = lines.get_all(name).iter().collect();
            assert_eq!(all.len(), 1, "{name}: {all:?}");
            all[0].to_str().unwrap().to_owned()
        };
        assert_eq!(one(&PORT), origin.port.to_string());
        assert_eq!(one(&PROTO) == "https", origin.https);
        [
            origin.client.to_string(),
            one(&FOR),
            one(&PROTO),
            one(&HOST),
            one(&PORT),
        ]
    }

    #[test]
    fn a_stranger_is_overwritten() {
        let spoof = [
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-for", "10.0.0.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-port", "1"),
        ];
        for hops in [0, 1, 3] {
            let [client, way, proto, host, port] = told("::ffff:9.9.9.9", false, hops, &spoof);
            assert_eq!([client, way], ["9.9.9.9"; 2]);
            assert_eq!([proto, host, port], ["http", "own.example:81", "8080"]);
            assert_eq!(told("9.9.9.9", true, hops, &spoof)[2], "https");
        }
        let mut lines = headers(&[("x_forwarded_for", "6.6.6.6"), ("forwarded", "for=1.2.3.4")]);
        let from = origin(peer("9.9.9.9"), false, &lines, &trust(&["10.0.0.0/8"], 0), 80);
        set_forwarded(&mut lines, &from, peer("9.9.9.9"), "a.example");
        assert_eq!(lines.len(), 4, "{lines:?}");
    }

    #[test]
    fn a_trusted_proxy_is_appended_to() {
        let lines = [
            ("x-forwarded-for", "1.2.3.4, 8.8.8.8"),
            ("x-forwarded-for", "10.1.1.1"),
        ];
        for (hops, client) in [(0, "8.8.8.8"), (1, "10.1.1.1"), (3, "1.2.3.4"), (9, "1.2.3.4")] {
            let told = told("10.0.0.1", false, hops, &lines);
            assert_eq!(told[0], client, "{hops}");
            assert_eq!(told[1], "1.2.3.4, 8.8.8.8, 10.1.1.1, 10.0.0.1");
        }
    }

    /// Scheme, host and port as backends get them, by what a trusted peer says in the three fields.
    #[test]
    fn the_proxy_that_met_the_client_says_what_it_reached() {
        const OWN: &str = "own.example:81";
        let way = ("x-forwarded-for", "6.6.6.6, 1.2.3.4, 10.0.0.2");
        let proto = |said| ("x-forwarded-proto", said);
        let host = |said| ("x-forwarded-host", said);
        let port = |said| ("x-forwarded-port", said);
        type Case<'c> = (bool, &'c [(&'static str, &'static str)], [&'static str; 3]);
        let table: &[Case] = &[
            (false, &[], ["http", OWN, "8080"]),
            (true, &[], ["https", OWN, "8080"]),
            // Each field alone.
            (false, &[proto("https")], ["https", OWN, "443"]),
            (true, &[proto("http")], ["http", OWN, "80"]),
            (true, &[proto("HTTPS")], ["https", OWN, "8080"]),
            (
                false,
                &[host("front.example:8443")],
                ["http", "front.example:8443", "8080"],
            ),
            (false, &[port("81")], ["http", OWN, "81"]),
            // All together.
            (
                false,
                &[proto("https"), host("f.example"), port("8443")],
                ["https", "f.example", "8443"],
            ),
            // What can't be read is not said.
            (
                false,
                &[proto("ftp"), host("a/b"), port("x")],
                ["http", OWN, "8080"],
            ),
            (true, &[proto(""), host(""), port("")], ["https", OWN, "8080"]),
            (false, &[port("0")], ["http", OWN, "8080"]),
            (false, &[port("+81")], ["http", OWN, "8080"]),
            (false, &[port("65536")], ["http", OWN, "8080"]),
            (false, &[proto("https"), port("x")], ["https", OWN, "443"]),
            // Lists: the client stands second from the right, so the second entry counts; the third is its own.
            (
                false,
                &[
                    way,
                    proto("ftp, https, http"),
                    host("evil, f.example, lb.internal"),
                    port("1, 8443, 80"),
                ],
                ["https", "f.example", "8443"],
            ),
            (
                false,
                &[
                    way,
                    proto("https"),
                    proto("http"),
                    port("1"),
                    port("8443"),
                    port("80"),
                ],
                ["https", OWN, "8443"],
            ),
            // A proxy on the way has overwritten: one entry is left.
            (
                false,
                &[way, proto("https"), host("f.example"), port("8443")],
                ["https", "f.example", "8443"],
            ),
            // Nobody says who the client is: the peer's own word counts.
            (
                false,
                &[proto("https, http"), host("evil, lb.example"), port("1, 80")],
                ["http", "lb.example", "80"],
            ),
        ];
        for (tls, lines, expected) in table {
            let [_, _, proto, host, port] = told("10.0.0.1", *tls, 0, lines);
            assert_eq!([proto, host, port], *expected, "{lines:?}");
        }
        // A stranger says the same and is not believed.
        for (tls, lines, _) in table {
            let [client, way, proto, host, port] = told("9.9.9.9", *tls, 0, lines);
            assert_eq!([client, way], ["9.9.9.9"; 2], "{lines:?}");
            let own = if *tls { "https" } else { "http" };
            assert_eq!([&*proto, &*host, &*port], [own, OWN, "8080"], "{lines:?}");
        }
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
