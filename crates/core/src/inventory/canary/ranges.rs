//! The places in a test that hold expected values: literals in assertions, in values called `expected`, and in rows of
//! tables; where there is none, the comparison itself.

use super::super::tokens::{SourceTokens, TokenKind};
use super::{CanaryEdit, CanaryLanguage, CanaryTest, literals};

/// A literal that an assertion compares with.
const COMPARED: u8 = 0;
/// A literal that a name such as `expected` gets.
const NAMED: u8 = 1;
/// The last literal of a row.
const ROW: u8 = 2;
/// The comparison.
const COMPARISON: u8 = 3;

/// From the best kind of site to the worst.
pub(super) const RANKS: [u8; 4] = [COMPARED, NAMED, ROW, COMPARISON];

/// Most tokens of one test that are read.
const TOKENS_MAX: usize = 50_000;

/// One place that can be falsified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CanarySite {
    pub(super) rank: u8,
    start: usize,
    end: usize,
    /// The new text, for a comparison; a literal gets its value by a roll.
    inverted: Option<String>,
}

impl CanarySite {
    pub(super) fn edit(&self, text: &str, language: CanaryLanguage, roll: u64) -> Option<CanaryEdit> {
        let old = text.get(self.start..self.end)?;
        let new = match &self.inverted {
            Some(new) => new.clone(),
            None if old.starts_with(|c: char| c.is_ascii_digit()) => literals::number(old, roll)?,
            None => match literals::boolean(old) {
                Some(other) => other.to_owned(),
                None if old.contains(['"', '\'', '`']) && !old.starts_with('/') => literals::text(old, language, roll)?,
                None => literals::words(old, roll),
            },
        };
        (new != old).then_some(CanaryEdit { start: self.start, end: self.end, text: new })
    }
}

struct SiteFinder<'a> {
    text: &'a str,
    tokens: &'a SourceTokens<'a>,
    language: CanaryLanguage,
    to: usize,
    sites: Vec<CanarySite>,
}

pub(super) fn sites(
    text: &str,
    tokens: &SourceTokens<'_>,
    language: CanaryLanguage,
    test: &CanaryTest,
) -> Vec<CanarySite> {
    let from = (0..tokens.len()).find(|at| tokens.span(*at).0 >= test.start).unwrap_or(tokens.len());
    let to = (from..tokens.len().min(from + TOKENS_MAX)).find(|at| tokens.span(*at).0 >= test.end);
    let to = to.unwrap_or(tokens.len().min(from + TOKENS_MAX));
    let mut finder = SiteFinder { text, tokens, language, to, sites: Vec::new() };
    let mut at = from;
    while at < to {
        at = finder.step(at).max(at + 1);
    }
    finder.rows(from);
    finder.sites
}

/// Functions around an expected value that do not compute it.
const WRAPPERS: &str = " Some Ok Err approx set list tuple dict frozenset String from Decimal Vec vec Box Right Left \
    Set Map Array of arrayOf listOf List eq eql be equal contain_exactly ";

