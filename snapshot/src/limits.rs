//! The numbers and texts that the data plane takes, in one place: the index refuses a snapshot beyond them, the compiler
//! an object, and the schemas of the kinds say them.
//!
//! What is beyond would not be served oddly but cost the process: a time that overflows a clock, a status that is none,
//! a header that splits a response.

use std::fmt;

/// A range of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: u64,
    /// The most that may be written.
    pub most: u64,
    /// The most that a router takes of a snapshot. Where it is more than may be written, a compiler of a later version
    /// can allow more, and routers of this one still take its snapshots.
    taken: u64,
}

impl Range {
    const fn new(least: u64, most: u64) -> Range {
        Range {
            least,
            most,
            taken: most,
        }
    }

    const fn taken_to(self, taken: u64) -> Range {
        Range { taken, ..self }
    }

    /// Whether the number may be written.
    pub fn contains(&self, number: impl Into<u64>) -> bool {
        (self.least..=self.most).contains(&number.into())
    }

    /// The range that a router takes.
    pub(crate) fn taken(&self) -> std::ops::RangeInclusive<u64> {
        self.least..=self.taken
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.least, self.most)
    }
}

/// Longest request target in bytes.
pub const TARGET_BYTES: Range = Range::new(16, 1 << 20);
/// Largest sum of header names and values in bytes.
pub const HEADER_BYTES: Range = Range::new(256, 1 << 20).taken_to(16 << 20);
/// Most header lines.
pub const HEADER_COUNT: Range = Range::new(1, 1_000).taken_to(10_000);
/// Most streams of an HTTP/2 connection.
pub const HTTP2_STREAMS: Range = Range::new(1, 10_000).taken_to(100_000);
/// Largest request body in bytes. Numbers of the document are exact in every JSON reader.
pub const BODY_BYTES: Range = Range::new(0, (1 << 53) - 1);
/// Trusted hops in front.
pub const HOPS: Range = Range::new(0, 32);
/// A TCP port that something can be sent to.
pub const PORT: Range = Range::new(1, 65_535);
/// Times in milliseconds: the longest that can be written as a duration of the Gateway API (GEP-2257), four times
/// 99999h.
pub const MILLISECONDS: Range = Range::new(0, 4 * 99_999 * 3_600_000);
/// Further tries of a request.
pub const RETRY_ATTEMPTS: Range = Range::new(0, 10).taken_to(100);
/// Statuses that a request is tried again after.
pub const RETRY_CODE: Range = Range::new(400, 599);
/// Statuses of a direct response.
pub const ANSWER_STATUS: Range = Range::new(200, 599);
/// Statuses of a rule in error.
pub const FAIL_STATUS: Range = Range::new(500, 599);
/// Shares of backends and addresses.
pub const WEIGHT: Range = Range::new(0, 1_000_000);

/// Statuses of a redirect.
pub const REDIRECT_STATUS: &[u16] = &[301, 302, 303, 307, 308];
/// Statuses of a listener's redirect to HTTPS.
pub const REDIRECT_TO_HTTPS_STATUS: &[u16] = &[301, 302, 307, 308];

/// Longest header name in bytes.
pub const HEADER_NAME_BYTES: usize = 256;
/// Longest header value in bytes.
pub const HEADER_VALUE_BYTES: usize = 8 << 10;
/// Longest body of a direct response in bytes.
pub const ANSWER_BODY_BYTES: usize = 64 << 10;
/// Longest regular expression in bytes.
pub const PATTERN_BYTES: usize = 4 << 10;
/// Largest automaton of one regular expression in bytes.
pub const PATTERN_NFA_BYTES: usize = 1 << 20;

/// Numbers for people: `301, 302 or 307`.
pub fn one_of(numbers: &[u16]) -> String {
    let mut text = String::new();
    for (at, number) in numbers.iter().enumerate() {
        let separator = match at {
            0 => "",
            _ if at + 1 == numbers.len() => " or ",
            _ => ", ",
        };
        text.push_str(separator);
        text.push_str(&number.to_string());
    }
    text
}

/// Whether a text is a token (RFC 9110 §5.6.2): header and cookie names, methods.
pub fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Whether a text is a field value (RFC 9110 §5.5), blanks at its ends apart.
pub fn is_field_value(text: &str) -> bool {
    let allowed = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_takes_at_least_what_may_be_written() {
        for range in [
            TARGET_BYTES,
            HEADER_BYTES,
            HEADER_COUNT,
            HTTP2_STREAMS,
            BODY_BYTES,
            HOPS,
            PORT,
            MILLISECONDS,
            RETRY_ATTEMPTS,
            RETRY_CODE,
            ANSWER_STATUS,
            WEIGHT,
        ] {
            assert!(
                range.least <= range.most && range.most <= range.taken,
                "{range:?}"
            );
        }
    }

    #[test]
    fn numbers_are_listed_for_people() {
        assert_eq!(one_of(REDIRECT_TO_HTTPS_STATUS), "301, 302, 307 or 308");
        assert_eq!(one_of(&[1]), "1");
        assert_eq!(HOPS.to_string(), "0 to 32");
    }
}
