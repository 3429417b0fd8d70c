//! The loops of a daemon: those of the repository it was started in, and those of the repositories that its user's
//! configuration names.

use super::daemon_log::DaemonLog;
use super::loop_catalogue::{LoopCatalogue, LoopEntryBuilder, LoopFileChange};
use crate::context::{CheckedLoopFile, CommandContext, FleetRepo, FleetScan, RepoAbsence};
use crate::error::CommandError;
use loopwright::daemon::{FleetLoops, LoopFleet, PreparedStart, ReadyRound};
use loopwright::gc::GcRetention;
use loopwright::git::UserRepo;
use loopwright::probe::ProbeResult;
use loopwright::proc::CancelToken;
use loopwright::round::{LoopBindings, RunRequest};
use loopwright::store::{LoopFileRow, RowChange as StoreChange};
use loopwright::takeover::RoundBinder;
use loopwright::triggers::WatchedRepo;
use loopwright::{Engine, EngineError};
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{ConcurrencyLimits, LoopKey};
use loopwright_core::round::RoundStarted;
use loopwright_core::spec::{CheckedSpec, ProbeSpec, read_loop_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The actor of rounds that the daemon starts, as recorded.
const ACTOR: &str = "daemon";

/// The most texts saved in one transaction.
const ROWS_MAX: usize = 4_000;

/// The loops of all managed repositories.
#[derive(Clone)]
pub(crate) struct DaemonFleet(Arc<Inner>);

struct Inner {
    cx: CommandContext,
    /// Its store keeps the last good texts of loop files.
    engine: Engine,
    daemon_log: Arc<DaemonLog>,
    known: Mutex<BTreeMap<Arc<str>, LoopCatalogue>>,
    /// Repositories that were found but not read yet.
    found: Mutex<Option<FleetScan>>,
    /// Reported problems of unavailable repositories and folders, so that each is reported once while it lasts.
    troubles: Mutex<FleetProblems>,
}

/// The problems of the last reading and of this one.
#[derive(Default)]
struct FleetProblems {
    before: BTreeSet<String>,
    now: BTreeSet<String>,
}

/// The suffix for loops whose files cannot be read.
const AS_BEFORE: &str = "; its loops stay as they were read last";

impl DaemonFleet {
    /// The fleet of a context.
    pub(crate) fn new(cx: &CommandContext, daemon_log: &Arc<DaemonLog>, engine: &Engine) -> Result<Self, CommandError> {
        let (state, _) = cx.state_dir()?;
        // Versions before 0.2 kept the last good texts there; the store has them now, and a leftover folder does no
        // harm.
        let _ = std::fs::remove_dir_all(state.join("shelf"));
        Ok(Self(Arc::new(Inner {
            cx: cx.duplicate().with_config_fallback(),
            engine: engine.clone(),
            daemon_log: Arc::clone(daemon_log),
            known: Mutex::default(),
            found: Mutex::default(),
            troubles: Mutex::default(),
        })))
    }

    /// How many rounds may run at once.
    pub(crate) fn limits(&self) -> Result<ConcurrencyLimits, CommandError> {
        self.0.cx.limits()
    }

    /// The repositories to watch for events. A daemon that watched more would wake up needlessly.
    pub(crate) fn watched(&self) -> Vec<WatchedRepo> {
        let known = self.0.lock_catalogues();
        let of =
            |catalogue: &LoopCatalogue| WatchedRepo { repo: catalogue.repo.clone(), loops: catalogue.watched_loops() };
        known.values().map(of).filter(|watched| !watched.loops.is_empty()).collect()
    }

    /// The working copies that will be read next. An unavailable one is reported when it is read.
    pub(crate) async fn configured_paths(&self) -> Vec<PathBuf> {
        let Ok(looked) = FleetScan::read(&self.0.cx).await else { return Vec::new() };
        let places = looked.repos.iter().map(|wanted| wanted.repo.work_tree.clone()).collect();
        *self.0.lock_scan() = Some(looked);
        places
    }

    /// The working copies that were read last.
    pub(crate) fn work_trees(&self) -> Vec<PathBuf> {
        self.0.lock_catalogues().values().map(|catalogue| catalogue.repo.work_tree.clone()).collect()
    }
}

impl Inner {
    fn lock_catalogues(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, LoopCatalogue>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_scan(&self) -> MutexGuard<'_, Option<FleetScan>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_problem(&self, text: String) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if !troubles.before.contains(&text) && !troubles.now.contains(&text) {
            self.daemon_log.warn(&text);
        }
        troubles.now.insert(text);
    }

    /// Drops repositories that are gone or no longer configured. One that cannot be read keeps its loops, because the
    /// user did not remove them.
    fn remove_missing_repos(&self, known: &mut BTreeMap<Arc<str>, LoopCatalogue>, looked: &FleetScan) {
        let ids: BTreeSet<&str> = looked.repos.iter().map(|one| one.repo.id.as_str()).collect();
        let unreadable = looked.missing.iter().filter(|missing| missing.absence == RepoAbsence::Unreadable);
        let places: BTreeSet<&PathBuf> = unreadable.map(|missing| &missing.place).collect();
        for missing in &looked.missing {
            let is_kept = places.contains(&missing.place) && known.values().any(|one| one.place == missing.place);
            self.add_problem(format!("{}{}", missing.reason, if is_kept { AS_BEFORE } else { "" }));
        }
        known.retain(|id, catalogue| {
            let stays = ids.contains(&**id) || places.contains(&catalogue.place);
            if !stays {
                let place = catalogue.repo.work_tree.display();
                self.daemon_log
                    .warn(&format!("the repository {place} is gone or no longer configured: its loops do not start"));
            }
            stays
        });
    }

    /// The texts that the store has of repositories that were not read yet.
    async fn stored(&self, looked: &FleetScan) -> Result<BTreeMap<String, Vec<LoopFileRow>>, EngineError> {
        let new = |id: &str| !self.lock_catalogues().contains_key(id);
        let mut stored = BTreeMap::new();
        for FleetRepo { repo, .. } in looked.repos.iter().filter(|wanted| new(&wanted.repo.id)) {
            stored.insert(repo.id.clone(), self.engine.store().loop_files(&repo.id, None).await?);
        }
        Ok(stored)
    }

    /// Writes the texts that the store does not have yet. A failure is reported, and the next reading tries again.
    async fn save(&self) {
        let rows: Vec<LoopFileRow> = self.lock_catalogues().values().flat_map(LoopCatalogue::unsaved).collect();
        for part in rows.chunks(ROWS_MAX) {
            let changes = part.iter().cloned().map(StoreChange::LoopFile).collect();
            if let Err(error) = self.engine.write_rows(changes).await {
                self.daemon_log.warn(&format!("save the last good loop files: {error}"));
                return;
            }
        }
        self.lock_catalogues().values_mut().for_each(LoopCatalogue::saved);
    }

    /// Reads the changes in all of them.
    fn read(
        &self,
        looked: FleetScan,
        mut stored: BTreeMap<String, Vec<LoopFileRow>>,
    ) -> Result<FleetLoops, CommandError> {
        let mut known = self.lock_catalogues();
        let mut budgets = BTreeMap::new();
        self.remove_missing_repos(&mut known, &looked);
        for FleetRepo { repo, place: at, only } in looked.repos {
            let ground = self.entry_builder(&repo);
            for problem in self.cx.config_problems() {
                self.add_problem(format!("{problem}; its last good form stays in use"));
            }
            if let Ok(effective) = self.cx.config(Some(&repo.work_tree)) {
                budgets.insert(Arc::clone(&ground.repo), effective.config().budget);
            }
            let texts = stored.remove(&repo.id).unwrap_or_default();
            let new = || LoopCatalogue::new(repo.clone(), texts);
            let catalogue = known.entry(Arc::clone(&ground.repo)).or_insert_with(new);
            (catalogue.repo, catalogue.place, catalogue.only) = (repo, at, only);
            match catalogue.read(&ground) {
                Ok(changes) => changes.iter().for_each(|change| self.log_change(change)),
                Err(error) => self.add_problem(format!("{}{AS_BEFORE}", error.text)),
            }
        }
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.before = std::mem::take(&mut troubles.now);
        Ok(FleetLoops { budgets, ..loops(&known) })
    }

    /// Ignores a configuration that is broken at the moment; the rounds themselves will report it.
    fn entry_builder(&self, repo: &UserRepo) -> LoopEntryBuilder {
        let agents = self.cx.config(Some(&repo.work_tree)).map(|effective| effective.config().agents.clone());
        let words: BTreeSet<&str> = agents.iter().flatten().map(|(_, agent)| agent.agent.word()).collect();
        let agents = words.into_iter().map(Arc::from).collect();
        LoopEntryBuilder { repo: repo.id.as_str().into(), zone: self.cx.system_zone(), agents }
    }

    fn log_change(&self, change: &LoopFileChange) {
        match change {
            LoopFileChange::Broken { problem, has_good } => {
                let used = if *has_good { "its last good form stays in use" } else { "it is left out" };
                self.daemon_log.warn(&format!("{problem}; {used}"));
            }
            LoopFileChange::Renamed { from, to } => self.daemon_log.warn(&format!(
                "the loop `{from}` is gone, and `{to}` has the same text: stop the daemon, and `loopwright rename {from} {to}` keeps its history"
            )),
            LoopFileChange::Fixed(file) => self.daemon_log.log("fixed", &format!("{file} can be used again")),
        }
    }

    /// The loop, checked, with its file.
    async fn spec(&self, key: &LoopKey) -> Result<(UserRepo, String, CheckedSpec), CommandError> {
        let (repo, (shown, found)) = {
            let known = self.lock_catalogues();
            let gone = || CommandError::unknown(format!("the repository of {key} is no longer managed"));
            let catalogue = known.get(&key.repo).ok_or_else(gone)?;
            (catalogue.repo.clone(), catalogue.find(&key.name).map_err(CommandError::invalid)?)
        };
        let file = match found {
            Ok(spec) => return Ok((repo, shown, spec)),
            Err(file) => file,
        };
        let text = self.engine.store().loop_files(&repo.id, Some(&file)).await?.pop().and_then(|row| row.text);
        let text = text.ok_or_else(|| CommandError::invalid(format!("{shown}: its last good form was not saved")))?;
        match read_loop_file(&shown, text.as_bytes()) {
            Ok(spec) => Ok((repo, shown, spec)),
            Err(problems) => Err(CommandError::invalid(format!("{shown}: {problems}"))),
        }
    }

    fn build_run(
        &self,
        engine: &Engine,
        repo: &UserRepo,
        file: String,
        spec: CheckedSpec,
    ) -> Result<ReadyRound, CommandError> {
        let spec = self.cx.with_configured_agents(spec, repo)?;
        let bind = self.cx.bindings(&spec, &repo.work_tree)?;
        let engine = engine.with_settings(self.cx.settings(Some(repo))?);
        let inputs = CheckedLoopFile { file, spec: spec.clone() }.hash_inputs(repo);
        let request = RunRequest { inputs, ..RunRequest::manual(spec, &repo.work_tree, ACTOR) };
        Ok(ReadyRound { engine, bind, request })
    }

    /// Runs a loop's probe before there is a round, so that "no work" costs only a receipt. A probe that needs no
    /// program runs before anything else is read.
    async fn prepare(&self, engine: &Engine, key: &LoopKey) -> Result<PreparedStart, EngineError> {
        let (repo, file, spec) = self.spec(key).await.map_err(to_engine_error)?;
        let is_asked_first = match &spec.on.probe {
            Some(ProbeSpec::Named(name)) => name != NEEDS_A_PROGRAM,
            Some(ProbeSpec::Ask(ask)) => ask.probe != NEEDS_A_PROGRAM,
            Some(ProbeSpec::Run { .. }) | None => false,
        };
        let mut found = None;
        if is_asked_first {
            // The settings that connect to another forge are those of now, and not of the daemon's start.
            let fresh = match spec.forge.as_str() {
                "local" => None,
                _ => Some(engine.with_settings(self.cx.settings(Some(&repo)).map_err(to_engine_error)?)),
            };
            let engine = fresh.as_ref().unwrap_or(engine);
            found = match loopwright::probe::probe_only(engine, &spec, &repo, &CancelToken::new()).await? {
                ProbeResult::None => return Ok(PreparedStart::NoWork),
                work => Some(work),
            };
        }
        let ready = self.build_run(engine, &repo, file, spec).map_err(to_engine_error)?;
        match found {
            Some(found) => Ok(ready.with_probe_result(found)),
            None => ready.run_probe(&repo).await,
        }
    }
}

