//! Go tests: `TestX`, `FuzzX` and `ExampleX` functions of `_test.go` files, and subtests with a literal name.

use super::mask::CommentGrammar;
use super::tokens::SourceTokens;
use super::{InventoryTest, TESTS_MAX};
use std::collections::BTreeSet;

/// The largest number of subtests of one function.
const SUBTESTS_MAX: usize = 1000;

/// The largest number of tokens before a skip in which its condition is searched.
const CONDITION_TOKENS_MAX: usize = 500;

pub(super) fn tests(text: &str) -> Vec<InventoryTest> {
    let tokens = SourceTokens::of(text, CommentGrammar::Go);
    let file_guards = constraints(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() && found.len() < TESTS_MAX {
        let is_function = tokens.word(at) == "func" && is_test_name(tokens.word(at + 1)) && tokens.is(at + 2, b'(');
        let body = is_function.then(|| tokens.find_sign(at + 2, b"{")).flatten();
        let Some(open) = body else {
            at += 1;
            continue;
        };
        let close = tokens.partner(open);
        function(&tokens, tokens.word(at + 1), (open + 1, close), &file_guards, &mut found);
        at = close;
    }
    found
}

/// `Test` at the end of the name or before a character that is not a lower-case letter, as Go's own tool decides.
/// `TestMain` is not a test, but decides whether any test runs.
fn is_test_name(name: &str) -> bool {
    ["Test", "Fuzz", "Example"]
        .iter()
        .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.starts_with(|c: char| c.is_lowercase())))
}

fn function(
    tokens: &SourceTokens<'_>,
    name: &str,
    (from, to): (usize, usize),
    file_guards: &BTreeSet<String>,
    found: &mut Vec<InventoryTest>,
) {
    let mut guards = file_guards.clone();
    let is_skipped = skips(tokens, from, to, &mut guards) || (name == "TestMain" && !calls_run(tokens, from, to));
    let returns = tokens.word(from) == "return";
    found.push(InventoryTest {
        name: name.to_owned(),
        is_skipped,
        guards: guards.clone(),
        assertions: if returns { 0 } else { tokens.assertions(from, to).max(usize::from(name.starts_with("Example"))) },
        is_empty: from >= to || returns,
        text: None,
    });
    let mut subtests = 0;
    for at in from..to.min(tokens.len()) {
        let is_run = tokens.word(at) == "Run" && at > 0 && tokens.is(at - 1, b'.') && tokens.is(at + 1, b'(');
        let Some(literal) = tokens.literal(at + 2).filter(|_| is_run) else { continue };
        subtests += 1;
        if subtests > SUBTESTS_MAX {
            break;
        }
        let (open, close) = (at + 1, tokens.partner(at + 1));
        let mut inner = guards.clone();
        let is_off = is_skipped || skips(tokens, open + 1, close, &mut inner);
        let assertions = tokens.assertions(open + 1, close);
        let subtest = format!("{name}/{}", literal.trim_matches(['"', '`']));
        found.push(InventoryTest {
            name: subtest,
            is_skipped: is_off,
            guards: inner,
            assertions,
            is_empty: false,
            text: None,
        });
    }
}

/// Finds `t.Skip`, `t.Skipf`, `t.SkipNow`. At the top level of the body the test never runs; deeper, it depends on a
/// condition.
fn skips(tokens: &SourceTokens<'_>, from: usize, to: usize, guards: &mut BTreeSet<String>) -> bool {
    let mut depth = 0_usize;
    let mut skipped = false;
    let mut at = from;
    while at < to.min(tokens.len()) {
        let word = tokens.word(at);
        if word == "Run" && tokens.is(at + 1, b'(') {
            // A skip inside a subtest belongs to the subtest.
            at = tokens.partner(at + 1);
            continue;
        }
        depth = if tokens.is(at, b'{') { depth + 1 } else { depth.saturating_sub(usize::from(tokens.is(at, b'}'))) };
        let is_call = matches!(word, "Skip" | "Skipf" | "SkipNow") && at > 0 && tokens.is(at - 1, b'.');
        if is_call && depth == 0 {
            skipped = true;
        } else if is_call {
            guards.insert(condition(tokens, from, at));
        }
        at += 1;
    }
    skipped
}

/// The source of the nearest `if … {` before a token.
fn condition(tokens: &SourceTokens<'_>, from: usize, at: usize) -> String {
    let start = (from.max(at.saturating_sub(CONDITION_TOKENS_MAX))..at).rev().find(|at| tokens.word(*at) == "if");
    let Some(start) = start else { return "skip".to_owned() };
    let end = (start..at).find(|at| tokens.is(*at, b'{')).unwrap_or(at);
    format!("skip {}", tokens.source(start, end))
}

fn calls_run(tokens: &SourceTokens<'_>, from: usize, to: usize) -> bool {
    (from..to.min(tokens.len())).any(|at| tokens.word(at) == "Run")
}

/// Build constraints are comments above the package clause.
fn constraints(text: &str) -> BTreeSet<String> {
    let head = text.lines().map(str::trim).take_while(|line| !line.starts_with("package "));
    let lines = head.filter(|line| line.starts_with("//go:build ") || line.starts_with("// +build "));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
