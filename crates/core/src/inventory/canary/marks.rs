//! Marks that change no test: a comment at the end of a file, and a statement without effect in each test. Code that
//! recognises its tests, by their bytes, their source or their instructions, does not recognise marked ones.

use super::super::mask::mask;
use super::super::tokens::SourceTokens;
use super::{CanaryEdit, CanaryLanguage, CanaryTest, readable, replaced, spans};

/// The text with a comment at its end.
#[must_use]
pub fn with_harmless_comment(path: &str, text: &str, roll: u64) -> Option<String> {
    let mark = match readable(path, text)? {
        CanaryLanguage::Python | CanaryLanguage::Ruby | CanaryLanguage::Shell => "#",
        CanaryLanguage::JavaScript | CanaryLanguage::Rust | CanaryLanguage::Go | CanaryLanguage::CFamily => "//",
    };
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    Some(format!("{text}{end}{mark} revision {:x}\n", roll & 0xffff))
}

/// The text with a comment at its end and a mark in each test where there is a place for one.
#[must_use]
pub fn with_harmless_marks(path: &str, text: &str, roll: u64) -> Option<String> {
    let language = readable(path, text)?;
    let tests = spans::find(path, text, language);
    let number = 1000 + roll % 8999;
    let edits = match language {
        CanaryLanguage::Python | CanaryLanguage::Ruby => by_lines(text, language, &tests, number),
        _ => by_braces(text, language, &tests, number),
    };
    with_harmless_comment(path, &replaced(text, edits), roll)
}

fn insertion(at: usize, text: String) -> CanaryEdit {
    CanaryEdit { start: at, end: at, text }
}

/// A first line in the body of each test whose head is one line.
fn by_lines(text: &str, language: CanaryLanguage, tests: &[CanaryTest], number: u64) -> Vec<CanaryEdit> {
    let masked = mask(text, language.grammar());
    let tokens = SourceTokens::of(text, language.grammar());
    let uses_name = (0..tokens.len()).any(|at| tokens.word(at) == "_");
    if uses_name {
        return Vec::new();
    }
    tests.iter().filter_map(|test| first_line(text, &masked, language, test, number)).collect()
}

fn first_line(
    text: &str,
    masked: &[u8],
    language: CanaryLanguage,
    test: &CanaryTest,
    number: u64,
) -> Option<CanaryEdit> {
    let mut at = test.start;
    let mut head: Option<usize> = None;
    for line in text.get(test.start..test.end)?.split_inclusive('\n') {
        let (start, bare) = (at, line.trim());
        at += line.len();
        let indent = line.len() - line.trim_start().len();
        let Some(outer) = head else {
            if bare.starts_with('@') || bare.is_empty() || bare.starts_with('#') {
                continue;
            }
            let code = masked.get(start..at)?.trim_ascii_end();
            let is_whole = match language {
                CanaryLanguage::Python => bare.contains("def ") && code.ends_with(b":"),
                _ => code.ends_with(b" do") || bare.starts_with("def test"),
            };
            head = Some(is_whole.then_some(indent)?);
            continue;
        };
        if bare.is_empty() || bare.starts_with('#') {
            continue;
        }
        let space = &line[..indent];
        return (indent > outer).then(|| insertion(start, format!("{space}_ = {number}\n")));
    }
    None
}

/// A statement behind the opening brace of each test's body.
fn by_braces(text: &str, language: CanaryLanguage, tests: &[CanaryTest], number: u64) -> Vec<CanaryEdit> {
    let tokens = SourceTokens::of(text, language.grammar());
    let mut edits: Vec<CanaryEdit> = Vec::new();
    for test in tests {
        let is_whole_file = test.start == 0 && test.end == text.len();
        let edit = if language == CanaryLanguage::Shell && is_whole_file {
            Some(insertion(after_first_line_of_program(text), format!(": {number}\n")))
        } else {
            body(&tokens, language, test).and_then(|open| statement(text, &tokens, language, open, number))
        };
        edits.extend(edit);
    }
    edits.dedup_by_key(|edit| edit.start);
    edits
}

/// After the line that names the interpreter, if there is one.
fn after_first_line_of_program(text: &str) -> usize {
    if text.starts_with("#!") { text.find('\n').map_or(text.len(), |at| at + 1) } else { 0 }
}

