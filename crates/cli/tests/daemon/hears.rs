//! Triggers from outside: a signed webhook delivery over real HTTP becomes one round.

use crate::world::{LONG, REPORT, World};
use loopwright_testkit::wait;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const TOKEN: &str = "a-token-of-some-length";

fn configured(world: &World) {
    let (config, secret) = (world.env.root().join("config/loopwright/config.yaml"), world.env.root().join("token"));
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    std::fs::write(&secret, format!("{TOKEN}\n")).expect("it can be written");
    let text = format!("webhooks: {{ secrets: {{ gitlab: {{ file: {} }} }} }}\n", secret.display());
    std::fs::write(&config, text).expect("it can be written");
}

fn deliver(address: &str, token: &str, id: &str) -> String {
    let body = r#"{"object_kind":"tag_push","project":{"web_url":"https://gitlab.example.org/acme/shop"}}"#;
    let mut stream = TcpStream::connect(address).expect("connects");
    let head = "POST /hooks/gitlab HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let request = format!(
        "{head}x-gitlab-token: {token}\r\nidempotency-key: {id}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_delivery_makes_a_loop_due_once() {
    let world = World::new();
    world.add("tagged", "check: none\non: { webhook: gitlab.tag_push }\n", REPORT);
    world.repo.git(["remote", "add", "origin", "git@gitlab.example.org:acme/shop.git"]);
    configured(&world);
    let daemon = world.up_with("up --listen 127.0.0.1:0");
    let line = daemon.wait_for("listening at http://");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    assert_eq!(deliver(&address, "another-token-of-a-length", "d1"), "HTTP/1.1 401 Unauthorized");
    assert_eq!(deliver(&address, TOKEN, "d1"), "HTTP/1.1 202 Accepted");
    daemon.wait_for("end       tagged");
    assert_eq!(deliver(&address, TOKEN, "d1"), "HTTP/1.1 200 OK");
    daemon.stop();
    let rounds = world.json("rounds tagged");
    assert_eq!(rounds["rounds"].as_array().map(Vec::len), Some(1), "{rounds}");
    assert!(!rounds.to_string().contains(TOKEN));
}

#[test]
fn changed_secrets_apply_at_once_and_unreadable_ones_keep_the_old() {
    let world = World::new();
    world.add("tagged", "check: none\non: { webhook: gitlab.tag_push }\n", REPORT);
    world.repo.git(["remote", "add", "origin", "git@gitlab.example.org:acme/shop.git"]);
    configured(&world);
    let daemon = world.up_with("up --listen 127.0.0.1:0");
    let line = daemon.wait_for("listening at http://");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let config = world.env.root().join("config/loopwright/config.yaml");
    let configure = |text: &str| std::fs::write(&config, text).expect("it can be written");
    let other = world.env.root().join("other");
    std::fs::write(&other, "another-token-of-a-length\n").expect("it can be written");
    configure(&format!("webhooks: {{ secrets: {{ gitlab: {{ file: {} }} }} }}\n", other.display()));
    let is_taken = |token: &str, id: &str| deliver(&address, token, id) == "HTTP/1.1 202 Accepted";
    wait::until("the other token to be believed", LONG, || is_taken("another-token-of-a-length", "d1"));
    assert_eq!(deliver(&address, TOKEN, "d2"), "HTTP/1.1 401 Unauthorized", "the one from before is not any more");
    configure("webhooks: { secrets: { gitlab: { file: /nowhere } } }\n");
    daemon.wait_for("the previous webhook secrets stay in use");
    assert!(is_taken("another-token-of-a-length", "d3"));
    configure("webhooks: { secrets: {} }\n");
    daemon.wait_for("there is no webhook secret");
    assert_eq!(deliver(&address, "another-token-of-a-length", "d4"), "HTTP/1.1 404 Not Found");
    daemon.stop();
}

#[test]
fn a_loop_that_waits_for_an_unconfigured_webhook_is_reported() {
    let world = World::new();
    world.add("deaf", "check: none\non: { webhook: generic.deploy }\n", "@ maker\nsay hello\n");
    let daemon = world.up();
    daemon.wait_for("deaf waits for generic.deploy, but no webhook delivers that");
    daemon.stop();
}

#[test]
fn a_listener_without_a_secret_is_refused() {
    let world = World::new();
    let refused = world.run("up --listen 127.0.0.1:0").code(2);
    assert!(refused.stderr().contains("there is no webhook secret"), "{}", refused.stderr());
}

#[test]
fn an_address_that_is_taken_ends_the_daemon_before_anything_is_started() {
    let world = World::new();
    world.add("beat", "check: none\non: { every: 1s }\n", REPORT);
    configured(&world);
    assert_eq!(world.json("tick")["rounds"].as_array().map(Vec::len), Some(0), "a new loop is not made up for");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    let line = format!("up --listen {}", taken.local_addr().expect("it has one"));
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_millis(1_500) {
        assert!(world.run(&line).code(1).stderr().contains("in use"));
    }
    let page = world.json("show beat");
    assert_eq!(page["receipts"].as_array().map(Vec::len), Some(0), "{page}");
}

#[test]
fn hooks_are_installed_by_the_command() {
    let world = World::new();
    let document = world.json("hooks install");
    assert_eq!(document["hooks"][0], serde_json::json!({"hook": "post-commit", "state": "installed"}));
    let text = world.repo.read(".git/hooks/post-commit");
    assert!(text.contains("# >>> loopwright ") && text.contains("/poke/"), "{text}");
    let _ = world.run("hooks uninstall").success();
    assert_eq!(world.json("hooks status")["hooks"][0]["state"], "absent");
}

#[test]
fn check_finds_unknown_and_circular_followers() {
    let world = World::new();
    world.add("one", "check: none\non: { after: [two] }\n", REPORT);
    world.add("two", "check: none\non: { after: [one, tree] }\n", REPORT);
    let refused = world.run("check").code(2);
    assert!(refused.stderr().contains("`on.after` names `tree`, but there is no such loop"), "{}", refused.stderr());
    assert!(refused.stderr().contains("an endless cycle: `two` → `one` → `two`"), "{}", refused.stderr());
}
