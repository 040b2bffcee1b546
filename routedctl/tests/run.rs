//! `routedctl completions`, `man`, `compile --keys-out` and `explain --admin` as they are run.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn routedctl(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routedctl"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

#[test]
fn a_completion_script_knows_the_subcommands() {
    let done = routedctl(Path::new("."), &["completions", "bash"]);
    assert!(done.status.success(), "{done:?}");
    let script = String::from_utf8(done.stdout).unwrap();
    for word in ["_routedctl", "validate", "--keys-out", "--admin"] {
        assert!(script.contains(word), "{word}");
    }
}

#[test]
fn manual_pages_are_written_into_a_new_folder() {
    let folder = tempfile::tempdir().unwrap();
    let done = routedctl(folder.path(), &["man", "share/man1"]);
    assert!(done.status.success(), "{done:?}");
    for page in ["routedctl.1", "routedctl-validate.1", "routedctl-explain.1"] {
        let text = fs::read_to_string(folder.path().join("share/man1").join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
}

#[test]
fn keys_are_written_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let resources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keys.yaml");
    let compile = ["compile", resources, "-o", "out.json", "--keys-out", "keys"];
    let done = routedctl(folder.path(), &compile);
    assert!(done.status.success(), "{done:?}");
    let pair = folder.path().join("keys/edge/web");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&pair), 0o700);
    assert_eq!(mode(&pair.join("tls.key")), 0o600);
    let key = fs::read_to_string(pair.join("tls.key")).unwrap();
    assert!(key.contains("PRIVATE KEY"));
    let snapshot = fs::read(folder.path().join("out.json")).unwrap();
    assert!(!String::from_utf8_lossy(&snapshot).contains("PRIVATE KEY"));
}

/// Explains by an address that answers once with this; gives the request line it got too.
fn asked(status: &str, answer: &str, arguments: &[&str]) -> (String, Output) {
    let router = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = router.local_addr().unwrap().to_string();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    );
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = router.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(head)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .to_owned()
    });
    let all = [&["explain", "--admin", &address], arguments].concat();
    let done = routedctl(Path::new("."), &all);
    (serving.join().unwrap(), done)
}

/// What `/explain` of a router reads: percent-encoded values, in which `+` would stay a plus.
#[test]
fn a_router_is_asked_in_its_own_words() {
    let arguments = [
        "--listener",
        "ns/p/web",
        "--header",
        "X-Plan: a&b=c+d 50%",
        "--draw",
        "7",
        "--output",
        "json",
        "http://shop.test/a%20b?q=1&r=x+y",
    ];
    let (line, done) = asked("200 OK", "{\"outcome\":1}", &arguments);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        line,
        "GET /explain?method=GET&url=http://shop.test/a%2520b%3Fq%3D1%26r%3Dx%2By&draw=7\
         &header=x-plan:a%26b%3Dc%2Bd%2050%25&listener=ns/p/web HTTP/1.1"
    );
    assert_eq!(done.stdout, b"{\n  \"outcome\": 1\n}\n");
}

#[test]
fn what_a_router_refuses_is_told_in_its_words() {
    let answer = "{\"error\":\"the profile has no such listener\"}\n";
    let (_, done) = asked(
        "400 Bad Request",
        answer,
        &["--listener", "no", "http://shop.test/"],
    );
    assert_eq!(done.status.code(), Some(2));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        said.contains("answered 400 Bad Request: the profile has no such listener\n"),
        "{said}"
    );
}
