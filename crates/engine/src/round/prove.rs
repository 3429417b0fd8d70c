//! Prove: runs the proof of the sealed candidate in a fresh checkout and a sandbox of its own, with the exercise's files
//! from base, and keeps the artefacts by their hashes.

use super::context::{RoundContext, pinned_base};
use super::gate::{CandidateGates, gate_env, gates_trouble};
use super::isolate::RoundSandbox;
use super::money::RoundBudget;
use super::{StageError, bounds, workspace_trouble};
use crate::agents::scripted::HostProgram;
use crate::gates;
use crate::proc::{RunEnd, RunLimits, SpawnRequest, TreeCookie};
use crate::proof::{self, APP_LOG, EXERCISE_LOG, FOLDER_INSIDE, ProofTask};
use crate::sandbox_view::{self, MachineProfile, ProgramFolders};
use crate::workspace::{CommitSnapshot, SealedTree, SnapshotKind};
use crate::{random, staging, state_dir};
use loopwright_core::gate::excerpt;
use loopwright_core::hash;
use loopwright_core::round::{Event, ProofArtefact, ProofFinished, ProofVerdict, RoundFacts, Stage};
use loopwright_core::spec::ProverSpec;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// The most artefacts, and the most bytes of one.
const ARTEFACTS_MAX: usize = 32;
const ARTEFACT_BYTES_MAX: u64 = 16 << 20;
/// The time for the end of the application after the proof's own limit.
const GRACE: Duration = Duration::from_secs(5);

