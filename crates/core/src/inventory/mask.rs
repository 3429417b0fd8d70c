//! Blanks comments and the insides of string literals, byte for byte, so that the remaining code keeps its offsets.
//!
//! A literal becomes `"` at its first and last byte with spaces between, whatever its quotes were: later stages know
//! one kind of string. Line feeds always stay.

/// The longest pattern literal; a longer one counts as a division.
const REGEX_BYTES_MAX: usize = 4096;

/// A language's comments and strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommentGrammar {
    Rust,
    Python,
    JavaScript,
    Go,
    Shell,
}

/// The masked text; it has the length of the input.
pub(super) fn mask(text: &str, grammar: CommentGrammar) -> Vec<u8> {
    let mut masker = Masker { text: text.as_bytes(), out: text.as_bytes().to_vec(), at: 0, last: 0, grammar };
    while masker.at < masker.text.len() {
        masker.step();
    }
    masker.out
}

struct Masker<'a> {
    text: &'a [u8],
    out: Vec<u8>,
    at: usize,
    /// The last byte of code that was not blank: distinguishes a regular expression from a division.
    last: u8,
    grammar: CommentGrammar,
}

impl Masker<'_> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let end = match self.grammar {
            CommentGrammar::Rust => self.rust(rest),
            CommentGrammar::Python => self.python(rest),
            CommentGrammar::JavaScript => self.javascript(rest),
            CommentGrammar::Go => self.go(rest),
            CommentGrammar::Shell => self.shell(rest),
        };
        match end {
            Some(Piece::Comment(length)) => self.blank(length),
            Some(Piece::Literal(length)) => self.literal(length),
            None => {
                if !rest[0].is_ascii_whitespace() {
                    self.last = rest[0];
                }
                self.at += 1;
            }
        }
    }

    fn blank(&mut self, length: usize) {
        let end = (self.at + length.max(1)).min(self.text.len());
        for byte in &mut self.out[self.at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        self.at = end;
    }

    fn literal(&mut self, length: usize) {
        let (start, end) = (self.at, (self.at + length.max(1)).min(self.text.len()));
        self.blank(length);
        self.out[start] = b'"';
        self.out[end - 1] = b'"';
        self.last = b'"';
    }

    fn is_word_before(&self) -> bool {
        self.at > 0 && is_word(self.text[self.at - 1])
    }

    fn rust(&self, rest: &[u8]) -> Option<Piece> {
        match rest {
            [b'/', b'/', ..] => Some(Piece::Comment(line(rest))),
            [b'/', b'*', ..] => Some(Piece::Comment(nested_comment(rest))),
            [b'"', ..] => Some(Piece::Literal(quoted(rest, b"\"", Escapes::Yes, Lines::Many))),
            [b'r' | b'b' | b'c', ..] if !self.is_word_before() => rust_prefixed(rest),
            // `'a'` and `'\n'` are characters, `'a` is a lifetime.
            [b'\'', b'\\', ..] => Some(Piece::Literal(quoted(rest, b"'", Escapes::Yes, Lines::One))),
            [b'\'', first, ..] if *first != b'\'' => {
                let width = utf8_width(*first);
                (rest.get(1 + width) == Some(&b'\'')).then_some(Piece::Literal(2 + width))
            }
            _ => None,
        }
    }

    fn python(&self, rest: &[u8]) -> Option<Piece> {
        match rest {
            [b'#', ..] => Some(Piece::Comment(line(rest))),
            [b'"' | b'\'', ..] => Some(Piece::Literal(python_string(rest))),
            [first, ..] if is_word(*first) && !self.is_word_before() => {
                let prefix = rest.iter().take(3).take_while(|byte| b"rbfuRBFUtT".contains(byte)).count();
                let is_string = prefix > 0 && prefix < 3 && matches!(rest.get(prefix), Some(b'"' | b'\''));
                is_string.then(|| Piece::Literal(prefix + python_string(&rest[prefix..])))
            }
            _ => None,
        }
    }

    fn javascript(&self, rest: &[u8]) -> Option<Piece> {
        match rest {
            [b'/', b'/', ..] => Some(Piece::Comment(line(rest))),
            [b'/', b'*', ..] => Some(Piece::Comment(block_comment(rest))),
            [b'"' | b'\'', ..] => Some(Piece::Literal(quoted(rest, &rest[..1], Escapes::Yes, Lines::One))),
            [b'`', ..] => Some(Piece::Literal(template(rest))),
            [b'/', ..] if self.starts_regex() => Some(Piece::Literal(regex(rest))),
            _ => None,
        }
    }

    /// After a value a slash divides; after an operator, an opening bracket or a keyword it starts a pattern.
    fn starts_regex(&self) -> bool {
        if matches!(self.last, b')' | b']' | b'}' | b'"') {
            return false;
        }
        if !is_word(self.last) {
            return true;
        }
        let code = self.out[..self.at].trim_ascii_end();
        let word_start = code.iter().rposition(|byte| !is_word(*byte)).map_or(0, |at| at + 1);
        matches!(
            &code[word_start..],
            b"return" | b"typeof" | b"case" | b"in" | b"of" | b"await" | b"void" | b"do" | b"else"
        )
    }

    fn go(&self, rest: &[u8]) -> Option<Piece> {
        match rest {
            [b'/', b'/', ..] => Some(Piece::Comment(line(rest))),
            [b'/', b'*', ..] => Some(Piece::Comment(block_comment(rest))),
            [b'"' | b'\'', ..] => Some(Piece::Literal(quoted(rest, &rest[..1], Escapes::Yes, Lines::One))),
            [b'`', ..] => Some(Piece::Literal(quoted(rest, b"`", Escapes::No, Lines::Many))),
            _ => None,
        }
    }

    fn shell(&self, rest: &[u8]) -> Option<Piece> {
        let starts_word =
            self.at == 0 || matches!(self.text[self.at - 1], b' ' | b'\t' | b'\n' | b';' | b'(' | b'&' | b'|');
        match rest {
            [b'#', ..] if starts_word => Some(Piece::Comment(line(rest))),
            [b'\\', _, ..] => Some(Piece::Comment(2)),
            [b'\'', ..] => Some(Piece::Literal(quoted(rest, b"'", Escapes::No, Lines::Many))),
            [b'"', ..] => Some(Piece::Literal(quoted(rest, b"\"", Escapes::Yes, Lines::Many))),
            [b'<', b'<', b'<', ..] => None,
            [b'<', b'<', ..] => here_document(rest).map(Piece::Comment),
            _ => None,
        }
    }
}