/// The built-in probe that starts a program.
const NEEDS_A_PROGRAM: &str = "outdated";

fn loops(known: &BTreeMap<Arc<str>, LoopCatalogue>) -> FleetLoops {
    let entries = known.values().flat_map(LoopCatalogue::entries).collect();
    let after = known.values().flat_map(LoopCatalogue::followed_loops);
    let after = after.map(|(entry, name)| (entry.key.clone(), name.into())).collect();
    FleetLoops { entries, after, ..FleetLoops::default() }
}

impl LoopFleet for DaemonFleet {
    fn load(&self) -> BoxFuture<'_, Result<FleetLoops, EngineError>> {
        Box::pin(async move {
            let found = self.0.lock_scan().take();
            let looked = match found {
                Some(found) => found,
                None => FleetScan::read(&self.0.cx).await.map_err(to_engine_error)?,
            };
            let (inner, limits) = (Arc::clone(&self.0), Some(self.limits().map_err(to_engine_error)?));
            let stored = self.0.stored(&looked).await?;
            let read = tokio::task::spawn_blocking(move || inner.read(looked, stored)).await;
            let loops = read
                .map_err(|error| EngineError::Daemon(format!("read loop files: {error}")))?
                .map_err(to_engine_error)?;
            self.0.save().await;
            Ok(FleetLoops { limits, ..loops })
        })
    }

    fn prepare<'a>(
        &'a self,
        engine: &'a Engine,
        key: &'a LoopKey,
    ) -> BoxFuture<'a, Result<PreparedStart, EngineError>> {
        Box::pin(self.0.prepare(engine, key))
    }

    /// Without a configuration that can be read nothing is removed.
    fn retention(&self, now_ms: i64) -> Option<GcRetention> {
        let config = self.0.cx.config(None).ok()?;
        Some(GcRetention::from_days(now_ms, config.retention_days(), config.log_retention_days()))
    }
}

impl RoundBinder for DaemonFleet {
    fn rebind(&self, engine: &Engine, started: &RoundStarted) -> (Engine, LoopBindings) {
        self.0.cx.rebind(engine, started)
    }
}

fn to_engine_error(error: CommandError) -> EngineError {
    EngineError::Daemon(error.text)
}