pub(super) async fn prove(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sandbox: &mut RoundSandbox,
    budget: &RoundBudget,
    gates: &mut CandidateGates,
) -> Result<Event, StageError> {
    let Some(prover) = facts.started.spec.prover.clone() else {
        return Err(StageError::failed(Stage::Prove, "prover", "the loop declares no prover"));
    };
    cx.stage(Stage::Prove, "the application of the sealed tree");
    sandbox.prepare_base(cx, &facts.started.spec, &pinned_base(facts)?, Stage::Prove, budget).await?;
    let (sealed, _) = gates.sealed_facts(cx, facts, sandbox).await?;
    let workspace = sandbox.workspace(Stage::Prove)?.clone();
    let kind = SnapshotKind::WithGit;
    let snapshot =
        cx.workspaces.snapshot(&workspace, "proof", &sealed.commit, kind, &sandbox.views.extra_lower()).await;
    let snapshot = snapshot.map_err(workspace_trouble(Stage::Prove))?;
    let locked = restore_exercise(cx, facts, sandbox, &sealed, &snapshot).await?;
    let private = workspace.root.join(format!("proof-{}", random::nonce().map_err(StageError::Fatal)?));
    let begun = Instant::now();
    let run = run(cx, &prover, sandbox, &snapshot, &private, &locked).await;
    let artefacts = keep(cx, &private.join("artefacts"));
    let excerpt = tail(&private.join("artefacts"));
    cx.workspaces.drop_snapshots(&workspace, [private, snapshot.root]);
    let (mut verdict, mut text) = run?;
    let artefacts = artefacts?;
    // The application's own output is no evidence of its exercise.
    let is_shown = artefacts.iter().any(|artefact| artefact.name != APP_LOG);
    if verdict == ProofVerdict::Works && !is_shown {
        (verdict, text) =
            (ProofVerdict::Unverifiable, format!("{text}, but the exercise left no artefact: no output and no file"));
    }
    cx.stage(Stage::Prove, format!("{verdict}: {text}"));
    Ok(Event::Proved(ProofFinished {
        attempt: facts.attempt_number(),
        verdict,
        text: bounds::text(&text),
        excerpt,
        artefacts,
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
}

/// The files and folders that decide the exercise: the application must not change them while it runs.
#[derive(Default)]
struct LockedExercise {
    files: Vec<String>,
    folders: Vec<String>,
}

/// The candidate's changes to the exercise do not count: base's files exercise it.
async fn restore_exercise(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sandbox: &RoundSandbox,
    sealed: &SealedTree,
    snapshot: &CommitSnapshot,
) -> Result<LockedExercise, StageError> {
    let Some(exercise) = facts.started.spec.exercise_gate() else { return Ok(LockedExercise::default()) };
    let trouble = gates_trouble(Stage::Prove);
    let workspace = sandbox.workspace(Stage::Prove)?;
    let paths = gates::base_paths(cx.objects(), &workspace.base).await.map_err(&trouble)?;
    let resolved = gates::resolve(&[exercise], &paths, &gate_env(cx, facts, &sandbox.views));
    let resolved = resolved.map_err(|errors| {
        let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        StageError::failed(Stage::Prove, "exercise", text)
    })?;
    let edited = gates::restored_inputs(&resolved, sealed).map_err(&trouble)?;
    let restored = cx.workspaces.restore_paths(workspace, snapshot, &workspace.base, &edited).await;
    restored.map_err(workspace_trouble(Stage::Prove))?;
    let (files, folders) = gates::deciding_files(&resolved, &paths).map_err(&trouble)?;
    Ok(LockedExercise { files, folders })
}

/// Runs the part inside the sandbox to its end: its whole process tree is dead afterwards.
async fn run(
    cx: &RoundContext<'_>,
    prover: &ProverSpec,
    sandbox: &RoundSandbox,
    snapshot: &CommitSnapshot,
    private: &Path,
    locked: &LockedExercise,
) -> Result<(ProofVerdict, String), StageError> {
    let [home, tmp, artefacts] = ["home", "tmp", "artefacts"].map(|name| private.join(name));
    for folder in [&home, &tmp, &artefacts] {
        state_dir::make_dir(folder).map_err(|error| StageError::broke(Stage::Prove, "workspace", &error))?;
    }
    let seat = ProgramFolders { files: &snapshot.files, home: &home, tmp: &tmp };
    sandbox.views.copy_setup_layer(seat).map_err(|error| StageError::broke(Stage::Prove, "setup", &error))?;
    let machine = MachineProfile::first(sandbox.views.layer());
    let view = sandbox
        .views
        .gate(seat, sandbox.views.gate_route("proof"), &machine)
        .with_folders_locked(seat.files, &locked.folders)
        .with_files_locked(seat.files, &locked.files)
        .with_path_writable(&artefacts, FOLDER_INSIDE);
    let task = ProofTask::new(prover, &view.inside_path(&artefacts));
    let host = match HostProgram::prove(view, &task) {
        Ok(host) => host,
        Err(error) => return Ok((ProofVerdict::Unverifiable, error.to_string())),
    };
    let mut spawn =
        SpawnRequest::new(host.program, sandbox_view::host_folder(seat.files), TreeCookie::new(&cx.cookie()));
    spawn.args = host.args;
    spawn.stdin = host.stdin;
    spawn.env = host.view.env(&home, &tmp);
    spawn.limits = RunLimits { wall: Some(proof::timeout(prover).saturating_add(GRACE)), ..RunLimits::default() };
    let ended = match cx.engine.proc.run(host.view.confine_spawn(spawn), &mut (), cx.cancel, |_| ()).await {
        Ok(ended) => ended,
        Err(error) => return Ok((ProofVerdict::Unverifiable, error.to_string())),
    };
    let said = excerpt::one_line(&ended.stdout.to_lossy_string());
    match ended.how {
        RunEnd::Cancelled => Err(StageError::Stopped),
        RunEnd::Exited(code) => Ok(match proof::verdict_of(code) {
            Some(verdict) => (verdict, said),
            None => (ProofVerdict::Broken, format!("the proof was disturbed: it ended with exit {code}")),
        }),
        how => Ok((ProofVerdict::Broken, format!("the proof was disturbed: it ended with {how:?}"))),
    }
}

/// Keeps the plain files of the artefact folder, by their hashes.
fn keep(cx: &RoundContext<'_>, folder: &Path) -> Result<Vec<ProofArtefact>, StageError> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let mut kept = Vec::new();
    for name in names.into_iter().take(ARTEFACTS_MAX) {
        let Some(bytes) = staging::read_sink(&folder.join(&name), ARTEFACT_BYTES_MAX) else { continue };
        if bytes.is_empty() || bytes.len() as u64 > ARTEFACT_BYTES_MAX {
            continue;
        }
        let hash = hash::hash_bytes(&bytes);
        let path = cx.engine.state_dir.evidence().join(&hash);
        let written = cx.engine.state_dir.write(&path, &bytes);
        written.map_err(|error| StageError::broke(Stage::Prove, "artefact", &error))?;
        kept.push(ProofArtefact { name: name.to_string_lossy().into_owned(), hash, bytes: bytes.len() as u64 });
    }
    Ok(kept)
}

/// The ends of the two logs.
fn tail(folder: &Path) -> String {
    let logs = [EXERCISE_LOG, APP_LOG].into_iter().filter_map(|name| {
        let bytes = staging::read_sink(&folder.join(name), ARTEFACT_BYTES_MAX)?;
        (!bytes.is_empty()).then(|| format!("{name}:\n{}", excerpt::output_tail(&bytes)))
    });
    logs.collect::<Vec<_>>().join("\n")
}
