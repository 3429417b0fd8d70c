//! `state/<loop>@<repo>.json` of loop-harness: the items that a loop has processed, and its counters.

use crate::import::whole_file;
use crate::spec::SpecProblems;
use jiff::fmt::strtime;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The largest state file.
const BYTES_MAX: usize = 4 << 20;

/// The state of a loop in a repository.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HarnessState {
    /// The ids of processed items, each with its time in milliseconds, newest first.
    pub processed: Vec<(String, Option<i64>)>,
    /// The ids of items that were in progress.
    pub in_progress: Vec<String>,
    /// The ids of items that failed and are not processed.
    pub failed: Vec<String>,
    /// The number of runs and of successes.
    pub runs: (u64, u64),
}

#[derive(Deserialize)]
struct StateFile {
    #[serde(default)]
    processed: Map<String, Value>,
    #[serde(default)]
    in_progress: Map<String, Value>,
    #[serde(default)]
    failures: Vec<Value>,
    #[serde(default)]
    metrics: Value,
}

impl HarnessState {
    /// Reads a state file.
    ///
    /// # Errors
    /// A file that is too large, or not the JSON of a state.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, SpecProblems> {
        if bytes.len() > BYTES_MAX {
            let hint = "remove old entries of `processed`";
            return Err(whole_file(file, &format!("the file has more than {BYTES_MAX} bytes"), Some(hint)));
        }
        let read: StateFile = serde_json::from_slice(bytes).map_err(|error| {
            let hint = "repair the file, or remove it: then the loop's items are processed again";
            whole_file(file, &format!("this is not the state of a loop: {error}"), Some(hint))
        })?;
        let mut processed: Vec<_> =
            read.processed.into_iter().map(|(id, at)| (id, at.as_str().and_then(milliseconds))).collect();
        processed.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        let id = |failure: &Value| match &failure["item"] {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        };
        let mut failed: Vec<String> = read.failures.iter().filter_map(id).collect();
        failed.sort_unstable();
        failed.dedup();
        failed.retain(|id| !processed.iter().any(|(known, _)| known == id));
        let count = |key: &str| read.metrics[key].as_u64().unwrap_or(0);
        let runs = (count("runs"), count("successes"));
        Ok(Self { processed, in_progress: read.in_progress.into_iter().map(|(id, _)| id).collect(), failed, runs })
    }
}

/// The time that `date` prints: `2026-06-10T09:00:00+0000`.
fn milliseconds(text: &str) -> Option<i64> {
    let own = strtime::parse("%Y-%m-%dT%H:%M:%S%z", text).and_then(|time| time.to_timestamp());
    let time = own.or_else(|_| text.parse::<jiff::Timestamp>()).ok()?;
    Some(time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_as_the_readme_shows_it_is_read() {
        let text = br#"{"last_run": 1760000000, "last_status": "success",
            "processed": {"old": "2026-06-09T09:00:00+0000", "12345": "2026-06-10T11:00:00+0200", "odd": "yesterday"},
            "in_progress": {"7": "2026-06-10T09:00:00+0000"},
            "failures": [{"item": "98", "error": "verification failed", "retries": 1, "ts": "..."}, {"item": "98"}, {"item": "old"}, {"item": 5}, 3],
            "metrics": {"runs": 42, "successes": 40, "items_processed": 61, "total_duration_s": 9000}}"#;
        let state = HarnessState::read("state/a@b.json", text).expect("a state");
        let expected = [("12345", Some(1_781_082_000_000)), ("old", Some(1_780_995_600_000)), ("odd", None)];
        assert_eq!(state.processed, expected.map(|(id, at)| (id.to_owned(), at)));
        assert_eq!((state.in_progress, state.failed), (vec!["7".to_owned()], vec!["5".to_owned(), "98".to_owned()]));
        assert_eq!(state.runs, (42, 40));
    }

    #[test]
    fn broken_states_are_problems_of_their_file() {
        for text in [&b"[1]"[..], b"{", b"\xff\xfe", b"", b"{\"processed\": 3}"] {
            let problems = HarnessState::read("state/a.json", text).expect_err("not a state");
            assert!(problems.to_string().contains("state/a.json"), "{problems}");
        }
        assert!(HarnessState::read("a", &vec![b' '; BYTES_MAX + 1]).is_err());
        assert_eq!(HarnessState::read("a", b"{}").expect("an empty state"), HarnessState::default());
    }
}
