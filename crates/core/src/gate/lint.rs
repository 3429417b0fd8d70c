//! Finds `run` gates that cannot fail, from their command lines alone.
//!
//! A bounded table of the ways in which people and makers write "always green". Commands outside the table pass,
//! because `red_before` is the real proof. The lint prefers a missed case to a false alarm: `make test || exit 1` is
//! fine.

use crate::spec::RunGate;

/// Programs that always succeed.
const ALWAYS_GREEN: [&str; 8] = ["true", ":", "echo", "printf", "sleep", "pwd", "date", "yes"];

/// Programs at the end of a pipe that hide the first program's exit code.
const SWALLOWERS: [&str; 10] = ["wc", "tee", "cat", "tail", "head", "sort", "uniq", "less", "sed", "tr"];

/// Shells whose script is the word after `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// Programs that run the rest of their arguments as a command.
const WRAPPERS: [&str; 6] = ["env", "command", "exec", "nice", "nohup", "time"];

/// The reason why this gate cannot fail, or `None` if it can.
#[must_use]
pub fn reason_cannot_fail(gate: &RunGate) -> Option<String> {
    let wants_failure = gate.expect.as_ref().and_then(|rule| rule.exit).is_some_and(|exit| exit != 0);
    let shows_more = gate.expect.as_ref().is_some_and(|rule| {
        rule.json.is_some() || rule.stdout.as_deref().is_some_and(says) || rule.stderr.as_deref().is_some_and(says)
    }) || gate.score.as_ref().is_some_and(|rule| rule.at_least.is_some())
        || gate
            .evidence
            .as_ref()
            .is_some_and(|rule| rule.junit.is_some() || rule.tests_at_least.is_some() || !rule.files.is_empty());
    // Independent of the exit code, expected output, a report or a score can still reject.
    if wants_failure || shows_more {
        return None;
    }
    argv(&gate.run.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether a pattern requires any output at all.
fn says(pattern: &str) -> bool {
    !matches!(pattern, "" | ".*" | "^" | "$" | "^.*$" | "^.*" | ".*$")
}

fn argv(words: &[&str]) -> Option<String> {
    let Some((first, rest)) = words.split_first() else { return Some("there is no command".to_owned()) };
    let program = first.rsplit('/').next().unwrap_or(first);
    if ALWAYS_GREEN.contains(&program) {
        return Some(format!("`{program}` always succeeds"));
    }
    if WRAPPERS.contains(&program) {
        let inner: Vec<&str> =
            rest.iter().copied().skip_while(|word| word.starts_with('-') || word.contains('=')).collect();
        return if inner.is_empty() { Some(format!("`{program}` runs nothing")) } else { argv(&inner) };
    }
    if SHELLS.contains(&program) {
        let flags: Vec<&&str> = rest.iter().take_while(|word| word.starts_with('-')).collect();
        let is_script = flags.iter().any(|flag| !flag.starts_with("--") && flag.contains('c'));
        return is_script.then(|| script(rest, flags.len())).flatten();
    }
    if matches!(program, "test" | "[") {
        return constant_test(rest);
    }
    if rest.contains(&"--no-run") {
        return Some("`--no-run` builds the tests and runs none".to_owned());
    }
    let asks = rest.iter().any(|word| matches!(*word, "--help" | "--version"));
    (asks && rest.len() == 1).then(|| format!("`{program} {}` only prints", rest[0]))
}

fn constant_test(words: &[&str]) -> Option<String> {
    let words: Vec<&str> = words.iter().copied().filter(|word| *word != "]").collect();
    let constant = match words.as_slice() {
        [one] => !one.contains('$') && !one.is_empty(),
        [one, "=" | "==" | "-eq", other] => one == other,
        _ => false,
    };
    constant.then(|| "the test compares constants".to_owned())
}

fn script(words: &[&str], flags: usize) -> Option<String> {
    let Some(text) = words.get(flags) else { return Some("the shell has no script".to_owned()) };
    let options: String = words[..flags].join(" ");
    let has_pipefail = text.contains("pipefail") || options.contains("pipefail");
    let stops_on_error = text.trim_start().starts_with("set -e") || text.contains("set -eu") || options.contains('e');
    let pieces = pieces(text);
    let Some(last) = pieces.last() else { return Some("the script is empty".to_owned()) };
    // Under `set -e` an earlier command may still end the script, so a harmless last one hides nothing.
    let decides_alone =
        !(stops_on_error && pieces.iter().any(|piece| piece.joint != Joint::Or && can_fail(&piece.text)));
    if last.joint == Joint::Or && !can_fail(&last.text) {
        return Some(format!("`|| {}` hides every failure", last.text));
    }
    if last.joint == Joint::And {
        return pieces.iter().all(|piece| !can_fail(&piece.text)).then(|| "no command in it can fail".to_owned());
    }
    if last.joint == Joint::Pipe && !has_pipefail && decides_alone {
        let program = last.text.split_whitespace().next().unwrap_or_default();
        let quiet = SWALLOWERS.contains(&program) || !can_fail(&last.text);
        return quiet.then(|| format!("`| {program}` swallows the exit code"));
    }
    if last.joint == Joint::Background {
        return Some("the command runs in the background, and its exit code is ignored".to_owned());
    }
    (!can_fail(&last.text) && decides_alone && last.joint != Joint::Pipe)
        .then(|| format!("it ends with `{}`", last.text))
}

/// Whether a simple command can exit with a code other than zero.
fn can_fail(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
    match words.as_slice() {
        [] => false,
        ["exit" | "return", "0"] => false,
        ["exit" | "return", ..] => true,
        ["set", ..] => false,
        // The lint does not interpret substitutions, braces and keywords; it assumes that they can fail.
        words if words.iter().any(|word| word.contains(['`', '(', '{'])) => true,
        [first, ..] if SHELLS.contains(first) => true,
        words => argv(words).is_none(),
    }
}

/// The operator between a part of a script and the part before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// The first part, or a part after `;` or a new line.
    Then,
    And,
    Or,
    Pipe,
    /// This part is empty: the part before it runs in the background.
    Background,
}

#[derive(Debug, PartialEq, Eq)]
struct Piece {
    joint: Joint,
    text: String,
}

/// Splits a script at `;`, new lines, `&&`, `||`, `|` and `&`, outside quotes and comments. It does not parse any other
/// grammar.
fn pieces(script: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut joint = Joint::Then;
    let mut text = String::new();
    let mut chars = script.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        let next = match (quote, c) {
            (None, '\\') => {
                text.push(c);
                text.extend(chars.next());
                continue;
            }
            (Some(open), c) => {
                quote = (c != open).then_some(open);
                text.push(c);
                continue;
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                text.push(c);
                continue;
            }
            (None, '#') if text.is_empty() || text.ends_with(char::is_whitespace) => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
                continue;
            }
            (None, ';' | '\n') => Joint::Then,
            (None, '|') if chars.next_if_eq(&'|').is_some() => Joint::Or,
            (None, '|') => {
                chars.next_if_eq(&'&');
                Joint::Pipe
            }
            (None, '&') if chars.next_if_eq(&'&').is_some() => Joint::And,
            // `2>&1` and `&>file` are redirections.
            (None, '&') if text.ends_with('>') || chars.peek() == Some(&'>') => {
                text.push(c);
                continue;
            }
            (None, '&') => Joint::Background,
            (None, c) => {
                text.push(c);
                continue;
            }
        };
        push(&mut pieces, joint, &mut text);
        joint = next;
    }
    push(&mut pieces, joint, &mut text);
    if joint == Joint::Background && pieces.last().is_some_and(|last| last.joint != Joint::Background) {
        pieces.push(Piece { joint, text: String::new() });
    }
    pieces
}

