//! The engine: one opened state directory, with its doors to the store, git, processes and time. Other processes may have it
//! open as well.
//! Rounds are started, resumed and decided through it; the stages themselves are in [`crate::round`].

use crate::agents::providers::ProviderChoice;
use crate::agents::{self, AgentLogin};
use crate::boundary::{self, HostSupport};
use crate::budget_meter::BudgetMeter;
use crate::clock::{Clock, SystemClock};
use crate::egress::{EgressRoutes, ModelProvider};
use crate::error::EngineError;
use crate::events::{EventBus, EventKind, LiveEvent};
use crate::git::{Git, UserRepo};
use crate::known_secrets::KnownSecrets;
use crate::live_rounds::LiveRounds;
use crate::path_roots::PathRoots;
use crate::proc::ProcessRunner;
use crate::sandbox_view::{HiddenPaths, KernelIsolation, SandboxViews};
use crate::seam::{Seam, SeamFault};
use crate::shared_lock::{SharedGuard, SharedLock};
use crate::state_dir::{StateDir, StateFileError};
use crate::store::{LeaseHolder, ProcessInfo, SqlStore, Store, StoreBatch, StoreError, StoreErrorKind, StoreMode};
use crate::toolchains::{self, ShownPath};
use crate::workspace::{self, Workspaces};
use loopwright_core::config::SharedBudget;
use loopwright_core::dispatch::LoopKey;
use loopwright_core::prices::ModelPrices;
use loopwright_core::round::Boundary;
use loopwright_core::spec::{AgentSpec, LoopSpec};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What an engine is told from outside; it reads no environment and no configuration by itself.
#[derive(Clone)]
pub struct EngineSettings {
    /// The state directory.
    pub state: PathBuf,
    /// The database when it is not `store.db` in the state directory.
    pub store: Option<String>,
    /// Who the engine's commits are by.
    pub identity: CommitIdentity,
    /// How long a question waits for an answer before it is a no.
    pub approval: Duration,
    /// Globs of further paths that always need a human.
    pub sensitive: Vec<String>,
    /// Folders with further programs for agents and gates, such as a toolchain's.
    pub extra_path: Vec<PathBuf>,
    /// The home of the person the engine works for, which no program of a loop may see; `~` in a loop file starts there.
    pub home: Option<PathBuf>,
    /// Secrets of the world around, which no round may keep or send.
    pub known_secrets: KnownSecrets,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Model providers that agents may use, with their keys; only the egress proxy reads those.
    pub providers: Vec<ModelProvider>,
    /// Agents' own sign-ins that roles may use where there is no key.
    pub logins: Vec<AgentLogin>,
    /// What tokens cost.
    pub prices: Arc<ModelPrices>,
    /// How long a round may wait for providers in all; without, it is suspended at once.
    pub provider_wait: Duration,
    /// Ceilings over all loops of a repository, and over everything.
    pub budget: SharedBudget,
    /// What this host holds, when that was found out already; without, it is tried once.
    pub host: Option<HostSupport>,
    /// Where tests make the world fail.
    pub seam: Seam,
}

/// A name for commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitIdentity {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Default for CommitIdentity {
    fn default() -> Self {
        Self { name: "Loopwright".to_owned(), email: "loopwright@localhost".to_owned() }
    }
}

impl EngineSettings {
    /// Defaults for a state directory.
    #[must_use]
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            store: None,
            identity: CommitIdentity::default(),
            approval: Duration::from_secs(7 * 86_400),
            sensitive: Vec::new(),
            extra_path: Vec::new(),
            home: None,
            known_secrets: KnownSecrets::default(),
            clock: Arc::new(SystemClock),
            providers: Vec::new(),
            logins: Vec::new(),
            prices: Arc::default(),
            provider_wait: Duration::from_secs(15 * 60),
            budget: SharedBudget::default(),
            host: None,
            seam: Seam::none(),
        }
    }
}

