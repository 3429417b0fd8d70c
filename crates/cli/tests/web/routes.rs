//! The HTTP server of the daemon: who gets in, what its routes answer, and what a stale page cannot do.

use crate::server::{PAGES, Server, token};
use crate::world::{Daemon, LONG, World};
use loopwright_testkit::{skip, wait};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Every route of the description with plain names in its path, and the pages.
fn routes(server: &Server, token: &str) -> Vec<(String, String)> {
    let described = server.get("/api/v1/openapi.json", token).json();
    let mut routes: Vec<(String, String)> = PAGES.iter().map(|page| ("GET".to_owned(), (*page).to_owned())).collect();
    for (path, methods) in described["paths"].as_object().expect("paths") {
        let path = path.replace("{loop}", "fix").replace("{round}", "r0").replace("{id}", "a-r0");
        let methods = methods.as_object().expect("methods").keys();
        routes.extend(methods.map(|method| (method.to_ascii_uppercase(), path.clone())));
    }
    routes
}

#[test]
fn every_route_refuses_strangers_foreign_hosts_foreign_pages_weak_roles_and_large_bodies() {
    let world = World::new();
    let server = Server::start(&world);
    let (view, operate) = (token(&world, "viewer", "view"), token(&world, "operator", "operate"));
    let routes = routes(&server, &view);
    assert!(routes.len() > 35, "{routes:?}");
    for (method, path) in &routes {
        let bearer = format!("Bearer {operate}");
        let status = |headers: &[(&str, &str)]| server.send(method, path, headers, "").status;
        assert_eq!(status(&[]), 401, "{method} {path} without a token");
        assert_eq!(status(&[("Authorization", "Bearer lw_0")]), 401, "{method} {path} with an unknown token");
        let rebound = [("Host", "evil.example"), ("Authorization", bearer.as_str())];
        assert_eq!(status(&rebound), 403, "{method} {path} by a foreign host");
        let foreign = [("Origin", "http://evil.example"), ("Authorization", bearer.as_str())];
        assert_eq!(status(&foreign), 403, "{method} {path} from a foreign page");
        if method == "POST" {
            assert_eq!(server.post(path, &view, &json!({})).status, 403, "{path} with the role view");
            let length = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
            let is_for_approvers = path.contains("/inbox/") || path.ends_with("/budget");
            let large = server.send(method, path, &length, &"x".repeat(70 << 10)).status;
            assert_eq!(large, if is_for_approvers { 403 } else { 413 }, "{path} with a large body");
        }
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let post = |headers: &[(&str, &str)], body: &str| server.send("POST", "/mcp", headers, body).status;
    let (bearer, kind) = (format!("Bearer {view}"), ("Content-Type", "application/json"));
    assert_eq!(post(&[("Authorization", &bearer), kind], &message.to_string()), 200);
    assert_eq!(post(&[kind], &message.to_string()), 401, "MCP without a token");
    assert_eq!(post(&[("Authorization", &bearer), kind, ("Host", "evil.example")], "{}"), 403);
    assert_eq!(post(&[("Authorization", &bearer), kind, ("Origin", "http://evil.example")], "{}"), 403);
    assert_eq!(post(&[("Authorization", &bearer), kind], &"x".repeat(70 << 10)), 413);
    assert_eq!(post(&[("Authorization", &bearer), kind, ("MCP-Protocol-Version", "1999-01-01")], "{}"), 400);
    for path in ["/x/../api/v1/inbox", "/api/v1/nothing", "/rounds/"] {
        assert_eq!(server.send("GET", path, &[("Host", "evil.example")], "").status, 403, "{path}");
        assert_eq!(server.get(path, &view).status, 404, "{path}");
    }
}

#[test]
fn every_answer_has_the_headers_that_keep_pages_inert() {
    let world = World::new();
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    for path in PAGES.iter().chain(&["/api/v1/status", "/nowhere", "/assets/app.js"]) {
        let answer = server.get(path, &view);
        for needed in [
            "content-security-policy: default-src 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: same-origin",
            "frame-ancestors 'none'",
        ] {
            assert!(answer.head.contains(needed), "{path}: {}", answer.head);
        }
        assert!(!answer.body.contains("<script>") && !answer.body.contains(" style="), "{path}");
    }
}

#[test]
fn an_approval_binds_the_candidate_that_was_seen_and_names_the_token() {
    let world = World::new();
    let server = Server::start(&world);
    let approver = token(&world, "ada", "approve");
    let _ = world.run("run fix").code(10);
    let item = server.get("/api/v1/inbox", &approver).json()["items"][0].clone();
    let path = format!("/api/v1/inbox/{}/approve", item["id"].as_str().expect("an id"));
    let none = server.post(&path, &approver, &json!({}));
    assert!(none.status == 400 && none.body.contains("`candidate` is missing"), "{}", none.body);
    let stale = server.post(&path, &approver, &json!({"candidate": "0".repeat(64)}));
    assert!(stale.status == 409 && stale.body.contains("another candidate"), "{}", stale.body);
    let page = server.get("/inbox", &approver);
    assert!(page.body.contains(item["candidate"].as_str().expect("a hash")), "{}", page.body);
    let done = server.post(&path, &approver, &json!({"candidate": item["candidate"]}));
    assert_eq!((done.status, &done.json()["outcome"]), (200, &json!("shipped")), "{}", done.body);
    let again = server.post(&path, &approver, &json!({"candidate": item["candidate"]}));
    assert_eq!(again.status, 409, "{}", again.body);
    let round = item["round"].as_str().expect("a round");
    let journal = world.json(&format!("logs {round}"));
    let approved = journal["events"].as_array().expect("events").iter().find(|event| event["kind"] == "approved");
    assert!(approved.expect("it is recorded").to_string().contains("\"ada\""), "{journal}");
}

#[test]
fn a_repeated_key_starts_one_round() {
    let world = World::new();
    let server = Server::start(&world);
    let operator = token(&world, "ci", "operate");
    let bearer = format!("Bearer {operator}");
    let headers =
        [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "one")];
    let run = || server.send("POST", "/api/v1/loops/look/run", &headers, "{}").status;
    assert!(matches!((run(), run()), (200 | 202, 200 | 202)));
    let ended = || {
        let rounds = world.json("rounds look");
        rounds["rounds"].as_array().is_some_and(|rounds| rounds.iter().any(|round| round["outcome"] == "reported"))
    };
    wait::until("the round ends", LONG, ended);
    assert_eq!(world.json("rounds look")["rounds"].as_array().map(Vec::len), Some(1));
    let other = server.send("POST", "/api/v1/loops/fix/run", &headers, "{}");
    assert!(other.status == 400 && other.body.contains("used for another request"), "{}", other.body);
}

