//! Withheld tests: neither the maker nor the checker gets them, by any way, and they still judge the change.

use crate::stage::{Stage, files};
use std::collections::BTreeSet;
use std::path::PathBuf;

const GATE: &str = "{ name: tests, run: [python3, -m, unittest, discover, -s, tests] }";
const RIGHT: &str = "def add(a, b):\\n    return a + b\\n";
const VERDICT: &str = "@ checker\nverdict pass correctness=5@gate:tests scope=5@gate:tests tests=4@gate:tests\n";

/// A module with a bug, a red test, and five files with five green tests each, of which one is withheld.
fn sums() -> Stage {
    let mut stage = Stage::new()
        .base("sums.py", "def add(a, b):\n    return a - b if a == 2 else a + b\n")
        .base("tests/test_red.py", suite("Red", &[(2, 3)]))
        .base("tests/conftest.py", "shared = 1\n");
    for file in 0..5 {
        let cases: Vec<(i32, i32)> = (0..5).map(|case| (10 * (file + 1) + case, case)).collect();
        stage = stage.base(&format!("tests/test_part{file}.py"), suite(&format!("Part{file}"), &cases));
    }
    stage.gates(&[GATE]).with("attempts: 1")
}

fn suite(class: &str, cases: &[(i32, i32)]) -> String {
    let tests = cases.iter().enumerate().map(|(at, (a, b))| {
        format!(
            "    def test_{}_{at}(self):\n        self.assertEqual(add({a}, {b}), {})\n",
            class.to_lowercase(),
            a + b
        )
    });
    format!(
        "import unittest\nfrom sums import add\n\n\nclass {class}(unittest.TestCase):\n{}",
        tests.collect::<String>()
    )
}

/// The parts that a list of paths does not have.
fn absent(list: &str) -> BTreeSet<String> {
    let parts = (0..5).map(|at| format!("tests/test_part{at}.py"));
    parts.filter(|path| !list.contains(path.as_str())).collect()
}

/// Writes the files, every path in the objects, and the history that the maker can find.
const LOOK: &str = "printf 'def add(a, b):\\n    return a + b\\n' > sums.py\nfind tests -name '*.py' > seen.txt\n\
    git rev-list --objects --all >> seen.txt\ngit log --format=%s >> seen.txt\n\
    git cat-file --batch-all-objects --batch-check >> seen.txt || exit 1\n\
    for o in $(git cat-file --batch-all-objects --batch-check | cut -d' ' -f1); do git cat-file -p $o >> objects.txt; done\n\
    python3 -m unittest discover -s tests > run.txt 2>&1 || exit 1\nsed -n '/^# Withheld/,/^# Task/p' > brief.txt\n";

#[test]
fn a_maker_finds_withheld_tests_neither_as_files_nor_as_git_objects_and_all_of_them_ship() {
    let stage = sums();
    stage.repo.commit("first");
    stage.loop_file("{ use: command, run: [sh, .loopwright/maker.sh] }");
    stage.repo.write(".loopwright/maker.sh", LOOK).write(".loopwright/s.script", VERDICT);
    stage.repo.commit("base");
    let round = stage.run().ships();
    let (seen, objects) = (round.shipped_file("seen.txt"), round.shipped_file("objects.txt"));
    let hidden = absent(&seen);
    assert_eq!(hidden.len(), 1, "{seen}");
    let path = hidden.first().expect("one");
    assert!(seen.contains("tests/test_red.py") && seen.contains("tests/conftest.py"), "{seen}");
    let class = format!("class {}", path.replace("tests/test_p", "P").replace(".py", ""));
    assert!(!objects.contains(&class) && objects.contains("class Red"), "an object has the text of {path}");
    assert!(round.shipped_paths().contains(path), "its absence is not a deletion");
    assert!(round.shipped_file("brief.txt").contains("Some tests of the repository are not in this folder"));
    round.saying("withheld from the maker: 5 tests in 1 files");
}

