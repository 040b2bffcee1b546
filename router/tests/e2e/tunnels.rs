//! How connections end whose listener goes: WebSockets and responses under way have the profile's `timeouts.drain`.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::harness::{
    Conn, DEADLINE, Folder, H2, Router, Stub, backend, object, runtime, simple_route, wait_until,
};

/// The profile of these listeners.
fn listening(drain: &str, listeners: &[(&str, u16)]) -> Value {
    let listener = |(name, port): &(&str, u16)| json!({"name": name, "address": "127.0.0.1", "port": port, "protocol": "HTTP"});
    let listeners: Vec<Value> = listeners.iter().map(listener).collect();
    let spec = json!({"listeners": listeners, "timeouts": {"drain": drain}});
    object("RouterProfile", "routed.io/v1", "default", spec)
}

/// A folder with that profile in a file of its own, and all requests to one backend.
fn folder(stub: &Stub, profile: Value) -> Folder {
    let folder = Folder::new(&[
        backend("a", &[stub.address()]),
        simple_route("all", &[], "PathPrefix", "/", "a"),
    ]);
    folder.put("profile.yaml", &[profile]);
    folder
}

/// A port that nobody listens on at the moment.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    fn open(address: SocketAddr) -> Socket {
        runtime().block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            let opened = tokio_tungstenite::client_async("ws://a.example/ws", stream).await;
            Socket(opened.unwrap().0)
        })
    }

    fn next(&mut self) -> Option<Message> {
        let next = async { tokio::time::timeout(DEADLINE, self.0.next()).await };
        runtime()
            .block_on(next)
            .expect("a message or the end")
            .map(Result::unwrap)
    }

    #[track_caller]
    fn echoes(&mut self) {
        runtime().block_on(self.0.send(Message::text("hi"))).unwrap();
        assert_eq!(self.next(), Some(Message::text("a hi")));
    }

    /// A Close that says "going away", and then the end.
    #[track_caller]
    fn is_told_to_close(&mut self) {
        match self.next() {
            Some(Message::Close(Some(frame))) => assert_eq!(frame.code, CloseCode::Away),
            other => panic!("{other:?}"),
        }
        assert_eq!(self.next(), None);
    }
}

#[test]
fn a_websocket_of_a_listener_that_goes_is_told_to_close_and_others_live_on() {
    let stub = Stub::start("a");
    let (goes, changes) = (free_port(), free_port());
    let drain = "200ms";
    let folder = folder(
        &stub,
        listening(drain, &[("http", 0), ("goes", goes), ("changes", changes)]),
    );
    let router = Router::over(&folder);
    let mut stays = Socket::open(router.http());
    let mut removed = Socket::open(router.address("goes"));
    let mut renamed = Socket::open(router.address("changes"));
    // A table that leaves the listeners alone cuts nobody.
    let hash = router.hash();
    folder.put(
        "more.yaml",
        &[simple_route("more", &["b.example"], "Exact", "/b", "a")],
    );
    router.wait_swap(&hash);
    for socket in [&mut stays, &mut removed, &mut renamed] {
        socket.echoes();
    }
    folder.put(
        "profile.yaml",
        &[listening(drain, &[("http", 0), ("changed", changes)])],
    );
    removed.is_told_to_close();
    renamed.is_told_to_close();
    wait_until("the backend's ends closed", || stub.open() == 1);
    stays.echoes();
    let cut = "routed_connections_cut_total 0\n";
    assert!(router.metrics().contains(cut), "who closes in order is not cut");
}

#[test]
fn a_websocket_of_a_removed_listener_has_the_time_of_the_drain() {
    let stub = Stub::start("a");
    let port = free_port();
    let folder = folder(&stub, listening("1h", &[("http", 0), ("goes", port)]));
    let router = Router::over(&folder);
    let mut socket = Socket::open(router.address("goes"));
    folder.put("profile.yaml", &[listening("1h", &[("http", 0)])]);
    let closed = || std::net::TcpStream::connect(("127.0.0.1", port)).is_err();
    wait_until("the port closed", closed);
    socket.echoes();
}

/// A backend that begins its response and never ends it.
fn endless() -> Stub {
    Stub::answering("a", |_| {
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart".to_vec()
    })
}

#[test]
fn a_response_on_a_removed_listener_ends_with_the_time_of_the_drain() {
    let stub = endless();
    let port = free_port();
    let folder = folder(&stub, listening("200ms", &[("http", 0), ("goes", port)]));
    let router = Router::over(&folder);
    let mut h1 = Conn::open(router.address("goes"));
    h1.send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    let h2 = H2::open(router.address("goes"));
    let h2 = runtime().spawn(async move { h2.send("a.example", "/", &[]).await.map(|reply| reply.status) });
    wait_until("both reach the backend", || stub.seen().len() == 2);
    folder.put("profile.yaml", &[listening("200ms", &[("http", 0)])]);
    assert!(h1.reply().is_err(), "cut within the body");
    let h2 = runtime().block_on(async { tokio::time::timeout(DEADLINE, h2).await });
    assert!(h2.unwrap().unwrap().is_err(), "cut within the body");
    wait_until("both are counted", || {
        router.metrics().contains("routed_connections_cut_total 2\n")
    });
    wait_until("none is open", || {
        router.metrics().contains("routed_client_sockets_open 0\n")
    });
}

#[test]
fn the_end_of_the_process_tells_websockets_to_close_and_is_clean() {
    let stub = Stub::start("a");
    let folder = folder(&stub, listening("200ms", &[("http", 0)]));
    let mut router = Router::over(&folder);
    let mut socket = Socket::open(router.http());
    router.signal("TERM");
    socket.is_told_to_close();
    assert_eq!(router.exit_code(), Some(0));
}

#[test]
fn the_end_of_the_process_that_cuts_a_response_is_not_clean() {
    let stub = endless();
    let folder = folder(&stub, listening("200ms", &[("http", 0)]));
    let mut router = Router::over(&folder);
    let mut connection = Conn::open(router.http());
    connection
        .send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    wait_until("it reaches the backend", || stub.seen().len() == 1);
    router.signal("TERM");
    assert!(connection.reply().is_err(), "cut within the body");
    assert_eq!(router.exit_code(), Some(1));
}
