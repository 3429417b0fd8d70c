//! The checker's brief: the intent, the maker's task, the rubric, the change and the gates' evidence. It has no field
//! for the maker's own words about its work. Staged items are included because they are part of the candidate.

use super::clean::{fenced, plain};
use super::maker::WorkItem;
use super::texts::{BriefText, VerdictChannel, part};
use super::{NamedText, role_line};
use crate::spec::Role;

const INTENT_MAX: usize = 4 << 10;
const LOOP_MAX: usize = 64 << 10;
const STAGED_MAX: usize = 32 << 10;
const STAGED_COUNT_MAX: usize = 64;
const GATE_MAX: usize = 4 << 10;
const GATES_MAX: usize = 64;
const DIFF_MAX: usize = 192 << 10;
const FILES_MAX: usize = 400;

/// The data of a checker's brief.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckerBrief {
    /// The repository's own text for the checker role; the built-in text if absent.
    pub own: Option<String>,
    /// The channel of the verdict.
    pub answer: VerdictChannel,
    /// The loop's intent.
    pub intent: String,
    /// The loop's `# Maker`: the task.
    pub asked: String,
    /// The loop's `# Checker`; the built-in text if absent.
    pub instructions: Option<String>,
    /// Dimensions with their meanings.
    pub dimensions: Vec<(String, String)>,
    /// The mean score that a pass needs.
    pub threshold: f64,
    /// The score that every dimension must reach.
    pub floor: u8,
    /// The round's mark: random, created after all the text that it fences was written.
    pub mark: String,
    /// The planner's brief of a goal round.
    pub brief: Option<String>,
    /// The units of work.
    pub items: Vec<WorkItem>,
    /// The change, file by file, from raw trees.
    pub diff: Vec<FileDiff>,
    /// The results of the gates.
    pub gates: Vec<GateEvidence>,
    /// The staged items.
    pub staged: Vec<NamedText>,
    /// The engine's remarks: new files under protected paths, edited gate inputs.
    pub remarks: Vec<String>,
    /// The secret of this check.
    pub nonce: String,
    /// The sealed tree.
    pub tree: String,
    /// The candidate.
    pub candidate: String,
}

/// One file's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// Its path.
    pub path: String,
    /// A unified diff, or a note about a binary file.
    pub text: String,
}

/// One gate's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateEvidence {
    /// Its name.
    pub name: String,
    /// Its result, in the engine's words.
    pub result: String,
    /// The end of its output; may be empty.
    pub output: String,
}

impl CheckerBrief {
    /// The brief as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut parts = part(BriefText::Checker, self.own.as_deref());
        parts.extend([self.answer.text().built_in().to_owned(), self.task(), self.rubric()]);
        parts.push(format!("# The candidate\n\n{}\n", role_line(Role::Checker, None)));
        parts.extend(self.brief.as_ref().map(|brief| self.data("brief", brief, LOOP_MAX)));
        parts.extend(WorkItem::render_items(&self.items, &self.mark));
        parts.extend(self.change());
        parts.extend(self.staged());
        parts.extend(self.evidence());
        parts.extend(self.remarks());
        parts.push(self.binding());
        parts.join("\n")
    }

    fn task(&self) -> String {
        let (intent, asked) = (plain(&self.intent, INTENT_MAX), plain(&self.asked, LOOP_MAX));
        let own = self.instructions.as_deref().unwrap_or(BriefText::Look.built_in());
        let own = plain(own, LOOP_MAX);
        format!("# Intent\n\n{intent}\n\n# The maker's task\n\n{asked}\n\n# How to review\n\n{own}\n")
    }

    fn rubric(&self) -> String {
        let line = |(name, meaning): &(String, String)| format!("- `{}`: {}\n", plain(name, 200), plain(meaning, 2000));
        let lines: String = self.dimensions.iter().map(line).collect();
        let (floor, threshold) = (self.floor, self.threshold);
        format!(
            "# Rubric\n\nScore each dimension once, from 1 (bad) to 5 (excellent). A pass needs every dimension at {floor} or \
            more and a mean of {threshold} or more.\n\n{lines}"
        )
    }

    /// Every file gets a share of the space, so that one long file cannot displace the others.
    fn change(&self) -> Vec<String> {
        if self.diff.is_empty() {
            return vec!["No file changed: the candidate is its staged items.\n".to_owned()];
        }
        let share = share(&self.diff);
        let cut = self.diff.len() > FILES_MAX || self.diff.iter().any(|file| file.text.len() > share);
        let mut parts = vec![format!("{} files changed.{}\n", self.diff.len(), if cut { CUT } else { "" })];
        let shown = self.diff.iter().take(FILES_MAX);
        parts.extend(shown.map(|file| self.data(&format!("diff of {}", file.path), &file.text, share)));
        if let Some(more) = self.diff.len().checked_sub(FILES_MAX).filter(|more| *more > 0) {
            parts.push(format!("[… the diffs of {more} more files left out here …]\n"));
        }
        parts
    }

    fn staged(&self) -> Vec<String> {
        let item = |item: &NamedText| self.data(&format!("staged item {}", item.name), &item.text, STAGED_MAX);
        self.staged.iter().take(STAGED_COUNT_MAX).map(item).collect()
    }

    fn evidence(&self) -> Vec<String> {
        if self.gates.is_empty() {
            return vec!["# Gates\n\nThe loop has no gates: only your review decides.\n".to_owned()];
        }
        let mut parts = vec!["# Gates\n".to_owned()];
        parts.extend(self.gates.iter().take(GATES_MAX).map(|gate| self.gate(gate)));
        parts
    }

    fn gate(&self, gate: &GateEvidence) -> String {
        let line = format!("- `{}`: {}\n", plain(&gate.name, 200), plain(&gate.result, 1000));
        if gate.output.trim().is_empty() {
            return line;
        }
        format!("{line}\n{}", self.data("gate output", &gate.output, GATE_MAX))
    }

    /// The engine's remarks quote paths and text of the maker, so they are fenced as data.
    fn remarks(&self) -> Option<String> {
        let line = |text: &String| format!("- {}\n", plain(text, 1000).replace('\n', " "));
        let lines: String = self.remarks.iter().take(GATES_MAX).map(line).collect();
        (!lines.is_empty()).then(|| {
            let lines = self.data("remarks", &lines, GATES_MAX * 1000);
            format!("# The engine points out\n\nNames and quotes in these remarks are the maker's.\n\n{lines}")
        })
    }

    fn binding(&self) -> String {
        let (nonce, tree, candidate) = (&self.nonce, &self.tree, &self.candidate);
        format!("# Your verdict is bound to\n\nnonce: {nonce}\ntree: {tree}\ncandidate: {candidate}\n")
    }

    fn data(&self, name: &str, text: &str, bytes_max: usize) -> String {
        fenced(&self.mark, name, text, bytes_max)
    }
}

const CUT: &str = " Some diffs below are truncated where marked; the whole files are in the snapshot.";

/// The largest piece of a diff such that all pieces together fit the limit: short files leave space for long ones.
fn share(diff: &[FileDiff]) -> usize {
    let mut sizes: Vec<usize> = diff.iter().take(FILES_MAX).map(|file| file.text.len()).collect();
    sizes.sort_unstable();
    let mut left = DIFF_MAX;
    for (index, size) in sizes.iter().enumerate() {
        let fair = left / (sizes.len() - index);
        if *size > fair {
            return fair;
        }
        left -= size;
    }
    DIFF_MAX
}