/// Whose it is to give the state directory back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseDuty {
    Own,
    Lent,
}

/// An opened state directory.
#[derive(Clone)]
pub struct Engine {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) state_dir: StateDir,
    pub(crate) store: Arc<dyn Store>,
    hold: CloseDuty,
    pub(crate) git: Git,
    pub(crate) proc: ProcessRunner,
    pub(crate) live_rounds: LiveRounds,
    events: EventBus,
    /// What agents use right now.
    pub(crate) budget_meter: BudgetMeter,
    /// What this host holds, told or tried once.
    host: Arc<tokio::sync::OnceCell<HostSupport>>,
    /// One preparation of a base at a time, whichever loop and process asks.
    bases: SharedLock,
    /// One set-up at a time.
    setups: SharedLock,
}

impl Engine {
    /// Opens a state directory, beside any number of other processes.
    ///
    /// # Errors
    /// When the folder or the database cannot be opened.
    pub async fn open(settings: EngineSettings) -> Result<Self, EngineError> {
        let places = StateDir::open(&settings.state, settings.seam.clone())?;
        let process = ProcessInfo::current(settings.clock.now_ms());
        let store = open_store(&settings, &places, StoreMode::Write(process)).await?;
        let is_leased = store.is_leased();
        let store: Arc<dyn Store> = Arc::new(store);
        if is_leased {
            drop(tokio::spawn(renew(Arc::downgrade(&store), Arc::clone(&settings.clock))));
        }
        close_doors(&places, store.as_ref()).await?;
        if store.others().await?.is_empty() {
            sweep_behind(&places);
        }
        let git = Git::new(settings.seam.clone());
        let proc = ProcessRunner::new(settings.seam.clone());
        let host = Arc::new(tokio::sync::OnceCell::new_with(settings.host.clone()));
        let bases = SharedLock::new(places.root().join(workspace::BASES_LOCK));
        let setups = SharedLock::new(places.root().join("setups.lock"));
        Ok(Self {
            settings: Arc::new(settings),
            state_dir: places,
            store,
            hold: CloseDuty::Own,
            git,
            proc,
            live_rounds: LiveRounds::default(),
            events: EventBus::default(),
            budget_meter: BudgetMeter::default(),
            host,
            bases,
            setups,
        })
    }

    /// The same opened state directory in another hand, told otherwise: for a loop of another repository, or a command that
    /// was typed elsewhere. Place, database, clock and faults stay; it is not this hand that gives the state directory back.
    #[must_use]
    pub fn with_settings(&self, told: EngineSettings) -> Self {
        let own = &self.settings;
        let settings = EngineSettings {
            state: own.state.clone(),
            store: own.store.clone(),
            clock: Arc::clone(&own.clock),
            seam: own.seam.clone(),
            ..told
        };
        Self { settings: Arc::new(settings), hold: CloseDuty::Lent, ..self.with_own_events() }
    }

