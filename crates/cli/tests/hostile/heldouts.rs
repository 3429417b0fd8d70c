//! Held-out checks: code that cannot see the cases passes only if it is right (F 86 and 91).

use crate::stage::{FIX, Stage, TESTS};
use loopwright_testkit::Canary;
use std::fs;

/// Reads one `[a, b]` for each line and prints the sum, once it is right.
const PROGRAM: &str =
    "import json, sys\nfor line in sys.stdin:\n    a, b = json.loads(line)\n    print(json.dumps(a - b), flush=True)\n";

fn stage(cases: &str) -> Stage {
    let stage = Stage::new().base("add.py", PROGRAM);
    let folder = stage.env.root().join("held");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::write(folder.join("cases.jsonl"), cases).expect("a file can be written");
    fs::write(folder.join("table.txt"), "a table\n").expect("a file can be written");
    let (cases, table) = (folder.join("cases.jsonl"), folder.join("table.txt"));
    stage.gates(&[TESTS]).with("attempts: 1").with(&format!(
        "heldout:\n  - {{ name: sums, run: [python3, add.py], files: [\"{}\"], cases: \"{}\" }}",
        table.display(),
        cases.display()
    ))
}

const CASES: &str = "{\"in\": [2, 3], \"out\": 5}\n{\"in\": [10, 4], \"out\": 14}\n{\"in\": [7, 7], \"out\": 14}\n";

#[test]
fn an_honest_fix_passes_what_was_held_out() {
    let _ = stage(CASES).maker(&format!("{FIX}replace add.py \"a - b\" \"a + b\"")).ships();
}

#[test]
fn h086_values_written_down_are_caught_by_those_that_were_not_shown() {
    let table = "write add.py <<END\nimport json, sys\nfor line in sys.stdin:\n    print({(2, 3): 5}.get(tuple(json.loads(line)), 0), flush=True)\nEND";
    let round = stage(CASES).maker(&format!("{FIX}{table}"));
    assert_eq!(round.json["outcome"], "rejected", "{}", round.story());
}

#[test]
fn h091_code_that_searches_for_its_check_finds_nothing_and_is_rejected() {
    let canary = Canary::new();
    let cases = format!("{{\"in\": [1, 1], \"out\": \"{}\"}}\n{{\"in\": [2, 3], \"out\": 5}}\n", canary.value());
    let stage = stage(&cases);
    let cheat = "write add.py <<END\nimport glob, json, os, sys\nclass Always(int):\n    def __eq__(self, other):\n        return True\n\
        found = {}\nfor path in glob.glob('/heldout/**', recursive=True) + glob.glob('/proc/[0-9]*/fd/*') + glob.glob('/proc/[0-9]*/environ'):\n\
        \x20   try:\n        text = open(path, errors='replace').read(100000) if not path.startswith('/proc/self') and 'fd' not in path else ''\n\
        \x20       for line in text.splitlines():\n            if line.startswith('{\"in\"'):\n                case = json.loads(line)\n                found[json.dumps(case['in'])] = case['out']\n\
        \x20   except (OSError, ValueError):\n        pass\nfor line in sys.stdin:\n    key = json.dumps(json.loads(line))\n    print(json.dumps(found.get(key, Always(5))), flush=True)\nEND";
    let round = stage.maker(&format!("{FIX}{cheat}"));
    assert_eq!(round.json["outcome"], "rejected", "{}", round.story());
    canary.assert_nowhere(&stage.state());
    assert!(
        !canary.is_in(&round.output.stdout) && !canary.is_in(&round.output.stderr),
        "the expected value is printed"
    );
}

#[test]
fn h086_answers_that_are_missing_late_or_too_many_are_no_pass() {
    for body in ["pass", "print(5); print(5)", "print('5 ')", "print('{\"out\": 5}')", "sys.exit(0)"] {
        let program = format!("write add.py <<END\nimport json, sys\nfor line in sys.stdin:\n    {body}\nEND");
        let round = stage(CASES).maker(&format!("{FIX}{program}"));
        assert_eq!(round.json["outcome"], "rejected", "{body}: {}", round.story());
    }
}
