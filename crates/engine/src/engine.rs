//! The engine: an opened state directory with the store, git, the process runner and the clock. Several processes may
//! have the same state directory open. Rounds are started, resumed and decided through it; the stages are in
//! [`crate::round`].

use crate::agents::providers::ProviderChoice;
use crate::agents::{self, AgentLogin, McpServer};
use crate::boundary::{self, HostSupport};
use crate::budget_meter::BudgetMeter;
use crate::ceiling_source::CeilingSource;
use crate::clock::{Clock, SystemClock};
use crate::egress::{EgressRoutes, ModelProvider};
use crate::error::EngineError;
use crate::events::{EventBus, EventKind, LiveEvent};
use crate::git::{CommitSigner, Git, UserRepo};
use crate::known_secrets::KnownSecrets;
use crate::lease;
use crate::live_rounds::LiveRounds;
use crate::outbox::ForgeConnector;
use crate::path_roots::PathRoots;
use crate::proc::{CancelToken, ProcessRunner};
use crate::questions::QuestionTurns;
use crate::round::{LoopBindings, RoundCaller, RoundDriver, RoundPlace, RunRequest, SignalNovelty};
use crate::sandbox_view::{HiddenPaths, KernelIsolation, SandboxViews};
use crate::seam::{Seam, SeamFault};
use crate::shared_lock::{SharedGuard, SharedLock};
use crate::shared_watch;
use crate::state_dir::{StateDir, StateFileError, removable_entries};
use crate::store::{
    AnswerRow, DISPATCHER, LeaseHolder, LeaseNeeds, LeaseRequest, ProcessInfo, RowChange, SignalRow, Store, StoreBatch,
    StoreError, StoreErrorKind, StoreMode,
};
use crate::toolchains::{self, ShownPath};
use crate::workspace::{self, Workspaces};
use loopwright_core::autonomy::AutonomyRules;
use loopwright_core::cadence::DayZone;
use loopwright_core::config::{AgentOptions, AgentOptionsTable, McpServerConfig, PeopleConfig, SharedBudget};
use loopwright_core::dispatch::{LoopKey, PlacementNeeds};
use loopwright_core::prices::ModelPrices;
use loopwright_core::report::RoundReport;
use loopwright_core::round::{Boundary, Round};
use loopwright_core::spec::{AgentSpec, AgentUse, LoopSpec};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The engine's settings. The engine reads no environment and no configuration itself.
#[derive(Clone)]
pub struct EngineSettings {
    /// The state directory.
    pub state: PathBuf,
    /// The database, if it is not `store.db` in the state directory.
    pub store: Option<String>,
    /// The author of the engine's commits.
    pub identity: CommitIdentity,
    /// The key that signs the commits that are sent.
    pub signer: Option<CommitSigner>,
    /// How long an approval request waits before it expires, which counts as a denial.
    pub approval: Duration,
    /// Globs of further paths that always need a person.
    pub sensitive: Vec<String>,
    /// Folders with further programs for agents and gates, such as a toolchain's.
    pub extra_path: Vec<PathBuf>,
    /// The home of the user the engine works for. No program of a loop may see it; `~` in a loop file starts there.
    pub home: Option<PathBuf>,
    /// Secrets of the environment, which no round may store or send.
    pub known_secrets: KnownSecrets,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The user's zone: the days and months of shared budgets, and those of loops without a zone of their own.
    pub zone: DayZone,
    /// Model providers that agents may use, with their keys; only the egress proxy reads the keys.
    pub providers: Vec<ModelProvider>,
    /// Agents' own sign-ins, for roles whose provider has no key.
    pub logins: Vec<AgentLogin>,
    /// Options of agents.
    pub agent_options: AgentOptionsTable,
    /// Servers of the Model Context Protocol that loops may name.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// The prices of tokens.
    pub prices: Arc<ModelPrices>,
    /// How long a round may wait for providers in total; a round is suspended at once when this is zero.
    pub provider_wait: Duration,
    /// Ceilings over all loops of a repository, and over all repositories.
    pub budget: SharedBudget,
    /// Reads the budgets again before every start of an agent, because people may have lowered them.
    pub ceilings: Option<Arc<dyn CeilingSource>>,
    /// The sandbox features of this host, if known; otherwise the engine probes them once.
    pub host: Option<HostSupport>,
    /// Forges and messengers besides the local forge.
    pub forges: Option<Arc<dyn ForgeConnector>>,
    /// People with their accounts elsewhere, whose answers from there count.
    pub people: PeopleConfig,
    /// The rules of promotion and demotion.
    pub autonomy: AutonomyRules,
    /// Where tests inject faults.
    pub seam: Seam,
}

