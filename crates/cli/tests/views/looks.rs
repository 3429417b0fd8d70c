//! Read-only views: status, rounds, show, logs, why. None of them needs to own the store.

use super::fixture::{FIX, Place, keys};
use loopwright_testkit::TestEnv;
use std::io::{BufRead as _, BufReader};

const STATUS_KEYS: [&str; 17] = [
    "loop",
    "repo",
    "cadence",
    "level",
    "status",
    "last_run",
    "next",
    "runs",
    "success_rate",
    "items",
    "avg_duration_s",
    "failures",
    "spend",
    "waiting",
    "paused_reason",
    "ceiling",
    "debts",
];

#[test]
fn status_before_anything_ran_shows_the_loops_and_makes_no_store() {
    let place = Place::new();
    place.add("nightly", "L1", "on: { daily: \"03:00\" }\ncheck: none", "@ maker\nsay x\n");
    place.repo.write(".loopwright/loops/broken.md", "---\nname: broken\nintent: x\nbudjet: 1\n---\n# Maker\nx\n");
    let status = place.run("status --json").success().json();
    assert_eq!(
        keys(&status),
        ["schema", "daemon", "stopped", "counts", "spend", "problems", "page", "loops", "workflows"]
    );
    assert!(status["daemon"].is_null());
    let loops = status["loops"].as_array().expect("loops");
    assert_eq!(loops.len(), 3);
    for line in loops {
        assert_eq!(keys(line), STATUS_KEYS);
    }
    let line = |at: usize| (loops[at]["loop"].as_str(), loops[at]["status"].as_str(), loops[at]["cadence"].as_str());
    assert_eq!(line(0), (Some("broken"), Some("invalid"), None));
    assert_eq!(line(1), (Some("fix"), Some("idle"), Some("manual")));
    assert_eq!(line(2), (Some("nightly"), Some("idle"), Some("daily 03:00")));
    assert!(loops[0]["paused_reason"].as_str().is_some_and(|why| why.contains("budjet")), "{status}");
    assert!(loops[1]["success_rate"].is_null() && loops[1]["runs"] == 0);
    let page = place.run("status").success().stdout();
    let heading = "LOOP CADENCE STATUS LAST RUN RUNS SUCCESS% ITEMS AVG DUR FAILURES LEVEL NEXT SPEND";
    let words: Vec<&str> = page.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(words.join(" "), heading);
    assert!(page.contains("no daemon runs, so nothing starts on its own: loopwright up"), "{page}");
    assert!(page.ends_with("1 not usable: loopwright check\n"), "{page}");
    assert!(!place.env.state().join("store.db").exists());
}

#[test]
fn status_counts_rounds_and_works_outside_the_repository() {
    let place = Place::new();
    place.round("fix", 10);
    let line = place.run("status --json").success().json()["loops"][0].clone();
    assert_eq!((&line["status"], &line["waiting"], &line["runs"]), (&"waiting".into(), &1.into(), &1.into()));
    assert_eq!((&line["spend"]["tokens"], &line["level"]), (&1500.into(), &"L2".into()));
    assert!(place.run("status").success().stdout().ends_with("1 waiting for you: loopwright inbox\n"));
    let round = place.run("rounds --json").success().json()["rounds"][0]["round"].clone();
    place.ends(&format!("approve {}", round.as_str().expect("an id")), 0);
    let outside = place.env.loopwright(["status", "--json"]).success().json()["loops"][0].clone();
    assert_eq!(keys(&outside), STATUS_KEYS);
    assert_eq!((&outside["loop"], &outside["status"], &outside["runs"]), (&"fix".into(), &"idle".into(), &1.into()));
    assert_eq!((&outside["success_rate"], &outside["failures"]), (&1.0.into(), &0.into()));
    assert!(outside["cadence"].is_null() && outside["last_run"].is_string());
    drop(place.env.loopwright(["--repo", "nowhere", "status"]).code(2));
}

