//! Probes answer "is there work?" without an agent. For loops that are due by the clock they run even before a round
//! exists. "No" must be cheap: a built-in probe answers it without a process, and a command with one process.
//!
//! A probe lists the items; the engine knows which of them are done, given up or waiting.

mod built_in;
mod chain;
mod command;
mod followed;
mod forge;
mod outdated;
mod pull_text;
pub(crate) mod quick;

pub(crate) use built_in::{LoopProbe, ProbeMethod, read_forge};
pub(crate) use chain::{after_round, after_signal, count_commits};
pub(crate) use command::{ProbeExit, ProbeRunner, cut_to_share};

use crate::boundary;
use crate::egress::EgressRoutes;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::UserRepo;
use crate::live_line::ProgramReport;
use crate::proc::CancelToken;
use crate::random;
use crate::sandbox_view::KernelIsolation;
use crate::setup::{self, SetupTask};
use crate::store::{ItemRow, Store, StoreError, WorkItemState};
use crate::workspace::CheckoutMethod;
use loopwright_core::import::item_keys::every_revision;
use loopwright_core::round::{BoundaryLevel, ProbeAnswer, ProbeItem};
use loopwright_core::spec::LoopSpec;
use outdated::ProbeProgram;

/// The open items that a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// No work.
    None,
    /// Work: these items, in the probe's order. Empty if the probe names no items, or there is no probe.
    Items(Vec<ProbeItem>),
    /// The probe failed with this message.
    Failed(String),
    /// The probe could not run because the loop's set-up fails. The loop's round fails in the same way and records it.
    SetupIncomplete,
}

/// Runs a loop's probe without a round. It records nothing, and copies nothing where the kernel mounts layers.
///
/// A loop that this host refuses to run counts as having work, so that its round can report the refusal.
///
/// # Errors
/// When the store, git or the repository's workspaces cannot be used.
pub async fn probe_only(
    engine: &Engine,
    spec: &LoopSpec,
    repo: &UserRepo,
    cancel: &CancelToken,
) -> Result<ProbeResult, EngineError> {
    let probed = match (LoopProbe { engine, spec, repo, base: None }).method().await? {
        ProbeMethod::Answered(probed) => Some(probed),
        ProbeMethod::Program(program) => ask_program(engine, &program, spec, repo, cancel).await?,
    };
    let Some(probed) = probed else { return Ok(ProbeResult::SetupIncomplete) };
    Ok(match open_items(engine.store.as_ref(), &repo.id, spec, probed).await? {
        ProbeAnswer::Nothing => ProbeResult::None,
        ProbeAnswer::Failed { text } => ProbeResult::Failed(text),
        ProbeAnswer::Work { items } => ProbeResult::Items(items),
    })
}

/// Runs a probe's program on its own checkout of base. `None` if the loop's set-up fails first.
async fn ask_program(
    engine: &Engine,
    program: &ProbeProgram,
    spec: &LoopSpec,
    repo: &UserRepo,
    cancel: &CancelToken,
) -> Result<Option<ProbeAnswer>, EngineError> {
    let Ok(held) = boundary::decide(spec.level, spec.sandbox, engine.host().await) else {
        return Ok(Some(ProbeAnswer::Work { items: Vec::new() }));
    };
    let base = engine.git.head(repo, spec.base.as_deref()).await?.commit;
    let id = format!("probe-{}", &random::nonce()?[..16]);
    let workspaces = engine.workspaces(repo.clone()).await?;
    let layers = held.level == BoundaryLevel::Kernel && engine.host().await.supports_overlay();
    let method = if layers { CheckoutMethod::Overlay } else { CheckoutMethod::Copy };
    let views = engine.sandbox_views(&held, repo, spec)?.with_method(method);
    // A probe uses no model, so its route has no provider.
    let routes = match views.isolation() {
        KernelIsolation::Kernel => EgressRoutes::open(&engine.state_dir.sockets().join(&id), spec, &[])?,
        KernelIsolation::None => EgressRoutes::default(),
    };
    let wall = spec.timeout.map_or(setup::WALL_DEFAULT, |span| span.duration());
    let task = SetupTask {
        cookie: &format!("lw-{id}"),
        cancel,
        wall,
        transcripts: None,
        report: &|_| (),
        progress: ProgramReport::NONE,
    };
    let prepared = setup::prepare(engine, views.with_routes(&routes), &workspaces, spec, &base, &task).await;
    let Ok(views) = prepared else { return Ok(None) };
    let runner = ProbeRunner { engine, workspaces: &workspaces, views: &views, cancel, id: &id };
    let exit = runner.ask(program, &spec.name, &base).await;
    // The next sweep removes what stays behind.
    let _ = workspaces.discard(&id).await;
    Ok(Some(match exit? {
        ProbeExit::Stopped => ProbeAnswer::Failed { text: "stopped while the probe ran".to_owned() },
        exit => program.read(exit),
    }))
}

/// The row of an item: its own, or the one that settles it in every revision, which only an import writes.
pub(crate) async fn item_row(
    store: &Store,
    repo: &str,
    loop_name: &str,
    key: &str,
) -> Result<Option<ItemRow>, StoreError> {
    let own = store.item(repo, loop_name, key).await?;
    match (own, every_revision(key)) {
        (None, Some(key)) => store.item(repo, loop_name, &key).await,
        (own, _) => Ok(own),
    }
}

/// Removes items that are done, given up or waiting: the engine, not the model, decides what is processed. Returns at
/// most as many items as one round takes. An item that failed before gets a round of its own, so that its failure does
/// not affect other items.
pub(crate) async fn open_items(
    store: &Store,
    repo: &str,
    spec: &LoopSpec,
    probed: ProbeAnswer,
) -> Result<ProbeAnswer, StoreError> {
    let items = match probed {
        ProbeAnswer::Work { items } if !items.is_empty() => items,
        answer => return Ok(answer),
    };
    let mut open: Vec<ProbeItem> = Vec::new();
    for item in items {
        match item_row(store, repo, &spec.name, &item.key).await? {
            Some(row) if row.state != WorkItemState::Failed => {}
            Some(row) if row.failures > 0 && open.is_empty() => return Ok(ProbeAnswer::Work { items: vec![item] }),
            Some(row) if row.failures > 0 => {}
            _ => open.push(item),
        }
        if open.len() >= spec.on.batch() {
            break;
        }
    }
    let count = open.len();
    open.iter_mut().for_each(|item| cut_to_share(item, count));
    Ok(if open.is_empty() { ProbeAnswer::Nothing } else { ProbeAnswer::Work { items: open } })
}
