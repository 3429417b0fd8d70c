//! The documents of `--json`: their shapes against committed ones, their keys and words against the contract, and all
//! of it against `docs/json.md`. A change here changes the interface for users' scripts: bless it with
//! `UPDATE_EXPECT=1`, then document it.

#[path = "json_shapes/shape.rs"]
mod shape;
#[path = "json_shapes/world.rs"]
mod world;

use expect_test::expect_file;
use loopwright_testkit::postgres;
use serde_json::Value;
use shape::{Shape, values};
use sqlx::Connection as _;
use world::{World, round};

/// Compares the common shape of documents with the committed one.
macro_rules! check_shape {
    ($name:literal, $documents:expr) => {
        check_shape!($name, $documents, &[])
    };
    ($name:literal, $documents:expr, $opaque:expr) => {
        expect_file![concat!("json_shapes/shapes/", $name, ".txt")].assert_eq(&Shape::of($documents, $opaque).render())
    };
}

/// Asserts that an object has all these keys; it may have more.
#[track_caller]
fn has_keys(value: &Value, keys: &str) {
    for key in keys.split(' ') {
        assert!(value.get(key).is_some(), "`{key}` is absent: {value}");
    }
}

/// Asserts that every word at a path is one of these; null is not a word.
#[track_caller]
fn words_at(document: &Value, path: &str, words: &str) {
    for value in values(document, path).into_iter().filter(|value| !value.is_null()) {
        let word = value.as_str().unwrap_or_else(|| panic!("{path} is no text: {value}"));
        assert!(words.split(' ').any(|known| known == word), "{path} is `{word}`");
    }
}

const OUTCOMES: &str = "shipped reported nothing-to-do empty rejected escalated over-budget cannot plateaued refused failed \
                        rate-limited interrupted cancelled";
const STAGES: &str = "recall probe isolate plan make seal gate prove attack check approve send record";

#[track_caller]
fn is_a_round(document: &Value) {
    has_keys(
        document,
        "schema loop round outcome exit reasons base tree candidate attempts gates verdict outbox boundary spend report",
    );
    values(document, "reasons[]").into_iter().for_each(|reason| has_keys(reason, "stage code text"));
    values(document, "gates[]").into_iter().for_each(|gate| has_keys(gate, "name status exit duration_ms evidence"));
    if !document["verdict"].is_null() {
        has_keys(&document["verdict"], "verdict mean scores");
    }
    values(document, "outbox[]").into_iter().for_each(|item| has_keys(item, "id kind state target receipt"));
    has_keys(&document["boundary"], "level filesystem network processes gaps");
    has_keys(&document["spend"], "tokens usd wall_ms known");
    has_keys(&document["spend"]["tokens"], "input output cache_read cache_write");
    words_at(document, "outcome", OUTCOMES);
    words_at(document, "reasons[].stage", STAGES);
    words_at(document, "gates[].status", "passed rejected failed skipped");
    words_at(document, "outbox[].state", "staged waiting claimed sent in-doubt refused quarantined");
    words_at(document, "boundary.level", "kernel process off");
    words_at(document, "verdict.verdict", "pass fail escalate");
}

#[test]
fn rounds_have_the_keys_of_the_contract_wherever_they_are_printed() {
    let world = World::new();
    let dry = world.json("run fix --dry-run", 0);
    let waiting = world.json("run fix --item issue-7", 10);
    let runs = [dry, waiting, world.run("look", 0), world.run("slack", 11), world.run("talk", 10)];
    runs.iter().for_each(is_a_round);
    check_shape!("run", &runs);

    let approved = world.json(&format!("approve {}", round(&runs[1])), 0);
    let denied = world.json(&format!("deny {} --why no", round(&runs[4])), 0);
    let shown: Vec<_> = runs.iter().map(|run| world.json(&format!("show {}", round(run)), 0)).collect();
    // The change of the first one is open on the local forge and is not proposed again.
    let again = world.json(&format!("retry {}", round(&runs[4])), 10);
    shown.iter().chain([&approved, &denied, &again]).for_each(is_a_round);
    check_shape!("show", shown.iter().chain([&approved, &denied]));
    let mut shown = shown[1].clone();
    for key in ["repo", "status", "phase", "started", "ended", "duration_s", "ceiling", "would_send"] {
        assert!(shown.as_object_mut().expect("an object").remove(key).is_some(), "show adds {key}");
    }
    assert_eq!(shown, approved, "the rest of show is what approve prints");
    assert_eq!((&denied["outcome"], &denied["exit"]), (&"rejected".into(), &11.into()));
}

