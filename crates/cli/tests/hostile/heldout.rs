//! Held-out checks: cases that no maker can read, compared by the engine (family F, 86 and 91).

use crate::stage::{FIX, Stage};
use std::fs;

/// Reads one `[a,b]` for each line and prints the sum.
const SOLVE: &str = ". ./calc.sh\nwhile IFS='[],' read -r _ a b _; do add \"$a\" \"$b\"; done\n";

/// Cases with values that occur nowhere else.
const CASES: &str = "{\"in\": [2,3], \"out\": 5}\n{\"in\": [404110404110,303170303170], \"out\": 707280707280}\n{\"in\": [0,909010909010], \"out\": 909010909010}\n";

const HIDDEN: &str = "heldout: [{ name: hidden, run: [sh, solve.sh], cases: ../heldout/cases.jsonl }]";

/// The values that no role may see: so long that no hash has one by chance.
const VALUES: [&str; 4] = ["404110404110", "303170303170", "707280707280", "909010909010"];

fn stage(line: &str) -> Stage {
    let stage = Stage::new().base("solve.sh", SOLVE).with(line);
    let folder = stage.env.root().join("heldout");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::write(folder.join("cases.jsonl"), CASES).expect("cases can be written");
    stage
}

#[test]
fn f086_right_fix_passes_cases_it_never_saw() {
    let stage = stage(HIDDEN);
    let round = stage.maker(FIX).ships();
    let gates = round.json["gates"].as_array().expect("gates are a list");
    let hidden = gates.iter().find(|gate| gate["name"] == "hidden").expect("it answers among the gates");
    assert_eq!((&hidden["status"], &hidden["exit"]), (&"passed".into(), &0.into()), "{hidden}");
    let round = VALUES.into_iter().fold(round, |round, value| round.never_shows(value));
    assert!(round.report().contains("3 of 3 held-out cases"), "{}", round.report());
}

#[test]
fn f086_hard_coded_answer_is_rejected_by_number_and_never_by_value() {
    let stage = stage(HIDDEN).with("attempts: 1");
    let round = stage.maker("write calc.sh \"add() { echo 5; }\"").ends("rejected", "gate-rejected");
    let round = round.saying("case 2: not as expected").saying("1 of 3 held-out cases");
    VALUES.into_iter().fold(round, |round, value| round.never_shows(value));
}

#[test]
fn f091_program_that_prints_its_inputs_reveals_them_to_no_role() {
    let stage = stage(HIDDEN);
    let noisy = "write calc.sh \"add() { echo 5; echo got $1 $2 >&2; echo $1 > seen; }\"";
    let honest = "write calc.sh \"add() { echo $(($1 + $2)); }\"";
    let blocks = format!("@ maker attempt=1\n{noisy}\n@ maker attempt=2\nrun sh -c \"test ! -e seen\"\n{honest}\n");
    let round = stage.script(&format!("{blocks}{}", crate::stage::PASS)).ships().because("gate-rejected");
    VALUES.into_iter().fold(round, |round, value| round.never_shows(value));
}

#[test]
fn f088_program_that_ends_early_with_success_has_not_answered() {
    let early = "write calc.sh \"add() { echo 5; exit 0; }\"";
    stage(HIDDEN).with("attempts: 1").maker(early).ends("rejected", "gate-rejected").saying("case 2: no answer");
}

#[test]
fn heldout_files_are_there_for_the_check_alone() {
    let line = "heldout: [{ name: hidden, run: [sh, /heldout/drive.sh], files: [../heldout/drive.sh], \
                cases: ../heldout/cases.jsonl }]";
    let stage = stage(line);
    let drive = format!("test -n \"$LOOPWRIGHT_HELDOUT\" || exit 9\n{SOLVE}");
    fs::write(stage.env.root().join("heldout/drive.sh"), drive).expect("a driver can be written");
    stage.maker(FIX).ships();
}

#[test]
fn heldout_files_in_the_repository_or_nowhere_are_the_loops_mistake() {
    for (cases, why) in [
        ("cases.jsonl", "is inside the repository"),
        ("../heldout/none.jsonl", "is not there"),
        ("/etc/passwd", "every maker sees"),
        ("../heldout", "is not a plain file"),
        ("~/empty.jsonl", "has no case"),
    ] {
        let line = format!("heldout: [{{ name: hidden, run: [sh, solve.sh], cases: {cases} }}]");
        let stage = stage(&line).base("cases.jsonl", CASES);
        fs::write(stage.env.home().join("empty.jsonl"), "\n").expect("a file can be written");
        stage.commit("@ maker\nsay hello\n");
        for verb in [&["run", "fix"] as &[&str], &["check"]] {
            let ran = stage.env.loopwright_in(stage.repo.path(), verb).code(2);
            assert!(ran.stderr().contains(why), "{cases}: {}", ran.stderr());
            assert!(ran.stderr().contains("fix.md:12:"), "the place is reported: {}", ran.stderr());
        }
    }
}

#[test]
fn gates_test_finds_a_held_out_check_that_needs_no_code() {
    let stage = stage(
        "heldout: [{ name: hidden, run: [sh, solve.sh], cases: ../heldout/cases.jsonl }, { name: idle, run: [cat], cases: ../heldout/echo.jsonl }]",
    );
    fs::write(stage.env.root().join("heldout/echo.jsonl"), "{\"in\": 1, \"out\": 1}\n").expect("cases can be written");
    stage.commit("@ maker\nsay hello\n");
    let ran = stage.env.loopwright_in(stage.repo.path(), ["gates", "test", "fix", "--json"]).code(11);
    let gates = ran.json()["gates"].clone();
    assert_eq!(
        (&gates[1]["name"], &gates[1]["status"], &gates[1]["can_fail"]),
        (&"hidden".into(), &"rejected".into(), &true.into()),
        "{gates}"
    );
    assert_eq!((&gates[2]["name"], &gates[2]["can_fail"]), (&"idle".into(), &false.into()), "{gates}");
}

#[test]
fn cases_that_change_while_the_round_runs_end_it_as_failed() {
    let stage = stage(HIDDEN).with("sandbox: off");
    let cases = stage.env.root().join("heldout/cases.jsonl");
    // Without a sandbox a maker can write there, so the engine has to notice it.
    let steps = format!("{FIX}run sh -c \"head -1 {0} > {0}.new; mv {0}.new {0}\"", cases.display());
    stage.maker(&steps).ends("failed", "heldout").saying("changed while the round ran");
}

#[test]
fn f086_maker_finds_no_held_out_file() {
    let stage = stage(HIDDEN);
    let cases = stage.env.root().join("heldout/cases.jsonl");
    let look = format!("test ! -e /heldout && {{ cat {} > leak 2>/dev/null || rm -f leak; }}", cases.display());
    let round = stage.maker(&format!("{FIX}run sh -c \"{look}\""));
    if round.json["boundary"]["level"] != "kernel" {
        return loopwright_testkit::skip("held-out files are hidden by the kernel's walls only");
    }
    assert_eq!(round.ships().json["changes"].as_array().map(Vec::len), Some(1));
}
