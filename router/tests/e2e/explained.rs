//! What is explained is what happens: odd requests through the running router, its `/explain`, and the code behind
//! `routedctl explain` (whose own tests read the same table).

use std::path::Path;

use routed_snapshot::request::{Typed, typed};
use routed_snapshot::{Availability, Index, Question};
use serde_json::{Value, json};

use crate::harness::{Folder, H2, Launch, Router, exchange, get, profile, profile_with, route};

const SETTINGS: [(&str, bool, &str); 4] = [
    ("keep", false, "Keep"),
    ("merge", true, "Keep"),
    ("decode", false, "Decode"),
    ("reject", false, "Reject"),
];

/// A line of the table.
struct Case {
    settings: String,
    method: String,
    host: String,
    target: String,
    line: Option<(String, String)>,
    expected: String,
    path: Option<String>,
}

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../snapshot/tests");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn cases() -> Vec<Case> {
    let text = file("odd_requests.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let some = |field: &str| (field != "-").then(|| field.to_owned());
    let cases = lines.map(|line| {
        let [settings, method, host, target, line, expected, path] =
            line.splitn(7, '\t').collect::<Vec<_>>()[..]
        else {
            panic!("not seven fields: {line}");
        };
        Case {
            settings: settings.to_owned(),
            method: method.to_owned(),
            host: host.to_owned(),
            target: target.to_owned(),
            line: some(line).map(|line| typed::header(&line).unwrap()),
            expected: expected.to_owned(),
            path: some(path),
        }
    });
    cases.collect()
}

/// The profile and the routes of the table.
fn folder(merge: bool, escaped: &str) -> Folder {
    let folder = Folder::new(&[profile_with(json!({
        "normalization": {"mergeSlashes": merge, "escapedSlashes": escaped},
        "limits": {"targetBytes": 200, "headerBytes": 1000, "bodyBytes": 1000},
        "decisionHeaders": true,
    }))]);
    folder.put_text("routes.yaml", &file("odd_requests.yaml"));
    folder
}

/// The route named in an explanation, or the status of the router's own answer.
fn who(explanation: &Value) -> String {
    let outcome = &explanation["outcome"];
    match outcome["rule"].as_str() {
        Some(rule) => route_of(rule),
        None => outcome["status"].to_string(),
    }
}

fn route_of(rule: &str) -> String {
    rule.split('/').nth(2).unwrap().to_owned()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The three verdicts on one request.
fn verdicts(router: &Router, index: &Index, case: &Case) -> [(String, Option<String>); 3] {
    let Case {
        method,
        host,
        target,
        line,
        ..
    } = case;
    let line = line.as_ref().map(|(name, value)| format!("{name}: {value}\r\n"));
    let line = line.unwrap_or_default();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{line}Connection: close\r\n\r\n");
    let reply = exchange(router.http(), request);
    let answered = reply.header("x-routed-route").map(route_of);
    let url = format!("http://edge.example{target}");
    let mut headers = vec![("host".to_owned(), host.clone())];
    headers.extend(case.line.clone());
    let asked: String = headers
        .iter()
        .map(|(name, value)| format!("&header={}", encoded(&format!("{name}:{value}"))))
        .collect();
    let live = router.admin(&format!("/explain?method={method}&url={}{asked}", encoded(&url)));
    assert_eq!(live.status, 200, "{}", live.text());
    let live = live.json();
    let typed = Typed::new(method, &url, headers).unwrap();
    let question = Question {
        typed: &typed,
        profile: None,
        listener: None,
        draw: 0,
    };
    let offline = question.answer(index, &Availability::default()).unwrap();
    let offline = serde_json::to_value(offline).unwrap();
    assert_eq!(live, offline, "{method} {host} {target}");
    let refused = offline["outcome"]["type"] == "Refused";
    let path = (!refused).then(|| offline["path"].as_str().unwrap().to_owned());
    [
        (answered.unwrap_or_else(|| reply.status.to_string()), path.clone()),
        (who(&live), path.clone()),
        (who(&offline), path),
    ]
}

fn index_of(folder: &Folder) -> Index {
    let report = routed_policy::compile(&routed_policy::Resources::from_files(folder.files()));
    assert!(!report.has_errors(), "{:?}", report.diags);
    Index::build(&report.snapshot, None).unwrap()
}

#[test]
fn odd_requests_are_explained_as_they_are_answered() {
    let cases = cases();
    for (settings, merge, escaped) in SETTINGS {
        let folder = folder(merge, escaped);
        let index = index_of(&folder);
        let router = Launch::resources(&folder.dir()).start();
        let own = cases.iter().filter(|case| case.settings == settings);
        let mut count = 0;
        for case in own {
            count += 1;
            let expected = (case.expected.clone(), case.path.clone());
            let what = format!("{settings}: {} {} {:?}", case.method, case.host, case.target);
            assert_eq!(
                verdicts(&router, &index, case),
                [(); 3].map(|()| expected.clone()),
                "{what}"
            );
        }
        assert!(count >= 3, "{settings}: {count} lines");
    }
}

/// Each character that can stand in a target at all, in the path and in the query.
#[test]
fn every_character_of_a_target_is_judged_alike() {
    let folder = folder(false, "Keep");
    let index = index_of(&folder);
    let router = Launch::resources(&folder.dir()).start();
    let mut refused = 0;
    for byte in (0x21..0x7f_u8).filter(|byte| !b"#?".contains(byte)) {
        let character = char::from(byte);
        for target in [format!("/info/{character}x"), format!("/info?q={character}")] {
            let case = Case {
                settings: "keep".into(),
                method: "GET".into(),
                host: "a.example".into(),
                target: target.clone(),
                line: None,
                expected: String::new(),
                path: None,
            };
            let [answered, live, offline] = verdicts(&router, &index, &case);
            assert_eq!(answered, live, "{target}");
            assert_eq!(answered, offline, "{target}");
            refused += usize::from(answered.0 == "400");
        }
    }
    assert!((5..20).contains(&refused), "{refused}");
}

/// The Host that a condition looks at is the authority that counts, however it was sent.
#[test]
fn a_condition_on_host_holds_for_every_form_of_a_request() {
    let answer = json!([{"type": "DirectResponse", "directResponse": {"statusCode": 200, "body": "named"}}]);
    let host = json!([{"headers": [{"name": "host", "value": "a.example:81"}]}]);
    let folder = Folder::new(&[
        profile(),
        route("named", json!({"rules": [{"matches": host, "filters": answer}]})),
    ]);
    let router = Router::over(&folder);
    assert_eq!(get(router.http(), "a.example:81", "/").text(), "named");
    assert_eq!(get(router.http(), "a.example", "/").status, 404);
    let absolute = "GET http://a.example:81/ HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(router.http(), absolute).text(), "named");
    let h2 = H2::open(router.http());
    assert_eq!(
        String::from_utf8(h2.get("a.example:81", "/", &[]).body).unwrap(),
        "named"
    );
    assert_eq!(h2.get("a.example", "/", &[]).status, 404);
}
