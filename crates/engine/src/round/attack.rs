//! Attack: attackers read a snapshot of the sealed candidate, all at once, each in its own process with its own sink.
//! None sees another, and each end is recorded when it happens. Then the engine runs the reproductions itself.

use super::context::{RoundContext, object_name};
use super::gate::{CandidateGates, sealed_attempt};
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::role_runner::{
    EndedStart, FileAccess, RoleCall, RoleRun, RoleRunner, RoleTurn, RoleView, StartedRole, run_started,
};
use super::sink_watch::{SinkWatch, SinkWrites};
use super::{StageError, brief, workspace_trouble};
use crate::agents::VerdictSink;
use crate::workspace::SnapshotKind;
use crate::{random, staging, state_dir};
use loopwright_core::BoxFuture;
use loopwright_core::attack::{FINDINGS_BYTES_MAX, FindingsReading, read_findings};
use loopwright_core::prompt::VerdictChannel;
use loopwright_core::round::{
    Action, AttackFinished, AttackerResult, Event, ReproductionEnd, ReproductionResult, RoleResult, RoundFacts, Stage,
};
use loopwright_core::spec::Role;
use std::path::PathBuf;
use std::task::Poll;
use std::time::Duration;

/// The time limit of one attacker if the loop does not set one.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);

/// A started attacker, and where its findings are.
struct Attacker {
    role: String,
    sink: PathBuf,
    nonce: String,
    candidate: String,
    way: VerdictChannel,
    watch: SinkWatch,
}

