//! The page that a person sees before an answer: diff, items, output of the gates; and answers that bind it.

use super::fixture::{FIX, Place, keys};
use std::process::{Command, Stdio};

const GATED: &str = "attempts: 1\noutput: [{ pull-request: {} }]\ngates:\n  - { name: sum, run: [\"sh\", \"-c\", \"echo three lines; \
                     sh calc.sh 2 2; test $(sh calc.sh 2 2) = 4\"] }";

#[test]
fn a_waiting_round_shows_its_diff_its_items_and_the_output_of_its_gates() {
    let place = Place::new();
    place.add("gated", "L2", GATED, FIX).repo.commit("second");
    let round = place.round("gated", 10);
    let diff = place.run(&format!("diff {round}")).success().stdout();
    assert!(diff.contains("\n-echo $(( $1 - $2 ))\n+echo $(( $1 + $2 ))\n"), "{diff}");
    let stat = place.run(&format!("diff a-{round} --stat")).success().stdout();
    assert_eq!(stat, "modified calc.sh  +1 -1\n1 file, +1 -1\n");
    let document = place.run(&format!("diff {round} --json")).success().json();
    let expected = ["schema", "round", "loop", "base", "commit", "candidate", "files", "diff", "whole"];
    assert_eq!(keys(&document), expected);
    assert_eq!(document["whole"], true);
    for page in [place.run(&format!("show {round}")), place.run("inbox")] {
        let page = page.success().stdout();
        for part in ["would send pull-request", "| three lines", "+echo $(( $1 + $2 ))"] {
            assert!(page.contains(part), "{part} is absent:\n{page}");
        }
    }
}

#[test]
fn a_rejected_gate_shows_its_last_lines_in_every_view() {
    let place = Place::new();
    place.add("wrong", "L2", GATED, "@ maker\nwrite notes.txt \"x\"\n").repo.commit("second");
    let ended = place.run("run wrong").code(11);
    let round = place.run("rounds --json").success().json()["rounds"][0]["round"].as_str().expect("an id").to_owned();
    let views = [format!("show {round}"), format!("why {round}"), format!("report {round}")];
    let pages = views.iter().map(|view| place.run(view).success().stdout());
    for page in pages.chain([format!("{}{}", ended.stdout(), ended.stderr())]) {
        assert!(page.contains("three lines"), "{page}");
    }
    let tried = place.run("gates test wrong");
    assert!(tried.stdout().contains("| three lines"), "{tried:?}");
}

#[test]
fn a_round_without_a_change_has_no_diff_and_says_where_to_look() {
    let place = Place::new();
    place.add("idle", "L2", "", "@ maker\nsay nothing to do\n").repo.commit("second");
    drop(place.run("run idle"));
    let round = place.run("rounds --json").success().json()["rounds"][0]["round"].as_str().expect("an id").to_owned();
    let refused = place.run(&format!("diff {round}")).code(15);
    assert!(
        refused.stderr().contains("sealed no change") && refused.stderr().contains("loopwright why"),
        "{refused:?}"
    );
}

#[test]
fn an_approval_of_another_candidate_is_refused_and_sends_nothing() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let refused = place.run(&format!("approve {round} --candidate 0123")).code(15);
    assert!(refused.stderr().contains("another candidate"), "{refused:?}");
    let candidate = place.run("inbox --json").success().json()["items"][0]["candidate"].clone();
    let candidate = candidate.as_str().expect("a hash");
    place.ends(&format!("approve {round} --candidate {candidate}"), 0);
}

#[test]
fn all_candidates_of_one_loop_are_answered_together_and_those_of_others_stay() {
    let place = Place::new();
    place.add("other", "L2", "output: [{ pull-request: {} }]", FIX).repo.commit("second");
    let (first, _) = (place.round("fix", 10), place.round("other", 10));
    place.repo.write("more.txt", "more\n");
    place.repo.commit("third");
    let second = place.round("fix", 10);
    let denied = place.env.loopwright_in(place.repo.path(), ["deny", "--all", "fix", "--why", "later"]).success();
    assert!(denied.stdout().contains(&first) && denied.stdout().contains(&second), "{denied:?}");
    let left = place.run("inbox --json").success().json();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1), "{left}");
    let answers = place.run("approve --all other --json").success().json();
    assert_eq!(keys(&answers), ["schema", "rounds"]);
    assert_eq!(answers["rounds"][0]["outcome"], "shipped");
    assert!(place.run("approve --all other").code(15).stderr().contains("no candidate of `other` waits"));
}

