//! Planted changes: small, known-bad edits of a text, made by code, that measure whether a checker catches them.
//!
//! A planted change exists only in a calibration round, whose phases lead to no delivery.

use crate::words::worded;
use serde::{Deserialize, Serialize};

/// The most lines of a file that are searched.
const LINES_MAX: usize = 20_000;

worded! {
    /// The kind of a planted change.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum PlantKind {
        /// A condition means its opposite.
        InvertedCondition = "inverted-condition",
        /// A bound or a step is off by one.
        OffByOne = "off-by-one",
        /// An arithmetic operator is replaced.
        WrongOperator = "wrong-operator",
        /// A line that checks something is gone.
        RemovedCheck = "removed-check",
        /// A computed result is a constant.
        FixedAnswer = "fixed-answer",
    }
}

/// A place in a text that can carry a planted change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantSite {
    /// The kind of change.
    pub kind: PlantKind,
    /// The line, from 1.
    pub line: u32,
    /// The line afterwards; `None` if it is removed.
    replacement: Option<String>,
}

impl PlantSite {
    /// The text with the change.
    #[must_use]
    pub fn plant(&self, text: &str) -> String {
        let at = usize::try_from(self.line).unwrap_or(usize::MAX);
        let lines = text.split_inclusive('\n').enumerate().map(|(index, line)| match index + 1 == at {
            false => line.to_owned(),
            true => {
                let end = if line.ends_with('\n') { "\n" } else { "" };
                self.replacement.as_ref().map_or(String::new(), |new| format!("{new}{end}"))
            }
        });
        lines.collect()
    }
}

/// The places of a text that can carry a planted change, in order.
#[must_use]
pub fn plant_sites(text: &str) -> Vec<PlantSite> {
    let numbered = text.lines().take(LINES_MAX).zip(1..);
    numbered.filter(|(line, _)| !is_comment(line)).flat_map(|(line, number)| sites_of_line(line, number)).collect()
}

fn is_comment(line: &str) -> bool {
    let start = line.trim_start();
    start.is_empty() || ["//", "#", "*", "/*", "--", ";", "<!--"].iter().any(|mark| start.starts_with(mark))
}

const CONDITIONS: [(&str, &str); 6] =
    [(" == ", " != "), (" != ", " == "), (" === ", " !== "), (" -eq ", " -ne "), (" && ", " || "), (" and ", " or ")];
const BOUNDS: [(&str, &str); 6] =
    [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" + 1", " + 2"), (" - 1", " - 2")];
const OPERATORS: [(&str, &str); 3] = [(" + ", " - "), (" - ", " + "), (" * ", " / ")];
const CHECKS: [&str; 6] = ["assert", "ensure", "require(", "expect(", "validate", "check("];

fn sites_of_line(line: &str, number: u32) -> Vec<PlantSite> {
    let swap = |pairs: &[(&str, &str)]| {
        pairs.iter().find(|(from, _)| line.contains(from)).map(|(from, to)| line.replacen(from, to, 1))
    };
    let site = |kind, replacement| PlantSite { kind, line: number, replacement };
    let start = line.trim_start();
    let mut sites = Vec::new();
    sites.extend(swap(&CONDITIONS).map(|new| site(PlantKind::InvertedCondition, Some(new))));
    sites.extend(swap(&BOUNDS).map(|new| site(PlantKind::OffByOne, Some(new))));
    sites.extend(swap(&OPERATORS).map(|new| site(PlantKind::WrongOperator, Some(new))));
    sites.extend(CHECKS.iter().any(|word| start.starts_with(word)).then(|| site(PlantKind::RemovedCheck, None)));
    sites.extend(fixed_answer(line).map(|new| site(PlantKind::FixedAnswer, Some(new))));
    sites
}

/// `return x + y;` becomes `return 0;`, and `echo $(( … ))` becomes `echo 0`.
fn fixed_answer(line: &str) -> Option<String> {
    let indent = &line[..line.len() - line.trim_start().len()];
    let start = line.trim_start().trim_end();
    if start.starts_with("echo $((") && start.ends_with("))") {
        return Some(format!("{indent}echo 0"));
    }
    let value = start.strip_prefix("return ")?;
    let (value, end) = value.strip_suffix(';').map_or((value, ""), |value| (value, ";"));
    let is_computed = value.contains(['(', '+', '-', '*', '/', '.', '[']) && value != "0";
    is_computed.then(|| format!("{indent}return 0{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_planted_where_a_line_allows_it() {
        let cases = [
            ("if a == b {\n", PlantKind::InvertedCondition, "if a != b {\n"),
            ("while i < n {\n", PlantKind::OffByOne, "while i <= n {\n"),
            ("x = a + b\n", PlantKind::WrongOperator, "x = a - b\n"),
            ("    assert!(ready);\n", PlantKind::RemovedCheck, ""),
            ("    return total(a);\n", PlantKind::FixedAnswer, "    return 0;\n"),
            ("echo $(( $1 + $2 ))\n", PlantKind::FixedAnswer, "echo 0\n"),
        ];
        for (text, kind, expected) in cases {
            let site = plant_sites(text).into_iter().find(|site| site.kind == kind).expect(text);
            assert_eq!(site.plant(text), expected);
        }
    }

    #[test]
    fn planted_text_differs_in_one_line_and_comments_carry_nothing() {
        let text = "# a == b\none\nif x == 1 then\nlast";
        let sites = plant_sites(text);
        assert!(!sites.is_empty() && sites.iter().all(|site| site.line == 3), "{sites:?}");
        for site in sites {
            let planted = site.plant(text);
            let changed = text.lines().zip(planted.lines()).filter(|(old, new)| old != new).count();
            assert_eq!((changed, planted.lines().count(), planted.ends_with("last")), (1, 4, true), "{planted}");
        }
        assert!(plant_sites("").is_empty() && plant_sites("just words\n").is_empty());
    }
}
