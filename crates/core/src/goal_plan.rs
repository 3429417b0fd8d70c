//! The plan of a goal round: a planner's brief and plan, read strictly, bounded, and frozen by hash before anything is
//! made. The phases of the first attempt come from it.

use crate::hash;
use serde::{Deserialize, Serialize};

/// The file of the brief in a planner's sink.
pub const BRIEF_FILE: &str = "BRIEF.md";
/// The file of the plan in a planner's sink.
pub const PLAN_FILE: &str = "PLAN.md";
/// The most bytes of a brief.
pub const BRIEF_MAX: usize = 16 << 10;
/// The most bytes of a plan.
pub const PLAN_MAX: usize = 48 << 10;
/// The most phases of a plan.
pub const PHASES_MAX: usize = 8;
/// The most characters of a phase's title.
const TITLE_MAX: usize = 120;
/// The line that separates brief and plan in a message.
const MESSAGE_PLAN: &str = "# PLAN";
const MESSAGE_BRIEF: &str = "# BRIEF";

/// One phase of a plan: a maker starts fresh for it, and its files are sealed at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPhase {
    /// Its title.
    pub title: String,
    /// Its text in the plan.
    pub text: String,
}

/// A planner's files, as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "draft", rename_all = "kebab-case")]
pub enum PlanDraft {
    /// Both files, well-formed.
    Written {
        /// The brief.
        brief: String,
        /// The plan.
        plan: String,
        /// The phases of the plan, at least one.
        phases: Vec<PlanPhase>,
    },
    /// A file is missing or empty.
    Missing {
        /// Its name.
        file: String,
    },
    /// A file that cannot be used.
    Malformed {
        /// Why.
        why: String,
    },
}

impl PlanDraft {
    /// Reads both files.
    #[must_use]
    pub fn read(brief: Option<&[u8]>, plan: Option<&[u8]>) -> Self {
        match (text(BRIEF_FILE, brief, BRIEF_MAX), text(PLAN_FILE, plan, PLAN_MAX)) {
            (Ok(brief), Ok(plan)) => match phases(&plan) {
                Ok(phases) => Self::Written { brief, plan, phases },
                Err(why) => Self::Malformed { why },
            },
            (Err(draft), _) | (_, Err(draft)) => draft,
        }
    }

    /// Reads a last message: the brief below a line `# BRIEF`, the plan below a line `# PLAN`.
    #[must_use]
    pub fn read_message(message: &str) -> Self {
        let Some(at) = heading(message, MESSAGE_PLAN) else { return Self::Missing { file: PLAN_FILE.to_owned() } };
        let (before, plan) = (&message[..at.0], &message[at.1..]);
        let brief = heading(before, MESSAGE_BRIEF).map_or("", |at| &before[at.1..]);
        Self::read(Some(brief.as_bytes()), Some(plan.as_bytes()))
    }
}

/// The start and the end of the first line that is this heading.
fn heading(text: &str, wanted: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim().eq_ignore_ascii_case(wanted) {
            return Some((at, at + line.len()));
        }
        at += line.len();
    }
    None
}

fn text(file: &str, bytes: Option<&[u8]>, bytes_max: usize) -> Result<String, PlanDraft> {
    let bytes = bytes.ok_or_else(|| PlanDraft::Missing { file: file.to_owned() })?;
    if bytes.len() > bytes_max {
        let why = format!("{file} has {} bytes, at most {bytes_max} are read", bytes.len());
        return Err(PlanDraft::Malformed { why });
    }
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|error| PlanDraft::Malformed { why: format!("{file} is not UTF-8: {error}") })?;
    if text.trim().is_empty() {
        return Err(PlanDraft::Missing { file: file.to_owned() });
    }
    Ok(text.trim().to_owned())
}

/// The phases: each line `## Phase …` outside a code fence starts one. A plan without such a line is one phase.
fn phases(plan: &str) -> Result<Vec<PlanPhase>, String> {
    let mut phases: Vec<PlanPhase> = Vec::new();
    let mut is_code = false;
    for line in plan.lines() {
        is_code ^= line.trim_start().starts_with("```");
        match title(line).filter(|_| !is_code) {
            Some(title) => phases.push(PlanPhase { title, text: String::new() }),
            None => {
                if let Some(phase) = phases.last_mut() {
                    phase.text.push_str(line);
                    phase.text.push('\n');
                }
            }
        }
    }
    if phases.len() > PHASES_MAX {
        return Err(format!("{PLAN_FILE} has {} phases, at most {PHASES_MAX} are run", phases.len()));
    }
    if phases.is_empty() {
        phases.push(PlanPhase { title: "the whole plan".to_owned(), text: plan.to_owned() });
    }
    for phase in &mut phases {
        phase.text = phase.text.trim().to_owned();
    }
    Ok(phases)
}

