//! The file in which an attacker reports its findings: its types, its limits, its strict parser. One bad entry makes the
//! whole file malformed, and a file that is not bound to this attack is forged.

use crate::outbox::json;
use crate::words::worded;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The size limit of the file.
pub const FINDINGS_BYTES_MAX: usize = 256 << 10;
/// The most findings of one attacker.
const FINDINGS_MAX: usize = 20;
const DEPTH_MAX: usize = 8;
const ID_MAX: usize = 200;
const TITLE_MAX: usize = 200;
const PATH_MAX: usize = 1000;
const TEXT_MAX: usize = 2000;
const SCRIPT_MAX: usize = 8 << 10;

worded! {
    /// How bad a finding is, worst first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FindingSeverity {
        /// Data loss, code execution, leaked secrets.
        Critical = "critical",
        /// The product is unusable or wrong for ordinary use.
        High = "high",
        /// A real defect with a way around it.
        Medium = "medium",
        /// A nuisance.
        Low = "low",
    }
}

impl FindingSeverity {
    /// Whether an open finding of this severity blocks the candidate, and so needs a reproduction.
    #[must_use]
    pub fn is_blocking(self) -> bool {
        matches!(self, Self::Critical | Self::High)
    }
}

/// A finding as an attacker wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackFinding {
    /// How bad it is, in the attacker's opinion.
    pub severity: FindingSeverity,
    /// One line.
    pub title: String,
    /// The file at fault.
    pub path: String,
    /// The line at fault, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The input or the action that triggers it.
    pub trigger: String,
    /// A shell script that exits with 1 while the defect is there, and with 0 once it is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproduction: Option<String>,
}

/// An attacker's file, as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reading", rename_all = "kebab-case")]
pub enum FindingsReading {
    /// A well-formed file that is bound to this attack; it may have no findings.
    Findings {
        /// The findings.
        findings: Vec<AttackFinding>,
    },
    /// There is no file.
    Missing,
    /// A file that is not a list of findings.
    Malformed {
        /// Why.
        why: String,
    },
    /// A file with the nonce or the candidate of another attack.
    Forged {
        /// Why.
        why: String,
    },
}

/// Reads an attacker's file, which must carry the nonce and the candidate of its attack.
#[must_use]
pub fn read_findings(bytes: Option<&[u8]>, nonce: &str, candidate: &str) -> FindingsReading {
    let Some(bytes) = bytes else { return FindingsReading::Missing };
    match parse(bytes) {
        Err(why) => FindingsReading::Malformed { why },
        Ok((found, _, _)) if found != nonce => {
            FindingsReading::Forged { why: "the nonce is not the one of this attack".to_owned() }
        }
        Ok((_, found, _)) if found != candidate => {
            FindingsReading::Forged { why: "the candidate is not the attacked one".to_owned() }
        }
        Ok((_, _, findings)) => FindingsReading::Findings { findings },
    }
}

