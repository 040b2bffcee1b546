//! What a client wrote, brought to the one form that is matched and forwarded, or refused.
//!
//! - [`path`]: the path (RFC 3986 §5.2.4 and §6.2.2).
//! - [`host`]: the authority.
//! - [`head`]: the rules about a request head as a whole.
//! - [`typed`]: a request as a person types it, for explanations.
//!
//! Pure, and free of any HTTP library: a router calls it for each request, an explanation for the request it is asked
//! about, so the two can't differ in what they decide on.

pub mod head;
pub mod host;
pub mod path;
pub mod typed;

pub use typed::Typed;

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is not valid, or two programs would read it differently; the phrase says what is wrong.
    BadRequest(&'static str),
    /// The target is longer than the profile allows.
    TargetTooLong,
    /// The header section is larger than the profile allows.
    HeadTooLarge,
    /// The body that is announced is larger than the profile allows.
    BodyTooLarge,
    /// CONNECT or TRACE.
    Method,
    /// A version of HTTP that is not spoken.
    Version,
}

impl Refusal {
    /// The status, one word for log and metrics, and the sentence for people.
    pub fn describe(&self) -> (u16, &'static str, &'static str) {
        match self {
            Refusal::BadRequest(why) => (400, "BadRequest", why),
            Refusal::TargetTooLong => (414, "TargetTooLong", "the request target is too long"),
            Refusal::HeadTooLarge => (431, "HeadTooLarge", "the request header is too large"),
            Refusal::BodyTooLarge => (413, "BodyTooLarge", "the request body is too large"),
            Refusal::Method => (405, "Method", "the method is not supported"),
            Refusal::Version => (505, "Version", "the HTTP version is not supported"),
        }
    }
}