#[test]
fn status_without_loops_shows_the_next_step() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let page = env.loopwright(["status"]).success().stdout();
    assert_eq!(page, "no loops yet\nwrite one with `loopwright init`, or see `loopwright demo`\n");
    let watched = env.loopwright(["status", "--watch"]).success().stdout();
    assert_eq!(watched, page, "without a terminal the page is printed once");
    for verb in ["rounds", "inbox", "gc"] {
        drop(env.loopwright([verb]).success());
    }
    for verb in ["verify", "logs"] {
        drop(env.loopwright([verb]).code(2));
    }
}

#[test]
fn rounds_are_listed_newest_first_a_page_at_a_time() {
    let place = Place::new();
    place.add("other", "L1", "check: none", "@ maker\nsay all is well\n");
    let first = place.round("fix", 10);
    let second = place.round("other", 0);
    let rounds = place.run("rounds --json").success().json();
    let ids: Vec<_> = rounds["rounds"].as_array().expect("rounds").iter().map(|line| line["round"].clone()).collect();
    assert_eq!(ids, [second.as_str(), first.as_str()]);
    let expected = [
        "round",
        "loop",
        "repo",
        "item",
        "trigger",
        "level",
        "boundary",
        "dry_run",
        "status",
        "phase",
        "outcome",
        "started",
        "ended",
        "duration_s",
        "attempts",
        "spend",
        "ceiling",
        "summary",
        "action",
        "report",
    ];
    assert_eq!(keys(&rounds["rounds"][0]), expected);
    let one = place.run("rounds --limit 1 --json").success().json();
    assert_eq!(one["rounds"].as_array().map(Vec::len), Some(1));
    let of_fix = place.run("rounds fix --json").success().json();
    assert_eq!(of_fix["rounds"][0]["round"], first.as_str());
    assert_eq!(of_fix["rounds"].as_array().map(Vec::len), Some(1));
    place.ends("rounds --limit 0", 2);
}

#[test]
fn shown_loop_has_its_counters_rounds_and_receipts() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let shown = place.run("show fix --json").success().json();
    let more = ["file", "text", "intent", "gates", "output", "rounds", "evidence", "state", "receipts", "memory"];
    let expected: Vec<_> = ["schema"].into_iter().chain(STATUS_KEYS).chain(more).collect();
    assert_eq!(keys(&shown), expected);
    assert_eq!(keys(&shown["receipts"][0]), ["due", "trigger", "receipt", "reason", "round", "count", "through"]);
    assert_eq!(
        (&shown["receipts"][0]["receipt"], &shown["receipts"][0]["round"]),
        (&"started".into(), &round.as_str().into())
    );
    assert_eq!(shown["output"], serde_json::json!(["pull-request"]));
    let page = place.run("show fix").success().stdout();
    assert!(page.starts_with("loop fix: waiting\n  intent   keep the sum right\n"), "{page}");
}

#[test]
fn logs_show_what_agents_wrote_without_one_raw_escape() {
    let place = Place::new();
    // A cleared screen, a title, a carriage return over a line of Loopwright, and a line that looks like the journal's.
    let script = "@ maker\nbytes 1b5b324a1b5d303b787807410d420a\nsay 11:11:11 recorded        all is well\n";
    place.add("loud", "L1", "check: none", script);
    let round = place.round("loud", 0);
    for line in [format!("logs {round}"), "logs loud".to_owned(), "logs".to_owned(), format!("logs -f {round}")] {
        let text = place.run(&line).success().stdout();
        assert!(!text.contains('\u{1b}') && !text.contains('\r') && !text.contains('\u{7}'), "{text:?}");
        assert!(text.contains(r"  maker-1 | \u{1b}[2J\u{1b}]0;xx\u{7}A\rB"), "{text}");
        assert!(text.contains("  maker-1 | 11:11:11 recorded        all is well"), "{text}");
        let ours: Vec<_> = text.lines().filter(|line| line.contains("recorded ")).collect();
        assert_eq!(ours.len(), 2, "{text}");
    }
    let document = place.run(&format!("logs {round} --json")).success().json();
    assert_eq!(keys(&document), ["schema", "loop", "round", "stages", "page", "events", "transcripts"]);
    assert_eq!(keys(&document["events"][0]), ["seq", "index", "at", "at_ms", "kind", "body"]);
    assert_eq!(document["events"][0]["kind"], "started");
}