fn parse(bytes: &[u8]) -> Result<(String, String, Vec<AttackFinding>), String> {
    if bytes.len() > FINDINGS_BYTES_MAX {
        return Err(format!("{} bytes, at most {FINDINGS_BYTES_MAX} are read", bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8: {error}"))?;
    let value = json::read_shallow(text, DEPTH_MAX).map_err(|error| format!("not valid JSON: {error}"))?;
    let Value::Object(mut map) = value else { return Err("not a JSON object".to_owned()) };
    let nonce = taken(&mut map, "nonce", ID_MAX)?;
    let candidate = taken(&mut map, "candidate", ID_MAX)?;
    let Some(Value::Array(list)) = map.remove("findings") else { return Err("`findings` is not a list".to_owned()) };
    no_more(&map)?;
    if list.len() > FINDINGS_MAX {
        return Err(format!("{} findings, at most {FINDINGS_MAX} are read", list.len()));
    }
    let findings = list.into_iter().enumerate();
    let findings = findings.map(|(at, value)| finding(value).map_err(|why| format!("finding {}: {why}", at + 1)));
    Ok((nonce, candidate, findings.collect::<Result<_, _>>()?))
}

fn finding(value: Value) -> Result<AttackFinding, String> {
    let Value::Object(mut map) = value else { return Err("not a JSON object".to_owned()) };
    let word = taken(&mut map, "severity", ID_MAX)?;
    let severity = FindingSeverity::parse(&word).ok_or_else(|| {
        let known = FindingSeverity::ALL.map(FindingSeverity::word).join(", ");
        format!("severity `{word}` is not one of {known}")
    })?;
    let line = match map.remove("line") {
        None | Some(Value::Null) => None,
        Some(value) => Some(line_number(&value).ok_or("`line` is not a whole number from 1")?),
    };
    let reproduction = match map.contains_key("reproduction") {
        true => Some(taken(&mut map, "reproduction", SCRIPT_MAX)?),
        false => None,
    };
    let finding = AttackFinding {
        severity,
        title: one_line(taken(&mut map, "title", TITLE_MAX)?)?,
        path: one_line(taken(&mut map, "path", PATH_MAX)?)?,
        line,
        trigger: taken(&mut map, "trigger", TEXT_MAX)?,
        reproduction,
    };
    no_more(&map)?;
    Ok(finding)
}

fn line_number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0)
}

fn one_line(text: String) -> Result<String, String> {
    if text.contains(['\n', '\r']) { Err("a title or a path has several lines".to_owned()) } else { Ok(text) }
}

fn taken(map: &mut Map<String, Value>, key: &str, bytes_max: usize) -> Result<String, String> {
    match map.remove(key) {
        Some(Value::String(text)) if text.trim().is_empty() => Err(format!("`{key}` is empty")),
        Some(Value::String(text)) if text.len() > bytes_max => Err(format!("`{key}` has over {bytes_max} bytes")),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{key}` is not text")),
        None => Err(format!("`{key}` is missing")),
    }
}

fn no_more(map: &Map<String, Value>) -> Result<(), String> {
    map.keys().next().map_or(Ok(()), |key| Err(format!("unknown key `{key}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str) -> String {
        match read_findings(Some(text.as_bytes()), "n", "c") {
            FindingsReading::Findings { findings } => format!("{} findings", findings.len()),
            FindingsReading::Missing => "missing".to_owned(),
            FindingsReading::Malformed { why } => why,
            FindingsReading::Forged { why } => format!("forged: {why}"),
        }
    }

    #[test]
    fn only_a_complete_file_bound_to_the_attack_is_read() {
        let one = |rest: &str| {
            format!(
                r#"{{"nonce":"n","candidate":"c","findings":[{{"severity":"high","title":"t","path":"a.py","trigger":"x"{rest}}}]}}"#
            )
        };
        let many = one("")
            .replace("[{", &format!("[{}{{", r#"{"severity":"low","title":"t","path":"a","trigger":"x"},"#.repeat(20)));
        let cases = [
            (r#"{"nonce":"n","candidate":"c","findings":[]}"#.to_owned(), "0 findings"),
            (one(r#","line":3,"reproduction":"exit 1""#), "1 findings"),
            (r#"{"nonce":"m","candidate":"c","findings":[]}"#.to_owned(), "forged: the nonce"),
            (r#"{"nonce":"n","candidate":"d","findings":[]}"#.to_owned(), "forged: the candidate"),
            (r#"{"nonce":"n","candidate":"c","findings":[],"verdict":"pass"}"#.to_owned(), "unknown key `verdict`"),
            (r#"{"nonce":"n","candidate":"c"}"#.to_owned(), "`findings` is not a list"),
            (one(r#","line":0"#), "finding 1: `line` is not a whole number"),
            (one(r#","fix":"x""#), "finding 1: unknown key `fix`"),
            (one("").replace("high", "severe"), "severity `severe` is not one of critical, high"),
            (one("").replace(r#""t""#, r#""a\nb""#), "several lines"),
            (one("").replace(r#""t""#, "7"), "`title` is not text"),
            (many, "21 findings, at most 20"),
            ("[]".to_owned(), "not a JSON object"),
            ("no".to_owned(), "not valid JSON"),
        ];
        for (text, expected) in cases {
            let found = reading(&text);
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert_eq!(read_findings(None, "n", "c"), FindingsReading::Missing);
    }
}
