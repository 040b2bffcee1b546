//! `/explain?url=…&method=…&header=name:value&listener=…&draw=…`: what the table in service would do, and why.
//!
//! The request is brought to its form by the data plane's own functions and decided by the same code; nothing is sent
//! anywhere.

use http::{StatusCode, Uri};
use routed_snapshot::explain::Explanation;
use routed_snapshot::{Availability, Facts, Header, Index, ir};

use super::Admin;
use crate::parse;

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
    let uri: Uri = question
        .url
        .as_deref()
        .ok_or_else(|| bad("url is needed, for instance url=http://shop.example.com/cart"))?
        .parse()
        .map_err(|_| bad("url can't be parsed"))?;
    let authority = uri
        .authority()
        .ok_or_else(|| bad("url needs a scheme and a host"))?;
    let host = parse::host::parse(authority.as_str().as_bytes()).ok_or_else(|| bad("bad host"))?;
    let https = uri.scheme_str() == Some("https");
    let profile = index
        .profile(&admin.shared.profile)
        .cloned()
        .unwrap_or_else(ir::Profile::built_in);
    let path = parse::path::normalize(uri.path(), &profile.normalization)
        .map_err(|why| bad(&format!("the data plane would answer 400: {why}")))?;
    let listener = listener(admin, &index, &profile, question.listener.as_deref(), https)?;
    let draw = match &question.draw {
        Some(draw) => draw.parse().map_err(|_| bad("draw is a number"))?,
        None => 0,
    };
    let headers: Vec<Header<'_>> = question
        .headers
        .iter()
        .map(|(name, value)| Header {
            name,
            value: value.as_bytes(),
        })
        .collect();
    let facts = Facts {
        listener,
        https,
        method: question.method.as_deref().unwrap_or("GET"),
        host: &host.name,
        path: &path,
        query: uri.query(),
        headers: &headers,
    };
    Ok(routed_snapshot::explain(
        &index,
        &facts,
        draw,
        &Availability::default(),
    ))
}

/// The listener asked for by its own name or its full one; else the first that speaks the URL's scheme.
fn listener(
    admin: &Admin,
    index: &Index,
    profile: &ir::Profile,
    asked: Option<&str>,
    https: bool,
) -> Result<routed_snapshot::index::ListenerId, Refused> {
    let own = match asked {
        Some(name) => name
            .strip_prefix(&format!("{}/", admin.shared.profile))
            .unwrap_or(name),
        None => profile
            .listeners
            .iter()
            .find(|(_, listener)| (listener.protocol == ir::ListenerProtocol::Https) == https)
            .map(|(name, _)| name.as_str())
            .ok_or_else(|| {
                bad("no listener of the profile speaks the url's scheme; name one by listener=")
            })?,
    };
    if !profile.listeners.contains_key(own) {
        return Err(bad("the profile has no such listener"));
    }
    let full = format!("{}/{own}", admin.shared.profile);
    index.listener(&full).ok_or((
        StatusCode::NOT_FOUND,
        format!("the table has no routes on listener {full}"),
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
                    let (name, value) = value.split_once(':').ok_or_else(|| bad("header is name:value"))?;
                    question
                        .headers
                        .push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
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
