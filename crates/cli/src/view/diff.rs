//! The change of a round as a diff against its base: the document of `diff --json` and its page for people. A diff is
//! foreign text, so it is redacted and escaped before it is shown.

use super::rounds::RoundRecord;
use super::{CommandError, SCHEMA, Serialize, safe};
use crate::context::CommandContext;
use crate::error::{error_chain, with_count};
use crate::output::{CommandOutput, TextStyle};
use crate::verbs::gc::format_bytes;
use loopwright::git::Oid;
use loopwright::store::RoundRow;
use loopwright::workspace::Workspaces;
use loopwright_core::round::{Attempt, ChangeFact, RoundFacts};
use loopwright_core::secrets::redact;
use std::path::Path;

/// The longest diff that is read, in bytes.
const DIFF_MAX: usize = 8 << 20;

/// The last attempt of a round that was sealed with a change.
pub(crate) struct LastSealedChange<'r> {
    pub(crate) attempt: &'r Attempt,
    pub(crate) commit: Oid,
    pub(crate) base: Oid,
}

impl<'r> LastSealedChange<'r> {
    /// `None` if the round sealed no change.
    pub(crate) fn last(facts: &'r RoundFacts) -> Option<Self> {
        let attempt = facts.attempts.iter().rev().find(|attempt| attempt.commit.is_some() && attempt.has_change())?;
        let commit = attempt.commit.as_deref()?.parse().ok()?;
        let base = facts.base.as_deref()?.parse().ok()?;
        Some(Self { attempt, commit, base })
    }
}

/// The error of a command that needs a sealed change.
pub(crate) fn no_change_error(round: &str) -> CommandError {
    CommandError::refused(format!("round {round} sealed no change"))
        .hint(format!("see `loopwright why {round}`, and `loopwright logs {round}` for what its agent did"))
}

/// The document of `diff --json`.
#[derive(Debug, Serialize)]
pub(crate) struct RoundDiff {
    schema: u32,
    round: String,
    #[serde(rename = "loop")]
    name: String,
    base: String,
    commit: String,
    candidate: Option<String>,
    files: Vec<ChangeFact>,
    diff: String,
    /// False if the diff was cut at its limit.
    whole: bool,
}

impl RoundDiff {
    /// Reads the diff of a round's last sealed change; `None` if it sealed none.
    pub(crate) async fn read(
        cx: &CommandContext,
        row: &RoundRow,
        record: &RoundRecord,
    ) -> Result<Option<Self>, CommandError> {
        let Some(change) = LastSealedChange::last(record.round.facts()) else { return Ok(None) };
        let spaces = open_workspaces(cx, row, &change.commit).await?;
        let read = spaces.engine().unified_diff(&change.base, &change.commit, DIFF_MAX).await?;
        Ok(Some(Self {
            schema: SCHEMA,
            round: row.id.clone(),
            name: row.loop_name.clone(),
            base: change.base.as_str().to_owned(),
            commit: change.commit.as_str().to_owned(),
            candidate: change.attempt.candidate.clone(),
            files: change.attempt.changes.clone(),
            diff: redact(&read.text).into_owned(),
            whole: read.whole,
        }))
    }

    /// One line for each file, and their sum.
    pub(crate) fn stat(&self) -> String {
        let width = self.files.iter().map(|file| file.path.chars().count()).max().unwrap_or_default();
        let line = |file: &ChangeFact| {
            format!("{} {:width$}  +{} -{}\n", file.status, safe(&file.path), file.added, file.removed)
        };
        let (added, removed) = self.files.iter().fold((0_u64, 0_u64), |(added, removed), file| {
            (added.saturating_add(file.added), removed.saturating_add(file.removed))
        });
        let lines: String = self.files.iter().map(line).collect();
        format!("{lines}{}, +{added} -{removed}", with_count(self.files.len(), "file"))
    }

    /// Whether this many lines are all of the change.
    pub(crate) fn is_whole(&self, lines_max: usize) -> bool {
        self.whole && self.diff.lines().count() <= lines_max
    }

    /// The diff with colours where the output shows them, at most `lines_max` lines of it.
    pub(crate) fn render(&self, out: &CommandOutput, lines_max: usize) -> String {
        let mut page = String::with_capacity(self.diff.len());
        for line in self.diff.lines().take(lines_max) {
            page.push_str(&coloured(out, line));
            page.push('\n');
        }
        let left = self.diff.lines().count().saturating_sub(lines_max);
        if left > 0 {
            page.push_str(&format!("… {} more: loopwright diff {}\n", with_count(left, "line"), safe(&self.round)));
        } else if !self.whole {
            let shown = format_bytes(DIFF_MAX as u64);
            page.push_str(&format!("… only its first {shown} are shown: loopwright take {}\n", safe(&self.round)));
        }
        page
    }
}

/// Opens the engine's repository that has a round's change. `gc` removes the changes of old rounds.
pub(crate) async fn open_workspaces(
    cx: &CommandContext,
    row: &RoundRow,
    commit: &Oid,
) -> Result<Workspaces, CommandError> {
    let git = cx.git();
    let repo = git.discover(Path::new(&row.repo_path)).await?;
    let spaces = Workspaces::open(git, &cx.state_dir()?.0, repo).await;
    let spaces = spaces.map_err(|error| CommandError::failed(error_chain(&error)))?;
    match spaces.engine().resolve(&format!("{commit}^{{commit}}")).await? {
        Some(_) => Ok(spaces),
        None => Err(CommandError::refused(format!("the change of round {} is no longer stored", row.id))
            .hint("`loopwright gc` removes the changes of rounds that are older than `retention: { days: 30 }`")),
    }
}

fn coloured(out: &CommandOutput, line: &str) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => TextStyle::Bold,
        [b'@', b'@', ..] | [b'i', b'n', b'd', b'e', b'x', ..] => TextStyle::Dim,
        [b'+', ..] => TextStyle::Green,
        [b'-', ..] => TextStyle::Red,
        _ => return safe_keeping_tabs(line),
    };
    out.style(style, &safe_keeping_tabs(line))
}

/// A tab is a fact of many diffs (makefiles, Go), so it stays.
fn safe_keeping_tabs(line: &str) -> String {
    line.split('\t').map(safe).collect::<Vec<_>>().join("\t")
}
