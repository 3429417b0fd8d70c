//! Shell tests: a script is one test, and its `test_*` functions and bats' `@test` blocks are further tests.

use super::mask::{CommentGrammar, mask};
use super::{InventoryTest, TESTS_MAX};
use std::collections::{BTreeSet, HashMap};

/// The largest number of lines that are read of a function.
const BODY_LINES_MAX: usize = 500;

/// Commands that cannot fail.
const HARMLESS: [&str; 20] = [
    "echo", "printf", "true", ":", "set", "cd", "export", "local", "readonly", "shift", "fi", "done", "esac", "then",
    "else", "do", "}", "{", "return 0", "unset",
];

/// `tests/*.sh`, `test_*.sh`, `*_test.sh`, `*-test.sh`, and bats files.
pub(super) fn is_test(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_tests = folder.split('/').any(|part| matches!(part, "test" | "tests" | "t" | "spec"));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let is_named = stem == "test" || stem == "tests" || ["test_", "test-"].iter().any(|head| stem.starts_with(head));
    let ends = ["_test", "-test", "_tests", "-tests"].iter().any(|tail| stem.ends_with(tail));
    in_tests || is_named || ends || name.ends_with(".bats")
}

pub(super) fn tests(path: &str, text: &str) -> Vec<InventoryTest> {
    let masked = mask(text, CommentGrammar::Shell);
    let code = String::from_utf8_lossy(&masked).into_owned();
    let lines: Vec<&str> = code.lines().collect();
    let originals: Vec<&str> = text.lines().collect();
    let mut words: HashMap<&str, usize> = HashMap::new();
    for word in lines.iter().flat_map(|line| split_words(line)) {
        *words.entry(word).or_default() += 1;
    }
    let mut found = Vec::new();
    let name = path.rsplit('/').next().unwrap_or(path);
    if !name.ends_with(".bats") {
        let commands = script_commands(&lines);
        found.push(InventoryTest {
            name: name.to_owned(),
            assertions: commands,
            is_empty: commands == 0,
            ..InventoryTest::default()
        });
    }
    for (at, line) in lines.iter().enumerate() {
        let bats = line.trim_start().strip_prefix("@test").map(|_| originals.get(at).copied().unwrap_or_default());
        let title = bats.and_then(|line| line.split(['"', '\'']).nth(1)).map(str::to_owned);
        let Some(title) = title.or_else(|| function_name(line)) else { continue };
        if found.len() >= TESTS_MAX {
            break;
        }
        let is_called = bats.is_some() || words.get(title.as_str()).is_some_and(|count| *count > 1);
        // Frameworks such as shunit2 call functions by name, so a function without a call may still run. The guard only
        // shows when a change removes a call.
        let guards = if is_called { BTreeSet::new() } else { BTreeSet::from(["never called".to_owned()]) };
        found.push(function(&lines, at, title, guards));
    }
    found
}

/// `test_x() {` or `function test_x {`.
fn function_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    let (line, has_keyword) = line.strip_prefix("function ").map_or((line, false), |rest| (rest.trim_start(), true));
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(line.len());
    let is_function = has_keyword || line[end..].trim_start().starts_with("()");
    (is_function && line.starts_with("test")).then(|| line[..end].to_owned())
}

fn function(lines: &[&str], at: usize, name: String, guards: BTreeSet<String>) -> InventoryTest {
    let body = body(lines, at);
    let first = body.iter().map(|line| line.trim()).find(|line| !line.is_empty() && !matches!(*line, "{" | "}"));
    let is_skipped = first.is_some_and(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        word == "skip"
            || word == "startSkipping"
            || line == "return"
            || line.starts_with("return 0")
            || line.starts_with("exit 0")
    });
    let commands = body.iter().filter(|line| can_fail(line)).count();
    InventoryTest { name, is_skipped, guards, assertions: commands, is_empty: commands == 0, text: None }
}

fn split_words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').filter(|word| word.starts_with("test"))
}

/// The lines of a function after its first, up to the closing brace at its own depth.
fn body<'a>(lines: &[&'a str], at: usize) -> Vec<&'a str> {
    let mut depth = 0_i64;
    let mut body = Vec::new();
    for (offset, line) in lines[at..].iter().take(BODY_LINES_MAX).enumerate() {
        depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
        if offset > 0 {
            body.push(*line);
        } else if let Some((_, rest)) = line.split_once('{') {
            body.push(rest);
        }
        if depth <= 0 && line.contains('}') {
            break;
        }
    }
    body
}

/// Commands of a script that can fail, up to an `exit` at the top level: later commands never run.
fn script_commands(lines: &[&str]) -> usize {
    let mut count = 0;
    let mut depth = 0_i64;
    for line in lines {
        let trimmed = line.trim();
        let word = trimmed.split(|c: char| c.is_whitespace() || c == ';').next().unwrap_or_default();
        depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
        depth += i64::from(matches!(word, "if" | "case" | "for" | "while" | "until")) - closers(trimmed);
        if depth <= 0 && word == "exit" && !trimmed.contains("||") && !trimmed.contains("&&") {
            // `exit $fail` reports the earlier count, `exit 1` can only fail.
            let says = trimmed.split_whitespace().nth(1).is_some_and(|code| code != "0");
            return count + usize::from(says && count > 0);
        }
        count += usize::from(can_fail(trimmed));
    }
    count
}

fn closers(line: &str) -> i64 {
    let words = line.split(|c: char| c.is_whitespace() || c == ';');
    words.filter(|word| matches!(*word, "fi" | "esac" | "done")).count() as i64
}

fn can_fail(line: &str) -> bool {
    let line = line.trim().trim_end_matches(['{', ';']).trim_end();
    let word = line.split(|c: char| c.is_whitespace() || c == ';').next().unwrap_or_default();
    let is_assignment = word.contains('=') && !word.contains("==") && !line.contains("||") && !line.contains("&&");
    let is_function = line.ends_with("()") || line.starts_with("function ");
    let is_exit_zero = line == "exit 0" || line == "exit" || line == "return" || line == "return 0";
    let hides = line.ends_with("|| true") || line.ends_with("|| :");
    !word.is_empty()
        && !is_assignment
        && !is_function
        && !is_exit_zero
        && !hides
        && !HARMLESS.contains(&word)
        && word != "\"\""
}
