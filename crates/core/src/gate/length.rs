//! The length gate: a text measured in UTF-16 units after one trailing newline is stripped.

use super::{GateResult, GateStatus};
use crate::spec::LengthGate;

/// The length for the comparison: UTF-16 units without one trailing `\n` or `\r\n`.
#[must_use]
pub fn utf16_units(text: &str) -> u64 {
    let text = text.strip_suffix('\n').map_or(text, |rest| rest.strip_suffix('\r').unwrap_or(rest));
    text.encode_utf16().count() as u64
}

/// Judges the file's bytes; `None` means that the sealed tree has no such file.
///
/// A length equal to `max` is already rejected, as with the goal's target of 3990: `max` is the first length that is
/// too long.
#[must_use]
pub fn judge(gate: &LengthGate, bytes: Option<&[u8]>) -> GateResult {
    let rejected = |reason: &str, fact: String| GateResult {
        evidence: vec![fact],
        ..GateResult::new(&gate.name, GateStatus::Rejected).with_reason(reason)
    };
    let rule = &gate.length;
    let Some(bytes) = bytes else { return rejected("no-file", format!("`{}` is not in the tree", rule.file)) };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return rejected("not-text", format!("`{}` is not UTF-8", rule.file));
    };
    let units = utf16_units(text);
    let fact = format!("`{}` has {units} UTF-16 units, {} is too long", rule.file, rule.max);
    if units >= rule.max {
        return rejected("too-long", fact);
    }
    GateResult { evidence: vec![fact], score: Some(units as f64), ..GateResult::new(&gate.name, GateStatus::Passed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LengthRule;

    #[test]
    fn length_is_in_utf16_units_without_one_trailing_newline() {
        for (text, units) in [("", 0), ("a\n", 1), ("a\r\n", 1), ("a\n\n", 2), ("é", 1), ("😀", 2), ("\n", 0)] {
            assert_eq!(utf16_units(text), units, "{text:?}");
        }
    }

    #[test]
    fn length_equal_to_the_limit_is_too_long() {
        let gate = LengthGate { name: "goal".into(), length: LengthRule { file: "GOAL.md".into(), max: 3 } };
        assert!(judge(&gate, Some(b"ab\n")).is_passed());
        assert_eq!(judge(&gate, Some(b"abc")).reason.as_deref(), Some("too-long"));
        assert_eq!(judge(&gate, None).reason.as_deref(), Some("no-file"));
        assert_eq!(judge(&gate, Some(b"\xff")).reason.as_deref(), Some("not-text"));
    }
}
