//! `review`: shows the changes that were sent and that no person has read, oldest first, or the intent of a loop. With
//! `--yes` it records that the person has read them, or confirms the intent.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, safe};
use crate::context::CheckedLoopFile;
use crate::output::safe_lines;
use crate::signals::CurrentRound;
use crate::view::SCHEMA;
use crate::view::find;
use crate::view::rounds::RoundRecord;
use crate::view::time::Moment;
use loopwright::autonomy::{IntentConfirmed, confirm_intent, record_readings};
use loopwright::git::{Oid, UserRepo};
use loopwright::store::{Store, WorkRow};
use loopwright::workspace::Workspaces;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct ReviewArgs {
    /// A loop by its name, or a round by its id [default: all loops of the repository]
    #[arg(value_name = "LOOP|ROUND")]
    name: Option<String>,
    /// Show the intent of the loop instead: prompts, gates and outputs
    #[arg(long, requires = "name")]
    intent: bool,
    /// Record that you have read what is shown, or that you confirm the intent
    #[arg(long)]
    pub(crate) yes: bool,
}

/// The most changes that are shown at once.
const CHANGES_MAX: u32 = 20;
/// The most bytes of one diff.
const DIFF_MAX: usize = 256 << 10;

/// The document of `review --json`.
#[derive(Debug, Serialize)]
struct ReviewView {
    schema: u32,
    changes: Vec<ChangeView>,
    /// Whether it is on record that the person has read them.
    recorded: bool,
    next: Vec<String>,
}

/// One change.
#[derive(Debug, Serialize)]
struct ChangeView {
    #[serde(rename = "loop")]
    name: String,
    round: String,
    kind: Option<String>,
    candidate: String,
    at: Option<Moment>,
    lines: i64,
    fate: Option<&'static str>,
    diff: String,
    /// Whether `diff` is the whole change.
    whole: bool,
}

/// The document of `review --intent --json`.
#[derive(Debug, Serialize)]
struct IntentView {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    file: String,
    intent: String,
    level: &'static str,
    gates: Vec<String>,
    output: Vec<&'static str>,
    allow: Vec<&'static str>,
    prompts: Vec<String>,
    /// Whether the confirmation is on record now.
    recorded: bool,
    next: Vec<String>,
}

pub(crate) async fn run(args: ReviewArgs, cx: &CommandContext) -> VerbResult {
    if args.intent {
        return review_intent(args, cx).await;
    }
    let repo = cx.repo().await?;
    let store = cx.open_store_read_only().await?;
    let mut changes = Vec::new();
    for (row, found) in wanted(cx, &store, &repo, args.name.as_deref()).await? {
        changes.push(read_change(cx, &store, row, found).await?);
    }
    if args.yes {
        record_reading(cx, &repo, &changes).await?;
    }
    let again = args.name.as_ref().map_or(String::new(), |name| format!(" {name}"));
    let is_open = !args.yes && !changes.is_empty();
    let next = is_open.then(|| format!("loopwright review{again} --yes")).into_iter().collect();
    let view = ReviewView { schema: SCHEMA, changes, recorded: args.yes, next };
    Ok(cx.out.answer(&view, || page(&view)))
}

/// The rounds to show: unread ones, or the named one.
async fn wanted(
    cx: &CommandContext,
    store: &Store,
    repo: &UserRepo,
    name: Option<&str>,
) -> Result<Vec<(String, Option<WorkRow>)>, CommandError> {
    let loops = cx.loops(repo)?;
    let names: Vec<String> = match name {
        None => loops.names().map(str::to_owned).collect(),
        Some(name) if loops.find(name).is_ok() => vec![name.to_owned()],
        Some(id) => return Ok(vec![(find::find_round(store, id).await?.id, None)]),
    };
    let mut works = Vec::new();
    for name in names {
        works.extend(store.unread_works(&repo.id, &name, CHANGES_MAX).await?);
    }
    works.sort_by_key(|work| work.decided_ms);
    let mut seen = BTreeSet::new();
    works.retain(|work| seen.insert(work.candidate.clone()));
    works.truncate(CHANGES_MAX as usize);
    Ok(works.into_iter().map(|work| (work.round.clone(), Some(work))).collect())
}

async fn read_change(
    cx: &CommandContext,
    store: &Store,
    round: String,
    work: Option<WorkRow>,
) -> Result<ChangeView, CommandError> {
    let record = RoundRecord::read(store, &round).await?;
    let facts = record.round.facts();
    let attempt = facts.attempt().filter(|attempt| attempt.has_change());
    let Some((attempt, base)) = attempt.zip(facts.base.as_deref()) else {
        return Err(CommandError::refused(format!("round {round} has no change to review"))
            .hint(format!("see `loopwright why {round}`")));
    };
    let (diff, whole) = diff(cx, &facts.started.repo_path, base, attempt.commit.as_deref()).await;
    let lines = attempt.changes.iter().map(|change| change.added.saturating_add(change.removed)).sum::<u64>();
    Ok(ChangeView {
        name: facts.started.spec.name.clone(),
        candidate: attempt.candidate.clone().unwrap_or_default(),
        kind: work.as_ref().map(|work| work.kind.clone()),
        at: work.as_ref().map(|work| Moment(work.decided_ms)),
        lines: i64::try_from(lines).unwrap_or(i64::MAX),
        fate: work.as_ref().map(|work| work.fate.word()),
        round,
        diff,
        whole,
    })
}