/// The brace that opens the body of a test.
fn body(tokens: &SourceTokens<'_>, language: CanaryLanguage, test: &CanaryTest) -> Option<usize> {
    let first = (0..tokens.len()).find(|at| tokens.span(*at).0 >= test.start)?;
    if language != CanaryLanguage::JavaScript {
        return tokens.find_sign(first, b"{").filter(|open| tokens.span(*open).0 < test.end);
    }
    let mut at = first;
    while tokens.span(at).0 < test.end && at < tokens.len() {
        if !tokens.is(at, b'{') {
            at += 1;
        } else if is_function_body(tokens, at) {
            return Some(at);
        } else {
            at = tokens.partner(at).max(at) + 1;
        }
    }
    None
}

fn is_function_body(tokens: &SourceTokens<'_>, open: usize) -> bool {
    let is_arrow = open > 1 && tokens.is(open - 1, b'>') && tokens.is(open - 2, b'=');
    is_arrow || (open > 0 && tokens.is(open - 1, b')'))
}

fn statement(
    text: &str,
    tokens: &SourceTokens<'_>,
    language: CanaryLanguage,
    open: usize,
    number: u64,
) -> Option<CanaryEdit> {
    let end = tokens.span(open).1;
    match language {
        CanaryLanguage::JavaScript => Some(insertion(end, format!(" void {number};"))),
        // Attributes of a body come first in it.
        CanaryLanguage::Rust => (!tokens.is(open + 1, b'#')).then(|| insertion(end, format!(" let _ = {number};"))),
        CanaryLanguage::Go => Some(insertion(end, format!(" _ = {number};"))),
        CanaryLanguage::CFamily => Some(insertion(end, format!(" /* {number} */"))),
        CanaryLanguage::Shell => {
            let rest = text.get(end..)?;
            let line = rest.find('\n').filter(|at| rest[..*at].trim().is_empty())?;
            Some(insertion(end + line + 1, format!("  : {number}\n")))
        }
        CanaryLanguage::Python | CanaryLanguage::Ruby => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(path: &str, text: &str) -> String {
        with_harmless_marks(path, text, 7).expect("a language it reads")
    }

    #[test]
    fn each_test_gets_a_statement_without_effect() {
        for (path, text, expected) in [
            (
                "test_a.py",
                "import a\n\n@x(1)\ndef test_a():\n    # why\n    \"\"\"Text.\"\"\"\n    assert a.f() == 1\n",
                "def test_a():\n    # why\n    _ = 1007\n    \"\"\"Text.\"\"\"\n",
            ),
            (
                "test_a.py",
                "class T:\n    async def test_a(self):\n        pass\n",
                "self):\n        _ = 1007\n        pass\n",
            ),
            ("a.test.js", "test(\"a\", { timeout: 5 }, () => {\n  f({});\n});\n", "() => { void 1007;\n"),
            ("a.test.js", "it('a', async function () { f(); });\n", "function () { void 1007; f(); });\n"),
            ("tests/a.rs", "#[test]\nfn a() {\n    assert!(f());\n}\n", "fn a() { let _ = 1007;\n"),
            ("a_test.go", "func TestA(t *testing.T) {\n\tf()\n}\n", "testing.T) { _ = 1007;\n"),
            ("tests/a_test.sh", "#!/bin/sh\nset -e\n[ 1 = 1 ]\n", "#!/bin/sh\n: 1007\nset -e\n"),
            ("a.bats", "@test \"a\" {\n  [ 1 = 1 ]\n}\n", "@test \"a\" {\n  : 1007\n  [ 1 = 1 ]\n"),
        ] {
            let text = marked(path, text);
            assert!(text.contains(expected), "{path}: {text}");
            assert!(text.trim_end().ends_with("revision 7"), "{text}");
        }
    }

    #[test]
    fn a_test_without_a_safe_place_stays_as_it_is() {
        for (path, text) in [
            ("test_a.py", "def test_a(): assert 1\n"),
            ("test_a.py", "def test_a(\n    x,\n):\n    assert x\n"),
            ("test_a.py", "from g import _\n\ndef test_a():\n    assert _(\"x\")\n"),
            ("a.test.js", "test(\"a\", () => assert.equal(f({}), 1));\n"),
            ("tests/a.rs", "#[test]\nfn a() {\n    #![allow(unused)]\n    assert!(f());\n}\n"),
        ] {
            assert!(marked(path, text).starts_with(text), "{path}: {}", marked(path, text));
        }
    }
}
