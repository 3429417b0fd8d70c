//! Held-out checks: cases whose expected values only the engine knows, and the comparison of a program's answers with
//! them.
//!
//! A result names cases by number. It contains no input, no expected value and no byte of the program's output: the
//! output comes from the candidate's code, and the maker's feedback must not reveal the cases.

use super::{GateResult, GateStatus};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use std::fmt;

/// The size limit of a file of cases.
pub const CASES_BYTES_MAX: usize = 16 << 20;
/// The largest number of cases of one check.
pub const CASES_MAX: usize = 10_000;
/// The size limit of one line, of the cases and of the answers.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// The size limit of all answers together.
pub const ANSWERS_BYTES_MAX: usize = 32 << 20;

/// The largest number of wrong cases that a result names.
const NAMED_MAX: usize = 10;

/// The cases of one check, in file order and counted from 1.
#[derive(Clone, PartialEq)]
pub struct HeldoutCases(Vec<Case>);

#[derive(Clone, PartialEq)]
struct Case {
    /// The input as it was written: a number keeps all its digits.
    input: String,
    expected: Value,
}

/// A file that is not a valid list of cases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeldoutCasesError {
    /// The file has no case.
    #[error("has no case, so the check cannot fail")]
    Empty,
    /// The file exceeds a limit.
    #[error("has more than {CASES_BYTES_MAX} bytes or {CASES_MAX} cases")]
    TooLong,
    /// A line is not a case.
    #[error("line {line} is not `{{\"in\": …, \"out\": …}}`: {why}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The problem with the line, without its values.
        why: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, rename = "in")]
    input: &'a RawValue,
    // An expected `null` is a value; only a missing key is an error.
    #[serde(rename = "out")]
    expected: Value,
}

impl HeldoutCases {
    /// Reads JSON lines of `{"in": …, "out": …}`; empty lines are skipped.
    ///
    /// # Errors
    /// If a line is not a case, or there are no cases or too many.
    pub fn read(bytes: &[u8]) -> Result<Self, HeldoutCasesError> {
        if bytes.len() > CASES_BYTES_MAX {
            return Err(HeldoutCasesError::TooLong);
        }
        let lines = bytes.split(|byte| *byte == b'\n').enumerate();
        let filled = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
        let cases = filled.map(|(at, line)| case(line).map_err(|why| HeldoutCasesError::Line { line: at + 1, why }));
        let cases = cases.take(CASES_MAX + 1).collect::<Result<Vec<_>, _>>()?;
        match cases.len() {
            0 => Err(HeldoutCasesError::Empty),
            1..=CASES_MAX => Ok(Self(cases)),
            _ => Err(HeldoutCasesError::TooLong),
        }
    }

    /// The number of cases.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The program's input: one line for each case.
    #[must_use]
    pub fn input(&self) -> Vec<u8> {
        self.0.iter().flat_map(|case| case.input.bytes().chain([b'\n'])).collect()
    }
}

/// Values are never shown, not even by accident.
impl fmt::Debug for HeldoutCases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cases({})", self.0.len())
    }
}

fn case(line: &[u8]) -> Result<Case, &'static str> {
    if line.len() > LINE_BYTES_MAX {
        return Err("it is too long");
    }
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8")?;
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "it needs exactly the keys `in` and `out`",
        _ => "it is not JSON",
    })?;
    // A carriage return is white space to JSON, and would be a second line to a program.
    Ok(Case { input: line.input.get().replace('\r', " "), expected: line.expected })
}

/// The end of the program's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldoutRunEnd {
    /// The program exited with this code.
    Exited(i32),
    /// A signal ended the program.
    Signalled,
    /// The engine stopped the program because it exceeded the time limit.
    Late,
    /// The engine stopped the program because it exceeded the output limit.
    Flooded,
}