#[test]
fn documents_about_autonomy_have_documented_shapes() {
    let world = World::new();
    let waiting = world.json("run fix", 10);
    drop(world.json(&format!("approve {}", round(&waiting)), 0));
    let proposed = world.json("promote fix --to L2", 0);
    let words = ["promote", "fix", "--to", "L2", "--yes", "--despite", "why", "--json"];
    let recorded = world.env.loopwright_in(world.repo.path(), words).code(0).json();
    has_keys(&recorded, "schema loop level ceiling to permits requirements supported evidence debts recorded");
    check_shape!("promote", [&proposed, &recorded], &["evidence.kinds"]);

    let (unread, read) = (world.json("review", 0), world.json(&format!("review {}", round(&waiting)), 0));
    has_keys(&unread, "schema changes recorded next");
    check_shape!("review", [&unread, &read, &world.json("review fix --yes", 0)]);
    check_shape!("review-intent", [&world.json("review fix --intent", 0)]);
    check_shape!("calibrate", [&world.json("calibrate fix", 0)]);
    let lowered = world.json("demote fix --why flaky", 0);
    assert_eq!((&lowered["from"], &lowered["to"]), (&"L2".into(), &"L1".into()), "{lowered}");
    check_shape!("demote", [&lowered]);
}

#[test]
fn lists_have_the_keys_of_the_contract() {
    let world = World::new();
    let (empty, nobody) = (world.json("status", 0), world.json("inbox", 0));
    world.break_a_loop();
    drop(world.json("run fix --item issue-7", 10));
    for (name, code) in [("look", 0), ("slack --item issue-8", 11), ("talk", 10)] {
        drop(world.run(name, code));
    }
    let status = world.json("status", 0);
    has_keys(&status, "schema daemon loops");
    for line in values(&status, "loops[]") {
        has_keys(
            line,
            "loop repo cadence level status last_run next runs success_rate items avg_duration_s failures spend",
        );
        has_keys(line, "waiting paused_reason");
    }
    words_at(&status, "loops[].status", "idle due running waiting paused cooling-down stopped invalid");
    check_shape!("status", [&empty, &status]);

    let inbox = world.json("inbox", 0);
    assert_eq!(values(&inbox, "items[]").len(), 2);
    values(&inbox, "items[]")
        .into_iter()
        .for_each(|item| has_keys(item, "id loop repo round kind risk candidate summary expires"));
    words_at(&inbox, "items[].kind", "approval in-doubt item-failed loop-paused loop-demoted");
    words_at(&inbox, "items[].risk", "low medium high");
    check_shape!("inbox", [&nobody, &inbox]);

    let (schedule, manual) = (world.json("schedule --days 2", 0), world.json("schedule fix", 0));
    assert_eq!(values(&schedule, "occurrences[]").len(), 2);
    assert_eq!(values(&manual, "occurrences[]").len(), 0);
    values(&schedule, "occurrences[]").into_iter().for_each(|one| has_keys(one, "loop due trigger"));
    let timed = schedule["occurrences"][0]["loop"].as_str().expect("a name").to_owned();
    std::fs::write(world.env.state().join("STOP"), "the pager rang\n").expect("it can be written");
    let stopped = world.json("schedule --days 2", 0);
    words_at(&stopped, "occurrences[].receipt", "stopped");
    std::fs::remove_file(world.env.state().join("STOP")).expect("it is there");
    drop(world.json(&format!("pause {timed}"), 0));
    let paused = world.json("schedule --days 2 --past 7", 0);
    words_at(&paused, "held[].receipt", "paused backoff");
    drop(world.json(&format!("resume {timed}"), 0));
    check_shape!("schedule", [&schedule, &manual, &stopped, &paused]);

    let rounds = world.json("rounds", 0);
    words_at(&rounds, "rounds[].outcome", OUTCOMES);
    check_shape!("rounds", [&rounds]);
    let loops = ["fix", "look", "slack"].map(|name| world.json(&format!("show {name}"), 0));
    for shown in &loops {
        values(shown, "receipts[]").into_iter().for_each(|one| has_keys(one, "due trigger receipt reason round"));
        words_at(shown, "receipts[].receipt", "started");
    }
    words_at(&loops[1], "memory[].kind", "fact decision failure note");
    check_shape!("show-loop", &loops, &["state.processed", "state.in_progress", "evidence.kinds"]);
    check_shape!("forget", [&world.json("forget slack", 0)]);
    check_shape!("rename", [&world.json("rename slack slow", 0)]);
}

