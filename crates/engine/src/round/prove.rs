//! Prove: runs the proof of the sealed candidate in fresh checkouts and sandboxes of its own, with the exercise's files
//! from base, and keeps the artefacts by their hashes. An application and the command that exercises it have a sandbox
//! each.

use super::context::{RoundContext, pinned_base};
use super::gate::{CandidateGates, gate_env, gates_trouble};
use super::isolate::RoundSandbox;
use super::money::RoundBudget;
use super::{StageError, bounds, workspace_trouble};
use crate::agents::scripted::HostProgram;
use crate::gates;
use crate::proc::{CancelToken, FinishedRun, RunEnd, RunLimits, SandboxNetwork, SpawnError, SpawnRequest, TreeCookie};
use crate::proof::{
    self, APP_LOG, EXERCISE_LOG, FOLDER_INSIDE, LINK_INSIDE, ProofLink, ProofPart, ProofTask, SHARED_INSIDE, app_host,
};
use crate::sandbox_view::{self, MachineProfile, ProgramFolders, SandboxView};
use crate::workspace::{CommitSnapshot, SealedTree, SnapshotKind};
use crate::{random, staging, state_dir};
use loopwright_core::gate::excerpt;
use loopwright_core::hash;
use loopwright_core::round::{Event, ProofArtefact, ProofFinished, ProofVerdict, RoundFacts, Stage};
use loopwright_core::spec::ProverSpec;
use std::path::{Path, PathBuf};
use std::pin::pin;
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
    let checkouts = ProofCheckouts::create(cx, facts, &prover, sandbox, &sealed).await?;
    let private = workspace.root.join(format!("proof-{}", random::nonce().map_err(StageError::Fatal)?));
    let begun = Instant::now();
    let run = run(cx, &prover, sandbox, &checkouts, &private).await;
    let artefacts = keep(cx, &private.join("artefacts"));
    let excerpt = tail(&private.join("artefacts"));
    let roots = checkouts.application.into_iter().chain([checkouts.exercise]).map(|snapshot| snapshot.root);
    cx.workspaces.drop_snapshots(&workspace, roots.chain([private]));
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

/// The checkouts of a proof.
struct ProofCheckouts {
    /// For an application that a command exercises: the sealed tree. The exercise does not see it.
    application: Option<CommitSnapshot>,
    /// For the exercise: the sealed tree with base's files of the exercise.
    exercise: CommitSnapshot,
    locked: LockedExercise,
}

impl ProofCheckouts {
    async fn create(
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        prover: &ProverSpec,
        sandbox: &RoundSandbox,
        sealed: &SealedTree,
    ) -> Result<Self, StageError> {
        let workspace = sandbox.workspace(Stage::Prove)?;
        let lower = sandbox.views.extra_lower();
        let create = async |name: &str| {
            let snapshot = cx.workspaces.snapshot(workspace, name, &sealed.commit, SnapshotKind::WithGit, &lower).await;
            snapshot.map_err(workspace_trouble(Stage::Prove))
        };
        let exercise = create("proof").await?;
        let is_split = !prover.start.is_empty() && !prover.exercise.is_empty();
        let application = if is_split { Some(create("proof-application").await?) } else { None };
        let locked = restore_exercise(cx, facts, sandbox, sealed, &exercise).await?;
        Ok(Self { application, exercise, locked })
    }
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

/// Runs the proof in one sandbox or two, to its end: their whole process trees are dead afterwards.
async fn run(
    cx: &RoundContext<'_>,
    prover: &ProverSpec,
    sandbox: &RoundSandbox,
    checkouts: &ProofCheckouts,
    private: &Path,
) -> Result<(ProofVerdict, String), StageError> {
    let broke = |error: &std::io::Error| StageError::broke(Stage::Prove, "workspace", error);
    let own = SandboxFolders::create(private, "artefacts")?;
    let Some(application) = &checkouts.application else {
        let view = view(sandbox, &checkouts.exercise, &own)?
            .with_folders_locked(&checkouts.exercise.files, &checkouts.locked.folders)
            .with_files_locked(&checkouts.exercise.files, &checkouts.locked.files);
        let request = match request(cx, prover, view, &checkouts.exercise, &own, |_| ProofPart::Whole) {
            Ok(request) => request,
            Err(text) => return Ok((ProofVerdict::Unverifiable, text)),
        };
        return judge(cx.engine.proc.run(request, &mut (), cx.cancel, |_| ()).await);
    };
    let others = SandboxFolders::create(&private.join("application"), "log")?;
    let (link, shared) = (make_dir(private.join("link"))?, make_dir(private.join("shared"))?);
    let port = app_host::free_port().map_err(|error| broke(&error))?;
    let its = view(sandbox, application, &others)?
        .with_path_writable(&link, LINK_INSIDE)
        .with_path_writable(&shared, SHARED_INSIDE);
    let ours = view(sandbox, &checkouts.exercise, &own)?
        .with_path_shown(&link, LINK_INSIDE)
        .with_path_writable(&shared, SHARED_INSIDE)
        .with_folders_locked(&checkouts.exercise.files, &checkouts.locked.folders)
        .with_files_locked(&checkouts.exercise.files, &checkouts.locked.files);
    let connect = |view: &SandboxView| ProofLink {
        folder: view.inside_path(&link).to_string_lossy().into_owned(),
        shared: view.inside_path(&shared).to_string_lossy().into_owned(),
        port,
        is_split: view.confine().is_some_and(|confine| confine.network != SandboxNetwork::Host),
    };
    let its = request(cx, prover, its, application, &others, |view| ProofPart::Application(connect(view)));
    let ours = request(cx, prover, ours, &checkouts.exercise, &own, |view| ProofPart::Exercise(connect(view)));
    let (its, ours) = match (its, ours) {
        (Ok(its), Ok(ours)) => (its, ours),
        (Err(text), _) | (_, Err(text)) => return Ok((ProofVerdict::Unverifiable, text)),
    };
    let ended = run_both(cx, its, ours).await;
    // The application's log is an artefact too. It may be missing: the application may not have started.
    if let Err(error) = std::fs::rename(others.written.join(APP_LOG), own.written.join(APP_LOG))
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(broke(&error));
    }
    ended
}

