//! Rust tests: functions with a test attribute, named by the modules around them.
//!
//! A macro or a function around a test becomes part of its name. So a test inside a macro that is never expanded, or
//! inside a function that is never called, is not the test that base had.

use super::mask::CommentGrammar;
use super::tokens::{SourceTokens, TokenKind};
use super::{DEPTH_MAX, InventoryTest, TESTS_MAX};
use std::collections::BTreeSet;

/// The module, macro, function or block around a test.
#[derive(Debug, Default)]
struct Scope {
    /// Token index at which it ends.
    end: usize,
    /// Its part of the name; empty for plain blocks.
    name: String,
    guards: BTreeSet<String>,
    is_off: bool,
}

/// Attributes collected before an item.
#[derive(Debug, Default)]
struct Attributes {
    is_test: bool,
    is_off: bool,
    is_cfg_test: bool,
    guards: BTreeSet<String>,
}

pub(super) fn tests(text: &str) -> Vec<InventoryTest> {
    let tokens = SourceTokens::of(text, CommentGrammar::Rust);
    let mut reader = Reader {
        tokens: &tokens,
        scopes: vec![Scope { end: usize::MAX, ..Scope::default() }],
        makers: BTreeSet::new(),
        found: Vec::new(),
    };
    reader.read();
    reader.found
}

struct Reader<'a> {
    tokens: &'a SourceTokens<'a>,
    scopes: Vec<Scope>,
    /// Macros of this file that generate tests.
    makers: BTreeSet<String>,
    found: Vec<InventoryTest>,
}

impl Reader<'_> {
    fn read(&mut self) {
        let mut at = 0;
        let mut attributes = Attributes::default();
        while at < self.tokens.len() && self.scopes.len() < DEPTH_MAX && self.found.len() < TESTS_MAX {
            while self.scopes.len() > 1 && self.scopes.last().is_some_and(|scope| at >= scope.end) {
                self.scopes.pop();
            }
            at = match self.tokens.kind(at) {
                Some(TokenKind::Sign(b'#')) => self.attribute(at, &mut attributes),
                Some(TokenKind::Word) => self.word(at, &mut attributes),
                Some(TokenKind::Sign(b'{')) => self.open(at, String::new(), std::mem::take(&mut attributes)),
                Some(TokenKind::Sign(b';' | b'}')) => {
                    attributes = Attributes::default();
                    at + 1
                }
                _ => at + 1,
            };
        }
    }

    fn attribute(&mut self, at: usize, attributes: &mut Attributes) -> usize {
        let is_inner = self.tokens.is(at + 1, b'!');
        let open = at + 1 + usize::from(is_inner);
        if !self.tokens.is(open, b'[') {
            return at + 1;
        }
        let close = self.tokens.partner(open);
        if is_inner {
            let mut inner = Attributes::default();
            classify(self.tokens, open + 1, close, &mut inner);
            if let Some(scope) = self.scopes.last_mut() {
                scope.is_off |= inner.is_off;
                scope.guards.extend(inner.guards);
            }
        } else {
            classify(self.tokens, open + 1, close, attributes);
        }
        close.saturating_add(1)
    }

    fn word(&mut self, at: usize, attributes: &mut Attributes) -> usize {
        let name = self.tokens.word(at + 1);
        match self.tokens.word(at) {
            "fn" if !name.is_empty() => self.function(at + 1, std::mem::take(attributes)),
            "mod" if !name.is_empty() => self.module(at + 1, std::mem::take(attributes)),
            "macro_rules" if self.tokens.is(at + 1, b'!') => {
                let open = self.tokens.find_sign(at + 2, b"{([").unwrap_or(at);
                if self.makes_tests(open) {
                    self.makers.insert(self.tokens.word(at + 2).to_owned());
                }
                let off = Attributes { is_off: true, ..Attributes::default() };
                self.open(open, "macro_rules!".to_owned(), off)
            }
            "impl" | "trait" => {
                let open = self.tokens.find_sign(at + 1, b"{;").unwrap_or(at);
                let guards = std::mem::take(attributes);
                if self.tokens.is(open, b'{') { self.open(open, String::new(), guards) } else { open + 1 }
            }
            // A macro call at item level: `proptest! { … }`.
            word if self.tokens.is(at + 1, b'!') => {
                let is_open = [b'{', b'(', b'['].iter().any(|sign| self.tokens.is(at + 2, *sign));
                if is_open && self.makers.contains(word) {
                    self.made(at);
                }
                if is_open { self.open(at + 2, format!("{word}!"), std::mem::take(attributes)) } else { at + 1 }
            }
            _ => at + 1,
        }
    }

    /// Whether a macro's definition holds a test attribute.
    fn makes_tests(&self, open: usize) -> bool {
        (open..self.tokens.partner(open).min(self.tokens.len())).any(|at| {
            let mut attributes = Attributes::default();
            if self.tokens.is(at, b'#') && self.tokens.is(at + 1, b'[') {
                classify(self.tokens, at + 2, self.tokens.partner(at + 1), &mut attributes);
            }
            attributes.is_test
        })
    }

    /// A call of a macro that generates tests is a test id, named by the first argument.
    fn made(&mut self, at: usize) {
        let (open, close) = (at + 2, self.tokens.partner(at + 2));
        let end = self.tokens.find_sign(open + 1, b",").unwrap_or(close).min(close).min(open + 9);
        let name = format!("{}!({})", self.tokens.word(at), self.tokens.source(open + 1, end));
        let test = InventoryTest { assertions: 1, ..self.test(&name, Attributes::default()) };
        self.found.push(test);
    }

    fn open(&mut self, at: usize, name: String, attributes: Attributes) -> usize {
        let end = self.tokens.partner(at);
        self.scopes.push(Scope { end, name, guards: attributes.guards, is_off: attributes.is_off });
        at + 1
    }

    fn module(&mut self, at: usize, attributes: Attributes) -> usize {
        let name = self.tokens.word(at).to_owned();
        if self.tokens.is(at + 1, b'{') {
            return self.open(at + 1, name, attributes);
        }
        // `mod tests;` links a file; without the line its tests are not compiled, so the line itself is a test id.
        let is_link = self.tokens.is(at + 1, b';');
        if is_link && (attributes.is_cfg_test || name.contains("test")) {
            let test = InventoryTest { assertions: 1, ..self.test(&format!("mod {name}"), attributes) };
            self.found.push(test);
        }
        at + 1
    }

    fn function(&mut self, at: usize, attributes: Attributes) -> usize {
        let name = self.tokens.word(at);
        let Some(open) = self.tokens.find_sign(at + 1, b"{;").filter(|open| self.tokens.is(*open, b'{')) else {
            return at + 1;
        };
        let close = self.tokens.partner(open);
        if attributes.is_test {
            let guards = attributes.guards.clone();
            let test = self.test(name, attributes);
            let body = self.body(open + 1, close);
            // Formatters add and remove commas before a closing bracket.
            let text = self.tokens.source(open + 1, close);
            let text = text.replace(",)", ")").replace(",]", "]").replace(",}", "}");
            self.found.push(InventoryTest { assertions: body.0, is_empty: body.1, text: Some(text), ..test });
            return self.open(open, format!("{name}()"), Attributes { guards, ..Attributes::default() });
        }
        self.open(open, format!("{name}()"), attributes)
    }

    fn test(&self, name: &str, attributes: Attributes) -> InventoryTest {
        let around = self.scopes.iter().map(|scope| scope.name.as_str()).filter(|name| !name.is_empty());
        let path: Vec<&str> = around.chain([name]).collect();
        let mut guards = attributes.guards;
        guards.extend(self.scopes.iter().flat_map(|scope| scope.guards.iter().cloned()));
        let is_skipped = attributes.is_off || self.scopes.iter().any(|scope| scope.is_off);
        InventoryTest { name: path.join("::"), is_skipped, guards, ..InventoryTest::default() }
    }

    /// The assertions of a body, and whether it has no effect: no tokens, or it returns at once.
    fn body(&self, from: usize, to: usize) -> (usize, bool) {
        let returns = self.tokens.word(from) == "return" && self.tokens.is(from + 1, b';');
        let question_marks = (from..to.min(self.tokens.len())).filter(|at| self.tokens.is(*at, b'?')).count();
        let assertions = if returns { 0 } else { self.tokens.assertions(from, to) + question_marks };
        (assertions, from >= to || returns)
    }
}