/// The author of commits.
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
            signer: None,
            approval: Duration::from_secs(7 * 86_400),
            sensitive: Vec::new(),
            extra_path: Vec::new(),
            home: None,
            known_secrets: KnownSecrets::default(),
            clock: Arc::new(SystemClock),
            zone: DayZone::default(),
            providers: Vec::new(),
            logins: Vec::new(),
            agent_options: AgentOptionsTable::default(),
            mcp_servers: BTreeMap::new(),
            prices: Arc::default(),
            provider_wait: Duration::from_secs(15 * 60),
            budget: SharedBudget::default(),
            ceilings: None,
            host: None,
            forges: None,
            people: PeopleConfig::default(),
            autonomy: AutonomyRules::default(),
            seam: Seam::none(),
        }
    }
}

/// Whether closing this engine releases the state directory.
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
    pub(crate) store: Arc<Store>,
    hold: CloseDuty,
    pub(crate) git: Git,
    pub(crate) proc: ProcessRunner,
    pub(crate) live_rounds: LiveRounds,
    events: EventBus,
    /// The current use of all agents.
    pub(crate) budget_meter: BudgetMeter,
    /// The passes over questions that loops ask elsewhere.
    pub(crate) questions: Arc<QuestionTurns>,
    /// The sandbox features of this host: given, or probed once.
    host: Arc<tokio::sync::OnceCell<HostSupport>>,
    /// Held while a base is prepared: one at a time, over all loops and processes.
    bases: SharedLock,
}

impl Engine {
    /// Opens a state directory. Other processes may have it open as well.
    ///
    /// # Errors
    /// When the folder or the database cannot be opened.
    pub async fn open(settings: EngineSettings) -> Result<Self, EngineError> {
        let places = StateDir::open(&settings.state, settings.seam.clone())?;
        let process = ProcessInfo::current(settings.clock.now_ms());
        let store = open_store(&settings, &places, StoreMode::Write(process)).await?;
        let (is_leased, live_rounds) = (store.is_leased(), LiveRounds::default());
        let store: Arc<Store> = Arc::new(store);
        if is_leased {
            drop(tokio::spawn(renew(Arc::downgrade(&store), Arc::clone(&settings.clock), live_rounds.clone())));
            let watch = shared_watch::watch(Arc::downgrade(&store), Arc::clone(&settings.clock), live_rounds.clone());
            drop(tokio::spawn(watch));
        }
        close_doors(&places, store.as_ref()).await?;
        if store.others().await?.is_empty() {
            crate::git::remove_stale_locks(places.root(), settings.clock.now_ms());
            sweep_behind(&places);
        }
        let git = Git::new(settings.seam.clone());
        let proc = ProcessRunner::new(settings.seam.clone());
        let host = Arc::new(tokio::sync::OnceCell::new_with(settings.host.clone()));
        let bases = SharedLock::new(places.root().join(workspace::BASES_LOCK));
        Ok(Self {
            settings: Arc::new(settings),
            state_dir: places,
            store,
            hold: CloseDuty::Own,
            git,
            proc,
            live_rounds,
            events: EventBus::default(),
            budget_meter: BudgetMeter::default(),
            questions: Arc::default(),
            host,
            bases,
        })
    }