/// Compares a program's answers with the cases.
#[must_use]
pub fn judge(name: &str, cases: &HeldoutCases, end: HeldoutRunEnd, stdout: Option<&[u8]>) -> GateResult {
    let answers = stdout.map(lines).unwrap_or_default();
    let wrong: Vec<(usize, &str)> = cases
        .0
        .iter()
        .enumerate()
        .filter_map(|(at, case)| Some((at + 1, unequal(case, answers.get(at).copied())?)))
        .collect();
    let right = cases.count() - wrong.len();
    let extra = answers.len().saturating_sub(cases.count());
    let mut result = GateResult::new(name, GateStatus::Passed);
    result.exit = if let HeldoutRunEnd::Exited(code) = end { Some(code) } else { None };
    result.tests = u64::try_from(right).ok();
    if let Some((code, fact)) = objection(end, stdout, &wrong, extra, cases.count()) {
        result.status = GateStatus::Rejected;
        result.reason = Some(code.to_owned());
        result.evidence.push(fact);
    }
    let named = wrong.iter().take(NAMED_MAX).map(|(number, why)| format!("case {number}: {why}"));
    result.evidence.extend(named.filter(|_| stdout.is_some()));
    if wrong.len() > NAMED_MAX {
        result.evidence.push(format!("and {} more", wrong.len() - NAMED_MAX));
    }
    result.evidence.push(format!("{right} of {} held-out cases as expected", cases.count()));
    result
}

/// The first problem, as a code and a fact.
fn objection(
    end: HeldoutRunEnd,
    stdout: Option<&[u8]>,
    wrong: &[(usize, &str)],
    extra: usize,
    count: usize,
) -> Option<(&'static str, String)> {
    let fact = |code, text: &str| Some((code, text.to_owned()));
    match end {
        HeldoutRunEnd::Late => return fact("timeout", "it did not answer every case in time"),
        HeldoutRunEnd::Flooded => return fact("flood", "it exceeded the output limit"),
        HeldoutRunEnd::Exited(_) | HeldoutRunEnd::Signalled if stdout.is_none() => {
            return fact("flood", "it exceeded the output limit");
        }
        HeldoutRunEnd::Exited(_) | HeldoutRunEnd::Signalled => {}
    }
    match (wrong, end) {
        ([(first, _), ..], _) => Some(("heldout", format!("{} of {count} cases, first case {first}", wrong.len()))),
        ([], _) if extra > 0 => Some(("extra", format!("{extra} more lines than cases"))),
        ([], HeldoutRunEnd::Exited(0)) => None,
        ([], _) => fact("exit", "it answered every case and did not end with exit code 0"),
    }
}

/// The lines of an output; the last one need not end with a line feed.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|byte| *byte == b'\n').collect() }
}

/// The reason why an answer differs from the case's expected value.
fn unequal(case: &Case, answer: Option<&[u8]>) -> Option<&'static str> {
    let Some(answer) = answer else { return Some("no answer") };
    if answer.len() > LINE_BYTES_MAX {
        return Some("the answer is too long");
    }
    match serde_json::from_slice::<Value>(answer) {
        Ok(value) if equal(&value, &case.expected) => None,
        Ok(_) => Some("not as expected"),
        Err(_) => Some("the answer is not JSON"),
    }
}

/// Equality of JSON values: the order of keys does not matter, and numbers are equal if their values are (`1` and
/// `1.0`).
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.as_f64() == b.as_f64(),
        _ => false,
    }
}

