//! JavaScript and TypeScript tests: calls of `test`, `it` and `describe` with their names, as in node:test, jest,
//! vitest and mocha.
//!
//! A function or a condition around a test becomes part of its name or its guards. `.only` anywhere disables all other
//! tests of the file.

use super::mask::CommentGrammar;
use super::tokens::{SourceTokens, TokenKind};
use super::{DEPTH_MAX, InventoryTest, TESTS_MAX};
use std::collections::BTreeSet;

/// `*.test.*`, `*.spec.*`, and files in test folders.
pub(super) fn is_test(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_named = [".test.", ".spec.", "_test.", "-test.", ".tests."].iter().any(|part| name.contains(part))
        || name.starts_with("test.")
        || name.starts_with("test-");
    is_named || folder.split('/').any(|part| matches!(part, "__tests__" | "test" | "tests" | "spec"))
}

#[derive(Default)]
struct Scope {
    end: usize,
    name: String,
    guards: BTreeSet<String>,
    is_off: bool,
    is_only: bool,
    /// Arrow functions in this scope are callbacks of a suite, not functions that other code must call.
    is_suite: bool,
}

/// A call that declares a test or a suite.
struct Call {
    is_suite: bool,
    is_off: bool,
    is_only: bool,
    guards: BTreeSet<String>,
    /// Index of the opening parenthesis.
    open: usize,
}

pub(super) fn tests(path: &str, text: &str) -> Vec<InventoryTest> {
    let tokens = SourceTokens::of(text, CommentGrammar::JavaScript);
    let mut reader = Reader { tokens: &tokens, scopes: Vec::new(), found: Vec::new() };
    reader.read();
    let has_only = reader.found.iter().any(|(_, is_only)| *is_only);
    let is_collected = path.rsplit('/').next().is_some_and(|name| name.contains("test") || name.contains("spec"));
    let finish = |(mut test, is_only): (InventoryTest, bool)| {
        test.is_skipped |= has_only && !is_only;
        if !is_collected {
            test.guards.insert("file is not collected by its name".to_owned());
        }
        test
    };
    reader.found.into_iter().map(finish).collect()
}

struct Reader<'a> {
    tokens: &'a SourceTokens<'a>,
    scopes: Vec<Scope>,
    found: Vec<(InventoryTest, bool)>,
}

