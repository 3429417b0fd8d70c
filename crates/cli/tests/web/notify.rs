//! Notifications and telemetry of a daemon, at receivers on loopback.

use crate::receiver::{Received, Receiver, closed_port};
use crate::server::{Server, token};
use crate::world::{LONG, World};
use loopwright_testkit::wait;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Writes the user's own configuration.
fn configure(world: &World, text: &str) {
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    std::fs::write(&config, text).expect("written");
}

/// A file with a secret that only its owner reads.
fn secret_file(world: &World) -> PathBuf {
    let path = world.env.root().join("hook-secret");
    std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    path
}

fn webhook(world: &World, port: u16) -> String {
    let secret = secret_file(world);
    format!("webhook: {{ url: \"http://127.0.0.1:{port}/hook\", secret_file: {} }}", secret.display())
}

/// The first request that has a fact with this text.
fn with_fact(seen: &[Received], text: &str) -> Option<Received> {
    let has = |received: &&Received| received.body.contains(text);
    seen.iter().find(has).cloned()
}

#[test]
fn facts_reach_webhook_program_and_mail_and_only_the_wanted_ones() {
    let world = World::new();
    let (hook, mail) = (Receiver::http(), Receiver::mail());
    let kept = world.env.root().join("kept.json");
    let program = world.env.root().join("keep.sh");
    std::fs::write(&program, format!("#!/bin/sh\ncat > {}\n", kept.display())).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("its mode");
    configure(
        &world,
        &format!(
            "notify:\n  hook: {{ {}, severity: info }}\n  program: {{ command: [{}] }}\n  \
             mail: {{ severity: urgent, email: {{ server: 127.0.0.1, port: {}, security: none, from: loops@example.org, \
             to: [ada@example.org] }} }}\n",
            webhook(&world, hook.port),
            program.display(),
            mail.port,
        ),
    );
    let daemon = world.up();
    let _ = world.run("run look").success();
    let _ = world.run("run fix").code(10);
    wait::until("the hook has the question", LONG, || with_fact(&hook.seen(), "a person must decide").is_some());
    let asked = with_fact(&hook.seen(), "a person must decide").expect("it was seen");
    assert!(
        asked.head.contains("webhook-signature: v1,") && asked.head.contains("idempotency-key: n-"),
        "{}",
        asked.head
    );
    let ended = with_fact(&hook.seen(), "reported").expect("the round of `look`").json();
    let fact = ended["facts"].as_array().and_then(|facts| facts.iter().find(|fact| fact["loop"] == "look"));
    assert_eq!(fact.expect("its fact")["severity"], "info", "{ended}");
    wait::until("the program has the question", LONG, || {
        std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("a person must decide"))
    });
    let got: Value = serde_json::from_str(&std::fs::read_to_string(&kept).expect("text")).expect("a document");
    assert!(got["facts"].as_array().is_some_and(|facts| facts.iter().all(|fact| fact["severity"] != "info")), "{got}");
    wait::until("the mail is there", LONG, || !mail.seen().is_empty());
    let letter = mail.seen().remove(0);
    assert!(letter.head.contains("RCPT TO:<ada@example.org>"), "{}", letter.head);
    assert!(letter.body.contains("Subject: Loopwright: [urgent] fix: a person must decide"), "{}", letter.body);
    let listed = || world.json("notifications");
    wait::until("all are sent", LONG, || listed()["waiting"] == 0);
    assert_eq!((&listed()["failed"], listed()["routes"].as_array().map(Vec::len)), (&0.into(), Some(3)));
    let said = daemon.stop();
    assert!(said.contains("notified"), "{said}");
}

#[test]
fn a_message_survives_a_killed_daemon_and_a_failed_one_is_shown_and_sent_again() {
    let world = World::new();
    let port = closed_port();
    configure(&world, &format!("notify: {{ hook: {{ {} }} }}\n", webhook(&world, port)));
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let _ = world.run("run fix").code(10);
    let listed = || world.json("notifications");
    wait::until("an attempt failed", LONG, || listed()["notifications"][0]["attempts"] == 1);
    let message = listed()["notifications"][0].clone();
    assert!(message["error"].as_str().is_some_and(|error| error.contains("127.0.0.1")), "{message}");
    assert_eq!((&message["state"], &message["sent"]), (&"waiting".into(), &Value::Null));
    assert!(server.get("/", &view).body.contains("A notification could not be sent"));
    let health = server.get("/health", &view).body;
    assert!(health.contains("cannot be reached") && health.contains("a person must decide"), "{health}");
    let metrics = server.get("/metrics", &view).body;
    assert!(metrics.contains("loopwright_notifications{state=\"waiting\"} 1\n"), "{metrics}");
    server.kill();
    let hook = Receiver::http_on(port);
    let daemon = world.up();
    let id = message["id"].as_str().expect("an id");
    assert_eq!(world.json(&format!("notifications retry {id}"))["state"], "waiting");
    wait::until("it is sent", LONG, || listed()["notifications"][0]["state"] == "sent");
    assert_eq!(hook.seen().len(), 1, "{:?}", hook.seen());
    assert!(world.run(&format!("notifications retry {id}")).code(2).stderr().contains("notifications"));
    drop(daemon);
}

