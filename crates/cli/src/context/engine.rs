//! The engine as the command line uses it: its settings, a store for reading, and an engine that first recovers the
//! rounds that a dead engine left.

use super::{AgentDefaults, CommandContext, CommandError, RepoLoops, bindings, forges, providers, signing};
use crate::control::CommandHost;
use crate::error::error_chain;
use crate::output::safe;
use crate::signals::{self, CurrentRound};
use loopwright::boundary::{self, HostSupport};
use loopwright::daemon::Daemon;
use loopwright::git::UserRepo;
use loopwright::proc::CancelToken;
use loopwright::round::LoopBindings;
use loopwright::store::Store;
use loopwright::takeover::{RoundBinder, TakenOverRound};
use loopwright::{CeilingSource, CommitIdentity, Engine, EngineError, EngineSettings, PresentCeilings};
use loopwright_core::cadence::DayZone;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundStarted;
use loopwright_core::spec::{CheckedSpec, LoopSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl RoundBinder for CommandContext {
    /// As `recorded_bindings`, from the round's first event, with the engine's settings for the round's repository. A
    /// configuration that is broken by now leaves the engine as it is.
    fn rebind(&self, engine: &Engine, started: &RoundStarted) -> (Engine, LoopBindings) {
        let work_tree = Path::new(&started.repo_path);
        let bound = self.bindings(&started.spec, work_tree);
        let bind = bound.unwrap_or_else(|error| bindings::bind_without_agents(&started.spec, &error));
        let configured = self.settings_at(Some(work_tree)).map(|settings| engine.with_settings(settings));
        (configured.unwrap_or_else(|_| engine.clone()), bind)
    }
}

impl CeilingSource for CommandContext {
    /// From the files as they are now. A file that is broken or gone lowers nothing.
    fn present_ceilings(&self, work_tree: &Path, loop_name: &str) -> PresentCeilings {
        PresentCeilings {
            own: RepoLoops::read_one(work_tree, loop_name).map(|file| file.spec.budget),
            shared: self.config(Some(work_tree)).ok().map(|effective| effective.config().budget),
        }
    }
}

impl CommandContext {
    /// The settings of the engine. `repo` is the repository that the command works on, if any.
    pub(crate) fn settings(&self, repo: Option<&UserRepo>) -> Result<EngineSettings, CommandError> {
        self.settings_at(repo.map(|repo| repo.work_tree.as_path()))
    }

    fn settings_at(&self, work_tree: Option<&Path>) -> Result<EngineSettings, CommandError> {
        let (state, _) = self.state_dir()?;
        let effective = self.config(work_tree)?;
        let config = effective.config();
        let mut settings = EngineSettings::new(state);
        settings.store = config.store.clone();
        settings.approval = effective.approvals_expire().duration();
        settings.provider_wait = effective.provider_wait().duration();
        settings.autonomy = effective.autonomy();
        settings.sensitive = config.sensitive.clone();
        settings.extra_path = self.extra_path(work_tree);
        settings.home = self.env.home.clone();
        settings.known_secrets = self.env.secrets.clone();
        settings.budget = config.budget;
        settings.agent_options = config.agent_options.clone();
        settings.mcp_servers = config.mcp_servers.clone();
        settings.prices = Arc::new(effective.model_prices());
        settings.zone = DayZone::find(&self.system_zone()).unwrap_or_default();
        settings.ceilings = Some(Arc::new(self.duplicate()));
        providers::add_providers(self, &effective, &mut settings);
        forges::add_forges(self, &effective, &mut settings);
        signing::add_signer(self, config, &mut settings);
        settings.people = config.people.clone();
        if let Some(who) = &config.identity {
            settings.identity = CommitIdentity { name: who.name.clone(), email: who.email.clone() };
        }
        Ok(settings)
    }

    /// The isolation that this machine supports, probed in the folder of workspaces, or where it would be.
    pub(crate) async fn probe_host(&self) -> HostSupport {
        let state = self.state_dir().ok().map(|(dir, _)| dir).filter(|dir| dir.is_dir());
        boundary::probe(&state.unwrap_or_else(|| PathBuf::from("/tmp"))).await
    }

    /// The store, read-only; also while another process owns it.
    pub(crate) async fn open_store_read_only(&self) -> Result<Arc<Store>, CommandError> {
        Ok(Engine::read(&self.settings(None)?).await?)
    }

    /// The engine for a verb that changes something. It recovers the rounds that a dead engine left, and closes
    /// questions that were not answered in time. Every verb that changes something starts here.
    ///
    /// In a daemon it is the daemon's engine with the settings of this command; the daemon has recovered before and
    /// does not close it.
    pub(crate) async fn open_engine(
        &self,
        repo: Option<&UserRepo>,
        cancel: &CancelToken,
    ) -> Result<Engine, CommandError> {
        if let CommandHost::Daemon(shared, _) = &self.host {
            return Ok(shared.engine.with_settings(self.settings(repo)?));
        }
        // Agents may run beside this process from here on, and it knows keys: make its memory unreadable to them.
        // If that fails, it stays as it was.
        let _ = loopwright::proc::make_undumpable();
        let engine = Engine::open(self.settings(repo)?).await?;
        self.recover(&engine, cancel).await?;
        Ok(engine)
    }

    /// The request to stop: triggered by signals, or by the process that sent the command.
    pub(crate) fn cancel(&self, running: &CurrentRound) -> CancelToken {
        match &self.host {
            CommandHost::ThisProcess => signals::cancel_on_signal(running),
            CommandHost::Daemon(_, cancel) => cancel.clone(),
        }
    }

    /// The daemon, if the daemon performs the command.
    pub(crate) fn daemon(&self) -> Option<&Daemon> {
        match &self.host {
            CommandHost::ThisProcess => None,
            CommandHost::Daemon(shared, _) => Some(&shared.daemon),
        }
    }

    /// The daemon's engine, if the daemon performs the command.
    pub(crate) fn daemon_engine(&self) -> Option<&Engine> {
        match &self.host {
            CommandHost::ThisProcess => None,
            CommandHost::Daemon(shared, _) => Some(&shared.engine),
        }
    }

    /// Checks that a command from another process means the state directory and the database that this daemon owns.
    pub(crate) fn ensure_same_state_dir(&self) -> Result<(), CommandError> {
        let CommandHost::Daemon(shared, _) = &self.host else { return Ok(()) };
        let (state, _) = self.state_dir()?;
        let store = self.config(None)?.config().store.clone();
        if real(&state) == real(&shared.state) && store == shared.store {
            return Ok(());
        }
        let owns = shared.store.clone().unwrap_or_else(|| shared.state.display().to_string());
        Err(CommandError::refused(format!("the daemon of {} owns another database: {owns}", state.display()))
            .hint("start it again with the same LOOPWRIGHT_STORE, or use the state directory of the other"))
    }

    /// A round that cannot continue (its repository was deleted, a later build wrote its record) is reported and left
    /// open, so that it does not block the others.
    pub(crate) async fn recover(&self, engine: &Engine, cancel: &CancelToken) -> Result<(), CommandError> {
        let mut tell = |taken: TakenOverRound| {
            let loop_name = taken.loop_name.as_deref().unwrap_or("a question");
            // A failed store has already ended the whole recovery.
            let _ = self.report_recovered(taken.what.word(), loop_name, &taken.round, taken.ended);
        };
        Ok(engine.take_over(self, cancel, &mut tell).await?)
    }

    /// Ends rounds that were suspended before a moment and never resumed; their work may be removed then.
    pub(crate) async fn abandon_suspended_rounds(&self, engine: &Engine, before_ms: i64) -> Result<(), CommandError> {
        for row in engine.forgotten_rounds(before_ms).await? {
            let ended = match self.recorded_bindings(engine, &row.id).await {
                Ok(bind) => engine.expire_round(&row.id, &bind).await.map(|report| report.outcome),
                Err(error) => Err(error),
            };
            self.report_recovered("abandoned", &row.loop_name, &row.id, ended)?;
        }
        Ok(())
    }

    fn report_recovered(
        &self,
        what: &str,
        loop_name: &str,
        id: &str,
        ended: Result<Option<RoundOutcome>, EngineError>,
    ) -> Result<(), CommandError> {
        let text = match ended {
            Ok(outcome) => outcome.map_or("running", RoundOutcome::word).to_owned(),
            Err(EngineError::Store(error)) => return Err(error.into()),
            Err(error) => format!("cannot continue: {}", error_chain(&error)),
        };
        self.out.note(&format!("{what:<9} round {} of {}: {}", safe(id), safe(loop_name), safe(&text)));
        Ok(())
    }

    /// The bindings of a recorded round. An agent that was removed since makes the round fail, not the command.
    pub(crate) async fn recorded_bindings(&self, engine: &Engine, round: &str) -> Result<LoopBindings, EngineError> {
        let recorded = engine.load_round(round).await?;
        Ok(self.rebind(engine, &recorded.round.facts().started).1)
    }

    /// A loop with the configured agents in the roles for which it names none, else with the first agent installed on
    /// this machine. They become part of the spec, so that the record names them.
    pub(crate) fn with_configured_agents(
        &self,
        spec: CheckedSpec,
        repo: &UserRepo,
    ) -> Result<CheckedSpec, CommandError> {
        AgentDefaults::read(self, &repo.work_tree)?.complete(spec)
    }

    /// The bindings of a loop.
    pub(crate) fn bindings(&self, spec: &LoopSpec, work_tree: &Path) -> Result<LoopBindings, CommandError> {
        bindings::bind_loop(spec, work_tree, &self.extra_path(Some(work_tree)))
    }

    /// The folders where agents and gates find programs: those of `PATH` that exist, are absolute and lie outside the
    /// repository, in the user's order. A shim in the user's home comes before the system's program of that name, and a
    /// file of the repository never replaces a program.
    pub(crate) fn extra_path(&self, work_tree: Option<&Path>) -> Vec<PathBuf> {
        let outside = |dir: &PathBuf| work_tree.is_none_or(|tree| !real(dir).starts_with(real(tree)));
        let wanted = |dir: &PathBuf| dir.is_absolute() && dir.is_dir() && outside(dir);
        let mut dirs: Vec<_> = std::env::split_paths(&self.env.path).filter(wanted).collect();
        let mut seen = std::collections::HashSet::new();
        dirs.retain(|dir| seen.insert(dir.clone()));
        dirs
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