/// Reads one attribute, without its brackets.
fn classify(tokens: &SourceTokens<'_>, from: usize, to: usize, attributes: &mut Attributes) {
    let mut last = from;
    while tokens.is(last + 1, b':') && tokens.is(last + 2, b':') && last + 3 < to {
        last += 3;
    }
    let source = tokens.source(from, to);
    match tokens.word(last) {
        "test" | "rstest" | "test_case" | "quickcheck" | "wasm_bindgen_test" | "test_log" | "gtest" => {
            attributes.is_test = true
        }
        "ignore" => attributes.is_off = true,
        // `path` can change a module's file while its name stays.
        "path" => drop(attributes.guards.insert(source)),
        "cfg" => match cfg(&source) {
            Some(true) => attributes.is_cfg_test |= source.contains("test"),
            Some(false) => attributes.is_off = true,
            None => drop(attributes.guards.insert(source)),
        },
        // `should_panic` lets a test pass by panicking; `cfg_attr` can disable it under a condition.
        "should_panic" => drop(attributes.guards.insert("should_panic".to_owned())),
        "cfg_attr" if source.contains("ignore") || source.contains("cfg(") => drop(attributes.guards.insert(source)),
        _ => {}
    }
}

/// The value of a `cfg` on the machines that run gates: true, false, or `None` if it depends.
fn cfg(source: &str) -> Option<bool> {
    let inner = source.strip_prefix("cfg(")?.strip_suffix(')')?;
    const HOLD: &str = "test unix all() true debug_assertions not(miri) not(windows) target_os=\"linux\" \
        target_family=\"unix\" not(any()) not(loom) all(test)";
    const FAIL: &str = "any() false not(test) not(all()) all(any()) windows miri";
    let has = |words: &str| words.split_whitespace().any(|word| word == inner);
    if has(HOLD) { Some(true) } else { has(FAIL).then_some(false) }
}
