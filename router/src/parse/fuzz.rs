//! What the fuzz targets call: properties of parsing that hold for any input. They panic where one does not hold.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Uri, Version};
use routed_snapshot::ir::{Limits, Normalization};

use super::head::check;

/// A head of lines (method, target, fields) is accepted with a clean host and path, or refused.
pub fn head(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let (Some(method), Some(target)) = (lines.next(), lines.next()) else {
        return;
    };
    let (Ok(method), Ok(uri)) = (Method::from_bytes(method), Uri::try_from(target)) else {
        return;
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let name = halves.next().map(HeaderName::from_bytes);
        let value = halves.next().map(HeaderValue::from_bytes);
        if let (Some(Ok(name)), Some(Ok(value))) = (name, value) {
            headers.append(name, value);
        }
    }
    for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
        let (limits, rules) = (Limits::default(), Normalization::default());
        if let Ok(target) = check(&method, &uri, version, &headers, &limits, &rules) {
            let name = &target.host.name;
            assert!(
                name.is_ascii() && !name.contains(['/', '@', ',', ' ']),
                "{name:?}"
            );
            assert!(
                target.path == "*" || target.path.starts_with('/'),
                "{:?}",
                target.path
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_put_together_of_odd_pieces_are_clean_or_refused() {
        const PIECES: [&str; 20] = [
            "/", "*", "?", "#", "http://", "a", "@", ":", "[", "]", ",", "%", "..", ".", "80", "\u{e9}",
            "::1", "A", "_", "-",
        ];
        const METHODS: [&str; 4] = ["GET", "OPTIONS", "CONNECT", "PURGE"];
        for length in 0..=3u32 {
            for number in 0..PIECES.len().pow(length) {
                let spelt = |mut number: usize| {
                    let pieces = (0..length).map(|_| {
                        let piece = PIECES[number % PIECES.len()];
                        number /= PIECES.len();
                        piece
                    });
                    pieces.collect::<String>()
                };
                for method in METHODS {
                    let (one, other) = (spelt(number), spelt(number.wrapping_mul(7_919)));
                    head(format!("{method}\n{one}\nHost:{other}").as_bytes());
                    head(format!("{method}\n/{one}\nHost:{other}").as_bytes());
                    head(format!("{method}\nhttp://{one}\nHost:{one}").as_bytes());
                }
            }
        }
    }
}