impl Reader<'_> {
    fn read(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() && self.scopes.len() < DEPTH_MAX && self.found.len() < TESTS_MAX {
            while self.scopes.last().is_some_and(|scope| at >= scope.end) {
                self.scopes.pop();
            }
            if let Some(call) = self.call(at) {
                at = self.declare(call);
                continue;
            }
            if self.tokens.is(at, b'{') {
                self.block(at);
            }
            at += 1;
        }
    }

    /// Parses `test`, `it.skip.each([…])`, `xdescribe`, `t.test` and so on, up to the parenthesis with the name.
    fn call(&self, at: usize) -> Option<Call> {
        let word = self.tokens.word(at);
        let (is_suite, is_off, is_only) = match word {
            "test" | "it" | "specify" => (false, false, false),
            "xit" | "xtest" | "xspecify" => (false, true, false),
            "fit" => (false, false, true),
            "describe" | "suite" | "context" => (true, false, false),
            "xdescribe" | "xcontext" | "xsuite" => (true, true, false),
            "fdescribe" | "fcontext" => (true, false, true),
            _ => return None,
        };
        // `regex.test(x)` is not a test; `t.test`, `Deno.test`, `QUnit.test` are.
        if at > 0
            && self.tokens.is(at - 1, b'.')
            && !matches!(self.tokens.word(at.saturating_sub(2)), "t" | "Deno" | "QUnit" | "ctx" | "vitest")
        {
            return None;
        }
        // `const test = …` and `function test(` declare the name.
        if at > 0 && matches!(self.tokens.word(at - 1), "function" | "class" | "new") {
            return None;
        }
        let mut call = Call { is_suite, is_off, is_only, guards: BTreeSet::new(), open: at + 1 };
        self.modifiers(&mut call)?;
        Some(call)
    }

    fn modifiers(&self, call: &mut Call) -> Option<()> {
        let mut at = call.open;
        while self.tokens.is(at, b'.') {
            let name = self.tokens.word(at + 1);
            at += 2;
            let takes_arguments = matches!(name, "each" | "skipIf" | "runIf" | "for" | "if" | "todoIf");
            match name {
                "skip" | "todo" => call.is_off = true,
                "only" => call.is_only = true,
                "failing" | "fails" | "fail" => drop(call.guards.insert(name.to_owned())),
                "concurrent" | "sequential" | "serial" | "each" | "for" | "describe" | "shuffle" | "extend" => {}
                "skipIf" | "runIf" | "if" | "todoIf" => {
                    call.guards.insert(format!("{name}{}", self.tokens.source(at, self.tokens.partner(at) + 1)));
                }
                _ => return None,
            }
            if takes_arguments && self.tokens.is(at, b'(') {
                at = self.tokens.partner(at) + 1;
            } else if takes_arguments && self.tokens.literal(at).is_some() {
                at += 1;
            }
        }
        call.open = at;
        self.tokens.is(at, b'(').then_some(())
    }

    /// Records a test, or opens a suite; returns the position at which reading continues.
    fn declare(&mut self, mut call: Call) -> usize {
        let (open, close) = (call.open, self.tokens.partner(call.open));
        let name = self.title(open + 1, close);
        let body = self.callback(open + 1, close).unwrap_or(close);
        self.options(open + 1, body, &mut call);
        if !call.is_suite {
            // A title without a body is a to-do.
            call.is_off |= body >= close && self.tokens.find_sign(open + 1, b",").is_none_or(|comma| comma >= close);
            let test = self.test(&name, &call, (body, close));
            let is_marked = call.is_only || self.scopes.iter().any(|scope| scope.is_only);
            self.found.push((test, is_marked));
        }
        let Call { guards, is_off, is_only, is_suite, .. } = call;
        self.scopes.push(Scope { end: close, name, guards, is_off, is_only, is_suite });
        open + 1
    }

    /// The first argument: a literal's text, else its source.
    fn title(&self, from: usize, to: usize) -> String {
        if let Some(literal) = self.tokens.literal(from) {
            return literal.trim_matches(['"', '\'', '`']).to_owned();
        }
        let end = self.tokens.find_sign(from, b",").unwrap_or(to).min(to);
        self.tokens.source(from, end.min(from + 8))
    }

    /// The start of the callback's body: the brace or expression after `=>`, or the brace after `function`.
    fn callback(&self, from: usize, to: usize) -> Option<usize> {
        let mut at = from;
        while at < to {
            if self.tokens.is(at, b'=') && self.tokens.is(at + 1, b'>') {
                return Some(at + 2);
            }
            if self.tokens.word(at) == "function" {
                let open = (at..to).find(|at| self.tokens.is(*at, b'('))?;
                return Some(self.tokens.partner(open) + 1).filter(|at| *at < to);
            }
            at =
                if self.tokens.is(at, b'(') || self.tokens.is(at, b'[') { self.tokens.partner(at) + 1 } else { at + 1 };
        }
        None
    }

    /// node:test accepts `{ skip: true }`, `{ only: true }`, `{ todo: true }` before the callback.
    fn options(&self, from: usize, to: usize, call: &mut Call) {
        for at in from..to.min(self.tokens.len()) {
            if !self.tokens.is(at + 1, b':') {
                continue;
            }
            let value = self.tokens.word(at + 2);
            let is_set = value == "true" || self.tokens.literal(at + 2).is_some();
            match self.tokens.word(at) {
                "skip" | "todo" if is_set => call.is_off = true,
                "skip" | "todo" if value != "false" => drop(call.guards.insert(format!("skip:{value}"))),
                "only" if is_set => call.is_only = true,
                _ => {}
            }
        }
    }

    fn test(&self, name: &str, call: &Call, (body, close): (usize, usize)) -> InventoryTest {
        let around = self.scopes.iter().map(|scope| scope.name.as_str()).filter(|name| !name.is_empty());
        let path: Vec<&str> = around.chain([name]).collect();
        let mut guards = call.guards.clone();
        guards.extend(self.scopes.iter().flat_map(|scope| scope.guards.iter().cloned()));
        let (from, to) = if self.tokens.is(body, b'{') { (body + 1, self.tokens.partner(body)) } else { (body, close) };
        let returns =
            self.tokens.word(from) == "return" && (self.tokens.is(from + 1, b';') || self.tokens.is(from + 1, b'}'));
        let skips =
            self.tokens.word(from + 2) == "skip" && self.tokens.is(from + 1, b'.') && self.tokens.is(from + 3, b'(');
        InventoryTest {
            name: path.join(" > "),
            is_skipped: call.is_off || skips || self.scopes.iter().any(|scope| scope.is_off),
            guards,
            assertions: if returns { 0 } else { self.tokens.assertions(from, to) },
            is_empty: from >= to || returns,
            text: None,
        }
    }

    /// A block: under a condition, in a named function, or plain.
    fn block(&mut self, at: usize) {
        let end = self.tokens.partner(at);
        let mut scope = Scope { end, ..Scope::default() };
        let before = at.wrapping_sub(1);
        if at > 0 && self.tokens.is(before, b')') {
            let open = self.tokens.partner(before);
            let word = self.tokens.word(open.wrapping_sub(1));
            if word == "if" || word == "while" {
                scope.is_off = matches!(self.tokens.source(open, at).as_str(), "(false)" | "(0)");
                scope.guards.insert(format!("if {}", self.tokens.source(open, at)));
            } else if self.tokens.word(open.wrapping_sub(2)) == "function" {
                scope.name = format!("{word}()");
            }
        } else if at > 0 && self.tokens.word(before) == "else" {
            scope.guards.insert("else".to_owned());
        } else if at > 1 && self.tokens.kind(before) == Some(TokenKind::Sign(b'>')) && self.tokens.is(before - 1, b'=')
        {
            let is_callback = self.scopes.last().is_some_and(|scope| scope.is_suite) || self.is_loop_callback(at);
            // Inside a callback the next arrow function is an ordinary function again, unless it belongs to a suite of
            // its own.
            scope.name = if is_callback { String::new() } else { "=>".to_owned() };
        }
        self.scopes.push(scope);
    }

    /// Tests in `cases.forEach((x) => { test(…) })` run.
    fn is_loop_callback(&self, at: usize) -> bool {
        (at.saturating_sub(12)..at).any(|at| matches!(self.tokens.word(at), "forEach" | "map"))
    }
}
