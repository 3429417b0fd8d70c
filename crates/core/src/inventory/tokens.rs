//! Tokens of masked code, with the partner of every bracket: the input of the parsers for languages with braces.

use super::mask::{CommentGrammar, is_word, mask};

/// The largest number of tokens of one body that are searched for assertions.
const BODY_TOKENS_MAX: usize = 50_000;

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An identifier, keyword or number.
    Word,
    /// A literal that was masked.
    Text,
    /// Any other byte.
    Sign(u8),
}

#[derive(Debug, Clone, Copy)]
struct Token {
    kind: TokenKind,
    start: usize,
    end: usize,
    /// Index of the matching bracket; the number of tokens if there is none.
    partner: usize,
}

/// The tokens of one file.
pub(super) struct SourceTokens<'a> {
    text: &'a str,
    tokens: Vec<Token>,
}

impl<'a> SourceTokens<'a> {
    pub(super) fn of(text: &'a str, grammar: CommentGrammar) -> Self {
        let code = mask(text, grammar);
        let mut tokens = split(&code);
        pair(&mut tokens);
        Self { text, tokens }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn kind(&self, at: usize) -> Option<TokenKind> {
        self.tokens.get(at).map(|token| token.kind)
    }

    /// The source of a word or a literal; empty for signs and past the end.
    pub(super) fn word(&self, at: usize) -> &'a str {
        match self.tokens.get(at) {
            Some(token) if token.kind == TokenKind::Word => self.text.get(token.start..token.end).unwrap_or_default(),
            _ => "",
        }
    }

    /// The bytes of a token; the end of the text past the last one.
    pub(super) fn span(&self, at: usize) -> (usize, usize) {
        self.tokens.get(at).map_or((self.text.len(), self.text.len()), |token| (token.start, token.end))
    }

    /// A literal's source with its quotes.
    pub(super) fn literal(&self, at: usize) -> Option<&'a str> {
        let token = self.tokens.get(at).filter(|token| token.kind == TokenKind::Text)?;
        self.text.get(token.start..token.end)
    }

    pub(super) fn is(&self, at: usize, sign: u8) -> bool {
        self.kind(at) == Some(TokenKind::Sign(sign))
    }

    /// The matching bracket, or the number of tokens.
    pub(super) fn partner(&self, at: usize) -> usize {
        self.tokens.get(at).map_or(self.tokens.len(), |token| token.partner)
    }

    /// The source from the first to before the last token, white space folded: the spelling of guards.
    pub(super) fn source(&self, from: usize, to: usize) -> String {
        let mut out = String::new();
        for token in self.tokens.get(from..to.min(self.tokens.len())).unwrap_or_default() {
            out.push_str(self.text.get(token.start..token.end).unwrap_or_default());
        }
        out
    }

    /// The next token from `from` on, outside brackets, that is one of `signs`; brackets in between are skipped.
    pub(super) fn find_sign(&self, from: usize, signs: &[u8]) -> Option<usize> {
        let mut at = from;
        while let Some(kind) = self.kind(at) {
            match kind {
                TokenKind::Sign(sign) if signs.contains(&sign) => return Some(at),
                TokenKind::Sign(b'(' | b'[' | b'{') => at = self.partner(at).max(at) + 1,
                TokenKind::Sign(b')' | b']' | b'}') => return None,
                _ => at += 1,
            }
        }
        None
    }

    /// Calls between two tokens that look like assertions and whose arguments could differ from run to run.
    pub(super) fn assertions(&self, from: usize, to: usize) -> usize {
        (from..to.min(self.len())).take(BODY_TOKENS_MAX).filter(|at| self.is_assertion(*at)).count()
    }

    fn is_assertion(&self, at: usize) -> bool {
        let word = self.word(at);
        if word.is_empty() || !looks_like_assertion(word) {
            return false;
        }
        let open = if self.is(at + 1, b'!') { at + 2 } else { at + 1 };
        match self.kind(open) {
            Some(TokenKind::Sign(b'(' | b'[' | b'{')) => self.could_differ(open + 1, self.partner(open)),
            // `expect.soft(…)`, `assert.equal(…)`: the call follows the dot.
            Some(TokenKind::Sign(b'.')) => self.is_chained_call(open),
            _ => false,
        }
    }

    fn is_chained_call(&self, dot: usize) -> bool {
        let mut at = dot;
        while self.is(at, b'.') && !self.word(at + 1).is_empty() {
            at += 2;
        }
        self.is(at, b'(') && self.could_differ(at + 1, self.partner(at))
    }

    /// Literals alone cannot fail: `assert!(true)`, `expect(1).toBe(1)`, `assert_eq!(x, x)`.
    fn could_differ(&self, from: usize, to: usize) -> bool {
        let has_name = (from..to.min(self.len())).any(|at| {
            let word = self.word(at);
            !word.is_empty()
                && !word.starts_with(|c: char| c.is_ascii_digit())
                && !matches!(word, "true" | "false" | "null" | "undefined" | "nil")
        });
        // A method without arguments, such as `.unwrap()` or `.should()`, asserts the expression before it.
        if from >= to {
            return from > 1 && self.is(from.saturating_sub(3), b'.');
        }
        let same = self
            .find_sign(from, b",")
            .filter(|comma| *comma < to)
            .is_some_and(|comma| self.source(from, comma) == self.source(comma + 1, to));
        has_name && !same
    }
}

/// Common names of functions that can fail a test. Broad on purpose: a test whose assertions moved into a helper called
/// `check_totals` still asserts.
pub(super) fn looks_like_assertion(word: &str) -> bool {
    const PARTS: [&str; 22] = [
        "assert", "expect", "check", "verify", "ensure", "should", "must", "require", "raises", "throws", "fail",
        "fatal", "error", "panic", "unwrap", "snapshot", "equal", "compare", "validate", "matches", "deny", "case",
    ];
    let lower = word.to_ascii_lowercase();
    PARTS.iter().any(|part| lower.contains(part))
}

fn split(code: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let start = at;
        let byte = code[at];
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let kind = if is_word(byte) {
            while at < code.len() && is_word(code[at]) {
                at += 1;
            }
            TokenKind::Word
        } else if byte == b'"' {
            // A masked literal holds only spaces up to its closing mark.
            at += 1;
            while at < code.len() && code[at] != b'"' {
                at += 1;
            }
            at = (at + 1).min(code.len());
            TokenKind::Text
        } else {
            at += 1;
            TokenKind::Sign(byte)
        };
        tokens.push(Token { kind, start, end: at, partner: usize::MAX });
    }
    tokens
}

/// Finds partners. A closing bracket of another kind also closes an opening bracket, so that broken code ends.
fn pair(tokens: &mut [Token]) {
    let mut open: Vec<usize> = Vec::new();
    let end = tokens.len();
    for at in 0..end {
        match tokens[at].kind {
            TokenKind::Sign(b'(' | b'[' | b'{') => open.push(at),
            TokenKind::Sign(b')' | b']' | b'}') => {
                if let Some(start) = open.pop() {
                    tokens[start].partner = at;
                    tokens[at].partner = start;
                }
            }
            _ => {}
        }
    }
    tokens.iter_mut().filter(|token| token.partner == usize::MAX).for_each(|token| token.partner = end);
}