/// Runs the application's sandbox and the exercise's, until one of them ends.
async fn run_both(
    cx: &RoundContext<'_>,
    application: SpawnRequest,
    exercise: SpawnRequest,
) -> Result<(ProofVerdict, String), StageError> {
    let (stop_application, stop_exercise) = (CancelToken::new(), CancelToken::new());
    let (mut no_watch, mut no_other_watch) = ((), ());
    let proc = &cx.engine.proc;
    let mut application = pin!(proc.run(application, &mut no_watch, &stop_application, |_| ()));
    let mut exercise = pin!(proc.run(exercise, &mut no_other_watch, &stop_exercise, |_| ()));
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => {
            stop_application.cancel();
            stop_exercise.cancel();
            // The round was stopped, so neither end matters.
            let _ = tokio::join!(application, exercise);
            Err(StageError::Stopped)
        }
        ended = &mut application => {
            stop_exercise.cancel();
            let _ = exercise.await;
            // Only the exercise shows that the application works.
            Ok(match judge(ended)? {
                (ProofVerdict::Works, text) => (ProofVerdict::Broken, format!("the proof was disturbed: {text}")),
                other => other,
            })
        }
        ended = &mut exercise => {
            stop_application.cancel();
            // Its end is the engine's doing; an error that its seam or its clean-up reports is no verdict.
            let _ = application.await;
            judge(ended)
        }
    }
}

fn make_dir(folder: PathBuf) -> Result<PathBuf, StageError> {
    state_dir::make_dir(&folder).map_err(|error| StageError::broke(Stage::Prove, "workspace", &error))?;
    Ok(folder)
}

/// The private folders of one sandbox.
struct SandboxFolders {
    home: PathBuf,
    tmp: PathBuf,
    /// For artefacts and logs.
    written: PathBuf,
}

impl SandboxFolders {
    fn create(private: &Path, written: &str) -> Result<Self, StageError> {
        let make = |name: &str| make_dir(private.join(name));
        Ok(Self { home: make("home")?, tmp: make("tmp")?, written: make(written)? })
    }

    fn places<'a>(&'a self, snapshot: &'a CommitSnapshot) -> ProgramFolders<'a> {
        ProgramFolders { files: &snapshot.files, home: &self.home, tmp: &self.tmp }
    }
}

/// The view of the programs of one sandbox.
fn view(
    sandbox: &RoundSandbox,
    snapshot: &CommitSnapshot,
    folders: &SandboxFolders,
) -> Result<SandboxView, StageError> {
    let places = folders.places(snapshot);
    sandbox.views.copy_setup_layer(places).map_err(|error| StageError::broke(Stage::Prove, "setup", &error))?;
    let machine = MachineProfile::first(sandbox.views.layer());
    let view = sandbox.views.gate(places, sandbox.views.gate_route("proof"), &machine);
    Ok(view.with_path_writable(&folders.written, FOLDER_INSIDE))
}

/// The start of the part inside one sandbox, or why it cannot start.
fn request(
    cx: &RoundContext<'_>,
    prover: &ProverSpec,
    view: SandboxView,
    snapshot: &CommitSnapshot,
    folders: &SandboxFolders,
    part: impl FnOnce(&SandboxView) -> ProofPart,
) -> Result<SpawnRequest, String> {
    let task = ProofTask::new(prover, part(&view), &view.inside_path(&folders.written));
    let host = HostProgram::prove(view, &task).map_err(|error| error.to_string())?;
    let folder = sandbox_view::host_folder(&snapshot.files);
    let mut spawn = SpawnRequest::new(host.program, folder, TreeCookie::new(&cx.cookie()));
    spawn.args = host.args;
    spawn.stdin = host.stdin;
    spawn.env = host.view.env(&folders.home, &folders.tmp);
    spawn.limits = RunLimits { wall: Some(proof::timeout(prover).saturating_add(GRACE)), ..RunLimits::default() };
    Ok(host.view.confine_spawn(spawn))
}

fn judge(ended: Result<FinishedRun, SpawnError>) -> Result<(ProofVerdict, String), StageError> {
    let ended = match ended {
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