    /// The same opened state directory with other settings: for a loop of another repository, or a command that was run
    /// elsewhere. State directory, database, clock and faults stay the same. Closing the returned engine does not
    /// release the state directory.
    #[must_use]
    pub fn with_settings(&self, settings: EngineSettings) -> Self {
        let own = &self.settings;
        let settings = EngineSettings {
            state: own.state.clone(),
            store: own.store.clone(),
            clock: Arc::clone(&own.clock),
            seam: own.seam.clone(),
            ..settings
        };
        Self { settings: Arc::new(settings), hold: CloseDuty::Lent, ..self.with_own_events() }
    }

    /// Opens the database read-only.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    pub async fn read(settings: &EngineSettings) -> Result<Arc<Store>, EngineError> {
        let location = store_location(settings, &settings.state.join("store.db"));
        Ok(Arc::new(Store::open(&location, StoreMode::Read).await?))
    }

    /// The database.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The state directory's folders.
    #[must_use]
    pub fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// The event stream. An engine made by [`Engine::with_settings`] has its own, whose events also reach the stream of
    /// the original.
    #[must_use]
    pub fn events(&self) -> &EventBus {
        &self.events
    }

    /// The same engine with its own event stream, whose events also reach this one's.
    pub(crate) fn with_own_events(&self) -> Self {
        Self { events: self.events.child(), ..self.clone() }
    }

    /// Publishes an event on the engine's stream.
    pub(crate) fn publish(&self, loop_key: Option<LoopKey>, round: Option<&str>, kind: EventKind) {
        self.events.publish(LiveEvent { at_ms: self.now_ms(), loop_key, round: round.map(str::to_owned), kind });
    }

    /// The one way to run git.
    #[must_use]
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The one way to start processes.
    #[must_use]
    pub fn proc(&self) -> &ProcessRunner {
        &self.proc
    }

    /// The settings it was opened with.
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

    /// Writes rows that belong to no round, in one transaction.
    ///
    /// # Errors
    /// When they cannot be stored, or one of them is a conflict.
    pub async fn write_rows(&self, changes: Vec<RowChange>) -> Result<(), EngineError> {
        self.append(StoreBatch::of_rows(self.now_ms(), changes)).await?;
        Ok(())
    }

    /// Stores a signal, once.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub async fn store_signal(&self, signal: SignalRow) -> Result<SignalNovelty, EngineError> {
        match self.write_rows(vec![RowChange::NewSignal(signal)]).await {
            Ok(()) => Ok(SignalNovelty::First),
            Err(EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(_), .. })) => {
                Ok(SignalNovelty::Repeated)
            }
            Err(error) => Err(error),
        }
    }

    /// Stores an answer from outside, once.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub async fn store_answer(&self, answer: AnswerRow) -> Result<SignalNovelty, EngineError> {
        match self.write_rows(vec![RowChange::NewAnswer(answer)]).await {
            Ok(()) => Ok(SignalNovelty::First),
            Err(EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(_), .. })) => {
                Ok(SignalNovelty::Repeated)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the lease of the one process that schedules, until it is released or the engine is closed.
    ///
    /// # Errors
    /// [`StoreErrorKind::Held`] names the process that holds it.
    pub async fn lease_dispatcher(&self) -> Result<(), EngineError> {
        let (repo, loop_name) = (String::new(), String::new());
        let request = LeaseRequest { name: DISPATCHER.to_owned(), repo, loop_name, needs: LeaseNeeds::Nothing };
        Ok(lease::take(self, request).await?)
    }

    /// Runs one round until it ends or waits for a person.
    ///
    /// # Errors
    /// When the loop cannot run here, or the record cannot be written.
    pub async fn run(
        &self,
        request: RunRequest,
        bind: &LoopBindings,
        cancel: &CancelToken,
    ) -> Result<RoundReport, EngineError> {
        let round = self.run_as(request, RoundCaller::manual(bind, cancel), &mut |_| ()).await?;
        self.round_report(&round).await
    }

    /// Like [`Engine::run`], started by the daemon or manually. Reports when the round is on record.
    pub(crate) async fn run_as(
        &self,
        request: RunRequest,
        caller: RoundCaller<'_>,
        on_start: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Round, EngineError> {
        let why = request.spec.not_runnable();
        if !why.is_empty() {
            return Err(EngineError::NotRunnable { name: request.spec.name.clone(), why });
        }
        let (mut run, actions) = RoundDriver::start(self, request, caller, RoundPlace::Here).await?;
        on_start(&run.round().facts().started.round);
        if let Err(error) = Box::pin(run.drive(actions)).await {
            lease::give_back(self, &run.round().facts().started.round).await;
            return Err(error);
        }
        Ok(run.finish_at_rest().await)
    }

    /// Records a round that is due and offers it to the workers; returns its id.
    pub(crate) async fn offer_as(
        &self,
        request: RunRequest,
        caller: RoundCaller<'_>,
        needs: PlacementNeeds,
        on_start: &mut (dyn FnMut(&str) + Send),
    ) -> Result<String, EngineError> {
        let (run, _) = RoundDriver::start(self, request, caller, RoundPlace::Worker(needs)).await?;
        let round = run.round().facts().started.round.clone();
        on_start(&round);
        Ok(round)
    }

    /// The workspaces of a repository.
    pub(crate) async fn workspaces(&self, repo: UserRepo) -> Result<Workspaces, EngineError> {
        let spaces = Workspaces::open(self.git.clone(), self.state_dir.root(), repo).await?;
        Ok(spaces.sharing(self.bases.clone()))
    }

    /// Locks the preparation and removal of bases against other tasks and processes.
    pub(crate) async fn lock_bases(&self) -> Result<SharedGuard, EngineError> {
        Ok(self.bases.lock().await.map_err(|error| StateFileError::new("lock", self.bases.path(), error))?)
    }

    /// The sandbox features of this host; probed once.
    pub async fn host(&self) -> &HostSupport {
        self.host.get_or_init(|| boundary::probe(self.state_dir.root())).await
    }

    /// The builder of sandbox views for a loop of a repository, behind this boundary.
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
        let tools = tools.map_err(|errors| EngineError::not_runnable(&spec.name, &errors))?;
        Ok(SandboxViews::new(boundary::isolation_for(boundary), tools).with_external(spec.into()))
    }

    /// The host paths, besides the system's folders, that programs of a loop see: those of their toolchains. Empty when
    /// a toolchain that the loop names cannot be shown, since nothing runs then.
    #[must_use]
    pub fn visible_toolchains(&self, repo: &UserRepo, spec: &LoopSpec) -> Vec<ShownPath> {
        let (ground, keep_out) = (self.path_roots(repo), self.hidden_paths(repo));
        let tools = toolchains::detect(&ground, &self.settings.extra_path, &spec.toolchains, &keep_out);
        tools.map(|tools| tools.shown).unwrap_or_default()
    }

    /// The paths that no program of a loop may see.
    pub(crate) fn hidden_paths(&self, repo: &UserRepo) -> HiddenPaths {
        HiddenPaths::new(self.state_dir.root(), repo, self.settings.home.as_deref())
    }

    /// Opens the routes of a loop's programs to the network, with the providers that its agents need and no others.
    /// Without kernel isolation programs need no route to reach hosts, so the routes lead to providers only: no agent
    /// has a key then either.
    ///
    /// # Errors
    /// When a route cannot be opened.
    pub fn open_routes(&self, round: &str, rooms: &SandboxViews, spec: &LoopSpec) -> Result<EgressRoutes, EngineError> {
        let needed = agents::providers::needed_providers(spec, &self.provider_names());
        let all = self.settings.providers.iter();
        let providers: Vec<_> = all.filter(|provider| needed.contains(&provider.name())).cloned().collect();
        match rooms.isolation() {
            KernelIsolation::Kernel => Ok(EgressRoutes::open(&self.state_dir.sockets().join(round), spec, &providers)?),
            KernelIsolation::None => Ok(EgressRoutes::open_on_loopback(providers)?),
        }
    }

    /// The names of the configured providers.
    pub(crate) fn provider_names(&self) -> Vec<&str> {
        self.settings.providers.iter().map(ModelProvider::name).collect()
    }

    /// The user's options of an agent.
    pub(crate) fn options_of(&self, agent: AgentUse) -> AgentOptions {
        self.settings.agent_options.get(agent.word()).cloned().unwrap_or_default()
    }

    /// The servers that an agent of a loop names and the user's configuration defines.
    pub(crate) fn mcp_servers_of(&self, agent: &AgentSpec) -> Vec<McpServer> {
        let known = |name: &String| Some(McpServer::new(name, self.settings.mcp_servers.get(name)?));
        agent.mcp_servers.iter().filter_map(known).collect()
    }

    /// The agent's own sign-in, where its provider has no key and the user allows it.
    pub(crate) fn login(&self, agent: &AgentSpec) -> Option<&AgentLogin> {
        let lacks = ProviderChoice::for_spec(agent).is_unmet_by(&self.provider_names());
        // A sign-in is for the agent's usual provider only.
        let lacks = lacks && agent.provider.is_none();
        self.settings.logins.iter().find(|login| lacks && login.agent == agent.agent)
    }

    /// The folders that paths in the loop files of a repository are relative to.
    #[must_use]
    pub fn path_roots(&self, repo: &UserRepo) -> PathRoots {
        PathRoots { repo: repo.work_tree.clone(), home: self.settings.home.clone() }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.settings.clock.now_ms()
    }

    /// Whether both engines share one opened state directory.
    pub(crate) fn shares_store_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// Closes the state directory. An engine made by [`Engine::with_settings`] leaves it open for the others.
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

/// How often leases are renewed. Three renewals in a row may be missed.
const RENEW: Duration = Duration::from_secs(60);

/// Renews the leases of this process while its store is open, also right after the process or the machine was frozen. A
/// renewal that fails is retried at the next interval. A round whose lease another process took ends its agents at once:
/// only that process may continue it.
async fn renew(store: Weak<Store>, clock: Arc<dyn Clock>, live_rounds: LiveRounds) {
    loop {
        // A timer of monotonic time stops while the machine is suspended; the other one does not.
        let at_ms = clock.now_ms().saturating_add(i64::try_from(RENEW.as_millis()).unwrap_or(i64::MAX));
        tokio::select! {
            () = clock.after(RENEW) => {}
            () = clock.until(at_ms) => {}
        }
        let Some(store) = store.upgrade() else { return };
        match store.renew().await {
            Ok(lost) => {
                lost.iter().for_each(|round| live_rounds.end(round, "another process has taken the round over"))
            }
            Err(StoreError { kind: StoreErrorKind::Closed, .. }) => return,
            Err(_) => {}
        }
    }
}

/// Removes the sockets of rounds that no process works on; those of a dead engine have no listener. A socket that
/// cannot be removed is replaced when its round resumes.
async fn close_doors(places: &StateDir, store: &Store) -> Result<(), EngineError> {
    let doors = removable_entries(&places.sockets());
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

/// Moves half-made and half-removed folders of dead engines aside while no other process is at work, and deletes them
/// in the background. The next engine retries what cannot be deleted.
fn sweep_behind(places: &StateDir) {
    let taken = workspace::take_leftovers(places.root(), workspace::LeftoverScope::All);
    if !taken.is_empty() {
        drop(tokio::task::spawn_blocking(move || taken.iter().for_each(|path| drop(workspace::remove_tree(path)))));
    }
}

pub(crate) fn injected(fault: SeamFault) -> StoreError {
    StoreError { doing: "append".to_owned(), kind: StoreErrorKind::Io(fault.to_string()) }
}

async fn open_store(settings: &EngineSettings, places: &StateDir, mode: StoreMode) -> Result<Store, EngineError> {
    Ok(Store::open(&store_location(settings, &places.store()), mode).await?)
}

fn store_location(settings: &EngineSettings, default: &std::path::Path) -> String {
    settings.store.clone().unwrap_or_else(|| default.to_string_lossy().into_owned())
}
