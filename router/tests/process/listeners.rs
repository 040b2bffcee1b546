//! Listeners that change under their connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Router, connect, eventually, exchange, free_port, get, handshake};
use crate::{certificate, files, follow, listen, plain, put, resources};

/// Clients that send without a pause on kept connections, and connect again when one ends.
struct Crowd {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<u16>>>,
}

impl Crowd {
    fn at(address: SocketAddr) -> Crowd {
        let stop = Arc::<AtomicBool>::default();
        let client = |_| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut statuses = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match connect(address) {
                        Some(stream) => keep_asking(stream, &stop, &mut statuses),
                        None => thread::sleep(Duration::from_millis(5)),
                    }
                }
                statuses
            })
        };
        Crowd {
            clients: (0..4).map(client).collect(),
            stop,
        }
    }

    /// Every status that was answered.
    fn leave(self) -> Vec<u16> {
        self.stop.store(true, Ordering::Relaxed);
        let each = self.clients.into_iter().map(|client| client.join().unwrap());
        each.flatten().collect()
    }
}

/// Asks until the connection ends. An answer of 503 must say that it does.
fn keep_asking(stream: TcpStream, stop: &AtomicBool, statuses: &mut Vec<u16>) {
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while !stop.load(Ordering::Relaxed) {
        if write!(stream, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").is_err() {
            return;
        }
        let Some((status, closes)) = answer(&mut answers) else {
            return;
        };
        statuses.push(status);
        assert!(status != 503 || closes, "a 503 that keeps the connection");
        if closes {
            return;
        }
    }
}

/// Status, and whether the connection is to close; none where it did.
fn answer(stream: &mut impl BufRead) -> Option<(u16, bool)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.to_ascii_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length?.trim().parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    let closes = lines.iter().any(|line| line.trim() == "connection: close");
    Some((lines.first()?.split(' ').nth(1)?.parse().ok()?, closes))
}

/// A connection that has had an answer and is kept.
fn kept(address: SocketAddr) -> TcpStream {
    let stream = connect(address).unwrap();
    (&stream).write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(answer(&mut BufReader::new(&stream)), Some((200, false)));
    stream
}

/// It ends without another byte.
fn ends(mut stream: TcpStream) {
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "closed in order");
}

fn shown(router: &Router, listener: &str) {
    let sample = format!("routed_listener_bound{{listener=\"default/default/{listener}\"}} 1");
    eventually(listener, || {
        router.admin("/metrics").1.contains(&sample).then_some(())
    });
}

#[test]
fn connections_of_a_renamed_listener_end_and_never_meet_a_404() {
    let port = free_port();
    let folder = resources(&[plain("one", port)]);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/one");
    let idle = kept(address);
    let crowd = Crowd::at(address);
    for name in ["two", "three", "one", "two"] {
        listen(&folder, &[plain(name, port)]);
        shown(&router, name);
        thread::sleep(Duration::from_millis(100));
    }
    ends(idle);
    let statuses = crowd.leave();
    let bad: Vec<_> = statuses
        .iter()
        .filter(|status| ![200, 503].contains(*status))
        .collect();
    assert!(statuses.contains(&200) && bad.is_empty(), "{bad:?}");
    assert_eq!(get(address, "a", "/").unwrap().1, "hello");
}

#[test]
fn connections_of_a_removed_listener_end_and_never_meet_a_404() {
    let port = free_port();
    let folder = resources(&[plain("stays", 0), plain("goes", port)]);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/goes");
    let (idle, stays) = (kept(address), kept(router.address("default/default/stays")));
    let crowd = Crowd::at(address);
    thread::sleep(Duration::from_millis(100));
    listen(&folder, &[plain("stays", 0)]);
    ends(idle);
    eventually("closed", || connect(address).is_none().then_some(()));
    let statuses = crowd.leave();
    let bad: Vec<_> = statuses
        .iter()
        .filter(|status| ![200, 503].contains(*status))
        .collect();
    assert!(statuses.contains(&200) && bad.is_empty(), "{bad:?}");
    (&stays).write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(
        answer(&mut BufReader::new(&stays)),
        Some((200, false)),
        "another listener's connection lives"
    );
}

#[test]
fn a_listener_that_starts_tls_ends_its_plain_connections() {
    let certificates = TempDir::new().unwrap();
    put(certificates.path(), "a", &certificate(&["a.example.com"]));
    let port = free_port();
    let folder = resources(&[plain("web", port)]);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/web");
    let idle = kept(address);
    let pair = files(certificates.path(), "a");
    listen(
        &folder,
        &[format!(
            "{{name: web, address: 127.0.0.1, port: {port}, protocol: HTTPS, tls: {{certificateFiles: [{pair}]}}}}"
        )],
    );
    ends(idle);
    let stream = handshake(address, Some("a.example.com")).unwrap();
    assert_eq!(exchange(stream, "a.example.com", "/").unwrap().1, "hello");
}

#[test]
fn clients_in_the_queue_of_a_removed_listener_are_answered() {
    let port = free_port();
    let folder = resources(&[plain("stays", 0), plain("goes", port)]);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/goes");
    // Stopped, the process accepts nothing: the system completes the connections and keeps them.
    router.signal("STOP");
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let stream = connect(address).unwrap();
            (&stream).write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            stream
        })
        .collect();
    listen(&folder, &[plain("stays", 0)]);
    router.signal("CONT");
    for client in clients {
        let (status, _) = answer(&mut BufReader::new(client)).expect("an answer");
        assert!([200, 503].contains(&status), "{status}");
    }
    eventually("closed", || connect(address).is_none().then_some(()));
}

/// Descriptors of the process that listen on this port.
fn listening(router: &Router, port: u16) -> usize {
    let inodes: Vec<String> = std::fs::read_to_string("/proc/net/tcp")
        .unwrap()
        .lines()
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let local = format!(":{port:04X}");
            let listens = fields.get(3) == Some(&"0A") && fields.get(1)?.ends_with(&local);
            listens.then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"")))
        })
        .collect();
    let held = std::fs::read_dir(format!("/proc/{}/fd", router.id())).unwrap();
    let held = held.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    held.filter(|link| inodes.iter().any(|inode| link.as_os_str() == inode.as_str()))
        .count()
}

#[test]
fn a_listener_leaves_no_descriptor_behind_when_it_is_removed() {
    let port = free_port();
    let folder = resources(&[plain("stays", 0), plain("comes-and-goes", port)]);
    let router = follow(&folder);
    for _ in 0..3 {
        router.ready();
        shown(&router, "comes-and-goes");
        // Two workers, each with the main thread's descriptor and its own.
        eventually("accepting", || (listening(&router, port) == 4).then_some(()));
        assert!(router.admin("/snapshot").1.contains("\"sockets\":2"));
        listen(&folder, &[plain("stays", 0)]);
        eventually("closed", || (listening(&router, port) == 0).then_some(()));
        listen(&folder, &[plain("stays", 0), plain("comes-and-goes", port)]);
    }
}