/// The title of a phase's heading: `## Phase 1: parser` and `## Phase: parser` both have the title `parser`.
fn title(line: &str) -> Option<String> {
    let rest = line.strip_prefix("## ")?.trim_start();
    let word = rest.get(..5).filter(|word| word.eq_ignore_ascii_case("phase"))?;
    let rest = rest[word.len()..].trim_start();
    if rest.chars().next().is_some_and(|c| c.is_alphabetic()) && !line[3..].trim_start()[5..].starts_with(' ') {
        return None;
    }
    let name = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches([':', '.', ' ', '-', '–', '—']);
    let name = if name.trim().is_empty() { line[3..].trim() } else { name.trim() };
    Some(name.chars().take(TITLE_MAX).collect())
}

/// A frozen plan. No later text changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPlan {
    /// The brief.
    pub brief: String,
    /// The plan.
    pub plan: String,
    /// Its phases, at least one.
    pub phases: Vec<PlanPhase>,
    /// The hash of brief, plan, and of the spec with its rubric and gates.
    pub hash: String,
}

impl RoundPlan {
    /// Freezes a plan together with the spec that it belongs to.
    #[must_use]
    pub fn freeze(spec_hash: &str, brief: String, plan: String, phases: Vec<PlanPhase>) -> Self {
        let fields = [b"loopwright plan 1".as_slice(), spec_hash.as_bytes(), brief.as_bytes(), plan.as_bytes()];
        Self { hash: hash::hash_fields(&fields), brief, plan, phases }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(plan: &str) -> Vec<String> {
        match PlanDraft::read(Some(b"why"), Some(plan.as_bytes())) {
            PlanDraft::Written { phases, .. } => phases.into_iter().map(|phase| phase.title).collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn phases_come_from_the_headings_of_the_plan() {
        let cases: [(&str, &[&str]); 7] = [
            ("do it", &["the whole plan"]),
            ("# Plan\n\n## Phase 1: parser\nread\n## Phase 2: printer\nwrite", &["parser", "printer"]),
            ("## Phase: a\n## phase - b\n## Risks\nnone", &["a", "b"]),
            ("## Phase 3", &["Phase 3"]),
            ("```\n## Phase 1: shown\n```\n## Phase 1: real", &["real"]),
            ("## Phases of the moon", &["the whole plan"]),
            ("### Phase 1: too deep", &["the whole plan"]),
        ];
        for (plan, expected) in cases {
            assert_eq!(titles(plan), expected, "{plan}");
        }
    }

    #[test]
    fn files_that_are_missing_empty_too_long_or_not_text_are_no_plan() {
        let long = vec![b'x'; PLAN_MAX + 1];
        let many = "## Phase x\n".repeat(PHASES_MAX + 1);
        type PlanFile<'f> = Option<&'f [u8]>;
        let cases: [(PlanFile<'_>, PlanFile<'_>, &str); 6] = [
            (None, Some(b"p"), "Missing { file: \"BRIEF.md\" }"),
            (Some(b"b"), None, "Missing { file: \"PLAN.md\" }"),
            (Some(b" \n"), Some(b"p"), "Missing { file: \"BRIEF.md\" }"),
            (Some(b"b"), Some(&long), "at most 49152 are read"),
            (Some(b"b"), Some(b"\xff"), "PLAN.md is not UTF-8"),
            (Some(b"b"), Some(many.as_bytes()), "9 phases, at most 8"),
        ];
        for (brief, plan, expected) in cases {
            let draft = format!("{:?}", PlanDraft::read(brief, plan));
            assert!(draft.contains(expected), "{draft}");
        }
    }

    #[test]
    fn message_has_the_brief_and_the_plan_below_their_headings() {
        let draft = PlanDraft::read_message("Sure!\n# BRIEF\nwhy\n# Plan\n## Phase 1: a\nx\n");
        let PlanDraft::Written { brief, plan, phases } = draft else { panic!("{draft:?}") };
        assert_eq!((brief.as_str(), plan.as_str(), phases.len()), ("why", "## Phase 1: a\nx", 1));
        assert_eq!(PlanDraft::read_message("no plan"), PlanDraft::Missing { file: PLAN_FILE.to_owned() });
        assert_eq!(PlanDraft::read_message("# PLAN\nx"), PlanDraft::Missing { file: BRIEF_FILE.to_owned() });
    }

    #[test]
    fn hash_covers_the_spec_the_brief_and_the_plan() {
        let hash = |spec: &str, brief: &str, plan: &str| {
            RoundPlan::freeze(spec, brief.to_owned(), plan.to_owned(), Vec::new()).hash
        };
        let all = [hash("s", "b", "p"), hash("t", "b", "p"), hash("s", "c", "p"), hash("s", "b", "q")];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
