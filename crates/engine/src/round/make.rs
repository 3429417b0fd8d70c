//! Make: the maker's input, and its output, which is read once its whole process tree is dead. Its text is recorded as
//! a claim.

use super::role_runner::{FileAccess, RoleCall, RoleRun, RoleView};
use super::{RoundDriver, StageError, bounds};
use crate::staging;
use crate::workspace::Workspace;
use loopwright_core::memory::{self, MemoryNotes};
use loopwright_core::outbox::{self, OutboxEntryKind, StagedFile};
use loopwright_core::round::{AgentRun, AttemptFeedback, Event, MakerResult, Phase, RoleResult, Stage, StagedBatch};
use loopwright_core::spec::Role;

/// The most characters of the maker's last message that are recorded.
const TEXT_MAX: usize = 64 << 10;

/// The request's text in the workspace, and the most bytes that are read of base's own file of that name.
const PR_BODY: &str = "PR_BODY.md";
const PR_BODY_MAX: usize = 1 << 20;

impl RoundDriver<'_> {
    pub(super) async fn make(&mut self, feedback: Option<&AttemptFeedback>) -> Result<Event, StageError> {
        self.has_time()?;
        let again = *self.round.phase() == Phase::Making(AgentRun::Again);
        let attempt = self.round.facts().attempt_number() + u32::from(!again);
        let turn = self.role_runner().turn(Role::Maker)?;
        let on = if again { ", on what is there" } else { "" };
        self.stage(Stage::Make, format!("attempt {attempt} with {}{on}", turn.agent.name()));
        // Gate programs are found before a maker can replace them.
        self.resolve_gates().await?;
        let workspace = self.workspace(Stage::Make)?.clone();
        self.prepare_base(&workspace.base, Stage::Make).await?;
        staging::clear(&workspace.outbox).map_err(|error| StageError::broke(Stage::Make, "outbox", &error))?;
        let before = self.round.facts().attempt().filter(|_| again).map_or(0, |attempt| attempt.starts);
        let name = if before > 0 { format!("maker-{attempt}-{}", before + 1) } else { format!("maker-{attempt}") };
        let prompt = self.maker_brief(attempt, feedback).await?;
        let call = RoleCall { turn, attempt, name, prompt, view: maker_view(&workspace), verdict: None };
        let run = self.run_role(call).await?;
        let body = self.workspaces.engine().read_blob(&workspace.base, PR_BODY, PR_BODY_MAX).await;
        let body = body.map_err(|error| StageError::broke(Stage::Make, "outbox", &error))?;
        let files = staging::read(&workspace.outbox, &workspace.dir, body.as_deref());
        let files = files.map_err(|error| StageError::broke(Stage::Make, "outbox", &error))?;
        let result = self.maker_result(&run, &files);
        Ok(run.ended(RoleResult::Maker(result)))
    }

    fn maker_result(&self, run: &RoleRun, files: &[StagedFile]) -> MakerResult {
        let (text, survivors) = match &run.outcome {
            Some(outcome) => (outcome.text.chars().take(TEXT_MAX).collect(), u32::from(outcome.leaky)),
            None => (String::new(), 0),
        };
        let (notes, staged_files) = notes_in(files);
        let staged = outbox::parse_batch(&staged_files);
        let staged = staged.and_then(|items| outbox::permit(items, self.spec(), self.spec().level));
        let staged = staged.map_err(|refused| refused.problems).and_then(bounds::recordable);
        let staged = match staged {
            Ok(items) => StagedBatch::Items { items },
            Err(problems) => StagedBatch::Refused {
                problems: bounds::list(problems.iter().map(|problem| format!("{}: {}", problem.name, problem.why))),
            },
        };
        let cannot = outbox::cannot_reason(&staged_files);
        let result = MakerResult { text, cannot, staged, secrets: Vec::new(), survivors, notes };
        MakerResult { secrets: self.find_secrets(files, &result), ..result }
    }
}

/// The maker works in the round's own workspace.
fn maker_view(workspace: &Workspace) -> RoleView {
    RoleView {
        files: workspace.files.clone(),
        access: FileAccess::ByLevel,
        root: workspace.root.clone(),
        outbox: workspace.outbox.clone(),
        home: workspace.home.clone(),
        tmp: workspace.tmp.clone(),
        items: None,
        sink: None,
    }
}

/// A role's memory notes, and the rest of its staged files. Anything except a file of that name is left to the parser.
fn notes_in(files: &[StagedFile]) -> (MemoryNotes, Vec<StagedFile>) {
    let is_memory = |file: &&StagedFile| file.name == memory::FILE && file.entry == OutboxEntryKind::Regular;
    let notes = files.iter().find(is_memory).map(|file| memory::read(&file.bytes)).unwrap_or_default();
    (notes, files.iter().filter(|file| !is_memory(file)).cloned().collect())
}
