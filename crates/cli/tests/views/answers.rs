//! People's answers: approve, deny, no answer, and unknown ids.

use super::fixture::{FIX, Place, keys};
use loopwright_testkit::{TestEnv, user};

#[test]
fn waiting_round_is_listed_approved_and_then_shown_as_shipped() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let inbox = place.run("inbox --json").success().json();
    let item = &inbox["items"][0];
    assert_eq!(keys(&inbox), ["schema", "page", "items"]);
    assert_eq!(keys(item), ["id", "loop", "round", "kind", "risk", "candidate", "summary", "expires", "repo"]);
    assert_eq!(
        (&item["loop"], &item["round"], &item["kind"]),
        (&"fix".into(), &round.as_str().into(), &"approval".into())
    );
    let page = place.run("inbox").success().stdout();
    assert!(page.contains("change:  1 file, +1 -1 lines") && page.contains("checker: pass, mean 4.67"), "{page}");
    assert!(page.contains(&format!("approve with: loopwright approve a-{round}")), "{page}");

    let approved = place.run(&format!("approve a-{round}")).success();
    assert!(
        approved.stdout().starts_with(&format!("shipped: round {round} of fix\n  pull-request sent at ")),
        "{approved:?}"
    );
    let shown = place.run(&format!("show {round} --json")).success().json();
    assert_eq!((&shown["outcome"], &shown["exit"]), (&"shipped".into(), &0.into()));
    assert_eq!(shown["candidate"], item["candidate"]);
    assert_eq!(shown["outbox"][0]["state"], "sent");
    assert!(shown["reasons"].to_string().contains(&format!("approved by {}", user::name())), "{shown}");
    let receipt = shown["outbox"][0]["receipt"].as_str().expect("a receipt says where").to_owned();
    assert!(std::path::Path::new(&receipt).is_file(), "{receipt}");
    assert_eq!(place.run("inbox --json").success().json()["items"].as_array().map(Vec::len), Some(0));

    let again = place.run(&format!("approve {round}")).code(15);
    assert!(again.stderr().contains("does not wait for an answer: it is shipped"), "{again:?}");
}

#[test]
fn approve_takes_the_beginning_of_a_round_and_answers_as_run_does() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let report = place.run(&format!("approve {} --json", &round[..8])).success().json();
    let shown = place.run(&format!("show {round} --json")).success().json();
    // `show` has the state, the times and the items in full besides.
    for (key, value) in report.as_object().expect("an object") {
        assert_eq!(value, &shown[key], "{key}");
    }
    let expected = [
        "schema",
        "loop",
        "round",
        "outcome",
        "exit",
        "reasons",
        "base",
        "tree",
        "candidate",
        "attempts",
        "gates",
        "verdict",
        "outbox",
        "boundary",
        "spend",
        "report",
    ];
    assert_eq!(keys(&report)[..expected.len()], expected);
    assert_eq!(keys(&shown["spend"]), ["tokens", "usd", "wall_ms", "known", "basis", "by"]);
    assert_eq!(keys(&shown["boundary"]), ["level", "filesystem", "network", "processes", "gaps"]);
    assert_eq!(keys(&shown["outbox"][0]), ["id", "kind", "state", "target", "receipt"]);
}

#[test]
fn denied_round_is_rejected_with_the_reason_and_nothing_is_sent() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let words = ["deny", &round, "--why", "not like this\u{1b}[2J"];
    drop(place.env.loopwright_in(place.repo.path(), words).success());
    let shown = place.run(&format!("show {round} --json")).success().json();
    assert_eq!((&shown["outcome"], &shown["exit"]), (&"rejected".into(), &11.into()));
    assert_eq!(shown["reasons"].as_array().expect("reasons").last().expect("one")["code"], "denied");
    assert_eq!(shown["outbox"][0]["state"], "refused");
    let page = place.run(&format!("show {round}")).success().stdout();
    assert!(
        page.contains(&format!(r"denied by {}: not like this\u{{1b}}[2J", user::name())) && !page.contains('\u{1b}'),
        "{page}"
    );
    assert!(!place.env.state().join("forge").join("pulls").exists());
    place.ends(&format!("deny {round} --why again"), 15);
    place.ends("inbox", 0);
}

#[test]
fn approve_after_the_question_expired_is_refused() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    std::fs::create_dir_all(env.root().join("config/loopwright")).expect("a folder");
    std::fs::write(env.root().join("config/loopwright/config.yaml"), "approvals: { expire: 1ms }\n").expect("a file");
    let place = Place::with_env(env);
    let round = place.round("fix", 10);
    let late = place.run(&format!("approve {round}")).code(15);
    assert!(late.stderr().contains("expired"), "{late:?}");
    let shown = place.run(&format!("show {round} --json")).success().json();
    assert_eq!(shown["outcome"], "rejected");
    assert_eq!(shown["reasons"].as_array().expect("reasons").last().expect("one")["code"], "expired");
}