    /// Opens the database for looking only.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub async fn read(settings: &EngineSettings) -> Result<Arc<dyn Store>, EngineError> {
        let location = store_location(settings, &settings.state.join("store.db"));
        Ok(Arc::new(SqlStore::open(&location, StoreMode::Read).await?))
    }

    /// The database.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The folders.
    #[must_use]
    pub fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// The event stream. A lent engine has its own, whose events also reach the stream of the engine that lent it.
    #[must_use]
    pub fn events(&self) -> &EventBus {
        &self.events
    }

    /// The same engine with an event stream of its own, whose events also reach this one's.
    pub(crate) fn with_own_events(&self) -> Self {
        Self { events: self.events.child(), ..self.clone() }
    }

    /// Publishes an event on the engine's stream.
    pub(crate) fn publish(&self, loop_key: Option<LoopKey>, round: Option<&str>, kind: EventKind) {
        self.events.publish(LiveEvent { at_ms: self.now_ms(), loop_key, round: round.map(str::to_owned), kind });
    }

    /// The git door.
    #[must_use]
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The process door.
    #[must_use]
    pub fn proc(&self) -> &ProcessRunner {
        &self.proc
    }

    /// What it was told.
    #[must_use]
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// The only way to write rows: one transaction, durable when this returns.
    pub(crate) async fn append(&self, batch: StoreBatch) -> Result<i64, StoreError> {
        let seam = &self.settings.seam;
        seam.before("store.append").map_err(injected)?;
        let index = self.store.append(batch).await?;
        seam.after("store.append").map_err(injected)?;
        Ok(index)
    }

    /// The workspaces of a repository.
    pub(crate) async fn workspaces(&self, repo: UserRepo) -> Result<Workspaces, EngineError> {
        let spaces = Workspaces::open(self.git.clone(), self.state_dir.root(), repo).await?;
        Ok(spaces.sharing(self.bases.clone()))
    }

    /// Takes the lock under which bases are prepared and removed, by one process at a time.
    pub(crate) async fn lock_bases(&self) -> Result<SharedGuard, EngineError> {
        Ok(self.bases.lock().await.map_err(|error| StateFileError::new("lock", self.bases.path(), error))?)
    }

    /// Takes the lock under which a repository is set up, by one process at a time.
    pub(crate) async fn lock_setups(&self) -> Result<SharedGuard, EngineError> {
        Ok(self.setups.lock().await.map_err(|error| StateFileError::new("lock", self.setups.path(), error))?)
    }

    /// What this host can hold; found out by trying it, once.
    pub async fn host(&self) -> &HostSupport {
        self.host.get_or_init(|| boundary::probe(self.state_dir.root())).await
    }

    /// The builder of rooms for a loop of a repository, behind this boundary.
    ///
    /// # Errors
    /// Every toolchain that the loop names and that cannot be shown.
    pub fn sandbox_views(
        &self,
        boundary: &Boundary,
        repo: &UserRepo,
        spec: &LoopSpec,
    ) -> Result<SandboxViews, EngineError> {
        let (ground, keep_out) = (self.path_roots(repo), self.hidden_paths(repo));
        let tools = toolchains::detect(&ground, &self.settings.extra_path, &spec.toolchains, &keep_out);
        let tools = tools.map_err(|errors| EngineError::NotRunnable {
            name: spec.name.clone(),
            why: errors.iter().map(ToString::to_string).collect(),
        })?;
        Ok(SandboxViews::new(boundary::isolation_for(boundary), tools))
    }

    /// What programs of a loop are shown of the host besides the system's folders: what their toolchains need. Nothing when
    /// one that the loop names cannot be shown, since nothing runs then.
    #[must_use]
    pub fn visible_toolchains(&self, repo: &UserRepo, spec: &LoopSpec) -> Vec<ShownPath> {
        let (ground, keep_out) = (self.path_roots(repo), self.hidden_paths(repo));
        let tools = toolchains::detect(&ground, &self.settings.extra_path, &spec.toolchains, &keep_out);
        tools.map(|tools| tools.shown).unwrap_or_default()
    }

    /// What no program of a loop may see.
    pub(crate) fn hidden_paths(&self, repo: &UserRepo) -> HiddenPaths {
        HiddenPaths::new(self.state_dir.root(), repo, self.settings.home.as_deref())
    }

    /// Opens the ways of a loop's programs to the network, with the providers that its agents need and no others. Without
    /// walls nothing holds programs to a way, so only providers are left to it: no agent holds a key then either.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open_routes(&self, round: &str, rooms: &SandboxViews, spec: &LoopSpec) -> Result<EgressRoutes, EngineError> {
        let needed = agents::providers::needed_providers(spec, &self.provider_names());
        let all = self.settings.providers.iter();
        let providers: Vec<_> = all.filter(|provider| needed.contains(&provider.name())).cloned().collect();
        match rooms.isolation() {
            KernelIsolation::Kernel => Ok(EgressRoutes::open(&self.state_dir.sockets().join(round), spec, &providers)?),
            KernelIsolation::None => Ok(EgressRoutes::open_on_loopback(providers)?),
        }
    }

    /// The providers there are, by name.
    pub(crate) fn provider_names(&self) -> Vec<&str> {
        self.settings.providers.iter().map(ModelProvider::name).collect()
    }

    /// The sign-in that an agent has to use: its own, where its provider has no key and the user allows it.
    pub(crate) fn login(&self, agent: &AgentSpec) -> Option<&AgentLogin> {
        let lacks = ProviderChoice::for_spec(agent).is_unmet_by(&self.provider_names());
        self.settings.logins.iter().find(|login| lacks && login.agent() == agent.agent)
    }

    /// Where paths in the loop files of a repository start.
    #[must_use]
    pub fn path_roots(&self, repo: &UserRepo) -> PathRoots {
        PathRoots { repo: repo.work_tree.clone(), home: self.settings.home.clone() }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.settings.clock.now_ms()
    }

    /// Whether the two are hands of one opened state directory.
    pub(crate) fn shares_store_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// Gives the state directory back; a hand to which it was lent keeps it open for the others.
    ///
    /// # Errors
    /// When the database cannot be closed cleanly.
    pub async fn close(&self) -> Result<(), EngineError> {
        match self.hold {
            CloseDuty::Own => Ok(self.store.close().await?),
            CloseDuty::Lent => Ok(()),
        }
    }
}

