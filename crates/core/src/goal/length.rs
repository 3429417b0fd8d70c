//! The length check of a goal's text. `/goal` of Claude Code refuses a text of 4000 UTF-16 units; the target of 3990
//! leaves room for one more newline or quote. The `length` gate counts with the same function.

use crate::gate::length::utf16_units;

/// The first length that `/goal` refuses.
const CAP: u32 = 4000;
/// The first length that the check refuses.
const TARGET: u32 = 3990;
/// The length from which a text is long: a goal that grows to its limit hides its point.
const LONG: u64 = 1500;
/// The highest limit that is accepted, so that no text above the caller's reading limit can pass.
const LIMIT_MAX: u32 = 100_000;

/// The limits of one check, both exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoalLengthLimits {
    target: u32,
    cap: u32,
}

/// Limits that make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoalLengthLimitsError {
    /// A limit is zero or too high.
    #[error("{name} is {value}; it is a number from 1 to {LIMIT_MAX}")]
    OutOfRange {
        /// The limit.
        name: &'static str,
        /// Its value.
        value: u32,
    },
    /// No text could ever reach the cap.
    #[error("the target {target} is above the cap {cap}")]
    Reversed {
        /// The target.
        target: u32,
        /// The cap.
        cap: u32,
    },
}

impl GoalLengthLimits {
    /// Checks limits. A target that is not given is 3990, or the cap if that is lower.
    ///
    /// # Errors
    /// Zero, a limit above 100,000, and a target above the cap.
    pub fn new(target: Option<u32>, cap: Option<u32>) -> Result<Self, GoalLengthLimitsError> {
        let cap = cap.unwrap_or(CAP);
        let target = target.unwrap_or(TARGET.min(cap));
        for (name, value) in [("the cap", cap), ("the target", target)] {
            if value == 0 || value > LIMIT_MAX {
                return Err(GoalLengthLimitsError::OutOfRange { name, value });
            }
        }
        if target > cap {
            return Err(GoalLengthLimitsError::Reversed { target, cap });
        }
        Ok(Self { target, cap })
    }

    /// The first length that is refused.
    #[must_use]
    pub fn target(self) -> u32 {
        self.target
    }

    /// The first length that the receiver refuses.
    #[must_use]
    pub fn cap(self) -> u32 {
        self.cap
    }
}

impl Default for GoalLengthLimits {
    fn default() -> Self {
        Self { target: TARGET, cap: CAP }
    }
}

crate::words::worded! {
    /// The result of a length check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum GoalLengthVerdict {
        /// It fits.
        Fits = "fits",
        /// It reaches the target.
        OverTarget = "over-target",
        /// It reaches the cap.
        OverCap = "over-cap",
    }
}

/// A measured text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoalLengthCheck {
    /// Its UTF-16 units, without one trailing `\n` or `\r\n`.
    pub units: u64,
    /// The result.
    pub verdict: GoalLengthVerdict,
    /// Remarks about a text that fits.
    pub warnings: Vec<String>,
}

impl GoalLengthCheck {
    /// Measures a text. `\r\n` at the end counts as one newline; every other `\r` counts as a unit.
    #[must_use]
    pub fn measure(text: &str, limits: GoalLengthLimits) -> Self {
        let units = utf16_units(text);
        let verdict = match units {
            units if units >= u64::from(limits.cap) => GoalLengthVerdict::OverCap,
            units if units >= u64::from(limits.target) => GoalLengthVerdict::OverTarget,
            _ => GoalLengthVerdict::Fits,
        };
        Self { units, verdict, warnings: warnings(text, units) }
    }

    /// Whether the text may be used.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.verdict == GoalLengthVerdict::Fits
    }
}

fn warnings(text: &str, units: u64) -> Vec<String> {
    let mut found = Vec::new();
    if text.trim().is_empty() {
        found.push("the text is empty".to_owned());
    }
    if units >= LONG {
        found.push(format!("it is long: from {LONG} units on, move the details to a file and name the file"));
    }
    if has_placeholder(text) {
        found.push("`$1` and `$ARGUMENTS` are replaced when the text is a command of Claude Code".to_owned());
    }
    found
}

/// Whether a command's text has a place for an argument.
pub(super) fn has_placeholder(text: &str) -> bool {
    text.split('$')
        .skip(1)
        .any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()) || rest.starts_with("ARGUMENTS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> (u64, &'static str) {
        let check = GoalLengthCheck::measure(text, GoalLengthLimits::default());
        (check.units, check.verdict.word())
    }

    #[test]
    fn length_is_the_number_of_utf16_units_without_one_newline() {
        let text = |part: &str, count: usize, end: &str| format!("{}{end}", part.repeat(count));
        let table = [
            (text("a", 3989, ""), 3989, "fits"),
            (text("a", 3989, "\n"), 3989, "fits"),
            (text("a", 3989, "\r\n"), 3989, "fits"),
            (text("a", 3989, "\n\n"), 3990, "over-target"),
            (text("a", 3989, "\r\n\r\n"), 3991, "over-target"),
            (text("a", 3989, "\r"), 3990, "over-target"),
            (text("a", 3990, "\n"), 3990, "over-target"),
            (text("a", 3999, "\n"), 3999, "over-target"),
            (text("a", 4000, "\n"), 4000, "over-cap"),
            (text("—", 3989, "\n"), 3989, "fits"),
            (text("—", 3990, ""), 3990, "over-target"),
            (text("😀", 1994, "\n"), 3988, "fits"),
            (text("😀", 1995, ""), 3990, "over-target"),
            (text("😀", 2000, "\r\n"), 4000, "over-cap"),
            (text("a\r\n", 1330, ""), 3988, "fits"),
            (text("", 0, ""), 0, "fits"),
        ];
        for (text, units, word) in table {
            assert_eq!(verdict(&text), (units, word), "{:?}", text.chars().take(5).collect::<String>());
        }
    }

    /// The seed's check read `--cap abc` as "not a number", and every text was below it.
    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let shown = |target, cap| GoalLengthLimits::new(target, cap).map(|limits| (limits.target, limits.cap));
        assert_eq!(shown(None, None), Ok((3990, 4000)));
        assert_eq!(shown(None, Some(100)), Ok((100, 100)));
        assert_eq!(shown(Some(50), Some(50)), Ok((50, 50)));
        assert!(shown(Some(4001), None).is_err());
        assert!(shown(Some(0), None).is_err() && shown(None, Some(0)).is_err());
        assert!(shown(None, Some(LIMIT_MAX + 1)).is_err());
    }

    #[test]
    fn long_texts_and_places_for_arguments_get_a_warning() {
        let warnings = |text: &str| GoalLengthCheck::measure(text, GoalLengthLimits::default()).warnings.len();
        for (text, count) in [("costs 5$", 0), ("$1", 1), ("use $ARGUMENTS", 1), ("", 1), (" \n", 1), ("$HOME", 0)] {
            assert_eq!(warnings(text), count, "{text:?}");
        }
        assert_eq!((warnings(&"a".repeat(1499)), warnings(&"a".repeat(1500))), (0, 1));
    }
}