#[test]
fn answer_for_all_candidates_is_about_this_repository_only() {
    let place = Place::new();
    place.round("fix", 10);
    let second = place.env.repo("second");
    for file in ["calc.sh", ".loopwright/loops/fix.md", ".loopwright/fix.script"] {
        second.write(file, std::fs::read(place.repo.path().join(file)).expect("a file of the first repository"));
    }
    second.commit("first");
    drop(place.env.loopwright_in(second.path(), ["run", "fix"]).code(10));
    drop(place.env.loopwright_in(second.path(), ["deny", "--all", "fix", "--why", "later"]).success());
    let left = place.run("inbox --json").success().json();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1), "{left}");
    place.ends("approve --all fix", 0);
}

/// Runs `approve` on a real terminal and types an answer.
#[expect(clippy::disallowed_methods, reason = "the test needs a terminal, which `TestEnv` does not give")]
fn approve_on_a_terminal(place: &Place, round: &str, typed: &str) -> String {
    let line = format!("{} approve {round}", env!("CARGO_BIN_EXE_loopwright"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(place.repo.path()).env_clear();
    script.envs(place.env.variables()).env("PAGER", "cat").env("SHELL", "/bin/sh");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is a Debian base tool");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), typed.as_bytes()).expect("it reads");
    String::from_utf8_lossy(&child.wait_with_output().expect("it ends").stdout).into_owned()
}

#[test]
fn on_a_terminal_approve_shows_the_diff_and_asks_first() {
    let place = Place::new();
    let round = place.round("fix", 10);
    let no = approve_on_a_terminal(&place, &round, "n\n");
    assert!(no.contains("+echo $(( $1 + $2 ))") && no.contains("nothing was approved"), "{no}");
    assert_eq!(place.run("inbox --json").success().json()["items"].as_array().map(Vec::len), Some(1));
    let yes = approve_on_a_terminal(&place, &round, "y\n");
    assert!(yes.contains("shipped: round"), "{yes}");
}

/// A maker that writes numbered lines besides the fix, and a checker that passes it.
fn fix_with_lines(command: &str) -> String {
    FIX.replace("@ checker", &format!("run sh -c \"{command}\"\n\n@ checker"))
}

#[test]
fn on_a_terminal_approve_shows_a_long_change_to_its_last_line_before_it_asks() {
    let place = Place::new();
    place.add("long", "L2", "output: [{ pull-request: {} }]", &fix_with_lines("seq 1 3000 > z.txt"));
    place.repo.commit("second");
    let round = place.round("long", 10);
    let shown = approve_on_a_terminal(&place, &round, "n\n");
    let last = shown.find("+3000").expect("the last line of the change");
    let asked = shown.find("Approve a-").expect("a question");
    assert!(last < asked && !shown.contains(" more: loopwright diff"), "{last} {asked}");
}

#[test]
fn on_a_terminal_approve_does_not_ask_about_a_change_that_is_too_long_to_show() {
    let place = Place::new();
    let lines = "seq -f %06.0f-0123456789012345678901234567890123456789 1 190000 > z.txt";
    place.add("huge", "L2", "output: [{ pull-request: {} }]", &fix_with_lines(lines)).repo.commit("second");
    let round = place.round("huge", 10);
    let shown = approve_on_a_terminal(&place, &round, "y\n");
    assert!(!shown.contains("[y/N]") && !shown.contains("shipped"), "it asks about what it has not shown");
    let end = shown.split_once("only its first 8.0 MiB are shown").expect("where the rest is").1;
    let candidate = place.run("inbox --json").success().json()["items"][0]["candidate"].clone();
    let candidate = candidate.as_str().expect("it still waits").to_owned();
    let explicit = format!("loopwright approve a-{round} --candidate {candidate} --yes");
    assert!(end.contains(&format!("loopwright take {round}")) && end.contains(&explicit), "{end}");
    place.ends(&format!("approve a-{round} --candidate {candidate} --yes"), 0);
}