#[test]
fn views_of_the_record_have_their_documented_shapes() {
    let world = World::new();
    let (fixed, looked) = (world.run("fix", 10), world.run("look", 0));
    let of_rounds =
        [world.json(&format!("why {}", round(&fixed)), 0), world.json("why fix", 0), world.json("why talk", 0)];
    of_rounds.iter().for_each(|why| words_at(why, "outcome", OUTCOMES));
    check_shape!("why", &of_rounds);
    let logs = world.json(&format!("logs {}", round(&fixed)), 0);
    check_shape!("logs", [&logs], &["events[].body"]);
    check_shape!("report", [&world.json(&format!("report {}", round(&looked)), 0)]);
    check_shape!("diff", [&world.json(&format!("diff {}", round(&fixed)), 0)]);
    check_shape!("take", [&world.json(&format!("take {}", round(&fixed)), 0)]);
    check_shape!("backup", [&world.json("backup", 0)]);
    let freed = [world.json("gc --days 0 --dry-run", 0), world.json("gc --days 0", 0)];
    words_at(&freed[1], "removed[].kind", "workspace transcripts report evidence candidate");
    check_shape!("gc", &freed);
    let whole = world.json("verify", 0);
    edit(&world.env.state().join("store.db"));
    check_shape!("verify", [&whole, &world.json("verify", 1)]);
}

#[test]
fn views_of_spend_have_their_documented_shapes() {
    let world = World::new();
    let (full, nothing) = (world.json("budget", 0), world.json("costs", 0));
    drop(world.json("run fix --item issue-7", 10));
    drop(world.run("look", 0));
    check_shape!("budget-raise", [&world.json("budget raise fix --usd 2.5 --tokens 10k", 0)]);
    let budget = world.json("budget", 0);
    words_at(&budget, "scopes[].scope", "day repo-day fleet-day fleet-month");
    words_at(&budget, "scopes[].status", "unlimited open low full");
    check_shape!("budget", [&full, &budget]);
    let costs = ["loop", "role", "model", "day", "item", "agent"].map(|by| world.json(&format!("costs --by {by}"), 0));
    check_shape!("costs", costs.iter().chain([&nothing]));
    check_shape!("prices", [&world.json("prices", 0), &world.json("prices gpt-5.5 nobody", 0)]);
}

/// Edits an event without the store, after removing the journal's triggers.
fn edit(store: &std::path::Path) {
    let sql =
        "DROP TRIGGER events_keep_update; UPDATE events SET body = replace(body, 'manual', 'mutual') WHERE seq = 1";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(store);
        let mut conn = sqlx::SqliteConnection::connect_with(&options).await.expect("opens");
        sqlx::raw_sql(sql).execute(&mut conn).await.expect("edits");
        conn.close().await.expect("closes");
    });
}

/// Two workers, one of which is connected and runs a round, and a round that waits for a worker.
const WORKERS: &str = r#"INSERT INTO processes (instance, pid, host, boot_id, start_ticks, since_ms, lease_until_ms, writes)
    VALUES ('i1', 1, 'far', 'b', 1, 1, 4102444800000, 0);
INSERT INTO leases (name, fence, instance, since_ms, repo, loop_name, locks) VALUES ('r7', 2, 'i1', 1, 'r', 'train', '');
INSERT INTO workers VALUES
    ('gpu-1', 'i1', 'far', '["gpu"]', '["claude"]', '["r"]', 'kernel', 2, 'active', '0.1.0', 7, 1777593600000),
    ('gpu-2', 'i2', 'off', '["gpu"]', '["claude"]', '["r"]', 'kernel', 2, 'draining', '0.1.0', 7, 1777593600000);
INSERT INTO offers VALUES
    ('r8', '{"repo":"r","is_isolated":true,"labels":["gpu"],"agents":["claude"]}', 0, 1777593600000, NULL, 0)"#;

