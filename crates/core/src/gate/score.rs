//! A number that a gate prints, compared with a fixed bar or with base's number.

use crate::spec::{CountFloor, ScoreDirection, ScoreRule};
use regex::Regex;

/// The reason why a score did not pass.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScoreError {
    /// The rule's pattern is not a regular expression.
    #[error("the score's pattern is not a regular expression")]
    BadPattern,
    /// The output holds no number.
    #[error("the output has no score")]
    NoScore,
    /// The bar is base's number, and base had none.
    #[error("base has no score to compare with")]
    NoBase,
    /// The number is on the wrong side of the bar.
    #[error("the score {score} is worse than {bar}")]
    Worse {
        /// The measured score.
        score: f64,
        /// The required score.
        bar: f64,
    },
}

impl ScoreError {
    /// The reason code of the gate.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadPattern => "bad-pattern",
            Self::NoScore => "no-score",
            Self::NoBase => "no-base-score",
            Self::Worse { .. } => "score",
        }
    }
}

/// Reads the number: the first group of the last match, because summaries come last.
///
/// # Errors
/// The pattern is invalid, or the output has no finite number.
pub fn read(rule: &ScoreRule, output: &str) -> Result<f64, ScoreError> {
    let pattern = Regex::new(&rule.pattern).map_err(|_| ScoreError::BadPattern)?;
    let found = pattern.captures_iter(output).last().ok_or(ScoreError::NoScore)?;
    let number = found.get(1).or_else(|| found.get(0)).map_or("", |group| group.as_str());
    let number: f64 = number.trim().replace(['_', ','], "").parse().map_err(|_| ScoreError::NoScore)?;
    if number.is_finite() { Ok(number) } else { Err(ScoreError::NoScore) }
}

/// Compares a score with the rule's bar; without a bar every score passes.
///
/// # Errors
/// The score is worse than the bar, or the bar is base's score and base had none.
pub fn compare(rule: &ScoreRule, score: f64, base: Option<f64>) -> Result<(), ScoreError> {
    let bar = match rule.at_least {
        None => return Ok(()),
        Some(CountFloor::Number(bar)) => bar,
        Some(CountFloor::Base(_)) => base.ok_or(ScoreError::NoBase)?,
    };
    let reached = match rule.better {
        ScoreDirection::Higher => score >= bar,
        ScoreDirection::Lower => score <= bar,
    };
    if reached { Ok(()) } else { Err(ScoreError::Worse { score, bar }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::BaseWord;

    fn rule(better: ScoreDirection, at_least: Option<CountFloor>) -> ScoreRule {
        ScoreRule { pattern: r"ops=([-\d.,_]+)".into(), better, at_least }
    }

    #[test]
    fn the_last_number_counts() {
        let rule = rule(ScoreDirection::Higher, None);
        assert_eq!(read(&rule, "ops=1\nops=1,250.5\n"), Ok(1250.5));
        assert_eq!(read(&rule, "nothing"), Err(ScoreError::NoScore));
        assert_eq!(read(&rule, "ops=.."), Err(ScoreError::NoScore));
        assert_eq!(read(&ScoreRule { pattern: "(".into(), ..rule }, "x"), Err(ScoreError::BadPattern));
    }

    #[test]
    fn direction_decides_which_side_is_worse() {
        let base = Some(CountFloor::Base(BaseWord::Base));
        let cases = [
            (ScoreDirection::Higher, 10.0, Some(10.0), true),
            (ScoreDirection::Higher, 9.0, Some(10.0), false),
            (ScoreDirection::Lower, 9.0, Some(10.0), true),
            (ScoreDirection::Lower, 11.0, Some(10.0), false),
            (ScoreDirection::Higher, 1.0, None, false),
        ];
        for (better, score, of_base, fine) in cases {
            assert_eq!(compare(&rule(better, base), score, of_base).is_ok(), fine, "{better:?} {score} {of_base:?}");
        }
        assert_eq!(compare(&rule(ScoreDirection::Lower, Some(CountFloor::Number(5.0))), 5.0, None), Ok(()));
    }
}
