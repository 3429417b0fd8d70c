//! The conditions on a run beyond its exit code: patterns in its streams, a value in its JSON.

use crate::spec::{ExpectRule, JsonRule};
use regex::RegexBuilder;
use serde_json::Value;

/// The result of a command.
#[derive(Debug, Clone, Copy)]
pub struct GateRunOutput<'a> {
    /// Its exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// The captured part of its stdout.
    pub stdout: &'a str,
    /// The captured part of its stderr.
    pub stderr: &'a str,
}

/// The reason why a run does not satisfy the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetExpectation {
    /// The code of a gate's reason: `exit`, `stdout`, `stderr`, `json` or `bad-pattern`.
    pub code: &'static str,
    /// The missing condition, for people.
    pub text: String,
}

impl UnmetExpectation {
    fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// Judges a run; without a rule the exit code must be zero.
///
/// # Errors
/// The first condition that does not hold.
pub fn judge(rule: Option<&ExpectRule>, seen: GateRunOutput<'_>) -> Result<(), UnmetExpectation> {
    let wanted = rule.and_then(|rule| rule.exit).unwrap_or(0);
    match seen.exit {
        Some(code) if code == wanted => {}
        Some(code) => return Err(UnmetExpectation::new("exit", format!("exit code {code}, expected {wanted}"))),
        None => return Err(UnmetExpectation::new("signal", format!("ended by a signal, expected exit code {wanted}"))),
    }
    let Some(rule) = rule else { return Ok(()) };
    pattern("stdout", rule.stdout.as_deref(), seen.stdout)?;
    pattern("stderr", rule.stderr.as_deref(), seen.stderr)?;
    rule.json.as_ref().map_or(Ok(()), |rule| json(rule, seen.stdout))
}

fn pattern(stream: &'static str, pattern: Option<&str>, text: &str) -> Result<(), UnmetExpectation> {
    let Some(pattern) = pattern else { return Ok(()) };
    let built = RegexBuilder::new(pattern).multi_line(true).size_limit(1 << 20).build();
    let regex =
        built.map_err(|_| UnmetExpectation::new("bad-pattern", format!("`{pattern}` is not a regular expression")))?;
    if regex.is_match(text) {
        return Ok(());
    }
    Err(UnmetExpectation::new(stream, format!("{stream} does not match `{pattern}`")))
}

fn json(rule: &JsonRule, stdout: &str) -> Result<(), UnmetExpectation> {
    let bad = |text: String| UnmetExpectation::new("json", text);
    let document: Value = serde_json::from_str(stdout).map_err(|error| bad(format!("stdout is not JSON: {error}")))?;
    let steps = steps(&rule.path)
        .ok_or_else(|| UnmetExpectation::new("bad-pattern", format!("`{}` is not a path", rule.path)))?;
    let value = find(&document, &steps).ok_or_else(|| bad(format!("`{}` is missing", rule.path)))?;
    if rule.equals.as_ref().is_some_and(|wanted| !same(wanted, value)) {
        return Err(bad(format!("`{}` has another value", rule.path)));
    }
    if rule.at_least.is_none() && rule.at_most.is_none() {
        return Ok(());
    }
    let number = value.as_f64().ok_or_else(|| bad(format!("`{}` is not a number", rule.path)))?;
    let fits = rule.at_least.is_none_or(|least| number >= least) && rule.at_most.is_none_or(|most| number <= most);
    if fits { Ok(()) } else { Err(bad(format!("`{}` is {number}, out of bounds", rule.path))) }
}

/// `1` and `1.0` are the same number, independent of how YAML or JSON parsed them.
fn same(wanted: &Value, value: &Value) -> bool {
    match (wanted.as_f64(), value.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => wanted == value,
    }
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Parses `$.a.b[0]`; also `a.b[0]` and `$`. The rest of JSONPath is not supported: a gate compares one value.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = after.split_once(']')?;
            let quoted = inside.strip_prefix(['"', '\'']).and_then(|text| text.strip_suffix(['"', '\'']));
            steps.push(quoted.map_or_else(|| inside.parse().ok().map(Step::Index), |key| Some(Step::Key(key)))?);
            rest = after;
            continue;
        }
        let after = rest.strip_prefix('.').or_else(|| steps.is_empty().then_some(rest))?;
        let end = after.find(['.', '[']).unwrap_or(after.len());
        if end == 0 {
            return None;
        }
        steps.push(Step::Key(&after[..end]));
        rest = &after[end..];
    }
    Some(steps)
}

fn find<'a>(document: &'a Value, steps: &[Step<'_>]) -> Option<&'a Value> {
    steps.iter().try_fold(document, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(at) => value.get(at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(exit: i32, stdout: &str) -> GateRunOutput<'_> {
        GateRunOutput { exit: Some(exit), stdout, stderr: "" }
    }

    #[test]
    fn paths_are_read() {
        assert_eq!(steps("$.a.b[0]"), Some(vec![Step::Key("a"), Step::Key("b"), Step::Index(0)]));
        assert_eq!(steps("$"), Some(vec![]));
        assert_eq!(steps("a['x.y']"), Some(vec![Step::Key("a"), Step::Key("x.y")]));
        for bad in ["$..a", "$.a[", "$.a[x]", "$.", "$a[1]b"] {
            assert_eq!(steps(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_exit_code_decides_first() {
        assert_eq!(judge(None, seen(0, "")), Ok(()));
        assert_eq!(judge(None, seen(1, "")).map_err(|unmet| unmet.code), Err("exit"));
        assert_eq!(judge(None, GateRunOutput { exit: None, ..seen(0, "") }).map_err(|unmet| unmet.code), Err("signal"));
        let rule = ExpectRule { exit: Some(3), ..ExpectRule::default() };
        assert_eq!(judge(Some(&rule), seen(3, "")), Ok(()));
    }

    #[test]
    fn patterns_match_by_line() {
        let rule = ExpectRule { stdout: Some("^0 errors$".into()), ..ExpectRule::default() };
        assert_eq!(judge(Some(&rule), seen(0, "checked\n0 errors\n")), Ok(()));
        assert_eq!(judge(Some(&rule), seen(0, "10 errors\n")).map_err(|unmet| unmet.code), Err("stdout"));
        let rule = ExpectRule { stdout: Some("(".into()), ..ExpectRule::default() };
        assert_eq!(judge(Some(&rule), seen(0, "(")).map_err(|unmet| unmet.code), Err("bad-pattern"));
    }

    #[test]
    fn json_values_are_compared() {
        let with = |path: &str, equals: Option<Value>, at_most: Option<f64>| ExpectRule {
            json: Some(JsonRule { path: path.into(), equals, at_least: None, at_most }),
            ..ExpectRule::default()
        };
        let out = r#"{"ok": true, "summary": {"failed": 0}, "items": [{"n": 1.0}]}"#;
        for (rule, fine) in [
            (with("$.ok", Some(json!(true)), None), true),
            (with("$.ok", Some(json!(false)), None), false),
            (with("$.summary.failed", None, Some(0.0)), true),
            (with("$.items[0].n", Some(json!(1)), None), true),
            (with("$.items[1].n", None, None), false),
            (with("$.ok", None, Some(1.0)), false),
        ] {
            assert_eq!(judge(Some(&rule), seen(0, out)).is_ok(), fine, "{rule:?}");
        }
        assert!(judge(Some(&with("$.ok", None, None)), seen(0, "not json")).is_err());
    }
}