#[test]
fn a_held_question_stays_open_longer_and_is_approved_later() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let end = |place: &Place| {
        let inbox = place.run("inbox --json").success().json();
        let text = inbox["items"][0]["expires"].as_str().expect("it expires").to_owned();
        text.parse::<jiff::Timestamp>().expect("a time")
    };
    let before = end(&place);
    let held = place.env.loopwright_in(place.repo.path(), ["hold", &round, "--for", "20d", "--why", "grace is away"]);
    assert!(held.success().stdout().starts_with(&format!("held: the question of round {round} stays open until ")));
    let after = end(&place);
    assert!(after > before, "{before} {after}");
    // A shorter hold takes nothing away.
    drop(place.run(&format!("hold a-{round} --for 1h")).success());
    assert_eq!(end(&place), after);
    let shown = place.run(&format!("show {round} --json")).success().json();
    assert!(shown["reasons"].to_string().contains("grace is away"), "{shown:#}");
    assert_eq!(shown["outcome"], "escalated");
    for (words, code) in [("--for 31d", 2), ("--for soon", 2), ("--candidate 0123", 15)] {
        place.ends(&format!("hold {round} {words}"), code);
    }
    drop(place.run(&format!("approve {round}")).success());
    place.ends(&format!("hold {round}"), 15);
}

#[test]
fn only_named_approvers_may_approve_or_deny_and_the_environment_does_not_count() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright")).with_env("USER", "grace").with_env("LOGNAME", "grace");
    let place = Place::with_env(env);
    place.add("strict", "L2", "output: [{ pull-request: {} }]\napprovers: [grace]", FIX);
    let round = place.round("strict", 10);
    for (verb, line) in [
        ("approve", format!("approve {round}")),
        ("deny", format!("deny {round} --why no")),
        ("hold the question", format!("hold {round}")),
    ] {
        let refused = place.run(&line).code(15);
        let text = format!("`{}` may not {verb} for loop `strict`", user::name());
        assert!(
            refused.stderr().contains(&text) && refused.stderr().contains("these people may: grace"),
            "{refused:?}"
        );
    }
    assert_eq!(place.run("inbox --json").json()["items"].as_array().map(Vec::len), Some(1), "it still waits");
}

#[test]
fn a_quorum_counts_people_and_a_partial_one_is_shown() {
    let place = Place::new();
    let key =
        format!("output: [{{ pull-request: {{}} }}]\napprovers: [{}, grace]\napprovals: {{ quorum: 2 }}", user::name());
    place.add("pair", "L2", &key, FIX);
    let round = place.round("pair", 10);
    let first = place.run(&format!("approve {round}")).code(10);
    assert!(first.stdout().contains("(1 of 2)") && first.stdout().contains("waits for more approvals"), "{first:?}");
    let inbox = place.run("inbox --json").json();
    assert!(inbox["items"][0]["summary"].to_string().contains("(1 of 2)"), "{inbox}");
    assert!(place.run(&format!("show {round}")).success().stdout().contains("(1 of 2)"));
    let again = place.run(&format!("approve {round}")).code(15);
    assert!(again.stderr().contains("has already approved this candidate: 1 of 2 approvals"), "{again:?}");
    assert!(!place.env.state().join("forge").join("pulls").exists(), "nothing left on half a quorum");
}

#[test]
fn the_person_who_started_a_round_may_not_approve_it_where_the_loop_says_so() {
    let place = Place::new();
    place.add("apart", "L2", "output: [{ pull-request: {} }]\napprovals: { separate: true }", FIX);
    let round = place.round("apart", 10);
    let refused = place.run(&format!("approve {round}")).code(15);
    assert!(refused.stderr().contains("started this round"), "{refused:?}");
}

#[test]
fn unknown_ids_are_errors_and_reasons_are_required() {
    let place = Place::new();
    for line in
        ["approve ru", "deny ru --why no", "show nothing", "logs nothing", "why nothing", "report ru", "take ru"]
    {
        place.ends(line, 2);
    }
    let round = place.round("fix", 10);
    for line in ["approve x", "approve a-", "deny x --why no", "show nothing", "retry x", "take x", "rounds nothing"] {
        place.ends(line, 2);
    }
    place.ends(&format!("deny {round}"), 2);
    drop(place.env.loopwright_in(place.repo.path(), ["deny", &round, "--why", " "]).code(2));
    let error = place.run("approve x --json").code(2).json();
    assert_eq!(keys(&error["error"]), ["kind", "text", "hints", "places"]);
    assert_eq!(error["error"]["kind"], "unknown");
}
