//! Reads JUnit XML reports: test ids with their end. A small pull scanner with caps, since the report was written by the
//! maker's code: no document type, no entities but the five, no namespaces, no schema.

use super::counts::{Seen, TestEnd};

/// Largest report that is read.
const BYTES_MAX: usize = 32 << 20;

/// Deepest nesting; real reports have four levels.
const DEPTH_MAX: usize = 64;

/// Most tests of one report.
const TESTS_MAX: usize = 200_000;

/// Why a report could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JunitError {
    /// It is larger than what is read.
    #[error("the report is too large")]
    TooLarge,
    /// It is not UTF-8.
    #[error("the report is not UTF-8")]
    NotText,
    /// It has a document type, which no honest report needs.
    #[error("the report has a document type")]
    Doctype,
    /// It is nested too deep.
    #[error("the report is nested too deep")]
    TooDeep,
    /// It is not XML, or ends early.
    #[error("the report is not well-formed")]
    Malformed,
    /// It is XML of another kind.
    #[error("the report has no `testsuite`")]
    NoSuite,
}

/// Reads a report.
///
/// # Errors
/// The report breaks a limit, is no XML or no JUnit report.
pub fn read(bytes: &[u8]) -> Result<Seen, JunitError> {
    if bytes.len() > BYTES_MAX {
        return Err(JunitError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| JunitError::NotText)?;
    let mut reader = Reader::default();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(at) = rest.find('<') {
        rest = reader.markup(&rest[at..])?;
    }
    if !reader.open.is_empty() {
        return Err(JunitError::Malformed);
    }
    if reader.saw_suite { Ok(reader.seen) } else { Err(JunitError::NoSuite) }
}

#[derive(Default)]
struct Reader<'a> {
    open: Vec<&'a str>,
    current: Option<(String, TestEnd)>,
    seen: Seen,
    saw_suite: bool,
}

impl<'a> Reader<'a> {
    /// Takes one piece of markup, which `rest` starts with, and returns what follows it.
    fn markup(&mut self, rest: &'a str) -> Result<&'a str, JunitError> {
        if let Some(after) = rest.strip_prefix("<!--") {
            return after.split_once("-->").map(|(_, rest)| rest).ok_or(JunitError::Malformed);
        }
        if let Some(after) = rest.strip_prefix("<![CDATA[") {
            return after.split_once("]]>").map(|(_, rest)| rest).ok_or(JunitError::Malformed);
        }
        if let Some(after) = rest.strip_prefix("<?") {
            return after.split_once("?>").map(|(_, rest)| rest).ok_or(JunitError::Malformed);
        }
        if rest.starts_with("<!") {
            return Err(JunitError::Doctype);
        }
        let end = tag_end(rest).ok_or(JunitError::Malformed)?;
        let tag = &rest[1..end];
        if let Some(name) = tag.strip_prefix('/') {
            self.close(name.trim())?;
        } else {
            self.start(tag)?;
        }
        Ok(&rest[end + 1..])
    }

    fn start(&mut self, tag: &'a str) -> Result<(), JunitError> {
        let (tag, is_alone) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name_end = tag.find(|c: char| c.is_ascii_whitespace()).unwrap_or(tag.len());
        let (name, attributes) = tag.split_at(name_end);
        if name.is_empty() || self.open.len() >= DEPTH_MAX {
            return Err(if name.is_empty() { JunitError::Malformed } else { JunitError::TooDeep });
        }
        match name {
            "testsuite" | "testsuites" => self.saw_suite = true,
            "testcase" => self.current = Some((test_id(attributes), end_of_status(attributes))),
            "failure" | "error" => self.mark(TestEnd::Failed),
            "skipped" => self.mark(TestEnd::Skipped),
            _ => {}
        }
        self.open.push(name);
        if is_alone { self.close(name) } else { Ok(()) }
    }

    /// A failure outside a test case is a broken suite: it counts as a failed test without a name.
    fn mark(&mut self, end: TestEnd) {
        match &mut self.current {
            Some((_, known)) if *known != TestEnd::Failed => *known = end,
            Some(_) => {}
            None if end == TestEnd::Failed => self.seen.push("", end),
            None => {}
        }
    }

    fn close(&mut self, name: &str) -> Result<(), JunitError> {
        if self.open.pop() != Some(name) {
            return Err(JunitError::Malformed);
        }
        if name == "testcase"
            && let Some((id, end)) = self.current.take()
        {
            if self.seen.tests.len() >= TESTS_MAX {
                return Err(JunitError::TooLarge);
            }
            self.seen.push(&id, end);
        }
        Ok(())
    }
}

/// The `>` that ends a tag; one inside a quoted value ends nothing.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if byte == open => quote = None,
            _ => {}
        }
    }
    None
}

fn test_id(attributes: &str) -> String {
    let class = attribute(attributes, "classname").unwrap_or_default();
    let name = attribute(attributes, "name").unwrap_or_default();
    if class.is_empty() { name } else { format!("{class}::{name}") }
}

/// Some runners write `status="skipped"` or `result="…"` instead of a child.
fn end_of_status(attributes: &str) -> TestEnd {
    let status = attribute(attributes, "status").or_else(|| attribute(attributes, "result")).unwrap_or_default();
    match status.to_ascii_lowercase().as_str() {
        "skipped" | "disabled" | "notrun" | "suppressed" | "ignored" | "pending" => TestEnd::Skipped,
        "failed" | "failure" | "error" => TestEnd::Failed,
        _ => TestEnd::Passed,
    }
}

fn attribute(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, next) = after[1..].split_once(quote)?;
        if name.trim() == wanted {
            return Some(unescape(value));
        }
        rest = next;
    }
}

/// The five entities and nothing else; an unknown one stays as it is written.
fn unescape(value: &str) -> String {
    let plain = value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    plain.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_with_their_end() {
        let report = r#"<?xml version="1.0"?><!-- > --><testsuites><testsuite name="pytest" tests="4">
            <testcase classname="tests.test_a" name="test_one[a&gt;b]" time="0.1"/>
            <testcase classname="tests.test_a" name="test_two"><failure message="x > y">E</failure></testcase>
            <testcase name="three"><skipped type="x"/></testcase>
            <testcase name="four" status="skipped"></testcase>
            <system-out><![CDATA[<testcase name="fake"/>]]></system-out>
        </testsuite></testsuites>"#;
        let seen = read(report.as_bytes()).expect("a report");
        assert_eq!((seen.passed(), seen.failed(), seen.skipped()), (1, 1, 2));
        assert_eq!(seen.tests[0].id, "tests.test_a::test_one[a>b]");
    }

    #[test]
    fn hostile_reports_are_errors() {
        let deep = format!("<testsuite>{}", "<a>".repeat(100));
        for (report, error) in [
            ("<!DOCTYPE x [<!ENTITY a 'b'>]><testsuite/>", JunitError::Doctype),
            ("<testsuite><testcase>", JunitError::Malformed),
            ("<testsuite></testcase>", JunitError::Malformed),
            ("<testsuite a=\"", JunitError::Malformed),
            ("<html></html>", JunitError::NoSuite),
            ("", JunitError::NoSuite),
            (deep.as_str(), JunitError::TooDeep),
        ] {
            assert_eq!(read(report.as_bytes()).err(), Some(error), "{report}");
        }
        assert_eq!(read(b"\xff").err(), Some(JunitError::NotText));
    }

    #[test]
    fn a_failing_suite_without_tests_is_no_pass() {
        let seen = read(b"<testsuite><error message='import'/></testsuite>").expect("a report");
        assert_eq!((seen.passed(), seen.failed()), (0, 1));
    }
}