#[test]
fn workers_and_offered_rounds_have_documented_shapes() {
    let url = postgres::server().database();
    let World { env, repo } = World::new();
    let world = World { env: env.with_env("LOOPWRIGHT_STORE", &url), repo };
    let _ = world.run("look", 0);
    let none = world.json("workers", 0);
    assert_eq!(none, serde_json::json!({"schema": 1, "workers": [], "offered": []}));
    let _ = postgres::server().sql(&url, WORKERS);
    let listed = world.json("workers", 0);
    words_at(&listed, "workers[].state", "active gone");
    words_at(&listed, "workers[].boundary", "kernel process");
    check_shape!("workers", &[listed]);
    for (line, state) in [("drain", "draining"), ("undrain", "active")] {
        let changed = world.json(&format!("workers {line} gpu-1"), 0);
        assert_eq!(changed, serde_json::json!({"schema": 1, "worker": "gpu-1", "state": state}));
    }
}

#[test]
fn views_of_files_and_the_machine_have_their_documented_shapes() {
    let world = World::new();
    let well = world.json("check", 0);
    let gates = [world.json("gates test fix", 0), world.json("gates test look", 0)];
    gates.iter().for_each(|one| words_at(one, "gates[].status", "passed rejected failed skipped"));
    check_shape!("gates-test", &gates);
    world.break_a_loop();
    world.repo.write(".loopwright/loops/fix.md", "not a loop");
    check_shape!("check", [&well, &world.json("check", 2)]);
    check_shape!("config", [&world.json("config", 0)], &["settings[].value"]);
    let doctor = world.json("doctor", 0);
    words_at(&doctor, "checks[].status", "ok gap info missing");
    words_at(&doctor, "boundary", "kernel process");
    // On a host where everything works no check has a fix, and the shape of a fix would be missing.
    let mut mended = doctor.clone();
    mended["checks"][0]["fix"] = "install it".into();
    mended["agents"][0] = serde_json::json!({
        "agent": "claude", "program": "/usr/bin/claude", "version": "2.1.325", "can": ["starts fresh"], "access": "key",
        "provider": "anthropic", "key": "ANTHROPIC_API_KEY", "usable": true, "fix": null,
    });
    check_shape!("doctor", [&doctor, &mended]);
    words_at(&mended, "agents[].access", "key none");
    let built_in = world.json("prompts", 0);
    check_shape!("prompts", [&built_in]);
    check_shape!("prompts-show", [&world.json("prompts show data", 0), &world.json("prompts show maker", 0)]);
    let first = world.json("init", 0);
    world.repo.write_executable("run-tests.sh", "#!/bin/sh\nexit 1\n");
    check_shape!("init", [&first, &world.json("init", 0)]);
}

#[test]
fn shipped_loops_have_documented_shapes() {
    let world = World::new();
    check_shape!("patterns", [&world.json("patterns", 0)]);
    check_shape!("patterns-show", [&world.json("patterns ci-sweeper", 0)]);
    let new = ["issue-triage", "issue-groomer", "dependency-updater"].map(|name| world.json(&format!("new {name}"), 0));
    new.iter().for_each(|one| words_at(one, "level", "L1 L2"));
    check_shape!("new", &new);
}

