//! `/explain?url=…&method=…&header=name:value&listener=…&draw=…`: what the table in service would do, and why.
//!
//! The request is accepted or refused, and decided, by the data plane's own functions; nothing is sent anywhere.

use http::StatusCode;
use routed_snapshot::explain::Explanation;
use routed_snapshot::request::{Typed, typed};
use routed_snapshot::{Availability, Question};

use super::Admin;

/// What was asked.
#[derive(Debug, Default)]
struct Asked {
    method: Option<String>,
    url: Option<String>,
    listener: Option<String>,
    draw: Option<String>,
    headers: Vec<(String, String)>,
}

type Refused = (StatusCode, String);

/// Explains.
pub(super) fn explain(admin: &Admin, query: &str) -> Result<Explanation, Refused> {
    let asked = Asked::read(query)?;
    let index = admin
        .shared
        .live
        .load_full()
        .ok_or((StatusCode::SERVICE_UNAVAILABLE, "no snapshot yet".to_owned()))?;
    let url = asked
        .url
        .as_deref()
        .ok_or_else(|| bad("url is needed, for instance url=http://shop.example.com/cart"))?;
    let method = asked.method.as_deref().unwrap_or("GET");
    let typed = Typed::new(method, url, asked.headers).map_err(|why| bad(&why.to_string()))?;
    let draw = match &asked.draw {
        Some(draw) => draw.parse().map_err(|_| bad("draw is a number"))?,
        None => 0,
    };
    let question = Question {
        typed: &typed,
        profile: Some(&admin.shared.profile),
        listener: asked.listener.as_deref(),
        draw,
    };
    question
        .answer(&index, &Availability::default())
        .map_err(|why| bad(&why.to_string()))
}

impl Asked {
    fn read(query: &str) -> Result<Asked, Refused> {
        let mut asked = Asked::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).ok_or_else(|| bad("bad percent-encoding"))?;
            match key {
                "method" => asked.method = Some(value),
                "url" => asked.url = Some(value),
                "listener" => asked.listener = Some(value),
                "draw" => asked.draw = Some(value),
                "header" => {
                    let line = typed::header(&value).map_err(|why| bad(&why.to_string()))?;
                    asked.headers.push(line);
                }
                _ => {
                    return Err(bad(
                        "unknown parameter; there are method, url, header, listener, draw",
                    ));
                }
            }
        }
        Ok(asked)
    }
}

fn bad(why: &str) -> Refused {
    (StatusCode::BAD_REQUEST, why.to_owned())
}

/// Percent-decoding. `+` stays: URLs and headers hold it as itself.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding() {
        assert_eq!(decode("a%2Fb+c"), Some("a/b+c".into()));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