#[test]
fn a_link_signs_a_browser_in_once_and_its_forms_need_the_page() {
    let world = World::new();
    let server = Server::start(&world);
    let link = world.json("web")["url"].as_str().expect("a link").to_owned();
    let path = link.split_once(&format!(":{}", server.port)).expect("our address").1.to_owned();
    let first = server.send("GET", &path, &[], "");
    let cookie = first.head.split("set-cookie: ").nth(1).and_then(|rest| rest.split(';').next()).expect("a cookie");
    assert!(first.status == 303 && first.head.contains("httponly; samesite=strict"), "{}", first.head);
    assert_eq!(server.send("GET", &path, &[], "").status, 401, "the link works once");
    let page = server.send("GET", "/", &[("Cookie", cookie)], "");
    assert!(page.status == 200 && page.body.contains("Nothing waits for you"), "{}", page.body);
    let csrf =
        page.body.split("name=\"csrf\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a value");
    let own = format!("http://127.0.0.1:{}", server.port);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let thaw = |headers: &[(&str, &str)], body: &str| server.send("POST", "/api/v1/thaw", headers, body).status;
    let whole = format!("csrf={csrf}&back=%2F");
    assert_eq!(thaw(&[("Cookie", cookie), form], &whole), 403, "no origin");
    assert_eq!(thaw(&[("Cookie", cookie), form, ("Origin", &own)], "back=%2F"), 403, "no value of a page");
    assert_eq!(thaw(&[("Cookie", cookie), form, ("Origin", &own)], &whole), 303);
}

