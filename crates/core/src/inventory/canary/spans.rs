//! The tests of a file by their position: a name, and the bytes from its first mark to its end.

use super::super::mask::mask;
use super::super::tokens::{SourceTokens, TokenKind};
use super::{CanaryLanguage, CanaryTest};

/// The largest number of tests of one file.
const TESTS_MAX: usize = 2_000;

pub(super) fn find(path: &str, text: &str, language: CanaryLanguage) -> Vec<CanaryTest> {
    let mut found = match language {
        CanaryLanguage::Python | CanaryLanguage::Ruby => by_indent(text, language),
        _ => by_brackets(text, language),
    };
    found.retain(|test| text.is_char_boundary(test.start) && text.is_char_boundary(test.end) && test.start < test.end);
    found.truncate(TESTS_MAX);
    let is_script = language == CanaryLanguage::Shell || super::super::is_suite(path) || in_test_folder(path);
    if found.is_empty() && is_script && language != CanaryLanguage::Rust {
        found.push(CanaryTest { name: path.to_owned(), start: 0, end: text.len() });
    }
    found
}

fn in_test_folder(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(folder, _)| {
        folder.split('/').any(|part| matches!(part, "test" | "tests" | "spec" | "__tests__"))
    })
}

/// Python's `def test_…` and Ruby's `it "…" do`: a test ends before the next line that is indented no deeper.
fn by_indent(text: &str, language: CanaryLanguage) -> Vec<CanaryTest> {
    let masked = mask(text, language.grammar());
    let mut tests: Vec<CanaryTest> = Vec::new();
    let mut open: Vec<(usize, CanaryTest)> = Vec::new();
    let (mut at, mut marks, mut depth) = (0, None, 0_i64);
    for line in text.split_inclusive('\n') {
        let code = &masked[at..at + line.len()];
        let bare = code.trim_ascii();
        let indent = code.len() - code.trim_ascii_start().len();
        let continues = depth > 0;
        depth = (depth + balance(code)).max(0);
        if !bare.is_empty() && !continues {
            let closes = bare.starts_with(b"end") && language == CanaryLanguage::Ruby;
            while let Some((_, mut test)) = open.pop_if(|(start, _)| *start >= indent) {
                test.end = if closes { at + line.len() } else { at };
                tests.push(test);
            }
            let start = *marks.get_or_insert(at);
            if !bare.starts_with(b"@") {
                marks = None;
            }
            if let Some(name) = head(line.trim(), language) {
                open.push((indent, CanaryTest { name, start, end: text.len() }));
            }
        }
        at += line.len();
    }
    tests.extend(open.into_iter().map(|(_, test)| CanaryTest { end: text.len(), ..test }));
    tests.sort_by_key(|test| test.start);
    tests
}

fn balance(code: &[u8]) -> i64 {
    let count = |signs: &[u8]| i64::try_from(code.iter().filter(|byte| signs.contains(byte)).count()).unwrap_or(0);
    count(b"([{") - count(b")]}")
}

fn head(line: &str, language: CanaryLanguage) -> Option<String> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    if let Some(rest) = line.strip_prefix("def ") {
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        return name.starts_with("test").then_some(name);
    }
    if language != CanaryLanguage::Ruby {
        return None;
    }
    let rest = ["it ", "specify ", "test ", "example "].iter().find_map(|word| line.strip_prefix(word))?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    rest[1..].split(quote).next().map(str::to_owned)
}

fn by_brackets(text: &str, language: CanaryLanguage) -> Vec<CanaryTest> {
    let tokens = SourceTokens::of(text, language.grammar());
    let mut tests: Vec<CanaryTest> = Vec::new();
    for at in 0..tokens.len() {
        let found = match language {
            CanaryLanguage::JavaScript => javascript(&tokens, at),
            CanaryLanguage::Rust => rust(&tokens, at),
            CanaryLanguage::Go => go(&tokens, at),
            CanaryLanguage::CFamily => c_family(&tokens, at),
            _ => shell(&tokens, at),
        };
        let Some((name, first, last)) = found else { continue };
        let (start, end) = (tokens.span(first).0, tokens.span(last.min(tokens.len().saturating_sub(1))).1);
        tests.push(CanaryTest { name, start, end });
    }
    tests
}

/// The name, the first and the last token of a test that starts at a token.
type TokenSpan = (String, usize, usize);