fn push(pieces: &mut Vec<Piece>, joint: Joint, text: &mut String) {
    let piece = std::mem::take(text).trim().to_owned();
    if !piece.is_empty() {
        // A command after `&` starts a new list.
        let joint = if joint == Joint::Background { Joint::Then } else { joint };
        pieces.push(Piece { joint, text: piece });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{EvidenceRule, ExpectRule};

    fn gate(words: &[&str]) -> RunGate {
        RunGate::new("g", words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn sh(script: &str) -> Option<String> {
        reason_cannot_fail(&gate(&["sh", "-c", script]))
    }

    #[test]
    fn always_green_commands_are_found() {
        for words in [
            &["true"] as &[&str],
            &["/bin/true"],
            &[":"],
            &["echo", "ok"],
            &["env", "A=1", "true"],
            &["sh", "-c", ""],
            &["sh", "-c"],
            &["cargo", "test", "--no-run"],
            &["test", "1"],
            &["[", "1", "=", "1", "]"],
            &["pytest", "--version"],
            &[],
        ] {
            assert!(reason_cannot_fail(&gate(words)).is_some(), "{words:?}");
        }
    }

    #[test]
    fn always_green_scripts_are_found() {
        for script in [
            "make test || true",
            "make test || :",
            "make test || echo failed",
            "make test || exit 0",
            "make test; true",
            "make test; exit 0",
            "make test\nexit 0",
            "make test | wc -l",
            "make test 2>&1 | tee log",
            "make test | cat",
            "make test &",
            "  # make test",
            "echo a && echo b",
            "set -e; true",
            "make test; echo done",
        ] {
            assert!(sh(script).is_some(), "{script}");
        }
    }

    #[test]
    fn gates_that_can_fail_are_not_reported() {
        for script in [
            "make test",
            "make test || exit 1",
            "make test && echo ok",
            "set -e; make test; echo done",
            "set -euo pipefail; make test | tee log",
            "make test | grep -q passed",
            "make build && make test 2>&1",
            "test -f a.txt",
            "test \"$(wc -l < a)\" = 3",
            "echo '|| true'; make test",
            "if make test; then exit 0; else exit 1; fi",
            "./run || { echo failed; exit 1; }",
            "n=$(grep -c x f); [ \"$n\" -gt 3 ]",
        ] {
            assert_eq!(sh(script), None, "{script}");
        }
        for words in [
            &["cargo", "test"] as &[&str],
            &["bash", "-eo", "pipefail", "-c", "make test | tee log"],
            &["sh", "check.sh"],
            &["bash", "-e", "check.sh"],
            &["./check", "--help", "x"],
            &["test", "-f", "x"],
            &["env", "A=1", "pytest"],
            &["python3", "-c", "import sys; sys.exit(1)"],
        ] {
            assert_eq!(reason_cannot_fail(&gate(words)), None, "{words:?}");
        }
    }

    #[test]
    fn evidence_rule_compensates_for_the_exit_code() {
        let mut one = gate(&["sh", "-c", "make test || true"]);
        one.evidence = Some(EvidenceRule { junit: Some("r.xml".into()), ..EvidenceRule::default() });
        assert_eq!(reason_cannot_fail(&one), None);
        let mut two = gate(&["sh", "-c", "make test | tee log"]);
        two.expect = Some(ExpectRule { stdout: Some("^0 errors$".into()), ..ExpectRule::default() });
        assert_eq!(reason_cannot_fail(&two), None);
        two.expect = Some(ExpectRule { stdout: Some(".*".into()), ..ExpectRule::default() });
        assert!(reason_cannot_fail(&two).is_some());
    }
}
