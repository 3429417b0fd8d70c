//! Reads JUnit XML reports: test ids with their outcomes. The maker's code wrote the report. Its size, its depth and
//! its number of tests are limited, and a document type, the only way to define entities, is refused.

use super::observed_tests::{ObservedTests, TestOutcome};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// The size limit of a report.
const BYTES_MAX: usize = 32 << 20;

/// The limit on nesting; real reports have four levels.
const DEPTH_MAX: usize = 64;

/// The largest number of tests of one report.
const TESTS_MAX: usize = 200_000;

/// The reason why a report could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JunitError {
    /// It exceeds the size limit.
    #[error("the report is too large")]
    TooLarge,
    /// It is not UTF-8.
    #[error("the report is not UTF-8")]
    NotText,
    /// It has a document type, which no honest report needs.
    #[error("the report has a document type")]
    Doctype,
    /// It is nested too deeply.
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
/// The report exceeds a limit, or is not XML or not a JUnit report.
pub fn read(bytes: &[u8]) -> Result<ObservedTests, JunitError> {
    if bytes.len() > BYTES_MAX {
        return Err(JunitError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| JunitError::NotText)?;
    let mut xml = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    xml.config_mut().expand_empty_elements = true;
    let mut report = Report::default();
    loop {
        match xml.read_event().map_err(|_| JunitError::Malformed)? {
            Event::Start(tag) => report.open(&tag)?,
            Event::End(tag) => report.close(tag.name().as_ref())?,
            Event::DocType(_) => return Err(JunitError::Doctype),
            Event::Eof if report.depth > 0 => return Err(JunitError::Malformed),
            Event::Eof if report.saw_suite => return Ok(report.seen),
            Event::Eof => return Err(JunitError::NoSuite),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Report {
    depth: usize,
    current: Option<(String, TestOutcome)>,
    seen: ObservedTests,
    saw_suite: bool,
}

impl Report {
    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), JunitError> {
        if self.depth >= DEPTH_MAX {
            return Err(JunitError::TooDeep);
        }
        self.depth += 1;
        match tag.name().as_ref() {
            "testsuite" | "testsuites" => self.saw_suite = true,
            "testcase" => self.current = Some((test_id(tag)?, end_of_status(tag)?)),
            "failure" | "error" => self.mark(TestOutcome::Failed),
            "skipped" => self.mark(TestOutcome::Skipped),
            _ => {}
        }
        Ok(())
    }

    /// A failure outside a test case is a broken suite: it counts as a failed test without a name.
    fn mark(&mut self, end: TestOutcome) {
        match &mut self.current {
            Some((_, known)) if *known != TestOutcome::Failed => *known = end,
            Some(_) => {}
            None if end == TestOutcome::Failed => self.seen.push("", end),
            None => {}
        }
    }

    fn close(&mut self, name: &str) -> Result<(), JunitError> {
        self.depth = self.depth.saturating_sub(1);
        if let Some((id, end)) = self.current.take_if(|_| name == "testcase") {
            if self.seen.tests.len() >= TESTS_MAX {
                return Err(JunitError::TooLarge);
            }
            self.seen.push(&id, end);
        }
        Ok(())
    }
}

fn test_id(tag: &BytesStart<'_>) -> Result<String, JunitError> {
    let class = attribute(tag, "classname")?.unwrap_or_default();
    let name = attribute(tag, "name")?.unwrap_or_default();
    Ok(if class.is_empty() { name } else { format!("{class}::{name}") })
}

/// Some runners write `status="skipped"` or `result="…"` instead of a child element.
fn end_of_status(tag: &BytesStart<'_>) -> Result<TestOutcome, JunitError> {
    let status = attribute(tag, "status")?.or(attribute(tag, "result")?).unwrap_or_default();
    Ok(match status.to_ascii_lowercase().as_str() {
        "skipped" | "disabled" | "notrun" | "suppressed" | "ignored" | "pending" => TestOutcome::Skipped,
        "failed" | "failure" | "error" => TestOutcome::Failed,
        _ => TestOutcome::Passed,
    })
}

/// An attribute's value; a value with an entity that is not one of the five predefined stays as it is written.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Result<Option<String>, JunitError> {
    let found = tag.try_get_attribute(name).map_err(|_| JunitError::Malformed)?;
    Ok(found.map(|found| match found.normalized_value(XmlVersion::Implicit1_0) {
        Ok(value) => value.into_owned(),
        Err(_) => found.value.into_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_with_their_outcomes() {
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
    fn failing_suite_without_tests_does_not_pass() {
        let seen = read(b"<testsuite><error message='import'/></testsuite>").expect("a report");
        assert_eq!((seen.passed(), seen.failed()), (0, 1));
    }
}