fn javascript(tokens: &SourceTokens<'_>, at: usize) -> Option<TokenSpan> {
    if !matches!(tokens.word(at), "test" | "it" | "specify")
        || tokens.is(at.wrapping_sub(1), b'.') && tokens.word(at.wrapping_sub(2)) != "Deno"
    {
        return None;
    }
    let mut open = at + 1;
    // `test.each([…])("…")`, `test.only("…")`.
    while tokens.is(open, b'.') {
        open += 2;
        if tokens.is(open, b'(') && tokens.literal(open + 1).is_none() {
            open = tokens.partner(open) + 1;
        }
    }
    let name = tokens.is(open, b'(').then(|| tokens.literal(open + 1)).flatten()?;
    Some((unquoted(name), at, tokens.partner(open)))
}

fn unquoted(literal: &str) -> String {
    literal.trim_matches(['"', '\'', '`']).to_owned()
}

fn rust(tokens: &SourceTokens<'_>, at: usize) -> Option<TokenSpan> {
    if tokens.word(at) != "fn" || tokens.word(at + 1).is_empty() {
        return None;
    }
    // Attributes before the function, with `pub`, `async` and the like between.
    let (mut first, mut is_test) = (at, false);
    while first > 0 {
        let before = first - 1;
        if tokens.is(before, b']') && tokens.partner(before) < before {
            let open = tokens.partner(before);
            is_test |=
                (open..before).any(|word| tokens.word(word).ends_with("test") || tokens.word(word) == "test_case");
            first = if tokens.is(open.wrapping_sub(1), b'#') { open - 1 } else { open };
        } else if matches!(tokens.word(before), "pub" | "async" | "unsafe" | "const") {
            first = before;
        } else {
            break;
        }
    }
    let body = is_test.then(|| tokens.find_sign(at, b"{")).flatten()?;
    Some((tokens.word(at + 1).to_owned(), first, tokens.partner(body)))
}

fn go(tokens: &SourceTokens<'_>, at: usize) -> Option<TokenSpan> {
    let name = tokens.word(at + 1);
    let is_test = tokens.word(at) == "func" && (name.starts_with("Test") || name.starts_with("Example"));
    let body = is_test.then(|| tokens.find_sign(at, b"{")).flatten()?;
    Some((name.to_owned(), at, tokens.partner(body)))
}

/// `@Test void name() {…}`, `@Test fun name() {…}`, `TEST(Suite, Name) {…}`, `TEST_CASE("name") {…}`.
fn c_family(tokens: &SourceTokens<'_>, at: usize) -> Option<TokenSpan> {
    let word = tokens.word(at);
    if tokens.is(at.wrapping_sub(1), b'@') && word.ends_with("Test") {
        let body = tokens.find_sign(at + 1, b"{")?;
        let call = (at + 1..body).rev().find(|one| tokens.is(*one, b'(') && !tokens.word(one - 1).is_empty())?;
        return Some((tokens.word(call - 1).to_owned(), at - 1, tokens.partner(body)));
    }
    let is_macro = word.starts_with("TEST") || word == "BOOST_AUTO_TEST_CASE" || word == "SCENARIO";
    if !is_macro || !tokens.is(at + 1, b'(') {
        return None;
    }
    let close = tokens.partner(at + 1);
    let body = tokens.is(close + 1, b'{').then_some(close + 1)?;
    let name = match tokens.literal(at + 2) {
        Some(literal) => unquoted(literal),
        None => tokens.word(close - 1).to_owned(),
    };
    Some((name, at, tokens.partner(body)))
}

/// Bats' `@test "…" {…}` and functions called `test_…`.
fn shell(tokens: &SourceTokens<'_>, at: usize) -> Option<TokenSpan> {
    if tokens.is(at, b'@') && tokens.word(at + 1) == "test" && tokens.kind(at + 2) == Some(TokenKind::Text) {
        let body = tokens.is(at + 3, b'{').then_some(at + 3)?;
        return Some((unquoted(tokens.literal(at + 2)?), at, tokens.partner(body)));
    }
    let name = tokens.word(at);
    let is_function = name.starts_with("test_") && tokens.is(at + 1, b'(') && tokens.is(at + 3, b'{');
    is_function.then(|| (name.to_owned(), at, tokens.partner(at + 3)))
}
