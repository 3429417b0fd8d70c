//! Bounds of recorded texts: all output of makers, gates and external systems fits into one event. Longer output is cut
//! and marked as cut, or refused; it never makes a round that cannot be recorded.

use super::StageError;
use super::journal::recorded_event;
use crate::store::BODY_MAX;
use loopwright_core::gate::GateResult;
use loopwright_core::outbox::{OutboxProblem, StagedItem};
use loopwright_core::round::{ChangeFact, Event, SealFindings, Stage};

/// The most entries of one list.
const ENTRIES_MAX: usize = 500;
/// The most bytes of one list, and of one text.
const LIST_BYTES_MAX: usize = 32 << 10;
const TEXT_BYTES_MAX: usize = 4 << 10;
/// The most changed files that are listed, and the most bytes of their paths; the tree itself has them all.
const CHANGES_MAX: usize = 2000;
const CHANGES_BYTES_MAX: usize = 128 << 10;
/// The most bytes of a batch in its recorded form.
const ITEMS_BYTES_MAX: usize = 512 << 10;
/// The most bytes of all gates' excerpts together.
const EXCERPTS_BYTES_MAX: usize = 256 << 10;

/// A text cut to the length of a few lines.
pub(super) fn text(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}

/// As many entries as fit; the last one says how many are left out.
pub(super) fn list(entries: impl IntoIterator<Item = String>) -> Vec<String> {
    let (mut kept, mut bytes, mut more) = (Vec::new(), 0, 0_usize);
    for entry in entries {
        let entry = text(&entry);
        bytes += entry.len();
        if more > 0 || kept.len() >= ENTRIES_MAX || bytes > LIST_BYTES_MAX {
            more += 1;
        } else {
            kept.push(entry);
        }
    }
    if more > 0 {
        kept.push(format!("and {more} more"));
    }
    kept
}

pub(super) fn changes(all: impl Iterator<Item = ChangeFact>) -> Vec<ChangeFact> {
    let mut bytes = 0;
    let fits = |change: &ChangeFact| {
        bytes += change.path.len();
        bytes <= CHANGES_BYTES_MAX
    };
    // A path is far shorter than the bound, so the first one always fits: a changed tree never looks unchanged.
    all.take(CHANGES_MAX).take_while(fits).collect()
}

pub(super) fn findings(all: SealFindings) -> SealFindings {
    SealFindings {
        refused_paths: list(all.refused_paths),
        secrets: list(all.secrets),
        protected: list(all.protected),
        missing_tests: list(all.missing_tests),
        outside: list(all.outside),
        sensitive: list(all.sensitive),
        steering: list(all.steering),
        runner_files: list(all.runner_files),
        weakened_tests: list(all.weakened_tests),
        notes: list(all.notes),
        proposed_before: all.proposed_before.map(|proposed| text(&proposed)),
    }
}

/// Divides the bytes for excerpts among the gates.
pub(super) fn results(mut all: Vec<GateResult>) -> Vec<GateResult> {
    let share = EXCERPTS_BYTES_MAX / all.len().max(1);
    for result in &mut all {
        let cut = result.excerpt.ceil_char_boundary(result.excerpt.len().saturating_sub(share));
        if cut > 0 {
            result.excerpt = format!("[cut]\n{}", &result.excerpt[cut..]);
        }
        result.evidence = list(std::mem::take(&mut result.evidence));
    }
    all
}

/// Refuses a batch whose recorded form is too long. Control characters, for example, take six bytes there.
pub(super) fn recordable(items: Vec<StagedItem>) -> Result<Vec<StagedItem>, Vec<OutboxProblem>> {
    let bytes = serde_json::to_string(&items).map_or(usize::MAX, |text| text.len());
    if bytes <= ITEMS_BYTES_MAX {
        return Ok(items);
    }
    let why = format!("{bytes} bytes as recorded, at most {ITEMS_BYTES_MAX}");
    Err(vec![OutboxProblem { name: "outbox".to_owned(), why }])
}

/// The last check: an event that still does not fit fails its stage, and that failure is recorded instead.
pub(super) fn fits(event: &Event, stage: Stage) -> Result<(), StageError> {
    let bytes = recorded_event(event).body.len();
    if bytes <= BODY_MAX {
        return Ok(());
    }
    let text = format!("event `{}` takes {bytes} bytes, at most {BODY_MAX} are recorded", event.kind());
    Err(StageError::failed(stage, "too-large", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_by_count_and_by_bytes_and_say_so() {
        let few = list(["a".to_owned(), "b".to_owned()]);
        assert_eq!(few, ["a", "b"]);
        let many = list((0..2000).map(|n| n.to_string()));
        assert_eq!((many.len(), many.last().map(String::as_str)), (ENTRIES_MAX + 1, Some("and 1500 more")));
        let long = list((0..100).map(|_| "ä".repeat(4000)));
        assert!(long.iter().map(String::len).sum::<usize>() <= LIST_BYTES_MAX + 100, "{}", long.len());
        assert_eq!(long.last().map(String::as_str), Some("and 93 more"));
    }

    #[test]
    fn gates_with_much_output_share_the_bytes_for_excerpts() {
        let loud = |n: usize| GateResult {
            excerpt: "é".repeat(20_000),
            ..GateResult::new(n.to_string(), loopwright_core::gate::GateStatus::Rejected)
        };
        let cut = results((0..100).map(loud).collect());
        assert!(cut.iter().map(|result| result.excerpt.len()).sum::<usize>() < EXCERPTS_BYTES_MAX + 1000);
        assert!(cut[0].excerpt.starts_with("[cut]\né"), "{}", &cut[0].excerpt[..20]);
    }
}