#[test]
fn answers_fitted_to_the_visible_tests_fail_in_withheld_ones_and_the_maker_learns_no_more() {
    let fit = "import glob, re\ncases = {}\nfor path in glob.glob('tests/test_*.py'):\n    \
        for a, b, c in re.findall(r'add\\((\\d+), (\\d+)\\), (\\d+)', open(path).read()):\n        cases[int(a), int(b)] = int(c)\n\
        open('sums.py', 'w').write('def add(a, b):\\n    return %r.get((a, b), 0)\\n' % cases)\n";
    let stage = sums();
    stage.loop_file("{ use: command, run: [python3, .loopwright/maker.py] }");
    stage.repo.write(".loopwright/maker.py", fit).write(".loopwright/s.script", VERDICT);
    stage.repo.commit("base");
    let round = stage.run().ends("rejected", "gate-rejected").saying("tests that are withheld from the maker fail");
    assert_eq!(round.json["gates"][0]["reason"], "withheld-failed", "{}", round.story());
    let excerpt = round.json["gates"][0]["excerpt"].as_str().unwrap_or_default();
    assert!(!excerpt.contains("test_part"), "{excerpt}");
}

#[test]
fn a_maker_that_writes_withheld_paths_or_removes_their_folder_changes_nothing_there() {
    let files: String = (0..5).map(|at| format!("write tests/test_part{at}.py \"import unittest\\n\"\n")).collect();
    let script = format!("@ maker\n{files}write sums.py \"{RIGHT}\"\n{VERDICT}");
    // Four of the files were visible: emptying them is rejected, and the fifth is not even seen as changed.
    let stage = sums();
    let round = stage.script(&script).ended("rejected", "test-inventory");
    let changed = round.json["changes"].as_array().map_or(0, Vec::len);
    assert_eq!(changed, 5, "{}", round.story());
    let gone =
        "@ maker\nrun rm -rf tests\nwrite tests \"x\\n\"\nwrite sums.py \"def add(a, b):\\n    return a + b\\n\"\n";
    sums().script(&format!("{gone}{VERDICT}")).ended("refused", "path-refused").saying("withheld");
}

#[test]
fn a_loop_can_switch_withholding_off_or_name_the_files_and_red_tests_are_always_shown() {
    let script = format!("@ maker\nrun sh -c \"find tests > seen.txt\"\nwrite sums.py \"{RIGHT}\"\n{VERDICT}");
    let stage = sums().with("withhold: off");
    let off = stage.script(&script).ships();
    assert!(absent(&off.shipped_file("seen.txt")).is_empty());
    let stage = sums().with("withhold: [\"tests/test_part3.py\", \"tests/test_red.py\"]");
    let globs = stage.script(&script).ships();
    let hidden: Vec<String> = absent(&globs.shipped_file("seen.txt")).into_iter().collect();
    assert_eq!(hidden, ["tests/test_part3.py"]);
    assert!(globs.shipped_file("seen.txt").contains("test_red.py"), "a red test is never withheld");
}

#[test]
fn a_checker_does_not_get_withheld_tests_either() {
    let verdict = VERDICT.trim_start_matches("@ checker\n");
    let script = format!("@ maker\nwrite sums.py \"{RIGHT}\"\n@ checker\nrun ls tests\n{verdict}");
    let stage = sums();
    let round = stage.script(&script).ships();
    let all = files(&round.state().join("transcripts").join(round.id()));
    let is_checkers = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("checker"));
    let seen: String = all.iter().filter(is_checkers).filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let parts = (0..5).filter(|at| seen.contains(&format!("test_part{at}.py"))).count();
    assert_eq!(parts, 4, "{all:?} {seen}");
}

#[test]
fn gates_test_shows_how_many_tests_a_round_withholds_and_how_many_canaries_a_gate_has() {
    let stage = sums();
    stage.commit("");
    let output = stage.env.command(stage.repo.path()).args(["gates", "test", "fix", "--canaries", "--json"]).output();
    let output = output.expect("the binary starts");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let gate = &json["gates"][0];
    assert_eq!((&gate["withheld"], &gate["canaries"]), (&5.into(), &26.into()), "{json:#}");
    let people = stage.env.command(stage.repo.path()).args(["gates", "test", "fix", "--canaries"]).output();
    let text = String::from_utf8_lossy(&people.expect("the binary starts").stdout).into_owned();
    assert!(text.contains("withheld: a round hides 5 tests in 1 files from its maker"), "{text}");
    assert!(text.contains("canaries: 25 tried on base, 1 red there"), "{text}");
}
