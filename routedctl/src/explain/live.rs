//! An explanation asked of a running router, over its admin address.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::args::Explain;

/// From connecting to the last byte of the answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 16 << 20;

/// Asks the router at `admin`: `host:port` or `unix:PATH`.
pub(crate) fn explain(admin: &str, options: &Explain) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let target = target(options);
    let asked = runtime.block_on(async { tokio::time::timeout(TIMEOUT, ask(admin, &target)).await });
    let answer =
        asked.with_context(|| format!("{admin} did not answer within {} s", TIMEOUT.as_secs()))??;
    serde_json::from_slice(&answer).with_context(|| format!("{admin} answered something that is no JSON"))
}

async fn ask(admin: &str, target: &str) -> Result<Bytes> {
    let unreachable = || format!("cannot reach {admin}");
    match admin.strip_prefix("unix:") {
        Some(path) => {
            get(
                UnixStream::connect(path).await.with_context(unreachable)?,
                "localhost",
                target,
            )
            .await
        }
        None => {
            get(
                TcpStream::connect(admin).await.with_context(unreachable)?,
                admin,
                target,
            )
            .await
        }
    }
}

async fn get<IO>(io: IO, host: &str, target: &str) -> Result<Bytes>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await?;
    // Ends with the connection; what goes wrong on it comes out of the request too.
    tokio::spawn(connection);
    let request = http::Request::get(target)
        .header("host", host)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    if !status.is_success() {
        bail!("the router answered {status}: {}", problem(&body));
    }
    Ok(body)
}

/// What is wrong, out of `{"error": "..."}`; something else than a router may answer anything.
fn problem(body: &[u8]) -> String {
    let answer = serde_json::from_slice::<Value>(body).unwrap_or_default();
    match answer["error"].as_str() {
        Some(error) => error.to_owned(),
        None => String::from_utf8_lossy(body).trim_end().to_owned(),
    }
}

fn target(options: &Explain) -> String {
    let mut target = format!("/explain?method={}", encoded(&options.method));
    target.push_str(&format!("&url={}&draw={}", encoded(&options.url), options.draw));
    for (name, value) in &options.headers {
        target.push_str(&format!("&header={}", encoded(&format!("{name}:{value}"))));
    }
    if let Some(listener) = &options.listener {
        target.push_str(&format!("&listener={}", encoded(listener)));
    }
    target
}

/// Percent-encoded but for what a query's value may hold everywhere.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => {
                out.push(byte.into())
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_query_is_encoded() {
        assert_eq!(
            encoded("https://a.b/c?d=é&e+f"),
            "https://a.b/c%3Fd%3D%C3%A9%26e%2Bf"
        );
    }
}
