//! Clients that are connected, and whom nobody has accepted yet.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{PATIENCE, Router, connect, eventually, exchange, free_port};
use crate::{follow, listen, plain, resources};

/// One client after the other, each with one request. Says how many were answered, and which were connected and were not.
fn storm(address: SocketAddr, stop: &AtomicBool) -> (usize, Vec<String>) {
    let (mut answered, mut lost) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let Ok(stream) = TcpStream::connect_timeout(&address, PATIENCE) else {
            thread::sleep(Duration::from_millis(2));
            continue;
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        match one_answer(stream) {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 503") => {
                answered += 1;
            }
            other => lost.push(format!("{other:?}")),
        }
    }
    (answered, lost)
}

fn one_answer(mut stream: TcpStream) -> std::io::Result<String> {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_listener_that_goes_leaves_no_client_that_is_connected_without_an_answer() {
    let port = free_port();
    let folder = resources(&[plain("stays", 0), plain("goes", port)]);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/goes");
    let stop = Arc::<AtomicBool>::default();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || storm(address, &stop))
        })
        .collect();
    let bound = |wanted: bool| {
        eventually("bound or not", || {
            let (_, text) = router.admin("/metrics");
            let shown = text.contains("routed_listener_bound{listener=\"default/default/goes\"} 1");
            (shown == wanted).then_some(())
        });
    };
    for _ in 0..10 {
        listen(&folder, &[plain("stays", 0)]);
        bound(false);
        listen(&folder, &[plain("stays", 0), plain("goes", port)]);
        bound(true);
        thread::sleep(Duration::from_millis(100));
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = 0;
    for client in clients {
        let (answered, lost) = client.join().unwrap();
        assert!(lost.is_empty(), "connected and not answered: {lost:?}");
        all += answered;
    }
    println!("{all} answered");
    assert!(all > 100, "{all}");
}

/// Sets how many descriptors the process may have, beyond those that it has.
fn allow_more(router: &Router, more: usize) {
    let open = std::fs::read_dir(format!("/proc/{}/fd", router.id()))
        .unwrap()
        .count();
    let limit = format!("--nofile={}:", open + more);
    let pid = format!("--pid={}", router.id());
    let set = Command::new("prlimit").args([pid, limit]).status().unwrap();
    assert!(set.success());
}

/// Processor time that the process has had.
fn ticks(router: &Router) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", router.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn out_of_descriptors_it_waits_quietly_and_serves_who_waits_once_there_are_some() {
    let folder = resources(&[plain("http", 0)]);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/http");
    // Accepted for certain: of a crowd nobody can tell whom, as each worker takes what its own queue holds.
    let mut accepted = connect(address).unwrap();
    accepted.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        let mut byte = [0];
        accepted.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    allow_more(&router, 10);
    let crowd: Vec<TcpStream> = (0..60).map(|_| connect(address).unwrap()).collect();
    eventually("the limit is met", || {
        router.logged("accept failed").then_some(())
    });
    let before = ticks(&router);
    thread::sleep(Duration::from_secs(3));
    let spent = ticks(&router) - before;
    assert!(spent < 60, "{spent} hundredths of a second of 300");
    assert_eq!(
        router.count_logged("accept failed"),
        1,
        "said once in ten seconds"
    );

    // Who was accepted is served meanwhile.
    let answer = exchange(accepted, "a", "/").map(|(status, _)| status);
    assert_eq!(answer, Some(200));

    allow_more(&router, 200);
    for client in crowd {
        assert_eq!(exchange(client, "a", "/").unwrap().1, "hello");
    }
    let (_, metrics) = router.admin("/metrics");
    let name = "routed_accept_errors_total ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let count: u64 = count.parse().unwrap();
    assert!((2..100).contains(&count), "{count} failures in some seconds");
}
