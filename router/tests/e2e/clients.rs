//! Programs that others wrote, against the running router. One that is not installed is skipped aloud.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{DEADLINE, Folder, Router, Stub, backend, reply, route, simple_route, skipped};
use crate::restart::{certificate, profile_with_tls, secret};

/// A router with a plain and a TLS listener for `localhost`, a backend, and the authority's certificate in a file.
struct Site {
    router: Router,
    backend: Stub,
    authority: PathBuf,
    _place: TempDir,
    _folder: Folder,
}

fn site() -> Site {
    let page = "<!doctype html><title>routed</title><p id=greeting>hello through the router</p>";
    let backend_stub = Stub::unrecorded("a");
    let html = Stub::answering("html", move |_| {
        reply(200, "content-type: text/html\r\nx-backend: html\r\n", page)
    });
    let (authority, chain, key) = certificate("localhost");
    let place = TempDir::new().unwrap();
    let file = place.path().join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    let folder = Folder::new(&[
        profile_with_tls("cert"),
        secret("cert", &chain, &key),
        backend("a", &[backend_stub.address()]),
        backend("html", &[html.address()]),
        simple_route("all", &[], "PathPrefix", "/", "a"),
        route(
            "page",
            json!({"rules": [{"matches": [{"path": {"value": "/page"}}], "backends": [{"backend": "html"}]}]}),
        ),
    ]);
    let router = Router::over(&folder);
    Site {
        router,
        backend: backend_stub,
        authority: file,
        _place: place,
        _folder: folder,
    }
}

impl Site {
    fn url(&self, secure: bool, path: &str) -> String {
        if secure {
            format!("https://localhost:{}{path}", self.router.address("https").port())
        } else {
            format!("http://localhost:{}{path}", self.router.http().port())
        }
    }
}

/// Runs a program to its end, or ends it at the deadline. `None`: it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            skipped(&format!("{program}: {error}"));
            return None;
        }
    };
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            let _ = stream.map(|mut stream| std::io::Read::read_to_end(&mut stream, &mut all));
            all
        })
    };
    let out = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let err = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let end = Instant::now() + 3 * DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            panic!("{program} {arguments:?} does not end");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    Some(Output {
        status,
        stdout: out.join().unwrap(),
        stderr: err.join().unwrap(),
    })
}

fn text(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn curl_works_over_http1_http2_and_https() {
    let site = site();
    let authority = site.authority.display().to_string();
    for (secure, version, flag) in [
        (false, "1.1", "--http1.1"),
        (false, "2", "--http2-prior-knowledge"),
        (true, "1.1", "--http1.1"),
        (true, "2", "--http2"),
    ] {
        let url = site.url(secure, "/curl?x=1");
        let form = "\n%{http_version} %{http_code}";
        let arguments = [
            "-sS",
            "--noproxy",
            "*",
            "-4",
            "--max-time",
            "30",
            "--cacert",
            &authority,
            flag,
            "-w",
            form,
            &url,
        ];
        let Some(output) = run("curl", &arguments) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{url} {flag}: {said}");
        assert!(said.contains(&format!("\n{version} 200")), "{url} {flag}: {said}");
        assert!(said.contains("GET /curl?x=1 HTTP/1.1"), "{url} {flag}: {said}");
    }
    // An upload of 1 MiB arrives whole, with the wait for `100 Continue` that curl makes on its own.
    let place = TempDir::new().unwrap();
    let file = place.path().join("upload");
    std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    let upload = format!("@{}", file.display());
    for (flag, secure) in [("--http1.1", false), ("--http2", true)] {
        let url = site.url(secure, "/up");
        let arguments = [
            "-sS",
            "--noproxy",
            "*",
            "-4",
            "--max-time",
            "60",
            "--cacert",
            &authority,
            flag,
            "--data-binary",
            &upload,
            &url,
        ];
        let Some(output) = run("curl", &arguments) else {
            return;
        };
        assert!(
            text(&output).contains("\"length\":1048576"),
            "{flag}: {}",
            text(&output)
        );
    }
}

#[test]
fn h2load_sees_no_failed_request() {
    let site = site();
    for secure in [false, true] {
        let url = site.url(secure, "/load").replace("localhost", "127.0.0.1");
        let Some(output) = run("h2load", &["-n", "500", "-c", "4", "-m", "10", &url]) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("500 succeeded, 0 failed, 0 errored"), "{said}");
        assert!(said.contains("status codes: 500 2xx"), "{said}");
    }
    assert!(site.backend.accepts() > 0);
}

#[test]
fn wrk_sees_no_failed_request() {
    let site = site();
    for secure in [false, true] {
        let url = site.url(secure, "/load").replace("localhost", "127.0.0.1");
        let Some(output) = run("wrk", &["-t", "1", "-c", "8", "-d", "1s", &url]) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("requests in"), "{said}");
        assert!(
            !said.contains("Socket errors") && !said.contains("Non-2xx"),
            "{said}"
        );
    }
}

#[test]
fn chromium_shows_a_page_over_http_and_https() {
    let site = site();
    for secure in [false, true] {
        let place = TempDir::new().unwrap();
        let profile = format!("--user-data-dir={}", place.path().display());
        let url = site.url(secure, "/page");
        let mut arguments = vec![
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
            &profile,
        ];
        if secure {
            arguments.push("--ignore-certificate-errors");
        }
        arguments.extend(["--dump-dom", &url]);
        let Some(output) = run("chromium", &arguments) else {
            return;
        };
        assert!(
            text(&output).contains("hello through the router"),
            "{url}: {}",
            text(&output)
        );
    }
}

const WEBSOCKETS: &str = r"
import asyncio, ssl, sys, websockets
async def main(url, authority):
    context = ssl.create_default_context(cafile=authority) if url.startswith('wss') else None
    async with websockets.connect(url, ssl=context, max_size=None) as socket:
        for size in (0, 1, 125, 126, 65535, 65536, 200000):
            await socket.send('x' * size)
            answer = await socket.recv()
            assert answer == 'a ' + 'x' * size, (size, answer[:20])
        pong = await socket.ping()
        await pong
    assert socket.close_code == 1000, socket.close_code
    print('all messages came back')
asyncio.run(main(*sys.argv[1:3]))
";

/// A WebSocket client not written here: Python's `websockets`, run by `$ROUTED_PYTHON` (or `python3`).
#[test]
fn a_python_websocket_client_exchanges_messages() {
    let python = std::env::var("ROUTED_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let Some(output) = run(&python, &["-c", "import websockets"]) else {
        return;
    };
    if !output.status.success() {
        return skipped(&format!("{python} has no module `websockets`"));
    }
    let site = site();
    let authority = site.authority.display().to_string();
    for secure in [false, true] {
        let url = site.url(secure, "/ws").replacen("http", "ws", 1);
        let Some(output) = run(&python, &["-c", WEBSOCKETS, &url, &authority]) else {
            return;
        };
        assert!(
            text(&output).contains("all messages came back"),
            "{url}: {}",
            text(&output)
        );
    }
}