/// How often leases are renewed: three may be missed.
const RENEW: Duration = Duration::from_secs(60);

/// Renews the leases of this process for as long as its store is open. One that cannot be renewed now is renewed the next time:
/// only a write that is fenced says that a lease is lost.
async fn renew(store: Weak<dyn Store>, clock: Arc<dyn Clock>) {
    loop {
        clock.after(RENEW).await;
        let Some(store) = store.upgrade() else { return };
        if let Err(StoreError { kind: StoreErrorKind::Closed, .. }) = store.renew().await {
            return;
        }
    }
}

/// Removes the sockets of rounds that nobody is at: those of a dead engine lead nowhere. One that cannot be removed is replaced
/// when its round is taken up.
async fn close_doors(places: &StateDir, store: &dyn Store) -> Result<(), EngineError> {
    let doors: Vec<_> = std::fs::read_dir(places.sockets()).into_iter().flatten().flatten().collect();
    if doors.is_empty() {
        return Ok(());
    }
    let leases = store.leases().await?;
    let is_open = |round: &str| leases.iter().any(|lease| lease.name == round && lease.holder != LeaseHolder::Gone);
    for door in doors.iter().filter(|door| !door.file_name().to_str().is_some_and(is_open)) {
        let _ = std::fs::remove_dir_all(door.path());
    }
    Ok(())
}

/// Takes what dead engines left half made or half removed away, while no other process is at work, and deletes it in the background.
/// What cannot be deleted is met again by the next engine.
fn sweep_behind(places: &StateDir) {
    let taken = workspace::take_leftovers(places.root(), workspace::LeftoverScope::All);
    if !taken.is_empty() {
        drop(tokio::task::spawn_blocking(move || taken.iter().for_each(|path| drop(workspace::remove_tree(path)))));
    }
}

pub(crate) fn injected(fault: SeamFault) -> StoreError {
    StoreError { doing: "append".to_owned(), kind: StoreErrorKind::Io(fault.to_string()) }
}

async fn open_store(settings: &EngineSettings, places: &StateDir, mode: StoreMode) -> Result<SqlStore, EngineError> {
    Ok(SqlStore::open(&store_location(settings, &places.store()), mode).await?)
}

fn store_location(settings: &EngineSettings, default: &std::path::Path) -> String {
    settings.store.clone().unwrap_or_else(|| default.to_string_lossy().into_owned())
}
