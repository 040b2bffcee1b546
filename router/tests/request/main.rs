//! Requests over real sockets: a client, the request path in this process, and a scripted backend.
#![allow(clippy::unwrap_used)]

mod rig;

use rig::{Rig, exchange, header_of};

const GET: &str = "GET /app/x?q=1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn a_request_reaches_its_backend_and_the_answer_its_client() {
    let rig = Rig::new(&[OK]);
    let answer = rig.ask(GET);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhi"), "{answer}");
    let seen = rig.seen();
    assert!(seen[0].starts_with("GET /app/x?q=1 HTTP/1.1\r\n"), "{seen:?}");
    assert_eq!(header_of(&seen[0], "host"), Some("a.example"));
    assert_eq!(header_of(&seen[0], "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(header_of(&seen[0], "connection"), None);
}

#[test]
fn what_matches_nothing_or_is_malformed_is_answered_here() {
    let rig = Rig::new(&[]);
    for (request, status) in [
        (
            "GET /elsewhere HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
            "404",
        ),
        ("GET /app HTTP/1.1\r\nConnection: close\r\n\r\n", "400"),
        (
            "GET /app HTTP/1.1\r\nHost: a\r\nHost: a\r\nConnection: close\r\n\r\n",
            "400",
        ),
        (
            "GET /app/..%2fx HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
            "400",
        ),
        (
            "TRACE /app HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
            "405",
        ),
    ] {
        let answer = rig.ask(request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    assert!(rig.seen().is_empty());
}

#[test]
fn a_head_answer_keeps_its_length_and_the_connection() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n";
    let rig = Rig::new(&[head, OK]);
    let two = format!("HEAD /app HTTP/1.1\r\nHost: a.example\r\n\r\n{GET}");
    let answer = rig.ask(&two);
    assert_eq!(header_of(&answer, "content-length"), Some("5000000"));
    assert!(answer.ends_with("\r\n\r\nhi"), "{answer}");
    assert_eq!(rig.connections(), 1);
}

#[test]
fn a_body_goes_both_ways() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let rig = Rig::new(&[chunked]);
    let post = "POST /app HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
    let answer = rig.ask(post);
    assert!(answer.contains("abc"), "{answer}");
    assert!(rig.seen()[0].ends_with("\r\n\r\nbody"), "{:?}", rig.seen());
}

#[test]
fn nothing_listening_is_503_and_no_answer_is_502() {
    let rig = Rig::new(&[""]);
    let answer = rig.ask(GET);
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let rig = Rig::without_backend();
    let answer = rig.ask(GET);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn a_switch_that_nobody_asked_for_is_502_and_one_asked_for_is_a_tunnel() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nraw";
    let rig = Rig::new(&[switch]);
    assert!(rig.ask(GET).starts_with("HTTP/1.1 502 "));
    let rig = Rig::new(&[switch]);
    let ask = "GET /app HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let answer = rig.ask(ask);
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\nraw"), "{answer}");
}

#[test]
fn requests_are_counted_by_rule() {
    let rig = Rig::new(&[OK]);
    let _ = exchange(rig.address(), GET);
    let metrics = rig.metrics();
    let line = "route=\"EdgeRoute/t/app/0\",backend=\"Backend/t/b\",method=\"GET\",code=\"2xx\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}
