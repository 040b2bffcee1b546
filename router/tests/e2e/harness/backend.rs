//! A backend that records what it receives, octet by octet, and answers as told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The request line.
    pub line: String,
    /// Header lines in order, names as written.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Seen {
    /// The request target.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or("")
    }

    /// All values of a name, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter();
        lines
            .filter(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The one value of a name; the test fails where there are several lines.
    #[track_caller]
    pub fn one(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "{name} in several lines: {values:?}");
        values.first().copied()
    }

    fn parse(head: &str) -> Seen {
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or("").to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Seen {
            line,
            headers,
            body: Vec::new(),
        }
    }
}

type Answer = Arc<dyn Fn(&Seen) -> Vec<u8> + Send + Sync>;

struct State {
    name: String,
    answer: Answer,
    seen: Mutex<Vec<Seen>>,
    record: bool,
    accepts: AtomicUsize,
    open: AtomicUsize,
}

/// A running backend. It ends with the test process.
#[derive(Clone)]
pub struct Stub {
    address: SocketAddr,
    state: Arc<State>,
}

impl Stub {
    /// A backend that answers 200 with its name in `x-backend` and what it received as JSON in the body.
    /// A WebSocket handshake is taken and each message comes back behind the backend's name.
    pub fn start(name: &str) -> Stub {
        let own = name.to_owned();
        Stub::build(name, true, Arc::new(move |seen| echo(&own, seen)))
    }

    /// The same, without keeping what was received: for load.
    pub fn unrecorded(name: &str) -> Stub {
        let own = name.to_owned();
        Stub::build(name, false, Arc::new(move |seen| echo(&own, seen)))
    }

    /// A backend that answers with these bytes.
    pub fn answering(name: &str, answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Stub {
        Stub::build(name, true, Arc::new(answer))
    }

    fn build(name: &str, record: bool, answer: Answer) -> Stub {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            name: name.to_owned(),
            answer,
            seen: Mutex::default(),
            record,
            accepts: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        });
        super::runtime().spawn(accept(listener, state.clone()));
        Stub { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it received so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Takes what it received so far.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.state.seen.lock().unwrap())
    }

    /// Takes the one request it received; the test fails where it is not exactly one.
    #[track_caller]
    pub fn take_one(&self) -> Seen {
        let mut seen = self.take();
        assert_eq!(seen.len(), 1, "backend {}: {seen:?}", self.state.name);
        seen.remove(0)
    }

    /// How many connections were accepted.
    pub fn accepts(&self) -> usize {
        self.state.accepts.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }
}

async fn accept(listener: std::net::TcpListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        state.accepts.fetch_add(1, Ordering::SeqCst);
        state.open.fetch_add(1, Ordering::SeqCst);
        let state = state.clone();
        tokio::spawn(async move {
            let _ = serve(stream, &state).await;
            state.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn serve(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(mut seen) = read_request(&mut stream, &mut buffer).await? {
        let upgrade = seen
            .all("upgrade")
            .iter()
            .any(|value| value.eq_ignore_ascii_case("websocket"));
        if upgrade && !seen.all("sec-websocket-key").is_empty() {
            let key = seen.all("sec-websocket-key")[0].to_owned();
            let stamp = seen.all("x-table").first().copied().unwrap_or("").to_owned();
            let (name, accept) = (&state.name, derive_accept_key(key.as_bytes()));
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                 sec-websocket-accept: {accept}\r\nx-backend: {name}\r\nx-table-seen: {stamp}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            echo_messages(stream, buffer, name).await;
            return Ok(());
        }
        let answer = (state.answer)(&seen);
        if state.record {
            seen.body.truncate(1 << 20);
            state.seen.lock().unwrap().push(seen);
        }
        if answer.is_empty() {
            return Ok(());
        }
        stream.write_all(&answer).await?;
    }
    Ok(())
}

async fn echo_messages(stream: TcpStream, rest: Vec<u8>, name: &str) {
    let mut socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        let Ok(text) = message.to_text() else { continue };
        if !message.is_text() {
            continue;
        }
        let answer = format!("{name} {text}");
        if socket.send(answer.into()).await.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Seen>> {
    let end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head: Vec<u8> = buffer.drain(..end + 4).collect();
    let mut seen = Seen::parse(String::from_utf8_lossy(&head[..end]).trim_start());
    let chunked = seen
        .all("transfer-encoding")
        .iter()
        .any(|value| value.contains("chunked"));
    let length = seen
        .all("content-length")
        .first()
        .and_then(|value| value.parse().ok());
    if seen
        .all("expect")
        .iter()
        .any(|value| value.eq_ignore_ascii_case("100-continue"))
    {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    if chunked {
        seen.body = read_chunks(stream, buffer).await?;
    } else if let Some(length) = length {
        fill(stream, buffer, length).await?;
        seen.body = buffer.drain(..length).collect();
    }
    Ok(Some(seen))
}

async fn read_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = find(buffer, b"\r\n") {
                break at;
            }
            fill(stream, buffer, buffer.len() + 1).await?;
        };
        let line: Vec<u8> = buffer.drain(..end + 2).collect();
        let digits = String::from_utf8_lossy(&line[..end]).into_owned();
        let size = usize::from_str_radix(digits.split(';').next().unwrap_or("").trim(), 16)
            .map_err(std::io::Error::other)?;
        fill(stream, buffer, size + 2).await?;
        let chunk: Vec<u8> = buffer.drain(..size + 2).collect();
        body.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>, length: usize) -> std::io::Result<()> {
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn echo(name: &str, seen: &Seen) -> Vec<u8> {
    let body =
        json!({"backend": name, "line": seen.line, "headers": seen.headers, "length": seen.body.len()});
    json_reply(name, &body)
}

/// A 200 with a JSON body and the backend's name.
fn json_reply(name: &str, body: &Value) -> Vec<u8> {
    let headers = format!("content-type: application/json\r\nx-backend: {name}\r\n");
    reply(200, &headers, &body.to_string())
}

/// A response with a length. `headers` are whole lines.
pub fn reply(status: u16, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} Scripted\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