/// The number as an integer, if it is one in any notation.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i128() {
        return Some(number);
    }
    let float = number.as_f64()?;
    // Beyond 2^100 every float is whole, and JSON readers do not read any of them as an integer.
    (float.fract() == 0.0 && float.abs() < 1.2e30).then_some(float as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "{\"in\": [1, 2], \"out\": 3}\n\n{\"in\": {\"a\": 12345678901234567890123}, \"out\": null}\n";

    fn judged(end: HeldoutRunEnd, stdout: &str) -> String {
        let cases = HeldoutCases::read(TWO.as_bytes()).expect("two cases");
        let result = judge("hidden", &cases, end, Some(stdout.as_bytes()));
        format!("{} {} {}", result.status, result.reason.unwrap_or_default(), result.evidence.join("; "))
    }

    #[test]
    fn inputs_are_sent_as_written_without_expected_values() {
        let cases = HeldoutCases::read(TWO.as_bytes()).expect("two cases");
        assert_eq!(cases.input(), b"[1, 2]\n{\"a\": 12345678901234567890123}\n");
        assert_eq!(format!("{cases:?}"), "Cases(2)");
    }

    #[test]
    fn answers_are_compared_line_by_line() {
        let ok = HeldoutRunEnd::Exited(0);
        assert_eq!(judged(ok, "3\nnull\n"), "passed  2 of 2 held-out cases as expected");
        assert_eq!(judged(ok, "3.0\r\n null"), "passed  2 of 2 held-out cases as expected");
        let one = "heldout 1 of 2 cases, first case 2; case 2";
        assert_eq!(judged(ok, "3\n"), format!("rejected {one}: no answer; 1 of 2 held-out cases as expected"));
        assert_eq!(judged(ok, "3\n0\n"), format!("rejected {one}: not as expected; 1 of 2 held-out cases as expected"));
        let wordy = judged(ok, "3\nsecret words\n");
        assert_eq!(wordy, format!("rejected {one}: the answer is not JSON; 1 of 2 held-out cases as expected"));
        assert!(judged(ok, "\n3\nnull\n").starts_with("rejected heldout 2 of 2"));
        assert!(judged(ok, "").starts_with("rejected heldout 2 of 2"));
        assert!(judged(ok, "3\nnull\n3\n").starts_with("rejected extra 1 more lines"));
    }

    #[test]
    fn right_answers_do_not_help_a_program_that_fails() {
        for (end, code) in [
            (HeldoutRunEnd::Exited(1), "exit"),
            (HeldoutRunEnd::Signalled, "exit"),
            (HeldoutRunEnd::Late, "timeout"),
            (HeldoutRunEnd::Flooded, "flood"),
        ] {
            assert!(judged(end, "3\nnull\n").starts_with(&format!("rejected {code} ")), "{end:?}");
        }
        let cases = HeldoutCases::read(TWO.as_bytes()).expect("two cases");
        let cut = judge("hidden", &cases, HeldoutRunEnd::Exited(0), None);
        assert_eq!((cut.status, cut.reason.as_deref()), (GateStatus::Rejected, Some("flood")));
    }

    #[test]
    fn values_are_equal_as_json_and_not_as_text() {
        let same = |a: &str, b: &str| {
            let read = |text| serde_json::from_str::<Value>(text).expect("JSON");
            equal(&read(a), &read(b))
        };
        for (a, b) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0.0", "0"),
            ("18446744073709551615", "18446744073709551615"),
            (r#"{"a": 1, "b": [2]}"#, r#"{"b": [2.0], "a": 1}"#),
            (r#""\u0041""#, r#""A""#),
        ] {
            assert!(same(a, b) && same(b, a), "{a} {b}");
        }
        for (a, b) in [
            ("1", "\"1\""),
            ("1", "true"),
            ("null", "0"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709551616"),
            ("0.1", "0.10000000000000001e1"),
            ("[1]", "[1, 1]"),
            (r#"{"a": 1}"#, r#"{"a": 1, "b": null}"#),
        ] {
            assert!(!same(a, b) && !same(b, a), "{a} {b}");
        }
    }

    #[test]
    fn bad_case_files_are_reported_by_line_and_without_values() {
        let error = |text: &str| HeldoutCases::read(text.as_bytes()).expect_err("no cases").to_string();
        assert_eq!(error(" \n"), "has no case, so the check cannot fail");
        let line = "line 2 is not `{\"in\": …, \"out\": …}`: it";
        assert_eq!(error("\n{\"in\": 1, \"oot\": 2}"), format!("{line} needs exactly the keys `in` and `out`"));
        assert_eq!(error("{\"in\":1,\"out\":2}\n{\"in\":1}"), format!("{line} needs exactly the keys `in` and `out`"));
        assert_eq!(error("{\"in\":1,\"out\":2}\nhunter2"), format!("{line} is not JSON"));
        let many = "{\"in\":1,\"out\":2}\n".repeat(CASES_MAX + 1);
        assert_eq!(HeldoutCases::read(many.as_bytes()).expect_err("too many"), HeldoutCasesError::TooLong);
    }
}