/// Starts every attacker that is due, and records each end.
pub(super) async fn attack(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    budget: &mut RoundBudget,
    sandbox: &RoundSandbox,
) -> Result<Vec<Action>, StageError> {
    let due = journal.facts().attackers_due();
    cx.stage(Stage::Attack, format!("{} attackers: {}", due.len(), due.join(", ")));
    let mut running: Vec<(Attacker, BoxFuture<'_, EndedStart>)> = Vec::new();
    for role in due {
        match start(cx, journal, budget, sandbox, role).await {
            Ok((attacker, started)) => running.push((attacker, Box::pin(run_started(cx, started)))),
            // The attackers that have started run; the next pass reaches the ceiling again.
            Err(StageError::Ceiling(..)) if !running.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    let mut actions = Vec::new();
    while let Some((attacker, ended)) = first_ended(&mut running).await {
        let run = RoleRunner { cx, journal: &mut *journal, budget: &mut *budget, sandbox }.conclude(ended)?;
        let role = attacker.role.clone();
        let findings = findings(attacker, &run)?;
        let count = if let FindingsReading::Findings { findings } = &findings { findings.len() } else { 0 };
        cx.stage(Stage::Attack, format!("{role}: {count} findings"));
        let billed = journal.facts().bills.len();
        actions = journal.apply(cx, run.ended(RoleResult::Attacker(AttackerResult { findings })), Vec::new()).await?;
        budget.settle(&journal.facts().bills[billed..]);
        // A forged file ends the round; the other attackers end with it.
        if !actions.is_empty() && !running.is_empty() {
            break;
        }
    }
    Ok(actions)
}

/// Waits until one of the attackers has ended, and takes it out.
async fn first_ended(running: &mut Vec<(Attacker, BoxFuture<'_, EndedStart>)>) -> Option<(Attacker, EndedStart)> {
    if running.is_empty() {
        return None;
    }
    let (at, ended) = std::future::poll_fn(|context| {
        for (at, (_, work)) in running.iter_mut().enumerate() {
            if let Poll::Ready(ended) = work.as_mut().poll(context) {
                return Poll::Ready((at, ended));
            }
        }
        Poll::Pending
    })
    .await;
    Some((running.remove(at).0, ended))
}

async fn start(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    budget: &mut RoundBudget,
    sandbox: &RoundSandbox,
    role: String,
) -> Result<(Attacker, StartedRole), StageError> {
    let facts = journal.facts();
    budget.ensure_time_left(&facts.started.spec)?;
    let turn = RoleTurn::next(cx, journal.round(), Role::Attacker)?;
    let (way, attempt) = (turn.answer_way(), facts.attempt_number());
    let nonce = random::nonce().map_err(StageError::Fatal)?;
    let sealed = sealed_attempt(facts)?;
    let candidate = sealed.candidate.clone().unwrap_or_default();
    let tree = sealed.tree.clone().unwrap_or_default();
    let (view, sink) = view(cx, facts, sandbox, &role).await?;
    let prompt = brief::attacker_brief(cx, facts, sealed, &role, &nonce, way).await?;
    let starts = sealed.attackers.iter().find(|run| run.role == role).map_or(0, |run| run.starts);
    let name = format!("attacker-{role}-{attempt}-{}", starts + 1);
    let verdict = Some(VerdictSink { path: sink.clone(), nonce: nonce.clone(), tree, candidate: candidate.clone() });
    let timeout = facts.started.spec.attack.as_ref().and_then(|attack| attack.timeout);
    let wall = Some(timeout.map_or(TIMEOUT_DEFAULT, |span| span.duration()));
    let attack_role = Some(role.clone());
    let call = RoleCall { verdict, wall, attack_role, ..RoleCall::new(turn, attempt, name, prompt, view) };
    let watch = SinkWatch::start(&sink).map_err(|error| StageError::broke(Stage::Attack, "sink", &error))?;
    let started = RoleRunner { cx, journal, budget, sandbox }.start(call).await?;
    Ok((Attacker { role, sink, nonce, candidate, way, watch }, started))
}

/// The attacker's own folders under an unguessable name, with a read-only snapshot of the candidate.
async fn view(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sandbox: &RoundSandbox,
    role: &str,
) -> Result<(RoleView, PathBuf), StageError> {
    let workspace = sandbox.workspace(Stage::Attack)?;
    let folder = workspace.root.join(format!("attack-{}", random::nonce().map_err(StageError::Fatal)?));
    let [home, tmp, sink, outbox] = ["home", "tmp", "sink", "outbox"].map(|name| folder.join(name));
    for path in [&home, &tmp, &sink, &outbox] {
        state_dir::make_dir(path).map_err(|error| StageError::broke(Stage::Attack, "workspace", &error))?;
    }
    let commit = object_name(sealed_attempt(facts)?.commit.as_deref())?;
    let commit = cx.workspaces.shown_commit(workspace, &commit).await.map_err(workspace_trouble(Stage::Attack))?;
    let kind = SnapshotKind::ReadOnly;
    let snapshot = cx.workspaces.snapshot(workspace, &format!("attack-{role}"), &commit, kind, &[]).await;
    let files = snapshot.map_err(workspace_trouble(Stage::Attack))?.files;
    let (root, path) = (folder, sink.join("findings.json"));
    let (access, items) = (FileAccess::ReadOnly, None);
    Ok((RoleView { files, access, root, outbox, home, tmp, items, sink: Some(sink) }, path))
}

/// Reads the findings. A file that was written more than once is malformed: code of the candidate, which an attacker may
/// start, could have replaced it.
fn findings(attacker: Attacker, run: &RoleRun) -> Result<FindingsReading, StageError> {
    let writes = attacker.watch.finish().map_err(|error| StageError::broke(Stage::Attack, "sink", &error))?;
    let bytes = match attacker.way {
        VerdictChannel::File if writes == SinkWrites::Repeated => {
            return Ok(FindingsReading::Malformed { why: "the file was written more than once".to_owned() });
        }
        VerdictChannel::File => staging::read_sink(&attacker.sink, FINDINGS_BYTES_MAX as u64),
        VerdictChannel::Message => {
            let report = run.outcome.as_ref().map(|outcome| &outcome.self_report);
            report.and_then(|report| report.answer.as_ref()).map(|answer| answer.trim().as_bytes().to_vec())
        }
    };
    Ok(read_findings(bytes.as_deref(), &attacker.nonce, &attacker.candidate))
}

/// Runs the reproductions of the blocking findings on the sealed candidate.
pub(super) async fn reproduce(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sandbox: &mut RoundSandbox,
    budget: &RoundBudget,
    gates: &mut CandidateGates,
) -> Result<Event, StageError> {
    let due = facts.reproductions_due();
    match due.len() {
        0 => {}
        1 => cx.stage(Stage::Attack, "1 reproduction".to_owned()),
        count => cx.stage(Stage::Attack, format!("{count} reproductions")),
    }
    let mut reproductions = Vec::with_capacity(due.len());
    for finding in due {
        let mut shown: Option<ReproductionResult> = None;
        for (script, text) in finding.scripts().enumerate() {
            let (end, excerpt) = gates.reproduce(cx, facts, sandbox, budget, text).await?;
            let is_reproduced = end == ReproductionEnd::Reproduced;
            if is_reproduced || shown.is_none() {
                shown = Some(ReproductionResult { key: finding.key.clone(), end, excerpt, script });
            }
            if is_reproduced {
                break;
            }
        }
        reproductions.extend(shown);
    }
    Ok(Event::Attacked(AttackFinished { attempt: facts.attempt_number(), reproductions }))
}
