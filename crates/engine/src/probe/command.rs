//! Runs a probe's program in its sandbox view on a read-only checkout of base, with the loop's network. Exit code 0
//! means work, 1 means no work, and any other code is a failure.

use super::outdated::ProbeProgram;
use crate::engine::Engine;
use crate::git::Oid;
use crate::proc::{CancelToken, RunEnd, RunLimits, SpawnRequest, TreeCookie};
use crate::round::error_chain;
use crate::sandbox_view::{self, ProgramFolders, SandboxViews};
use crate::workspace::{SnapshotKind, WorkspaceError, Workspaces};
use loopwright_core::round::{ProbeAnswer, ProbeItem};
use loopwright_core::spec::ItemsForm;
use std::collections::BTreeSet;
use std::time::Duration;

/// The time limit of a probe.
const WALL: Duration = Duration::from_secs(120);
/// The most items that are read.
pub(super) const ITEMS_MAX: usize = 1000;
/// The most bytes of an item's key.
pub(super) const KEY_MAX: usize = 200;
/// The most bytes of an item's data; a prompt takes less.
const DATA_MAX: usize = 64 << 10;
/// The end of a text that was cut.
const CUT_NOTE: &str = "\n[the rest is cut here]";

/// Runs a probe for a round, or for a loop without one.
pub(crate) struct ProbeRunner<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) workspaces: &'a Workspaces,
    pub(crate) views: &'a SandboxViews,
    pub(crate) cancel: &'a CancelToken,
    /// The round's id, or the probe's own.
    pub(crate) id: &'a str,
}

/// How the program ended.
pub(crate) enum ProbeExit {
    /// It exited: its code, its output if that was read completely, and the last line of its error output.
    Exit { code: i32, stdout: Option<String>, complaint: String },
    /// It could not run, or ended without an exit code.
    Failed(String),
    /// It was cancelled.
    Stopped,
}

impl ProbeRunner<'_> {
    /// Runs a program on a read-only checkout of base.
    pub(crate) async fn ask(
        &self,
        program: &ProbeProgram,
        loop_name: &str,
        base: &Oid,
    ) -> Result<ProbeExit, WorkspaceError> {
        let making = self.views.workspace_options();
        let space = self.workspaces.create(loop_name, self.id, base, &making).await?;
        let (kind, extra) = (SnapshotKind::ReadOnly, &making.extra_lower);
        let view = self.workspaces.snapshot(&space, "probe", base, kind, extra).await?;
        let folders = ProgramFolders { files: &view.files, home: &space.home, tmp: &space.tmp };
        Ok(self.run(program.argv(), folders).await)
    }

    async fn run(&self, run: &[String], seat: ProgramFolders<'_>) -> ProbeExit {
        let Some((program, args)) = run.split_first() else {
            return ProbeExit::Failed("the probe is empty".to_owned());
        };
        let room = self.views.probe(seat);
        let cookie = TreeCookie::new(&format!("lw-{}-probe", self.id));
        let mut spawn = SpawnRequest::new(program, sandbox_view::host_folder(seat.files), cookie);
        spawn.args = args.iter().map(Into::into).collect();
        spawn.env = room.env(seat.home, seat.tmp);
        spawn.limits = RunLimits { wall: Some(WALL), ..RunLimits::default() };
        let ended = match self.engine.proc.run(room.confine_spawn(spawn), &mut (), self.cancel, |_| ()).await {
            Ok(ended) => ended,
            Err(error) => return ProbeExit::Failed(error_chain(&error)),
        };
        let complaint = last_line(&ended.stderr.to_lossy_string());
        match ended.how {
            RunEnd::Exited(code) => {
                let stdout = ended.stdout.complete_bytes().map(|whole| String::from_utf8_lossy(&whole).into_owned());
                ProbeExit::Exit { code, stdout, complaint }
            }
            RunEnd::Cancelled => ProbeExit::Stopped,
            how => ProbeExit::Failed(format!("the probe ended as {how:?}: {complaint}")),
        }
    }
}

/// The probe's answer, from the exit of a loop's own command.
pub(super) fn read_exit(form: ItemsForm, said: ProbeExit) -> ProbeAnswer {
    match said {
        // A truncated answer would lose items, and its cut end would look like an item.
        ProbeExit::Exit { code: 0, stdout, .. } => match (form, stdout) {
            (ItemsForm::None, _) => ProbeAnswer::Work { items: Vec::new() },
            (_, Some(whole)) => read_items(form, &whole),
            (_, None) => probe_failed("the probe printed more than the limit"),
        },
        ProbeExit::Exit { code: 1, .. } => ProbeAnswer::Nothing,
        ProbeExit::Exit { code, complaint, .. } => {
            probe_failed(&format!("the probe ended with code {code}: {complaint}"))
        }
        ProbeExit::Failed(text) => probe_failed(&text),
        ProbeExit::Stopped => probe_failed("the probe was stopped"),
    }
}