#[test]
fn imports_have_documented_shapes() {
    let world = World::new();
    world.repo.write("h/definitions/seek.yaml", "cadence: every 1h\noutput: pr\nnotify_slack: true\n");
    world.repo.write("h/skills/seek.md", "Seek what is wrong.\n");
    world.repo.write("h/state/seek@repo.json", r#"{"processed": {"7": "2026-06-10T09:00:00+0000"}}"#);
    let spec = r#"{"name": "one", "intent": "x", "level": "l1-report", "cadence": "daily 09:00", "maker_prompt": "y"}"#;
    world.repo.write("spec.json", spec);
    let imports = ["import loop-harness h --dry-run", "import loop-harness h", "import loop-engine spec.json"];
    let imports = imports.map(|line| world.json(line, 0));
    for one in &imports {
        words_at(one, "files[].state", "written replaced unchanged");
        words_at(one, "carried[].effect", "carried");
        words_at(one, "changed[].effect", "changed");
        words_at(one, "not_carried[].effect", "not-carried");
    }
    check_shape!("import", &imports);
}

#[test]
fn demo_prints_one_document_with_its_three_rounds() {
    let world = World::new();
    let demo = world.json("demo", 0);
    assert_eq!((&demo["as_told"], values(&demo, "rounds[]").len()), (&true.into(), 3));
    values(&demo, "rounds[]").into_iter().for_each(is_a_round);
    check_shape!("demo", [&demo], &["rounds"]);
}

#[test]
fn errors_are_documents_too() {
    let world = World::new();
    world.break_a_loop();
    let errors = [
        world.json("rnu fix", 2),
        world.json("run nothing", 2),
        world.json("run broken", 2),
        world.json("show nothing", 2),
        world.json("verify", 2),
        world.json("--repo /nowhere-at-all check", 2),
        world.json("deny nothing", 2),
    ];
    for error in &errors {
        assert_eq!(error.as_object().map(serde_json::Map::len), Some(2), "{error}");
        has_keys(&error["error"], "kind text hints places");
        words_at(error, "error.kind", "failed usage invalid unknown refused held interrupted");
        let ways_out = values(error, "error.hints[]").len() + values(error, "error.places[]").len();
        assert!(ways_out > 0, "neither a way out nor a place is shown: {error}");
    }
    has_keys(&errors[2]["error"]["places"][0], "file line column");
    check_shape!("error", &errors);
}

#[test]
fn commands_that_change_scheduling_have_documented_shapes() {
    let world = World::new();
    check_shape!("pause", &[world.json("pause look --why x", 0)]);
    check_shape!("resume", &[world.json("resume look", 0), world.json("resume look", 0)]);
    check_shape!("stop-all", &[world.json("stop --all", 0)]);
    check_shape!("thaw", &[world.json("thaw", 0), world.json("thaw", 0)]);
    check_shape!("tick", &[world.json("tick", 0)]);
    check_shape!("stop", &[world.json("stop", 0)]);
    let absent = world.json("service status", 0);
    check_shape!("service-install", &[world.json("service install", 0), world.json("service uninstall", 0)]);
    drop(world.json("service install", 0));
    check_shape!("service-status", &[absent, world.json("service status", 0)]);
}

#[test]
fn notifications_have_documented_shapes() {
    let world = World::new();
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    std::fs::write(&config, "notify: { all: { command: [/bin/cat] }, calm: { command: [/bin/cat], loops: [fix], quiet: \"22:00-06:00\", digest: 1h } }\n")
        .expect("the configuration");
    world.json("run look", 0);
    let item = |state: &str, error: Option<&str>| {
        let fact =
            serde_json::json!({"at_ms": 0, "severity": "info", "loop": "fix", "round": null, "text": "it ended"});
        serde_json::json!({
            "id": format!("n-{state}"), "route": "all", "state": state, "created_ms": 0, "due_ms": 0, "attempts": 1,
            "error": error, "facts": [fact], "more": 0,
        })
    };
    let items = [item("waiting", None), item("sent", None), item("failed", Some("no answer"))];
    let queue = serde_json::json!({ "items": items });
    std::fs::write(world.env.root().join("state/notifications.json"), queue.to_string()).expect("the queue");
    let listed = world.json("notifications", 0);
    assert_eq!((&listed["waiting"], &listed["failed"]), (&1.into(), &1.into()), "{listed:#}");
    check_shape!("notifications", &[listed]);
    check_shape!("notifications-test", &[world.json("notifications test all", 0)]);
    check_shape!("notifications-retry", &[world.json("notifications retry n-failed", 0)]);
}

#[test]
fn every_shape_is_in_the_documentation_word_for_word() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let documentation = std::fs::read_to_string(root.join("../../docs/json.md")).expect("docs/json.md is there");
    let shapes = std::fs::read_dir(root.join("tests/json_shapes/shapes")).expect("the shapes are there");
    let mut count = 0;
    for shape in shapes.map(|entry| entry.expect("an entry").path()) {
        let text = std::fs::read_to_string(&shape).expect("a shape is text");
        assert!(documentation.contains(&format!("```text\n{text}```\n")), "docs/json.md lacks {}", shape.display());
        count += 1;
    }
    assert_eq!(documentation.matches("```text\n").count(), count, "docs/json.md shows a shape that is not tested");
}