impl SiteFinder<'_> {
    /// Reads the assertion at a token, if there is one, and returns the token after it.
    fn step(&mut self, at: usize) -> usize {
        if self.language == CanaryLanguage::Shell {
            return self.shell(at);
        }
        let word = self.tokens.word(at);
        if word.is_empty() || !is_assertion(word) {
            return at + 1;
        }
        if word.to_ascii_lowercase().starts_with("expected") || word == "want" {
            return self.named(at);
        }
        if word == "require" && self.tokens.is(at + 1, b'(') || word == "check" && self.tokens.is(at + 1, b'.') {
            return at + 1;
        }
        self.invert(at);
        self.assertion(at)
    }

    /// `expected = 5`, `want := "x"`, `expected: 5`.
    fn named(&mut self, at: usize) -> usize {
        let mut next = at + 1;
        while self.tokens.is(next, b':') || self.tokens.is(next, b'=') {
            next += 1;
        }
        if next == at + 1 {
            return at + 1;
        }
        let end = self.statement_end(next);
        self.literals(next, end, NAMED);
        end
    }

    /// The arguments of an assertion's calls, or the rest of its statement.
    fn assertion(&mut self, at: usize) -> usize {
        let mut next = if self.tokens.is(at + 1, b'!') { at + 2 } else { at + 1 };
        let takes_one = matches!(
            self.tokens.word(at),
            "assert" | "debug_assert" | "assertTrue" | "assertFalse" | "assert_true" | "assert_false"
        ) && !self.tokens.is(at + 1, b'.');
        let mut called = false;
        loop {
            if self.tokens.is(next, b'.') && !self.tokens.word(next + 1).is_empty() {
                next += 2;
            } else if self.tokens.is(next, b'(') || self.tokens.is(next, b'[') || self.tokens.is(next, b'{') {
                let adjacent = self.tokens.span(next).0 == self.tokens.span(next - 1).1;
                if !adjacent {
                    break;
                }
                let close = self.tokens.partner(next).min(self.to);
                self.arguments(next + 1, close, if takes_one { 1 } else { 2 });
                (called, next) = (true, close + 1);
            } else {
                break;
            }
        }
        if called && !matches!(self.language, CanaryLanguage::Python | CanaryLanguage::Ruby) {
            return next;
        }
        if called
            && next < self.to
            && !self.starts_line(next)
            && self.language == CanaryLanguage::Python
            && self.tokens.word(at) != "assert"
        {
            return next;
        }
        let end = self.statement_end(next);
        // After a comma follows the message.
        let comma = (self.language == CanaryLanguage::Python).then(|| self.tokens.find_sign(next, b",")).flatten();
        self.literals(next, comma.filter(|comma| *comma < end).unwrap_or(end), COMPARED);
        end
    }

    /// The literals of a call's first `count` arguments; later ones are messages.
    fn arguments(&mut self, from: usize, to: usize, count: usize) {
        let (mut start, mut left) = (from, count);
        while start < to && left > 0 {
            let end = self.tokens.find_sign(start, b",").filter(|comma| *comma < to).unwrap_or(to);
            self.literals(start, end, COMPARED);
            (start, left) = (end + 1, left - 1);
        }
    }

    /// The literals between two tokens that are no argument of a call and no index.
    fn literals(&mut self, from: usize, to: usize, rank: u8) {
        let mut at = from;
        while at < to.min(self.to) {
            if let Some(TokenKind::Sign(b'(' | b'[' | b'{')) = self.tokens.kind(at)
                && self.is_call(at)
            {
                at = self.tokens.partner(at).max(at) + 1;
                continue;
            }
            at = self.literal(at, rank);
        }
    }

    fn is_call(&self, open: usize) -> bool {
        let before = open.wrapping_sub(1);
        let word = self.tokens.word(before);
        if !word.is_empty() {
            let is_operator = matches!(word, "in" | "not" | "and" | "or" | "is" | "return" | "assert");
            return !is_operator && !WRAPPERS.contains(&format!(" {word} "));
        }
        self.tokens.is(before, b')') || self.tokens.is(before, b']')
    }

    /// Takes the literal at a token, and returns the token after it.
    fn literal(&mut self, at: usize, rank: u8) -> usize {
        let (start, mut end) = self.tokens.span(at);
        let is_bound = [at.wrapping_sub(1), at + 1].iter().any(|near| self.is_bound(*near, at));
        let mut next = at + 1;
        match self.tokens.kind(at) {
            Some(TokenKind::Text) => {}
            Some(TokenKind::Word) if self.tokens.word(at).starts_with(|c: char| c.is_ascii_digit()) => {
                if self.tokens.is(at.wrapping_sub(1), b'.') {
                    return next;
                }
                let (dot, part) = (self.tokens.span(at + 1), self.tokens.span(at + 2));
                let is_float = self.tokens.is(at + 1, b'.') && dot.0 == end && part.0 == dot.1;
                if is_float && self.tokens.word(at + 2).starts_with(|c: char| c.is_ascii_digit()) {
                    (end, next) = (part.1, at + 3);
                }
            }
            Some(TokenKind::Word) if literals::boolean(self.tokens.word(at)).is_some() => {}
            _ => return next,
        }
        // A key of a mapping is no value, and a literal with a method is a subject.
        let is_key = self.tokens.is(next, b':')
            && !self.tokens.is(next + 1, b':')
            && self.tokens.kind(at) == Some(TokenKind::Text);
        if !is_bound && !is_key {
            self.sites.push(CanarySite { rank, start, end, inverted: None });
        }
        next
    }

    /// Whether the sign beside a literal makes it a bound, which may move without effect.
    fn is_bound(&self, near: usize, literal: usize) -> bool {
        let is_arrow = self.tokens.is(near, b'>')
            && near > 0
            && (self.tokens.is(near - 1, b'=') || self.tokens.is(near - 1, b'-'));
        let touches = near.abs_diff(literal) == 1;
        touches && !is_arrow && (self.tokens.is(near, b'<') || self.tokens.is(near, b'>'))
    }

    /// The last literal of each row of literals.
    fn rows(&mut self, from: usize) {
        for open in from..self.to {
            if !matches!(self.tokens.kind(open), Some(TokenKind::Sign(b'(' | b'[' | b'{'))) {
                continue;
            }
            let close = self.tokens.partner(open);
            if close > self.to || close < open + 4 || self.names_parameters(open) {
                continue;
            }
            let plain = |at: usize| match self.tokens.kind(at) {
                Some(TokenKind::Text) => true,
                Some(TokenKind::Word) => {
                    let word = self.tokens.word(at);
                    word.starts_with(|c: char| c.is_ascii_digit())
                        || literals::boolean(word).is_some()
                        || word == "None"
                }
                Some(TokenKind::Sign(sign)) => matches!(sign, b',' | b'-' | b'.' | b'[' | b']' | b'&'),
                None => false,
            };
            if (open + 1..close).all(plain) && self.tokens.find_sign(open + 1, b",").is_some_and(|comma| comma < close)
            {
                self.last_literal(open + 1, close);
            }
        }
    }

    /// Whether a bracket holds the names of pytest's parameters: with another name the whole file cannot be loaded.
    fn names_parameters(&self, open: usize) -> bool {
        open >= 2 && self.tokens.is(open - 1, b'(') && self.tokens.word(open - 2) == "parametrize"
    }

    fn last_literal(&mut self, from: usize, to: usize) {
        let known = self.sites.len();
        self.literals(from, to, ROW);
        if self.sites.len() > known + 1 {
            let last = self.sites.len() - 1;
            self.sites.swap(known, last);
            self.sites.truncate(known + 1);
        }
    }

    /// The comparison of an assertion, turned around.
    fn invert(&mut self, at: usize) {
        let word = self.tokens.word(at);
        let (start, end) = self.tokens.span(at);
        let mut push = |start, end, new: String| {
            self.sites.push(CanarySite { rank: COMPARISON, start, end, inverted: Some(new) });
        };
        if let Some(other) = inverse(word) {
            return push(start, end, other.to_owned());
        }
        let open = if self.tokens.is(at + 1, b'!') { at + 2 } else { at + 1 };
        match (self.language, word) {
            (CanaryLanguage::Python, "assert") if !self.tokens.is(at + 1, b'.') => push(end, end, " not".to_owned()),
            (CanaryLanguage::Rust, "assert") | (CanaryLanguage::JavaScript, "assert" | "ok")
                if self.tokens.is(open, b'(') =>
            {
                let close = self.tokens.partner(open);
                let end = self.tokens.find_sign(open + 1, b",").filter(|comma| *comma < close).unwrap_or(close);
                if end > open + 1 && end < self.to {
                    let (from, to) = (self.tokens.span(open + 1).0, self.tokens.span(end - 1).1);
                    let inner = self.text.get(from..to).unwrap_or_default();
                    push(from, to, format!("!({inner})"));
                }
            }
            (CanaryLanguage::JavaScript, "expect") if self.tokens.is(at + 1, b'(') => {
                let dot = self.tokens.partner(at + 1) + 1;
                if self.tokens.is(dot, b'.') && self.tokens.word(dot + 1).starts_with("to") {
                    let place = self.tokens.span(dot).0;
                    push(place, place, ".not".to_owned());
                }
            }
            _ => {}
        }
    }

    /// Values after a comparison of `test`, `[` or a `case`, and the comparison itself.
    fn shell(&mut self, at: usize) -> usize {
        let tokens = self.tokens;
        let compares = tokens.is(at, b'=') && !tokens.is(at + 1, b'=');
        let is_flag = tokens.is(at, b'-') && matches!(tokens.word(at + 1), "eq" | "ne");
        let value = if compares {
            at + 1
        } else if is_flag {
            at + 2
        } else {
            return self.shell_call(at);
        };
        let spaced = tokens.span(at).0 > 0 && self.text.as_bytes()[tokens.span(at).0 - 1] == b' ';
        if !spaced || self.starts_line(value) {
            return at + 1;
        }
        let (start, end) = tokens.span(value);
        let old = self.text.get(start..end).unwrap_or_default();
        let is_value = tokens.kind(value) == Some(TokenKind::Text) || (!old.is_empty() && !old.starts_with('$'));
        let next_space = self
            .text
            .as_bytes()
            .get(end)
            .is_none_or(|byte| byte.is_ascii_whitespace() || *byte == b']' || *byte == b';');
        if is_value && next_space && tokens.kind(value) != Some(TokenKind::Sign(b'$')) {
            self.sites.push(CanarySite { rank: COMPARED, start, end, inverted: None });
        }
        let (start, end) = if compares { tokens.span(at) } else { (tokens.span(at).0, tokens.span(at + 1).1) };
        let is_double = compares && tokens.is(at.wrapping_sub(1), b'=');
        let inverted = match (compares, tokens.word(at + 1)) {
            (true, _) if tokens.is(at.wrapping_sub(1), b'!') || is_double => return value + 1,
            (true, _) => "!=",
            (false, "eq") => "-ne",
            _ => "-eq",
        };
        self.sites.push(CanarySite { rank: COMPARISON, start, end, inverted: Some(inverted.to_owned()) });
        value + 1
    }

    /// `assert_eq "$(f 2)" 4`, `expect 4 "$(f 2)"`, `grep -q "text"`: the texts of the statement.
    fn shell_call(&mut self, at: usize) -> usize {
        let word = self.tokens.word(at);
        let starts = at == 0
            || self.starts_line(at)
            || matches!(self.tokens.kind(at - 1), Some(TokenKind::Sign(b'|' | b'&' | b';' | b'{')));
        let is_check =
            !word.is_empty() && starts && (is_assertion(word) || word == "grep" || word == "diff" || word == "echo");
        let is_definition = self.tokens.is(at + 1, b'(');
        if !is_check || is_definition || word == "echo" && !self.text.contains("diff") {
            return at + 1;
        }
        let end = self.statement_end(at + 1);
        for one in at + 1..end {
            let (start, stop) = self.tokens.span(one);
            let old = self.text.get(start..stop).unwrap_or_default();
            let is_number = old.parse::<u64>().is_ok() && self.text.as_bytes()[start.saturating_sub(1)] == b' ';
            if is_number || self.tokens.kind(one) == Some(TokenKind::Text) {
                self.sites.push(CanarySite { rank: COMPARED, start, end: stop, inverted: None });
            }
        }
        end
    }

    fn starts_line(&self, at: usize) -> bool {
        let (before, here) = (self.tokens.span(at.wrapping_sub(1)).1, self.tokens.span(at).0);
        at > 0 && self.text.get(before..here).is_some_and(|between| between.contains('\n'))
    }

    /// The token after the statement: the next line outside brackets.
    fn statement_end(&self, from: usize) -> usize {
        let mut at = from;
        while at < self.to {
            if (at > from && self.starts_line(at)) || self.tokens.is(at, b';') {
                return at;
            }
            match self.tokens.kind(at) {
                Some(TokenKind::Sign(b'(' | b'[' | b'{')) => at = self.tokens.partner(at).max(at) + 1,
                Some(TokenKind::Sign(b')' | b']' | b'}')) => return at,
                _ => at += 1,
            }
        }
        self.to
    }
}

