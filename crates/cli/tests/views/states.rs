//! One word for one state, logs that keep the starts of agents apart, and one question for one candidate.

#![allow(clippy::disallowed_methods, reason = "a test makes a pipe with a program")]

use super::fixture::Place;
use loopwright_testkit::wait::until;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_killed_run_has_one_word_in_every_view_until_it_is_recovered() {
    let place = Place::new();
    let more = "check: none\nsandbox: off";
    place.add("slow", "L1", more, "@ maker\nsay under way\nsleep-until /nowhere/ever\n");
    let mut run = place.env.command(place.repo.path());
    let mut run = run.args(["run", "slow"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    until("the agent works", Duration::from_secs(20), || place.run("logs slow").stdout().contains("under way"));
    let rounds = place.run("rounds slow --json").success().json();
    assert_eq!(rounds["rounds"][0]["status"], "running");
    let round = rounds["rounds"][0]["round"].as_str().expect("an id").to_owned();
    let watched = place.run("status").success().stdout();
    assert!(watched.contains(&format!("slow {round}: make, attempt 1")), "{watched}");
    assert!(watched.contains("maker-1 | under way"), "{watched}");
    run.kill().expect("it was running");
    run.wait().expect("it ends");
    assert_eq!(place.run("rounds slow --json").success().json()["rounds"][0]["status"], "abandoned");
    let loops = place.run("status --json").success().json();
    let slow = loops["loops"].as_array().expect("loops").iter().find(|line| line["loop"] == "slow").expect("slow");
    assert_eq!(slow["status"], "abandoned");
    for line in [format!("why {round}"), "why slow".to_owned(), format!("show {round}"), "rounds slow".to_owned()] {
        let text = place.run(&line).success().stdout();
        assert!(text.contains("abandoned"), "{line}: {text}");
        assert!(!text.contains("running") && !text.contains("stopped"), "{line}: {text}");
    }
    // Nothing is stopped on purpose, so no message suggests `thaw`.
    let lines =
        ["status", "rounds", "inbox", "doctor", "why slow", "schedule", "retry nothing", "logs slow", "show slow"];
    for line in lines.map(str::to_owned).into_iter().chain([format!("why {round}"), format!("show {round}")]) {
        let ran = place.run(&line);
        assert!(!format!("{}{}", ran.stdout(), ran.stderr()).contains("thaw"), "{line}: {}", ran.stdout());
    }
    // A log of a dead process ends, and the round's own hint recovers it.
    let followed = place.run(&format!("logs -f {round}")).success();
    assert!(followed.stderr().contains("is gone") && !followed.stderr().contains("thaw"), "{}", followed.stderr());
    place.repo.write(".loopwright/slow.script", "@ maker\nsay done\n");
    let retried = place.run(&format!("retry {round}")).code(0);
    assert!(!retried.stderr().contains("thaw"), "{}", retried.stderr());
    let after = place.run("rounds slow --json").success().json();
    assert_eq!(after["rounds"][1]["status"], "interrupted", "{after}");
}

#[test]
fn each_attempt_is_apart_in_a_log_gates_show_their_output_and_a_pipe_blocks_nothing() {
    let place = Place::new();
    let script = "@ maker attempt=1\nsay first try\nappend calc.sh \"# x\\n\"\n\n@ maker attempt=2\nsay second try\n\
        replace calc.sh \"$1 - $2\" \"$1 + $2\"\n\n@ checker\n\
        verdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2\n";
    place.repo.write_executable("t.sh", "#!/bin/sh\necho the sum is $(sh calc.sh 2 3)\ntest $(sh calc.sh 2 3) = 5\n");
    place.add("twice", "L2", "gates: [{ name: sum, run: [./t.sh] }]\noutput: [pull-request]", script);
    place.repo.commit("gate");
    let round = place.round("twice", 10);
    let folder = place.env.state().join("transcripts").join(&round);
    let made = std::process::Command::new("mkfifo").arg(folder.join("aaa.log")).status().expect("mkfifo runs");
    assert!(made.success());
    let log = place.run(&format!("logs {round}")).success().stdout();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("no `{text}` in {log}"));
    let order = [
        "maker, attempt 1",
        "maker-1 | first try",
        "sum | the sum is -1",
        "maker, attempt 2",
        "maker-2 | second try",
        "sum | the sum is 5",
        "checker, attempt 2",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{log}");
    assert!(log.contains(" UTC role-started"), "the zone is named: {log}");
    let berlin = place.env.command(place.repo.path()).env("TZ", "Europe/Berlin").args(["logs", &round]).output();
    let berlin = String::from_utf8_lossy(&berlin.expect("it runs").stdout).into_owned();
    assert!(berlin.contains(" CET role-started") || berlin.contains(" CEST role-started"), "{berlin}");
}

#[test]
fn the_same_candidate_of_one_loop_is_one_question() {
    let place = Place::new();
    let (first, second) = (place.round("fix", 10), place.round("fix", 10));
    let page = place.run("inbox").success().stdout();
    assert!(page.contains("fix (1 question)") && page.contains("one answer is enough"), "{page}");
    let ran = place.run(&format!("approve {first}")).success();
    assert!(ran.stderr().contains(&format!("closed: round {second}")), "{}", ran.stderr());
    assert_eq!(place.run("inbox --json").success().json()["items"].as_array().map(Vec::len), Some(0));
    let rounds = place.run("rounds --json").success().json();
    let status = |id: &str| {
        let all = rounds["rounds"].as_array().expect("rounds");
        all.iter().find(|round| round["round"] == id).map(|round| round["status"].clone()).expect("the round")
    };
    assert_eq!((status(&first), status(&second)), ("shipped".into(), "rejected".into()));
    let evidence = place.run("promote fix --json").stdout();
    assert!(evidence.contains("\"denied\": 0"), "a duplicate was not turned down: {evidence}");
}

#[test]
fn lists_of_several_repositories_name_them_and_a_flag_filters() {
    let place = Place::new();
    let here = place.round("fix", 10);
    let other = place.env.repo("other");
    for name in [".loopwright/loops/fix.md", ".loopwright/fix.script", "calc.sh"] {
        other.write(name, place.repo.read(name));
    }
    other.commit("first");
    drop(place.env.loopwright_in(other.path(), ["run", "fix"]).code(10));
    for verb in ["rounds", "inbox", "status"] {
        let all = place.env.loopwright([verb]).success().stdout();
        assert!(all.contains("repo/fix") && all.contains("other/fix"), "{verb}: {all}");
    }
    let path = place.repo.path().display().to_string();
    for verb in ["rounds", "inbox"] {
        let filtered = place.env.loopwright([verb, "--repo", &path]).success().stdout();
        assert!(filtered.contains(&here) && !filtered.contains("other"), "{verb}: {filtered}");
    }
}

#[test]
fn a_command_that_asks_no_provider_costs_nothing_and_a_dry_run_is_no_run() {
    let place = Place::new();
    place.repo.write_executable("agent", "#!/bin/sh\necho all is well\n");
    let file = |cost: &str| {
        format!(
            "---\nname: own\nintent: look\nlevel: L1\ncheck: none\n\
             agents: {{ maker: {{ use: command, run: [./agent]{cost} }} }}\n---\n# Maker\nLook.\n"
        )
    };
    place.repo.write(".loopwright/loops/own.md", file("")).commit("agent");
    let free = place.run("run own --json").success().json();
    assert_eq!((free["spend"]["usd"].as_f64(), free["spend"]["known"].as_bool()), (Some(0.0), Some(true)), "{free}");
    place.repo.write(".loopwright/loops/own.md", file(", cost: 0.25"));
    let paid = place.run("run own --json").success().json();
    assert_eq!(paid["spend"]["usd"].as_f64(), Some(0.25), "{paid}");
    let runs = || place.run("show own --json").success().json()["runs"].as_i64();
    let before = runs();
    place.ends("run own --dry-run", 0);
    assert_eq!(runs(), before, "a dry run is not counted");
    assert!(place.run("rounds own").success().stdout().contains(", dry run"));
}

#[test]
fn shells_learn_loops_and_rounds_and_the_manual_has_a_page_for_each_command() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let names = |verb: &str| place.run(&format!("completions --names {verb}")).success().stdout();
    assert_eq!((names("run").as_str(), names("approve").trim()), ("fix\n", round.as_str()));
    assert!(names("logs").contains("fix") && names("logs").contains(&round));
    assert_eq!(names("demo"), "");
    let folder = place.env.root().join("man");
    place.ends(&format!("manual {}", folder.display()), 0);
    let page = std::fs::read_to_string(folder.join("loopwright-logs.1")).expect("a page");
    assert!(page.contains("raw") && folder.join("loopwright.1").is_file(), "{page}");
}