#[test]
fn the_stream_of_events_resumes_after_the_last_number() {
    let world = World::new();
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let _ = world.run("run look").success();
    let round = world.json("rounds look")["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let log = |range: &str| server.get(&format!("/api/v1/rounds/{round}/logs{range}"), &view).json();
    let (whole, part) = (log(""), log("?limit=2&offset=1"));
    assert_eq!(part["events"].as_array(), whole["events"].as_array().map(|all| all[1..3].to_vec()).as_ref());
    assert_eq!(
        (&part["page"]["total"], &part["stages"]),
        (&whole["events"].as_array().map_or(0, Vec::len).into(), &whole["stages"])
    );
    let read = |after: &str| {
        let mut stream = server.connect();
        let head = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {view}\r\nLast-Event-ID: {after}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it can be sent");
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let numbers = lines.filter_map(|line| {
            line.strip_prefix("data: {").and_then(|_| serde_json::from_str::<Value>(&line[6..]).ok())
        });
        numbers.filter(|data| data["seq"].is_i64()).take(3).map(|data| data["seq"].as_i64()).collect::<Vec<_>>()
    };
    assert_eq!(read("0"), [Some(1), Some(2), Some(3)]);
    assert_eq!(read("2"), [Some(3), Some(4), Some(5)]);
}

#[test]
fn a_round_of_another_process_is_live_on_the_page_and_in_the_stream() {
    let world = World::new();
    let go = world.env.root().join("go");
    let script =
        format!("@ maker\nsay half way there\nsleep-until {}\nstage report.md \"All is well.\"\n", go.display());
    world.add("slow", "sandbox: off\ncheck: none\n", &script);
    world.repo.commit("a slow loop");
    let foreground = Daemon::start(&world, "run slow");
    let running = || world.json("rounds --running");
    wait::until("the agent speaks", LONG, || {
        running()["rounds"][0]["action"].as_str().is_some_and(|action| action.contains("half way there"))
    });
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let page = server.get("/", &view).body;
    let part = page.split("id=\"running\"").nth(1).and_then(|rest| rest.split("</section>").next()).expect("the part");
    assert!(part.contains("half way there") && part.contains("data-since") && part.contains("make"), "{part}");
    let mut stream = server.connect();
    let head = format!("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {view}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it can be sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "event: live"), "a line of the round");
    let line = lines.next().expect("its data");
    assert!(line.contains("half way there") && line.contains("\"slow\""), "{line}");
    std::fs::write(&go, "").expect("written");
    wait::until("the round ends", LONG, || running()["page"]["total"] == 0);
    drop(foreground);
}

#[test]
fn hostile_text_of_a_maker_is_inert_on_every_page_and_in_every_document() {
    const EVIL: &str = "<script>alert(1)</script> \u{202e} <img src=x onerror=alert(2)> javascript:alert(3) \u{1b}[31mred\u{1b}]0;title\u{7}";
    let world = World::new();
    let long = "endless ".repeat(1 << 17);
    let script = format!("@ maker\nsay {EVIL}\nsay {long}\nstage report.md \"{} {long}\"\n", EVIL.replace('"', ""));
    world.add("evil", "check: none\n", &script);
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let _ = world.run("run evil");
    let round = world.json("rounds evil")["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let page = server.get(&format!("/rounds/{round}"), &view);
    assert!(page.status == 200 && page.body.contains("&lt;script&gt;alert(1)"), "{}", page.body);
    let pages =
        PAGES.iter().map(|page| (*page).to_owned()).chain([format!("/rounds/{round}"), "/loops/evil".to_owned()]);
    let documents = ["logs", "report", "why", "diff"].map(|verb| format!("/api/v1/rounds/{round}/{verb}"));
    for path in pages {
        let body = server.get(&path, &view).body;
        for bad in ["<script>alert", "<img", "href=\"javascript:", "\u{202e}", "\u{1b}", "\u{7}"] {
            assert!(!body.contains(bad), "{path} has {bad:?}");
        }
        assert!(body.len() < 512 << 10, "{path} has {} bytes", body.len());
    }
    for path in documents {
        // JSON escapes control characters; a terminal that prints the answer shows them as text.
        assert!(!server.get(&path, &view).body.contains('\u{1b}'), "{path}");
    }
}

#[test]
fn a_maker_in_the_sandbox_cannot_reach_the_dashboard() {
    let world = World::new();
    let server = Server::start(&world);
    drop(server.connect());
    let port = server.port;
    let places = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")];
    let script: String = places.iter().map(|place| format!("connect {place}\n")).collect();
    world.add("reach", "check: none\n", &format!("@ maker\n{script}stage report.md \"done\"\n"));
    world.repo.commit("a loop that tries the port");
    let round = world.run("run reach --json").success().json();
    if round["boundary"]["level"] != "kernel" {
        skip("this host cannot isolate agents");
        return;
    }
    let log = world.run("logs reach").success().stdout();
    for place in places {
        assert!(log.contains(&format!("connect {place}: refused")), "{log}");
    }
    assert!(!log.contains("connected"), "{log}");
}

#[test]
fn two_hundred_slow_clients_delay_neither_answers_nor_rounds() {
    let world = World::new();
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: local").expect("it can be sent");
            stream
        })
        .collect();
    let asked = std::time::Instant::now();
    assert_eq!(server.get("/api/v1/inbox", &view).status, 200);
    let _ = world.run("run look").success();
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    drop(slow);
}

#[test]
fn dashboard_can_be_off_and_an_address_beyond_loopback_is_refused() {
    let world = World::new();
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    let write = |text: &str| std::fs::write(&config, text).expect("written");
    write("web: { listen: 0.0.0.0:0 }\n");
    assert!(world.run("up").code(2).stderr().contains("without TLS"));
    write("web: { enabled: false }\n");
    let daemon = world.up();
    let refused = world.run("web").code(15);
    assert!(refused.stderr().contains("serves no dashboard"), "{}", refused.stderr());
    assert!(!daemon.said().contains("http://"), "{}", daemon.said());
}

#[test]
fn real_prometheus_tools_accept_the_metrics() {
    let world = World::new();
    let server = Server::start(&world);
    let _ = world.run("run look").success();
    let metrics = server.get("/metrics", &token(&world, "viewer", "view")).body;
    assert!(
        metrics.contains("loopwright_loop_rounds_total{") && metrics.contains("loopwright_notifications{"),
        "{metrics}"
    );
    let Ok(mut promtool) = Command::new("/usr/bin/promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        skip("there is no promtool; run `cargo xtask setup`");
        return;
    };
    promtool.stdin.take().expect("piped").write_all(metrics.as_bytes()).expect("it reads");
    let checked = promtool.wait_with_output().expect("it ends");
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_client_that_leaves_neither_frees_a_slot_early_nor_blocks_the_next_one() {
    let world = World::new();
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    for _ in 0..150 {
        let mut stream = server.connect();
        let head = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {view}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it can be sent");
    }
    wait::until("the slots are free again", LONG, || server.get("/api/v1/inbox", &view).status == 200);
}

#[test]
fn a_revoked_token_hears_nothing_more() {
    let world = World::new();
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let mut stream = server.connect();
    let head = format!("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {view}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it can be sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "event: hello"), "the stream begins");
    let _ = world.run("token revoke viewer").success();
    // The last chunk of the answer: the server ended the stream.
    assert!(lines.any(|line| line == "0"), "the stream ends");
}
