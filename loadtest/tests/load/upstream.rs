//! The backend, asked by curl and by Python.

use std::time::{Duration, Instant};

use crate::harness::{Certificate, Upstream, run, skipped, text, tool};

/// curl's word on one request: the form `%{http_code} %{http_version} %{size_download}`, or its exit code.
fn curl(flags: &[&str], url: &str) -> Option<String> {
    let form = "%{http_code} %{http_version} %{size_download}";
    let fixed = [
        "-sS",
        "--noproxy",
        "*",
        "--max-time",
        "30",
        "-o",
        "/dev/null",
        "-w",
        form,
    ];
    let arguments = [&fixed, flags, &[url]].concat();
    let output = run("curl", &arguments)?;
    Some(match output.status.code() {
        Some(0) => String::from_utf8_lossy(&output.stdout).into_owned(),
        code => format!("{}", code.unwrap_or(-1)),
    })
}

#[test]
fn it_answers_in_both_versions_of_http_on_one_port() {
    let upstream = Upstream::start(&["--size", "1000", "--threads", "2"]);
    let url = upstream.url("/any/path");
    let Some(first) = curl(&["--http1.1"], &url) else {
        return;
    };
    assert_eq!(first, "200 1.1 1000");
    assert_eq!(curl(&["--http2-prior-knowledge"], &url).unwrap(), "200 2 1000");
    assert_eq!(curl(&["-X", "DELETE"], &url).unwrap(), "200 1.1 1000");
}

#[test]
fn it_speaks_tls_with_http2_by_alpn() {
    let own = Certificate::new();
    let (certificate, key) = (own.certificate.to_str().unwrap(), own.key.to_str().unwrap());
    let upstream = Upstream::start(&["--tls-cert", certificate, "--tls-key", key]);
    let port = upstream.address().rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}/");
    let Some(second) = curl(&["--http2", "--cacert", certificate], &url) else {
        return;
    };
    assert_eq!(second, "200 2 128");
    assert_eq!(
        curl(&["--http1.1", "--cacert", certificate], &url).unwrap(),
        "200 1.1 128"
    );
}

#[test]
fn a_query_says_what_is_answered() {
    let upstream = Upstream::start(&[]);
    let Some(status) = curl(&[], &upstream.url("/?status=404&size=0")) else {
        return;
    };
    assert_eq!(status, "404 1.1 0");
    assert_eq!(
        curl(&[], &upstream.url("/?size=3000000")).unwrap(),
        "200 1.1 3000000"
    );
    let refused = curl(&[], &upstream.url("/?stauts=404")).unwrap();
    assert!(refused.starts_with("400 "), "{refused}");
    let start = Instant::now();
    curl(&[], &upstream.url("/?delay=300ms"));
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn it_fails_in_each_way_that_can_be_asked_for() {
    let upstream = Upstream::start(&["--fail", "1"]);
    let Some(status) = curl(&[], &upstream.url("/")) else {
        return;
    };
    assert_eq!(status, "503 1.1 128");
    // curl: 56 receive error (a reset), 18 partial file, 28 timeout; 92 an HTTP/2 stream was reset.
    for (fault, version, code) in [
        ("reset", "--http1.1", "56"),
        ("reset", "--http2-prior-knowledge", "92"),
        ("truncate", "--http1.1", "18"),
        ("truncate", "--http2-prior-knowledge", "92"),
    ] {
        let url = upstream.url(&format!("/?fail-with={fault}&size=100000"));
        assert_eq!(curl(&[version], &url).unwrap(), code, "{fault} {version}");
    }
    let hang = upstream.url("/?fail-with=hang");
    assert_eq!(curl(&["--max-time", "0.5"], &hang).unwrap(), "28");
}

#[test]
fn every_tenth_request_fails_where_a_tenth_is_asked_for() {
    let upstream = Upstream::start(&["--fail", "0.1"]);
    let urls = upstream.url("/?n=[1-30]").replace("?n=", "");
    let form = "%{http_code}\n";
    let arguments = ["-sS", "--noproxy", "*", "-o", "/dev/null", "-w", form, &urls];
    let Some(output) = run("curl", &arguments) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed: Vec<usize> = said
        .lines()
        .enumerate()
        .filter_map(|(at, line)| (line == "503").then_some(at + 1))
        .collect();
    assert_eq!(failed, [10, 20, 30], "{said}");
}

#[test]
fn a_body_is_read_and_counted() {
    let upstream = Upstream::start(&[]);
    let body = "x".repeat(100_000);
    let arguments = [
        "-sS",
        "--noproxy",
        "*",
        "-D",
        "-",
        "-d",
        &body,
        &upstream.url("/"),
    ];
    let Some(output) = run("curl", &arguments) else {
        return;
    };
    assert!(
        text(&output).contains("x-received-bytes: 100000\r\n"),
        "{}",
        text(&output)
    );
}

#[test]
fn it_stalls_once() {
    let upstream = Upstream::start(&["--stall-after", "100ms", "--stall-for", "700ms"]);
    let took = || {
        let start = Instant::now();
        curl(&[], &upstream.url("/")).map(|_| start.elapsed())
    };
    let start = Instant::now();
    if took().is_none() {
        return;
    }
    std::thread::sleep(Duration::from_millis(150).saturating_sub(start.elapsed()));
    took();
    assert!(
        start.elapsed() >= Duration::from_millis(700),
        "{:?}",
        start.elapsed()
    );
    let after = (0..5).filter_map(|_| took()).min().unwrap();
    assert!(after < Duration::from_millis(600), "{after:?}");
}

#[test]
fn websocket_messages_come_back() {
    let upstream = Upstream::start(&[]);
    let script = format!(
        "import asyncio, websockets\n\
         async def main():\n\
         \x20 async with websockets.connect('ws://{}/chat', max_size=None) as socket:\n\
         \x20   for message in ('hello', b'\\0' * 200000):\n\
         \x20     await socket.send(message)\n\
         \x20     assert await socket.recv() == message\n\
         asyncio.run(main())",
        upstream.address()
    );
    let python = std::env::var("ROUTED_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let known = run(&python, &["-c", "import websockets"]);
    if !known.is_some_and(|output| output.status.success()) {
        return skipped("python's websockets is not installed");
    }
    let output = run(&python, &["-c", &script]).unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn it_ends_when_told_or_when_the_time_is_over() {
    let start = Instant::now();
    let output = tool(&["upstream", "--seconds", "0.2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(start.elapsed() >= Duration::from_millis(200));
    let output = tool(&["upstream", "--listen", "203.0.113.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
}
