//! `/explain?url=…&method=…&header=name:value&listener=…&draw=…`: what the table in service would do, and why.
//!
//! The request is accepted or refused, and decided, by the data plane's own functions; nothing is sent anywhere.

use http::StatusCode;
use routed_snapshot::explain::Explanation;
use routed_snapshot::request::{Typed, typed};
use routed_snapshot::{Availability, explain_typed, ir};

use super::Admin;

/// What was asked.
#[derive(Debug, Default)]
struct Question {
    method: Option<String>,
    url: Option<String>,
    listener: Option<String>,
    draw: Option<String>,
    headers: Vec<(String, String)>,
}

type Refused = (StatusCode, String);

/// Explains.
pub(super) fn explain(admin: &Admin, query: &str) -> Result<Explanation, Refused> {
    let question = Question::read(query)?;
    let index = admin
        .shared
        .live
        .load_full()
        .ok_or((StatusCode::SERVICE_UNAVAILABLE, "no snapshot yet".to_owned()))?;
    let url = question
        .url
        .as_deref()
        .ok_or_else(|| bad("url is needed, for instance url=http://shop.example.com/cart"))?;
    let method = question.method.as_deref().unwrap_or("GET");
    let typed = Typed::new(method, url, question.headers).map_err(|why| bad(&why.to_string()))?;
    let draw = match &question.draw {
        Some(draw) => draw.parse().map_err(|_| bad("draw is a number"))?,
        None => 0,
    };
    let name = &admin.shared.profile;
    let built_in;
    let profile = match index.profile(name) {
        Some(profile) => profile,
        None => {
            built_in = ir::Profile::built_in();
            &built_in
        }
    };
    let own = profile.listeners.iter();
    let own = own.map(|(listener, settings)| (format!("{name}/{listener}"), settings));
    let listener = typed
        .listener(own, question.listener.as_deref())
        .map_err(|why| bad(&why.to_string()))?;
    Ok(explain_typed(
        &index,
        &listener,
        &typed,
        draw,
        &Availability::default(),
    ))
}

impl Question {
    fn read(query: &str) -> Result<Question, Refused> {
        let mut question = Question::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).ok_or_else(|| bad("bad percent-encoding"))?;
            match key {
                "method" => question.method = Some(value),
                "url" => question.url = Some(value),
                "listener" => question.listener = Some(value),
                "draw" => question.draw = Some(value),
                "header" => {
                    let line = typed::header(&value).map_err(|why| bad(&why.to_string()))?;
                    question.headers.push(line);
                }
                _ => {
                    return Err(bad(
                        "unknown parameter; there are method, url, header, listener, draw",
                    ));
                }
            }
        }
        Ok(question)
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