enum Piece {
    Comment(usize),
    Literal(usize),
}

enum Escapes {
    Yes,
    No,
}

enum Lines {
    One,
    Many,
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn utf8_width(first: u8) -> usize {
    match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
        _ => 1,
    }
}

fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn find(rest: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let from = from.min(rest.len());
    rest[from..].windows(wanted.len()).position(|window| window == wanted).map(|at| from + at)
}

fn block_comment(rest: &[u8]) -> usize {
    find(rest, b"*/", 2).map_or(rest.len(), |at| at + 2)
}

fn nested_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// A literal that starts at its opening quote. An unclosed literal ends with its line, or with the text.
fn quoted(rest: &[u8], quote: &[u8], escapes: Escapes, lines: Lines) -> usize {
    let mut at = quote.len();
    while at < rest.len() {
        match rest[at] {
            b'\\' if matches!(escapes, Escapes::Yes) => at += 2,
            b'\n' if matches!(lines, Lines::One) => return at,
            _ if rest[at..].starts_with(quote) => return at + quote.len(),
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#`, `c"…"`, `b'x'`; `None` for a plain identifier.
fn rust_prefixed(rest: &[u8]) -> Option<Piece> {
    let letters = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let is_raw = rest[..letters].contains(&b'r');
    let hashes = rest[letters..].iter().take_while(|byte| **byte == b'#').count();
    let open = letters + hashes;
    match rest.get(open) {
        Some(b'"') if is_raw => {
            let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
            Some(Piece::Literal(find(rest, &close, open + 1).map_or(rest.len(), |at| at + close.len())))
        }
        Some(b'"') if hashes == 0 => {
            Some(Piece::Literal(open + quoted(&rest[open..], b"\"", Escapes::Yes, Lines::Many)))
        }
        Some(b'\'') if hashes == 0 && rest[0] == b'b' && letters == 1 => {
            Some(Piece::Literal(open + quoted(&rest[open..], b"'", Escapes::Yes, Lines::One)))
        }
        _ => None,
    }
}

fn python_string(rest: &[u8]) -> usize {
    let triple = [rest[0]; 3];
    let (quote, lines) = if rest.starts_with(&triple) { (&triple[..], Lines::Many) } else { (&rest[..1], Lines::One) };
    quoted(rest, quote, Escapes::Yes, lines)
}

/// A template literal with its `${…}` parts, at any nesting.
fn template(rest: &[u8]) -> usize {
    // For each open template, the depth of braces at which its expression started; `None` inside its text.
    let mut open: Vec<Option<usize>> = vec![None];
    let mut at = 1;
    while at < rest.len() {
        let Some(top) = open.last_mut() else { return at };
        match (rest[at], top.as_mut()) {
            (b'\\', _) => at += 1,
            (b'`', None) => {
                open.pop();
                if open.is_empty() {
                    return at + 1;
                }
            }
            (b'$', None) if rest.get(at + 1) == Some(&b'{') => {
                *top = Some(0);
                at += 1;
            }
            (b'`', Some(_)) => open.push(None),
            (b'{', Some(depth)) => *depth += 1,
            (b'}', Some(0)) => *top = None,
            (b'}', Some(depth)) => *depth -= 1,
            _ => {}
        }
        at += 1;
    }
    rest.len()
}

fn regex(rest: &[u8]) -> usize {
    let mut is_class = false;
    let mut at = 1;
    while at < rest.len().min(REGEX_BYTES_MAX) {
        match rest[at] {
            b'\\' => at += 1,
            b'\n' => return 1,
            b'[' => is_class = true,
            b']' => is_class = false,
            b'/' if !is_class => return at + 1,
            _ => {}
        }
        at += 1;
    }
    1
}

/// A here-document: its operator stays code, its body is blanked. Returns the length up to the end of the body.
fn here_document(rest: &[u8]) -> Option<usize> {
    let mut word_start = 2 + usize::from(rest.get(2) == Some(&b'-'));
    while matches!(rest.get(word_start), Some(b' ' | b'\t')) {
        word_start += 1;
    }
    let word_end = word_start
        + rest[word_start..].iter().take_while(|byte| !byte.is_ascii_whitespace() && !b";|&)<>".contains(byte)).count();
    let word: Vec<u8> = rest[word_start..word_end].iter().copied().filter(|byte| !b"'\"\\".contains(byte)).collect();
    if word.is_empty() || !word.iter().all(|byte| is_word(*byte)) {
        return None;
    }
    let mut at = line(rest) + 1;
    while at < rest.len() {
        let length = line(&rest[at..]);
        if rest[at..at + length].trim_ascii() == word {
            return Some(at + length);
        }
        at += length + 1;
    }
    Some(rest.len())
}
