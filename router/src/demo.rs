//! `routed demo`: something to try without writing a file or running a server.
//!
//! Three backends that echo what reaches them, WebSocket messages too, run in a thread of their own, on the ports that the resources in
//! `deploy/quickstart` name. The router is the real one, following a folder: the embedded resources are written
//! into a fresh one, so they can be edited while it runs. A certificate is made at each start and its key never
//! leaves that folder; a committed one would be a private key in a repository.

use std::convert::Infallible;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use bytes::Bytes;
use clap::Parser;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::args::{Args, Command, ServeArgs};

/// Name and port of each backend, as `deploy/quickstart/backends.yaml` has them.
const BACKENDS: &[(&str, u16)] = &[("shop", 9101), ("shop-next", 9102), ("api", 9103)];

/// The resources, as in the repository.
const FILES: &[(&str, &str)] = &[
    (
        "backends.yaml",
        include_str!("../../deploy/quickstart/backends.yaml"),
    ),
    (
        "profile.yaml",
        include_str!("../../deploy/quickstart/profile.yaml"),
    ),
    ("routes.yaml", include_str!("../../deploy/quickstart/routes.yaml")),
];

/// What the profile gets in addition, as it needs a certificate.
const HTTPS_LISTENER: &str = "    - name: https
      address: 127.0.0.1
      port: 8443
      protocol: HTTPS
      tls:
        certificateRefs: [{name: demo}]
";

/// Names that the certificate is for.
const HOSTS: &[&str] = &["shop.localhost", "api.localhost", "localhost"];

/// Longest request body or WebSocket message that is echoed.
const ECHO_LIMIT: usize = 64 * 1024;

const GREETING: &str = "
routed demo: HTTP on 127.0.0.1:8080, HTTPS on 127.0.0.1:8443, admin on 127.0.0.1:9901. Ctrl-C ends it.

Try, in another terminal:
  curl http://127.0.0.1:8080/ -H 'Host: shop.localhost'
  curl http://127.0.0.1:8080/ -H 'Host: shop.localhost' -H 'x-preview: yes'
  curl http://127.0.0.1:8080/v1/orders -H 'Host: api.localhost'
  curl -i http://127.0.0.1:8080/old -H 'Host: shop.localhost'
  curl -k --resolve shop.localhost:8443:127.0.0.1 https://shop.localhost:8443/catalog
  python3 -m websockets ws://localhost:8080/chat    (or any other WebSocket client)
  curl http://127.0.0.1:9901/metrics
";

/// The running demo; its folder goes when this is dropped.
#[derive(Debug)]
pub struct Demo {
    folder: PathBuf,
}

impl Demo {
    /// Starts the backends and writes the folder that the router is to follow.
    ///
    /// # Errors
    /// A port is taken, or the folder can't be written.
    pub fn start() -> anyhow::Result<Demo> {
        let listeners = BACKENDS
            .iter()
            .map(|&(name, port)| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                    .with_context(|| format!("the demo's backend {name} needs port {port}"))?;
                listener.set_nonblocking(true)?;
                Ok((name, listener))
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let folder = std::env::temp_dir().join(format!("routed-demo-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("folder {}", folder.display()))?;
        let demo = Demo { folder };
        write_resources(&demo.folder)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("demo-backends".into())
            .spawn(move || runtime.block_on(serve(listeners)))?;
        Ok(demo)
    }

    /// The folder of resources, for `--resources`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The flags of a router that serves the demo; none is left to the environment that would name another source.
    ///
    /// # Errors
    /// The folder's name is not a text.
    pub fn serve_args(&self) -> anyhow::Result<ServeArgs> {
        let folder = self
            .folder
            .to_str()
            .context("the temporary folder's name is not UTF-8")?;
        let typed = [
            "routed",
            "serve",
            "--resources",
            folder,
            "--profile=default/default",
            "--admin-addr=127.0.0.1:9901",
            "--poll-interval=200ms",
            "--log-format=text",
            "--log-level=warn",
        ];
        match Args::try_parse_from(typed)?.command {
            Command::Serve(mut args) => {
                args.snapshot_addr = None;
                args.report_addr = None;
                args.snapshot_path = None;
                Ok(*args)
            }
            Command::Demo => anyhow::bail!("the demo's flags are not those of a router"),
        }
    }

    /// Tells what to try.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn greet(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{GREETING}\nResources, re-read when they change: {}\n",
            self.folder.display()
        )?;
        out.flush()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "the demo's folder stays");
        }
    }
}

fn write_resources(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in FILES {
        let text = match *name {
            "profile.yaml" => text.replacen("  timeouts:\n", &format!("{HTTPS_LISTENER}  timeouts:\n"), 1),
            _ => (*text).to_owned(),
        };
        std::fs::write(folder.join(name), text)?;
    }
    std::fs::write(folder.join("certificate.yaml"), certificate_secret()?)?;
    Ok(())
}

