//! Clients: exact bytes over a plain socket, and HTTP/2 with prior knowledge.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;

use super::{DEADLINE, runtime};

/// A response, read to its end.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Header lines in order.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Reply {
    /// The first value of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.iter();
        lines
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The name of the backend that answered, or the status where none did.
    pub fn who(&self) -> String {
        match self.header("x-backend") {
            Some(name) if self.status == 200 => name.to_owned(),
            _ => self.status.to_string(),
        }
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }
}

/// A connection that sends what it is told and reads responses.
pub struct Conn<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
}

impl Conn {
    /// Connects.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Conn {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Conn::over(stream)
    }
}

impl<S: Read + Write> Conn<S> {
    /// A connection over an open stream.
    pub fn over(stream: S) -> Conn<S> {
        Conn {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// A GET with this Host on the open connection.
    #[track_caller]
    pub fn get(&mut self, host: &str, target: &str) -> Reply {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .unwrap();
        self.reply().unwrap()
    }

    /// Reads one final response (to a request that is not HEAD).
    pub fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let (status, headers) = self.head()?;
            if (100..200).contains(&status) && status != 101 {
                continue;
            }
            let body = self.body(status, &headers)?;
            return Ok(Reply {
                status,
                headers,
                body,
            });
        }
    }

    fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            self.more()?;
        };
        let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or("");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status in {line:?}")))?;
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Ok((status, headers))
    }

    fn body(&mut self, status: u16, headers: &[(String, String)]) -> io::Result<Vec<u8>> {
        let value = |name: &str| {
            let mut lines = headers.iter();
            lines
                .find(|(given, _)| given.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str())
        };
        if status == 101 || status == 204 || status == 304 {
            return Ok(Vec::new());
        }
        if value("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return self.chunks();
        }
        if let Some(length) = value("content-length") {
            let length: usize = length.parse().map_err(io::Error::other)?;
            return self.take(length);
        }
        while self.more().is_ok() {}
        Ok(std::mem::take(&mut self.buffer))
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                    break at;
                }
                self.more()?;
            };
            let line = self.take(end + 2)?;
            let digits = String::from_utf8_lossy(&line[..end]).into_owned();
            let size = usize::from_str_radix(digits.trim(), 16).map_err(io::Error::other)?;
            let chunk = self.take(size + 2)?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.more()?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    fn more(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        let count = self.stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(())
    }
}

/// Sends bytes on a new connection and reads the response.
#[track_caller]
pub fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Reply {
    let bytes = bytes.as_ref();
    let mut connection = Conn::open(address);
    let answered = connection.send(bytes).and_then(|()| connection.reply());
    answered.unwrap_or_else(|error| panic!("{error} for {}", bytes.escape_ascii()))
}

/// A GET on a new connection.
#[track_caller]
pub fn get(address: SocketAddr, host: &str, target: &str) -> Reply {
    get_with(address, host, target, "")
}

/// A GET with further header lines, each ending in CRLF.
#[track_caller]
pub fn get_with(address: SocketAddr, host: &str, target: &str, lines: &str) -> Reply {
    exchange(
        address,
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}Connection: close\r\n\r\n"),
    )
}

/// An HTTP/2 connection with prior knowledge.
#[derive(Clone)]
pub struct H2 {
    sender: SendRequest<Full<Bytes>>,
}

impl H2 {
    /// Connects.
    pub fn open(address: SocketAddr) -> H2 {
        runtime().block_on(H2::connect(address)).unwrap()
    }

    /// Connects, from asynchronous code.
    pub async fn connect(address: SocketAddr) -> io::Result<H2> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        runtime().spawn(connection);
        Ok(H2 { sender })
    }

    /// A GET with further header fields.
    #[track_caller]
    pub fn get(&self, host: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
        runtime().block_on(self.send(host, target, headers)).unwrap()
    }

    /// A GET with further header fields, from asynchronous code.
    pub async fn send(&self, host: &str, target: &str, headers: &[(&str, &str)]) -> io::Result<Reply> {
        let mut request = http::Request::get(format!("http://{host}{target}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::default()).map_err(io::Error::other)?;
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(io::Error::other)?;
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status().as_u16();
        let lines = response.headers().iter();
        let headers = lines
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect();
        let body = response.into_body().collect().await.map_err(io::Error::other)?;
        Ok(Reply {
            status,
            headers,
            body: body.to_bytes().to_vec(),
        })
    }
}
