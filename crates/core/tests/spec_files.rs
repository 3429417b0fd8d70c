//! Loop files and their specs or messages: every file of `specs/good` reads and round-trips, every file of `specs/bad`
//! is refused with the message in the file beside it (`UPDATE_EXPECT=1` rewrites it).

use loopwright_core::spec::{LoopSpec, ProblemKind, read_loop_file};
use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specs").join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder of fixtures is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension != "expected"));
    files.sort();
    files
}

fn shown(file: &Path) -> String {
    file.file_name().expect("a file name").to_string_lossy().into_owned()
}

#[test]
fn good_files_read_and_survive_json_without_loss() {
    let files = files("good");
    assert!(files.len() >= 7);
    for file in files {
        let text = std::fs::read(&file).expect("a readable fixture");
        let checked = read_loop_file(&shown(&file), &text).unwrap_or_else(|problems| panic!("{problems}"));
        let json = serde_json::to_string_pretty(checked.spec()).expect("a spec is JSON");
        let back: LoopSpec = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}\n{error}"));
        assert_eq!(&back, checked.spec(), "{}", file.display());
        let again = read_loop_file("again.json", json.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(again.hash(), checked.hash(), "{}", file.display());
    }
}

#[test]
fn bad_files_are_refused_with_the_message_beside_them() {
    let files = files("bad");
    assert!(files.len() >= 40, "{} broken files", files.len());
    for file in files {
        let text = std::fs::read(&file).expect("a readable fixture");
        let Err(problems) = read_loop_file(&shown(&file), &text) else { panic!("{} was accepted", file.display()) };
        let expected = file.with_file_name(format!("{}.expected", shown(&file)));
        expect_test::expect_file![expected].assert_eq(&format!("{problems}\n"));
    }
}

fn kinds(file: &str, text: &[u8]) -> Vec<ProblemKind> {
    match read_loop_file(file, text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|problem| problem.kind).collect(),
    }
}

#[test]
fn a_yaml_bomb_is_refused_at_its_first_anchor() {
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, below) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"]) {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{below}"); 9].join(", ")));
    }
    assert_eq!(kinds("bomb.yaml", bomb.as_bytes()), [ProblemKind::Alias]);
}

#[test]
fn size_depth_and_count_have_limits() {
    let big = format!("name: x\nintent: {}\n", "x".repeat(1 << 20));
    assert_eq!(kinds("big.yaml", big.as_bytes()), [ProblemKind::Limit]);
    for deep in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000)] {
        assert_eq!(kinds("deep.yaml", deep.as_bytes()), [ProblemKind::Limit], "{}", &deep[..8]);
    }
    let many = format!("name: [{}]\n", "1,".repeat(50_000));
    assert_eq!(kinds("many.yaml", many.as_bytes()), [ProblemKind::Limit]);
    let keys: String = (0..9_000).map(|at| format!("k{at}: 1\n")).collect();
    assert_eq!(kinds("keys.yaml", keys.as_bytes()).len(), 100);
}

#[test]
fn places_count_lines_of_the_whole_file_and_columns_in_characters() {
    let text = "---\nname: x\nintent: ä ö ü\nbudget: { rönd: 1, round: { usd: -1 } }\n---\n# Maker\nx\n";
    let problems = read_loop_file("x.md", text.as_bytes()).expect_err("two problems");
    let places: Vec<_> = problems.iter().map(|problem| (problem.line, problem.column)).collect();
    assert_eq!(places, [(4, 11), (4, 34)]);
}

#[test]
fn problems_serialise_with_their_places() {
    let problems = read_loop_file("x.md", b"---\nnmae: x\nintent: y\n---\n# Maker\nz\n").expect_err("a typo");
    let json = serde_json::to_value(&problems).expect("problems are JSON");
    assert_eq!(
        json,
        serde_json::json!([{ "kind": "unknown-key", "file": "x.md", "line": 2, "column": 1,
            "text": "unknown key `nmae`", "hint": "did you mean `name`?" }])
    );
}
