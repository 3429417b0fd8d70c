//! The screen of a person who waits: the running program with its time and its last line, and the page of
//! `status --watch`; and where the rest of a long output is afterwards.

use super::fixture::{FIX, Place};
use loopwright_testkit::TestTerminal;
use std::path::PathBuf;

/// A place with the loop `slow`: its set-up prints `fetching` and its gate `counting`, and each waits for its file.
fn slow_place() -> (Place, PathBuf, PathBuf) {
    let place = Place::new();
    let (fetched, counted) = (place.env.root().join("fetched"), place.env.root().join("counted"));
    let until = |word: &str, file: &PathBuf| {
        format!("[sh, -c, \"echo {word}; until test -e {}; do sleep 0.05; done\"]", file.display())
    };
    let setup = format!("sandbox: off\nsetup: [{}]\n", until("fetching", &fetched));
    let gates = format!("gates: [{{ name: sum, run: {} }}]\n", until("counting", &counted));
    let output = "output: [{ pull-request: {} }]";
    place.add("slow", "L2", &format!("{setup}{gates}{output}"), FIX).repo.commit("second");
    (place, fetched, counted)
}

fn on_a_terminal(place: &Place, line: &str) -> TestTerminal {
    let mut command = place.env.command(place.repo.path());
    command.args(line.split(' '));
    TestTerminal::start(&command, 100, 30)
}

#[test]
fn live_row_shows_the_set_up_and_the_gate_with_their_time_and_last_line_in_gates_test_and_in_a_round() {
    let (place, fetched, counted) = slow_place();
    let mut terminal = on_a_terminal(&place, "gates test slow");
    terminal.wait_for("setup 1s  fetching");
    std::fs::write(&fetched, "").expect("a file");
    terminal.wait_for("sum 1s  counting");
    std::fs::write(&counted, "").expect("a file");
    assert_eq!(terminal.wait().code(), Some(11), "the gate cannot fail");
    let end = terminal.whole_text();
    assert!(end.contains("sum: passed on base") && !end.contains("s  counting"), "no row is left: {end}");
    std::fs::remove_file(&counted).expect("it was there");
    let mut terminal = on_a_terminal(&place, "run slow");
    terminal.wait_for("sum 1s  counting");
    std::fs::write(&counted, "").expect("a file");
    terminal.wait();
    let end = terminal.whole_text();
    assert!(end.contains("✓ passed sum") && !end.contains("s  counting"), "no row is left: {end}");
}

#[test]
fn watched_status_on_a_terminal_follows_a_round_and_ends_with_ctrl_c() {
    let place = Place::new();
    place.add("slow", "L1", "check: none", "@ maker\nsay I look around\nhang\n").repo.commit("second");
    let mut watch = on_a_terminal(&place, "status --watch");
    watch.wait_for("slow");
    watch.wait_without("attempt 1");
    let mut run = on_a_terminal(&place, "run slow");
    run.wait_for("I look around");
    watch.wait_for("make, attempt 1");
    watch.wait_for("maker-1 | I look around");
    run.press("\x03");
    run.wait();
    watch.wait_without("make, attempt 1");
    watch.press("\x03");
    assert_eq!(watch.wait().code(), Some(0));
    assert!(watch.is_restored());
}

#[test]
fn trial_whose_output_is_long_says_where_the_rest_is_and_keeps_it_there() {
    let place = Place::new();
    let gate = "{ name: sum, run: [sh, -c, \"seq 1 40; test $(sh calc.sh 2 2) = 4\"] }";
    place.add("long", "L2", &format!("output: [{{ pull-request: {{}} }}]\ngates: [{gate}]"), FIX).repo.commit("second");
    let tried = place.run("gates test long").stdout();
    assert!(tried.contains("     | 40\n") && !tried.contains("| 28\n"), "{tried}");
    let rest = tried.lines().find_map(|line| line.trim().strip_prefix("the rest: ")).expect("where the rest is");
    let kept = std::fs::read_to_string(rest).expect("it is there");
    assert!(kept.starts_with("$ sh -c seq 1 40") && kept.contains("\n1\n2\n") && kept.contains("\n40\n"), "{kept}");
}

#[test]
fn trial_whose_set_up_fails_shows_the_cause_and_where_its_whole_output_is() {
    let place = Place::new();
    let setup = "setup: [[sh, -c, \"echo first; echo 'npm error 404 Not Found - GET /x' >&2; for i in 1 2 3 4 5 6; do echo \
                 advice $i >&2; done; exit 1\"]]\ngates: [{ name: sum, run: [sh, calc.sh] }]";
    place.add("broken", "L1", setup, "@ maker\nsay hello\n").repo.commit("second");
    let tried = place.run("gates test broken").code(1).stderr();
    assert!(tried.contains("ended with exit code 1: npm error 404 Not Found - GET /x | advice 1"), "{tried}");
    let log = tried.lines().find_map(|line| line.split_once("its whole output: ")).expect("where it is").1;
    let log = std::fs::read_to_string(log.trim()).expect("it is there");
    assert!(log.contains("first\n") && log.contains("advice 6"), "{log}");
}
