//! Tables exchanged under load: no request fails, and no answer mixes two tables.
//!
//! Three tables take turns. Each leads to a backend of its own, stamps its name on the request (which the backend
//! repeats in its answer) and on the response. An answer whose three marks differ would have been decided by one
//! table and carried out by another. Every WebSocket belongs to the table under which it was opened.
//!
//! 500 applied swaps per source by default, 10,000 with `ROUTED_FULL=1`, any number with `ROUTED_SWAPS`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use crate::control_plane::Server;
use crate::harness::{
    DEADLINE, Folder, H2, Launch, Reply, Router, Stub, backend, compile, full, profile, route, runtime,
};

/// A pause between two requests of one connection: the swaps are to be tested, not the machine's limit.
const PACE: Duration = Duration::from_millis(40);

fn wanted() -> u64 {
    let given = std::env::var("ROUTED_SWAPS")
        .ok()
        .and_then(|text| text.parse().ok());
    given.unwrap_or(if full() { 10_000 } else { 500 })
}

fn tables(stubs: &[Stub]) -> Vec<Vec<Value>> {
    let set = |value: &str| json!({"set": [{"name": "x-table", "value": value}]});
    let one = |number: usize| {
        let name = format!("t{number}");
        let filters = json!([
            {"type": "RequestHeaderModifier", "requestHeaderModifier": set(&name)},
            {"type": "ResponseHeaderModifier", "responseHeaderModifier": set(&name)},
        ]);
        vec![
            profile(),
            backend(&name, &[stubs[number].address()]),
            route(
                "r",
                json!({"hostnames": ["swap.example"],
                "rules": [{"filters": filters, "backends": [{"backend": name}]}]}),
            ),
        ]
    };
    (0..stubs.len()).map(one).collect()
}

/// What the clients saw.
#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    answers: AtomicU64,
    messages: AtomicU64,
    sockets: AtomicU64,
    failures: std::sync::Mutex<Vec<String>>,
}

impl Tally {
    fn runs(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn fail(&self, what: String) {
        let mut failures = self.failures.lock().unwrap();
        if failures.len() < 1000 {
            failures.push(what);
        }
    }

    /// Compares the three marks of an answer.
    fn judge(&self, version: &str, reply: &Reply) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        if reply.status != 200 {
            return self.fail(format!("{version}: status {}: {}", reply.status, reply.text()));
        }
        let Ok(body) = serde_json::from_slice::<Value>(&reply.body) else {
            return self.fail(format!("{version}: body {}", reply.text()));
        };
        let headers = body["headers"].as_array().cloned().unwrap_or_default();
        let stamped = headers.iter().find(|pair| pair[0] == "x-table");
        let request = stamped.and_then(|pair| pair[1].as_str());
        let (backend, response) = (body["backend"].as_str(), reply.header("x-table"));
        if request.is_none() || request != response || request != backend {
            self.fail(format!(
                "{version}: mixed: request {request:?}, response {response:?}, backend {backend:?}"
            ));
        }
    }
}