#[test]
fn a_route_can_be_tried_and_a_broken_one_says_why() {
    let world = World::new();
    let hook = Receiver::http();
    let closed = closed_port();
    configure(
        &world,
        &format!(
            "notify:\n  good: {{ {} }}\n  closed: {{ {} }}\n  gone: {{ command: [/nowhere/tell-me] }}\n  \
             slack: {{ slack: {{ webhook_env: NO_SUCH_VARIABLE }} }}\n",
            webhook(&world, hook.port),
            webhook(&world, closed),
        ),
    );
    assert_eq!(world.json("notifications test good")["sent"], true);
    assert!(hook.seen()[0].body.contains("this is a test of the route good"));
    for (route, expected) in
        [("closed", "cannot be reached"), ("gone", "/nowhere/tell-me"), ("slack", "NO_SUCH_VARIABLE is not set")]
    {
        let failed = world.run(&format!("notifications test {route}")).code(1);
        assert!(failed.stderr().contains(expected), "{route}: {}", failed.stderr());
    }
    let unknown = world.run("notifications test nobody").code(2);
    assert!(unknown.stderr().contains("`good`"), "{}", unknown.stderr());
}

#[test]
fn a_repository_may_not_choose_who_is_notified_or_where_telemetry_goes() {
    let world = World::new();
    for (text, key) in [
        ("notify: { own: { command: [/bin/true] } }\n", "`notify`"),
        ("telemetry: { endpoint: \"https://collector.example\" }\n", "`telemetry`"),
    ] {
        world.repo.write(".loopwright/config.yaml", text);
        let refused = world.run("check");
        assert!(refused.stderr().contains(key), "{}", refused.stderr());
    }
}

/// The value of an attribute.
fn attribute<'v>(entry: &'v Value, key: &str) -> Option<&'v Value> {
    let found = entry["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    found["value"].as_object()?.values().next()
}

#[test]
fn each_round_is_one_trace_with_a_span_for_each_stage_and_agent() {
    let world = World::new();
    let script = "@ maker\nreplace calc.sh \"$1 - $2\" \"$1 + $2\"\nusage input=1200 output=300\n\n@ checker\nverdict pass \
                  correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2\n";
    world.add("fix", "level: L2\nattempts: 1\noutput: [pull-request]\n", script);
    world.repo.commit("usage");
    let collector = Receiver::http();
    configure(&world, &format!("telemetry: {{ endpoint: \"http://127.0.0.1:{}\" }}\n", collector.port));
    let daemon = world.up();
    let _ = world.run("run fix").code(10);
    let id = world.json("inbox")["items"][0]["id"].as_str().expect("a question").to_owned();
    let _ = world.run(&format!("approve {id} --yes")).success();
    let of = |path: &str| collector.seen().into_iter().find(|seen| seen.path == path).map(|seen| seen.json());
    wait::until("both documents are there", LONG, || of("/v1/traces").is_some() && of("/v1/metrics").is_some());
    let traces = of("/v1/traces").expect("traces");
    let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
    let (root, others): (Vec<&Value>, Vec<&Value>) = spans.iter().partition(|span| span.get("parentSpanId").is_none());
    let [root] = root.as_slice() else { panic!("one root: {traces}") };
    assert_eq!(attribute(root, "loopwright.outcome"), Some(&"shipped".into()), "{root}");
    assert!(root["traceId"].as_str().is_some_and(|id| id.len() == 32), "{root}");
    for span in &others {
        assert!(
            span["traceId"] == root["traceId"] && span["spanId"].as_str().is_some_and(|id| id.len() == 16),
            "{span}"
        );
        assert!(spans.iter().any(|parent| parent["spanId"] == span["parentSpanId"]), "{span}");
    }
    let named = |name: &str| others.iter().copied().find(|span| span["name"] == name);
    assert!(["make", "gate", "check", "approve"].iter().all(|stage| named(stage).is_some()), "{traces}");
    let agent = named("invoke_agent scripted").expect("the maker");
    assert_eq!(agent["parentSpanId"], named("make").expect("a stage")["spanId"]);
    assert_eq!(attribute(agent, "gen_ai.usage.input_tokens"), Some(&"1200".into()), "{agent}");
    let metrics = of("/v1/metrics").expect("metrics");
    let text = metrics.to_string();
    for name in
        ["loopwright.rounds", "loopwright.cost", "gen_ai.client.token.usage", "gen_ai.client.operation.duration"]
    {
        assert!(text.contains(&format!("\"{name}\"")), "{metrics}");
    }
    drop(daemon);
}