pub(super) fn probe_failed(text: &str) -> ProbeAnswer {
    ProbeAnswer::Failed { text: text.to_owned() }
}

fn last_line(text: &str) -> String {
    text.lines().next_back().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Parses a probe's output; a key that is too long, empty or has control characters makes the whole answer a failure.
fn read_items(form: ItemsForm, text: &str) -> ProbeAnswer {
    let items = match form {
        ItemsForm::None => return ProbeAnswer::Work { items: Vec::new() },
        ItemsForm::Lines => lines(text),
        ItemsForm::Json => match serde_json::from_str::<Vec<ProbeItem>>(text) {
            Ok(items) => items,
            Err(error) => return probe_failed(&format!("the probe's items are not JSON as documented: {error}")),
        },
    };
    checked_items(items)
}

/// Checks the items' bounds and removes duplicates.
pub(super) fn checked_items(items: Vec<ProbeItem>) -> ProbeAnswer {
    let is_bad =
        |item: &ProbeItem| item.key.is_empty() || item.key.len() > KEY_MAX || item.key.chars().any(char::is_control);
    if items.len() > ITEMS_MAX || items.iter().any(is_bad) {
        return probe_failed(&format!("a probe may print at most {ITEMS_MAX} items with keys of 1 to {KEY_MAX} bytes"));
    }
    let mut seen = BTreeSet::new();
    let items = items.into_iter().filter(|item| seen.insert(item.key.clone()));
    let items: Vec<_> = items.map(|item| ProbeItem { data: item.data.map(cut), ..item }).collect();
    if items.is_empty() { ProbeAnswer::Nothing } else { ProbeAnswer::Work { items } }
}

fn cut(text: String) -> String {
    cut_with_note(text, DATA_MAX)
}

/// Cuts the text of an item to its share, so that all items of a round fit into one record. The cut is stated: a reader
/// must not take a part for the whole.
pub(crate) fn cut_to_share(item: &mut ProbeItem, count: usize) {
    let room = DATA_MAX / count.max(1);
    for text in [&mut item.title, &mut item.data].into_iter().flatten() {
        *text = cut_with_note(std::mem::take(text), room);
    }
}

fn cut_with_note(mut text: String, room: usize) -> String {
    if text.len() > room {
        text.truncate(text.floor_char_boundary(room.saturating_sub(CUT_NOTE.len())));
        text.push_str(CUT_NOTE);
    }
    text
}

fn lines(text: &str) -> Vec<ProbeItem> {
    let keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
    keys.map(|key| ProbeItem { key: key.to_owned(), title: None, data: None, chain: 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(probed: ProbeAnswer) -> String {
        match probed {
            ProbeAnswer::Work { items } => items.into_iter().map(|item| item.key).collect::<Vec<_>>().join(","),
            ProbeAnswer::Nothing => "nothing".to_owned(),
            ProbeAnswer::Failed { .. } => "failed".to_owned(),
        }
    }

    #[test]
    fn items_are_read_by_form_without_duplicates() {
        let keys = |form, text: &str| describe(read_items(form, text));
        assert_eq!(keys(ItemsForm::Lines, "a\n\n b \na\n"), "a,b");
        assert_eq!(keys(ItemsForm::Lines, "\n"), "nothing");
        assert_eq!(keys(ItemsForm::None, "anything"), "");
        assert_eq!(keys(ItemsForm::Json, r#"[{"key":"pr:4@a","title":"t"}]"#), "pr:4@a");
        assert_eq!(keys(ItemsForm::Json, "{}"), "failed");
        assert_eq!(keys(ItemsForm::Lines, &"x".repeat(201)), "failed");
        assert_eq!(keys(ItemsForm::Lines, "a\u{7}b"), "failed");
    }

    #[test]
    fn exit_codes_mean_work_none_and_failure() {
        let exit = |code| ProbeExit::Exit { code, stdout: Some("a\n".to_owned()), complaint: String::new() };
        let table = [(0, "a"), (1, "nothing"), (2, "failed"), (127, "failed")];
        for (code, expected) in table {
            assert_eq!(describe(read_exit(ItemsForm::Lines, exit(code))), expected, "{code}");
        }
        let flood = ProbeExit::Exit { code: 0, stdout: None, complaint: String::new() };
        assert_eq!(describe(read_exit(ItemsForm::Lines, flood)), "failed");
    }
}