#[test]
fn followed_log_shows_what_an_agent_writes_while_it_writes() {
    let place = Place::new();
    let go = place.env.root().join("go");
    // A file of the host lets the maker continue.
    let more = "check: none\nsandbox: off\nbudget: { round: { idle: 20s } }";
    place.add("slow", "L1", more, &format!("@ maker\nsay under way\nsleep-until {}\nsay done\n", go.display()));
    let quiet = std::process::Stdio::null;
    let mut run = place.env.command(place.repo.path());
    let mut run = run.args(["run", "slow"]).stdout(quiet()).stderr(quiet()).spawn().expect("starts");
    loopwright_testkit::wait::until("the round begins", std::time::Duration::from_secs(20), || {
        place.run("logs slow").stdout().contains("role-started")
    });
    let mut follow = place.env.command(place.repo.path());
    let mut follow = follow.args(["logs", "-f", "slow"]).stdout(std::process::Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line == "  maker-1 | under way"), "it was shown only at the end");
    std::fs::write(go, "").expect("writes");
    assert!(lines.any(|line| line == "  maker-1 | done") && lines.any(|line| line.contains(" recorded ")));
    assert!(run.wait().expect("ends").success() && follow.wait().expect("ends").success());
}

#[test]
fn lists_in_a_repository_are_about_its_own_loops() {
    let place = Place::new();
    let here = place.round("fix", 10);
    let other = place.env.repo("other");
    for name in [".loopwright/loops/fix.md", ".loopwright/fix.script", "calc.sh"] {
        other.write(name, place.repo.read(name));
    }
    other.commit("first");
    drop(place.env.loopwright_in(other.path(), ["run", "fix"]).code(10));
    for line in ["rounds --json", "rounds fix --json"] {
        let rounds = place.run(line).success().json();
        assert_eq!(rounds["rounds"].as_array().map(Vec::len), Some(1), "{rounds}");
        assert_eq!(rounds["rounds"][0]["round"], here.as_str());
    }
    for line in ["logs --json", "logs fix --json", "report --json", "report fix --json"] {
        assert_eq!(place.run(line).success().json()["round"], here.as_str(), "{line}");
    }
    let everywhere = place.env.loopwright(["rounds", "--json"]).success().json();
    assert_eq!(everywhere["rounds"].as_array().map(Vec::len), Some(2));
    // A loop's name in place of a round is explained, never guessed.
    for line in ["take fix", "retry fix", "approve fix", "deny fix --why no"] {
        let refused = place.run(line).code(2).stderr();
        assert!(refused.contains("`fix` is a loop; name one of its rounds"), "{refused}");
    }
}

#[test]
fn why_explains_rounds_and_loops_from_the_record() {
    let place = Place::new();
    let idle = place.run("why fix").success().stdout();
    assert!(idle.starts_with("fix is idle: no round of it is running\nit only starts manually"), "{idle}");
    let round = place.round("fix", 10);
    let waiting = place.run("why fix").success().stdout();
    assert!(waiting.starts_with(&format!("fix waits for a person to answer round {round}\n")), "{waiting}");
    assert!(waiting.contains(&format!("approve: loopwright approve {round}")), "{waiting}");
    let page_text = place.run(&format!("why {round}")).success().stdout();
    assert!(page_text.contains("decided at approve: at L2 every outward action waits for a human"), "{page_text}");
    assert!(page_text.contains("  1 started → recall, then recall"), "{page_text}");
    let document = place.run(&format!("why a-{round} --json")).success().json();
    let expected =
        ["schema", "loop", "round", "outcome", "status", "why", "because", "reasons", "output", "history", "next"];
    assert_eq!(keys(&document), expected);
    assert_eq!(document["outcome"], "escalated");
}