/// A Secret with a fresh self-signed certificate.
fn certificate_secret() -> anyhow::Result<String> {
    let hosts: Vec<String> = HOSTS.iter().map(|&host| host.to_owned()).collect();
    let certified = rcgen::generate_simple_self_signed(hosts)?;
    let encode = |pem: String| base64::engine::general_purpose::STANDARD.encode(pem);
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "demo", "namespace": "default"},
        "data": {
            "tls.crt": encode(certified.cert.pem()),
            "tls.key": encode(certified.signing_key.serialize_pem()),
        },
    });
    Ok(serde_json::to_string_pretty(&secret)?)
}

async fn serve(listeners: Vec<(&'static str, TcpListener)>) {
    let mut tasks = Vec::new();
    for (name, listener) in listeners {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => tasks.push(tokio::spawn(accept(name, listener))),
            Err(error) => tracing::error!(%error, name, "demo backend"),
        }
    }
    for task in tasks {
        if let Err(error) = task.await {
            tracing::error!(%error, "demo backend");
        }
    }
}

async fn accept(name: &'static str, listener: tokio::net::TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: wait for some to be freed instead of spinning.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(
                    TokioIo::new(stream),
                    service_fn(move |request| answer(name, request)),
                )
                .with_upgrades();
            // A client that goes away is no event in a demo.
            let _ = connection.await;
        });
    }
}

async fn answer(
    name: &'static str,
    mut request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    match switch_to_websocket(&mut request) {
        Some(response) => Ok(response),
        None => Ok(echo(name, request).await),
    }
}

/// Takes a WebSocket handshake (RFC 6455 §4.2.2); each message comes back as it is.
fn switch_to_websocket(request: &mut Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    let asked = request.headers().get(header::UPGRADE)?;
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY)?;
    if !asked.as_bytes().eq_ignore_ascii_case(b"websocket") {
        return None;
    }
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
    let promise = hyper::upgrade::on(request);
    tokio::spawn(async move {
        // A client that goes away is no event in a demo.
        if let Ok(stream) = promise.await {
            echo_messages(TokioIo::new(stream)).await;
        }
    });
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Some(response)
}

async fn echo_messages(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(ECHO_LIMIT))
        .max_frame_size(Some(ECHO_LIMIT));
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    // Pings and closes are answered by the library.
    while let Some(Ok(message)) = socket.next().await {
        let data = message.is_text() || message.is_binary();
        if data && socket.send(message).await.is_err() {
            return;
        }
    }
}

/// Answers with what was received, as JSON.
async fn echo(name: &'static str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, ECHO_LIMIT)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let headers: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]))
        .collect();
    let seen = json!({
        "backend": name,
        "method": head.method.as_str(),
        "path": head.uri.to_string(),
        "headers": headers,
        "body": body.map_or_else(|error| error.to_string(), |body| String::from_utf8_lossy(&body).into_owned()),
    });
    let mut response = Response::new(Full::from(format!("{seen:#}\n")));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::tungstenite::Message;

    use super::*;

    #[test]
    fn the_resources_compile_without_a_word() {
        let folder = tempfile::tempdir().unwrap();
        write_resources(folder.path()).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            (path.display().to_string(), std::fs::read(path).unwrap())
        });
        let report = routed_policy::compile(&routed_policy::Resources::from_files(files));
        assert!(report.diags.is_empty(), "{:#?}", report.diags);
        assert_eq!(report.keys.len(), 1);
    }

    #[tokio::test]
    async fn a_backend_echoes_requests_and_websocket_messages() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(vec![("shop", listener)]));
        let connect = || tokio::net::TcpStream::connect(address);
        let url = "ws://shop.localhost/chat";
        let (mut socket, response) = tokio_tungstenite::client_async(url, connect().await.unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), 101);
        for message in [Message::text("hello"), Message::binary(vec![0; 3000])] {
            socket.send(message.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), message);
        }
        socket.close(None).await.unwrap();
        assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
        assert!(socket.next().await.is_none());

        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(connect().await.unwrap()))
                .await
                .unwrap();
        tokio::spawn(connection);
        let request = Request::get("/x").header("host", "shop.localhost");
        let response = sender.send_request(request.body(Full::<Bytes>::default()).unwrap());
        let body = response
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        let seen: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&seen["backend"], &seen["path"]), (&json!("shop"), &json!("/x")));
    }

    #[test]
    fn each_backend_is_where_the_resources_say() {
        let text = FILES[0].1;
        for (name, port) in BACKENDS {
            assert!(text.contains(&format!("name: {name}\n")), "{name}");
            assert!(text.contains(&format!("port: {port}}}")), "{port}");
        }
    }
}