async fn http1(address: std::net::SocketAddr, tally: Arc<Tally>) {
    let Ok(mut stream) = tokio::net::TcpStream::connect(address).await else {
        return tally.fail("h1: connect".into());
    };
    while tally.runs() {
        let sent = stream
            .write_all(b"GET /x HTTP/1.1\r\nHost: swap.example\r\n\r\n")
            .await;
        match (sent, read_reply(&mut stream).await) {
            (Ok(()), Ok(reply)) => tally.judge("h1", &reply),
            (sent, read) => return tally.fail(format!("h1: {sent:?} {:?}", read.map(|reply| reply.status))),
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Reads one response with a length.
async fn read_reply(stream: &mut tokio::net::TcpStream) -> std::io::Result<Reply> {
    let mut buffer = Vec::new();
    let mut wanted = None;
    loop {
        if wanted.is_none()
            && let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let status = head
                .split(' ')
                .nth(1)
                .and_then(|code| code.parse().ok())
                .unwrap_or(0);
            let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
            let headers = lines
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
                .collect();
            let reply = Reply {
                status,
                headers,
                body: Vec::new(),
            };
            let length = reply
                .header("content-length")
                .and_then(|length| length.parse::<usize>().ok());
            let length = length.ok_or_else(|| std::io::Error::other(format!("no length in {head}")))?;
            wanted = Some((reply, end + 4 + length, end + 4));
        }
        match wanted.take() {
            Some((mut reply, end, from)) if buffer.len() >= end => {
                reply.body = buffer[from..end].to_vec();
                return Ok(reply);
            }
            other => wanted = other,
        }
        if tokio::time::timeout(DEADLINE, stream.read_buf(&mut buffer)).await?? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn http2(address: std::net::SocketAddr, tally: Arc<Tally>) {
    let connection = match H2::connect(address).await {
        Ok(connection) => connection,
        Err(error) => return tally.fail(format!("h2: {error}")),
    };
    while tally.runs() {
        let pair = futures_util::future::join(
            connection.send("swap.example", "/x", &[]),
            connection.send("swap.example", "/y", &[]),
        );
        let (one, two) = pair.await;
        for reply in [one, two] {
            match reply {
                Ok(reply) => tally.judge("h2", &reply),
                Err(error) => return tally.fail(format!("h2: {error}")),
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

/// A WebSocket that lives for some messages, then closes and is opened anew.
async fn websocket(address: std::net::SocketAddr, tally: Arc<Tally>, life: usize) {
    while tally.runs() {
        if let Err(what) = one_websocket(address, &tally, life).await {
            return tally.fail(format!("websocket: {what}"));
        }
        tally.sockets.fetch_add(1, Ordering::Relaxed);
    }
}

async fn one_websocket(address: std::net::SocketAddr, tally: &Tally, life: usize) -> Result<(), String> {
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .map_err(|error| error.to_string())?;
    let opened = tokio_tungstenite::client_async("ws://swap.example/ws", stream).await;
    let (mut socket, response) = opened.map_err(|error| format!("opening: {error}"))?;
    let mark = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("none")
    };
    let (backend, request, answer) = (mark("x-backend"), mark("x-table-seen"), mark("x-table"));
    if backend != request || backend != answer {
        return Err(format!(
            "mixed: backend {backend}, request {request}, response {answer}"
        ));
    }
    for number in 0..life {
        if !tally.runs() {
            break;
        }
        let sent = socket.send(Message::text(format!("m{number}"))).await;
        sent.map_err(|error| format!("message {number}: {error}"))?;
        let answer = tokio::time::timeout(DEADLINE, socket.next()).await;
        match answer {
            Ok(Some(Ok(message)))
                if message
                    .to_text()
                    .is_ok_and(|text| text == format!("{backend} m{number}")) =>
            {
                tally.messages.fetch_add(1, Ordering::Relaxed);
            }
            other => return Err(format!("answer to message {number} from {backend}: {other:?}")),
        }
        tokio::time::sleep(PACE).await;
    }
    socket
        .close(None)
        .await
        .map_err(|error| format!("closing: {error}"))?;
    while let Ok(Some(Ok(_))) = tokio::time::timeout(DEADLINE, socket.next()).await {}
    Ok(())
}

fn under_load(router: &Router, source: &str, mut swap: impl FnMut(u64)) {
    let (address, tally) = (router.http(), Arc::new(Tally::default()));
    let mut clients = Vec::new();
    for number in 0..64 {
        clients.push(runtime().spawn(http1(address, tally.clone())));
        if number % 4 == 0 {
            clients.push(runtime().spawn(http2(address, tally.clone())));
        }
    }
    for number in 0..50 {
        // Half of them outlive many tables; the others come and go.
        let life = if number % 2 == 0 { usize::MAX } else { 5 + number };
        clients.push(runtime().spawn(websocket(address, tally.clone(), life)));
    }
    let (before, wanted, start) = (router.swaps(), wanted(), Instant::now());
    let (mut number, mut early) = (0, router.usage());
    while router.swaps() < before + wanted {
        number += 1;
        swap(number);
        if number == wanted / 5 {
            early = router.usage();
        }
        if tally.failures.lock().unwrap().len() >= 1000 {
            break;
        }
    }
    let (late, took) = (router.usage(), start.elapsed());
    tally.stop.store(true, Ordering::SeqCst);
    for client in clients {
        runtime()
            .block_on(async { tokio::time::timeout(DEADLINE, client).await })
            .unwrap()
            .unwrap();
    }
    let failures = std::mem::take(&mut *tally.failures.lock().unwrap());
    let (answers, messages) = (
        tally.answers.load(Ordering::SeqCst),
        tally.messages.load(Ordering::SeqCst),
    );
    println!(
        "{source}: {} swaps in {took:.1?}; {answers} answers, {messages} messages on {} finished sockets, {} failures; \
         memory {} -> {} KiB, descriptors {} -> {}",
        router.swaps() - before,
        tally.sockets.load(Ordering::SeqCst),
        failures.len(),
        early.rss_kib,
        late.rss_kib,
        early.descriptors,
        late.descriptors,
    );
    assert!(
        failures.is_empty(),
        "{} failures, the first: {:#?}",
        failures.len(),
        &failures[..failures.len().min(5)]
    );
    assert!(answers > wanted && messages > 0);
    assert!(
        late.rss_kib < early.rss_kib + (16 << 10),
        "memory grows: {early:?} -> {late:?}"
    );
}

/// Swaps under load from a folder of resources.
#[test]
fn swaps_of_a_folder_under_load_fail_no_request_and_mix_no_tables() {
    let stubs: Vec<Stub> = (0..3)
        .map(|number| Stub::unrecorded(&format!("t{number}")))
        .collect();
    let tables = tables(&stubs);
    let folder = Folder::new(&tables[0]);
    let router = Launch::resources(&folder.dir()).poll("10ms").start();
    let hashes: Vec<String> = tables
        .iter()
        .map(|table| compile(table).snapshot.hash().to_string())
        .collect();
    under_load(&router, "resources", |number| {
        let turn = usize::try_from(number % 3).unwrap();
        folder.put("objects.yaml", &tables[turn]);
        router.wait_hash(&hashes[turn]);
    });
}

/// Swaps under load from a compiled file.
#[test]
fn swaps_of_a_file_under_load_fail_no_request_and_mix_no_tables() {
    let stubs: Vec<Stub> = (0..3)
        .map(|number| Stub::unrecorded(&format!("t{number}")))
        .collect();
    let compiled: Vec<_> = tables(&stubs)
        .iter()
        .map(|table| compile(table).snapshot)
        .collect();
    let folder = Folder::new(&[]);
    let path = folder.beside("table.json", &compiled[0].encode());
    let router = Launch::snapshot(&path).poll("10ms").start();
    under_load(&router, "file", |number| {
        let table = &compiled[usize::try_from(number % 3).unwrap()];
        folder.beside("table.json", &table.encode());
        router.wait_hash(&table.hash().to_string());
    });
}

/// Swaps under load from a control plane.
#[test]
fn swaps_of_a_control_plane_under_load_fail_no_request_and_mix_no_tables() {
    let stubs: Vec<Stub> = (0..3)
        .map(|number| Stub::unrecorded(&format!("t{number}")))
        .collect();
    let compiled: Vec<_> = tables(&stubs)
        .iter()
        .map(|table| compile(table).snapshot)
        .collect();
    let server = Server::start(&compiled[0]);
    let router = Launch::grpc(server.address()).start();
    under_load(&router, "grpc", |number| {
        let table = &compiled[usize::try_from(number % 3).unwrap()];
        server.set(table);
        router.wait_hash(&table.hash().to_string());
    });
    assert_eq!(server.requests().len(), 1, "one stream brought all tables");
}