/// Names of functions and macros that compare.
fn is_assertion(word: &str) -> bool {
    const PARTS: [&str; 9] = ["assert", "expect", "equal", "should", "verify", "check", "require", "ensure", "must"];
    let lower = word.to_ascii_lowercase();
    PARTS.iter().any(|part| lower.contains(part)) || matches!(word, "ok" | "is" | "eq" | "same" | "want")
}

/// The assertion that holds exactly when this one does not.
fn inverse(word: &str) -> Option<&'static str> {
    const PAIRS: [(&str, &str); 20] = [
        ("assertEqual", "assertNotEqual"),
        ("assertTrue", "assertFalse"),
        ("assertFalse", "assertTrue"),
        ("assertIn", "assertNotIn"),
        ("assertNotIn", "assertIn"),
        ("assertIs", "assertIsNot"),
        ("assertIsNone", "assertIsNotNone"),
        ("assertIsNotNone", "assertIsNone"),
        ("assertIsInstance", "assertNotIsInstance"),
        ("assert_eq", "assert_ne"),
        ("assert_ne", "assert_eq"),
        ("assertEquals", "assertNotEquals"),
        ("assertNull", "assertNotNull"),
        ("assertNotNull", "assertNull"),
        ("assert_equal", "refute_equal"),
        ("EXPECT_EQ", "EXPECT_NE"),
        ("ASSERT_EQ", "ASSERT_NE"),
        ("EXPECT_TRUE", "EXPECT_FALSE"),
        ("EXPECT_FALSE", "EXPECT_TRUE"),
        ("ASSERT_TRUE", "ASSERT_FALSE"),
    ];
    PAIRS.iter().find(|(from, _)| *from == word).map(|(_, to)| *to)
}