/// The diff of a round, and whether it is complete. Objects that retention removed cannot be shown any more.
async fn diff(cx: &CommandContext, repo_path: &str, base: &str, commit: Option<&str>) -> (String, bool) {
    let found = async {
        let (base, commit): (Oid, Oid) = (base.parse().ok()?, commit?.parse().ok()?);
        let repo = cx.git().discover(Path::new(repo_path)).await.ok()?;
        let spaces = Workspaces::open(cx.git(), &cx.state_dir().ok()?.0, repo).await.ok()?;
        let diff = spaces.engine().unified_diff(&base, &commit, DIFF_MAX).await.ok()?;
        Some((diff.text, diff.whole))
    };
    found.await.unwrap_or_else(|| ("the change is no longer in the engine's repository\n".to_owned(), false))
}

/// A change that was not shown as a whole was not read.
async fn record_reading(cx: &CommandContext, repo: &UserRepo, changes: &[ChangeView]) -> Result<(), CommandError> {
    if let Some(cut) = changes.iter().find(|change| !change.whole) {
        let text = format!("the change of round {} is too long to be shown, or its objects are gone", cut.round);
        return Err(CommandError::refused(text).hint(format!("read it on a branch: loopwright take {}", cut.round)));
    }
    let candidates: Vec<_> = changes.iter().map(|change| change.candidate.clone()).collect();
    let engine = cx.open_engine(Some(repo), &cx.cancel(&CurrentRound::default())).await?;
    let done = record_readings(&engine, &candidates, &cx.actor_name()).await;
    super::close(&engine, done).await
}

async fn review_intent(args: ReviewArgs, cx: &CommandContext) -> VerbResult {
    let Some(name) = args.name else {
        return Err(CommandError::new(CommandErrorKind::Usage, "`--intent` needs the name of a loop"));
    };
    let repo = cx.repo().await?;
    let loops = cx.loops(&repo)?;
    let file = loops.find(&name)?;
    if args.yes {
        let spec = cx.with_configured_agents(file.spec.clone(), &repo)?;
        let engine = cx.open_engine(Some(&repo), &cx.cancel(&CurrentRound::default())).await?;
        let confirmed = IntentConfirmed { repo: &repo.id, spec: &spec, actor: cx.actor_name() };
        let done = confirm_intent(&engine, confirmed).await;
        super::close(&engine, done).await?;
    }
    let view = IntentView::new(file, args.yes);
    Ok(cx.out.answer(&view, || view.page()))
}

impl IntentView {
    fn new(file: &CheckedLoopFile, recorded: bool) -> Self {
        let spec = file.spec.spec();
        let prompts = [&spec.prompts.planner, &spec.prompts.maker, &spec.prompts.prover, &spec.prompts.attacker];
        let prompts = prompts.into_iter().chain([&spec.prompts.checker]).flatten();
        let next = format!("loopwright review {} --intent --yes", spec.name);
        Self {
            schema: SCHEMA,
            name: spec.name.clone(),
            file: file.file.clone(),
            intent: spec.intent.clone(),
            level: spec.level.short(),
            gates: spec.gates.iter().map(|gate| gate.name().to_owned()).collect(),
            output: spec.output.iter().map(|one| one.kind.word()).collect(),
            allow: spec.allow.iter().map(|kind| kind.word()).collect(),
            prompts: prompts.cloned().collect(),
            next: (!recorded).then_some(next).into_iter().collect(),
            recorded,
        }
    }

    fn page(&self) -> String {
        let list = |all: &[&str]| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        let gates: Vec<_> = self.gates.iter().map(String::as_str).collect();
        let mut lines = vec![
            format!("{} ({}), {}", safe(&self.name), safe(&self.file), self.level),
            format!("  intent  {}", safe(&self.intent)),
            format!("  gates   {}", safe(&list(&gates))),
            format!("  output  {}", list(&self.output)),
            format!("  allow   {}", list(&self.allow)),
        ];
        lines.extend(self.prompts.iter().map(|prompt| format!("\n{}", safe_lines(prompt))));
        lines.push(match self.next.first() {
            Some(next) => format!("\nconfirm with: {}", safe(next)),
            None => "\nrecorded: you confirm this intent".to_owned(),
        });
        lines.join("\n")
    }
}

fn page(view: &ReviewView) -> String {
    if view.changes.is_empty() {
        return "nothing to review: a person has read every change that was sent".to_owned();
    }
    let mut page = String::new();
    for change in &view.changes {
        let fate = change.fate.map_or(String::new(), |fate| format!(", {fate}"));
        let of = format!("round {} of {}: {} lines{fate}", change.round, change.name, change.lines);
        page.push_str(&format!("{}\n{}\n", safe(&of), safe_lines(&change.diff)));
    }
    match view.next.first() {
        Some(next) => page.push_str(&format!("record that you have read this: {}", safe(next))),
        None => page.push_str("recorded: you have read this"),
    }
    page
}