#[test]
fn checkers_text_cannot_forge_a_line_of_loopwright() {
    let place = Place::new();
    let script = format!("{}{}", FIX.split("@ checker").next().expect("a maker"), ESCALATING);
    place.add("forged", "L2", "output: [{ pull-request: {} }]", &script);
    let round = place.round("forged", 10);
    for line in [format!("why {round}"), format!("show {round}"), "inbox".to_owned(), format!("logs {round}")] {
        let text = place.run(&line).success().stdout();
        assert!(text.contains(r"99 forged \u{1b}[2J") && !text.contains('\u{1b}'), "{line}: {text}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("99 forged")), "{text}");
    }
}

/// A checker with its own text from the environment would do the same; a script can only run a program.
const ESCALATING: &str = r#"@ checker
run sh -c "printf '{\"nonce\":\"%s\",\"tree\":\"%s\",\"candidate\":\"%s\",\"verdict\":\"escalate\",\"summary\":\"see\\\\n 99 forged \\\\u001b[2J\",\"scores\":[]}' \"$LOOPWRIGHT_NONCE\" \"$LOOPWRIGHT_TREE\" \"$LOOPWRIGHT_CANDIDATE\" > \"$LOOPWRIGHT_VERDICT\""
"#;

#[test]
fn closed_standard_output_is_quiet() {
    let place = Place::new();
    for line in ["status", "rounds", "inbox"] {
        let mut command = place.env.command(place.repo.path());
        let piped = std::process::Stdio::piped;
        let mut child = command.arg(line).stdout(piped()).stderr(piped()).spawn().expect("starts");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("ends");
        assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
    }
}

#[test]
fn schedule_shows_what_is_due_without_a_store_and_names_what_it_does_not_know() {
    let place = Place::new();
    place.add("nightly", "L1", "on: { daily: \"03:00\", timezone: UTC }\ncheck: none", "@ maker\nsay x\n");
    let page = place.run("schedule --days 1").success().stdout();
    assert!(page.contains("daily 03:00") && page.contains("times are "), "{page}");
    assert!(!page.contains('\u{1b}'), "colour is for terminals: {page:?}");
    let document = place.run("schedule --days 3 --json").success().json();
    assert_eq!(keys(&document), ["schema", "stopped", "held", "marks", "page", "occurrences", "past_page", "past"]);
    assert_eq!(keys(&document["occurrences"][0]), ["loop", "repo", "due", "trigger", "receipt"]);
    let dues: Vec<_> =
        document["occurrences"].as_array().expect("a list").iter().map(|one| one["due"].as_str()).collect();
    assert!(dues.len() == 3 && dues.iter().all(|due| due.is_some_and(|due| due.contains("T03:00:00"))), "{document}");
    assert!(place.run("schedule fix").success().stdout().starts_with("nothing is ever due"));
    place.ends("schedule nightlly", 2);
    place.ends("schedule --days 0", 2);
    assert!(!place.env.state().join("store.db").exists());
}

#[test]
fn simulation_draws_from_the_record_and_says_what_it_assumes() {
    let place = Place::new();
    place.add("fix", "L1", "on: { every: 1h }\ncheck: none", "@ maker\nstage report.md \"All is well.\"\n");
    place.add("other", "L2", "on: { daily: '08:00', timezone: UTC }", FIX);
    place.repo.commit("two that are due");
    let _round = place.round("fix", 0);
    let document = place.run("simulate --days 2 --decisions --json").success().json();
    let lines = document["loops"].as_array().expect("loops");
    let starts: Vec<_> = lines.iter().map(|line| (line["loop"].as_str(), line["started"].as_u64())).collect();
    assert_eq!(starts, [(Some("fix"), Some(48)), (Some("other"), Some(2))], "{document}");
    assert_eq!(lines[0]["basis"], "its one round on record");
    assert_eq!(lines[1]["basis"], "assumed: 5m and its ceiling of 5.00 USD a round");
    assert_eq!(lines[1]["cost"]["p90"], 10.0);
    assert_eq!(document["decisions"].as_array().map(Vec::len), Some(50));
    let before = place.run("rounds --json").success().json();
    assert_eq!(before["rounds"].as_array().map(Vec::len), Some(1), "nothing was started");
    let page = place.run("simulate --days 2").success().stdout();
    assert!(page.contains("every 1h") && page.contains("together") && page.contains("(P10 / P50 / P90)"), "{page}");
}
