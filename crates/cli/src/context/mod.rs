//! The things a command works on: the environment, the repository, the state directory, the loops. This module finds
//! everything and passes it down; verbs look nothing up themselves.

mod agent_defaults;
mod asking;
mod bindings;
mod config;
mod engine;
mod environment;
mod file_problem;
mod fleet;
mod forge_clients;
mod forges;
mod loop_files_once;
mod loop_folder;
mod notifications;
mod preflight;
mod preflight_cache;
pub(crate) mod prompts;
mod providers;
mod repo_loops;
mod signing;
mod user;
mod zone;

pub(crate) use agent_defaults::AgentDefaults;
pub(crate) use asking::inspect_asking;
pub(crate) use bindings::script_path;
use config::LastGoodConfigs;
pub(crate) use environment::CommandEnvironment;
pub(crate) use file_problem::{FileProblem, error_from_problems};
pub(crate) use fleet::{FleetRepo, FleetScan, RepoAbsence, loop_entry};
pub(crate) use forge_clients::SharedClients;
pub(crate) use forges::inspect_forges;
pub(crate) use loop_files_once::LoopFilesOnce;
pub(crate) use loop_folder::{LoopFolder, list_repo_folder, open_plain, read_bytes, read_named_file, read_repo_file};
pub(crate) use preflight::LoopPreflight;
pub(crate) use preflight_cache::PreflightCache;
pub(crate) use providers::{AgentAccess, AgentAvailability, ModelAccess, webhook_options};
pub(crate) use repo_loops::{CheckedLoopFile, LOOPS_FOLDER, RepoLoops, in_parallel, nearest};
pub(crate) use signing::inspect_signer;

use crate::args::GlobalFlags;
use crate::control::{CommandHost, DaemonResources};
use crate::error::CommandError;
use crate::output::{CommandOutput, OutputSender};
use crate::progress::ProgressDetail;
use loopwright::Actor;
use loopwright::git::{Git, UserRepo};
use loopwright::seam::Seam;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything a verb receives besides its own arguments.
#[derive(Debug)]
pub(crate) struct CommandContext {
    /// The variables the command was started with.
    pub(crate) env: CommandEnvironment,
    /// The printer.
    pub(crate) out: CommandOutput,
    repo: Option<PathBuf>,
    state: Option<PathBuf>,
    host: CommandHost,
    /// The operating system's user who gave the command.
    uid: u32,
    /// The actor, if a token identified it.
    named_actor: Option<Actor>,
    /// That token, for a daemon that performs the command.
    token: Option<String>,
    /// The loop files that the commands of one page share.
    files: Option<LoopFilesOnce>,
    /// Set for a long-running process.
    last_good: LastGoodConfigs,
    clients: SharedClients,
}

impl CommandContext {
    /// Builds the context from the environment and the flags that every verb has.
    pub(crate) fn new(env: CommandEnvironment, flags: GlobalFlags) -> Self {
        Self {
            out: CommandOutput::new(&flags, &env, None),
            env,
            repo: flags.repo,
            state: flags.state,
            host: CommandHost::ThisProcess,
            uid: user::own_uid(),
            named_actor: None,
            token: None,
            files: None,
            last_good: LastGoodConfigs::default(),
            clients: SharedClients::default(),
        }
    }

    /// The context of a command that another process sent and that runs here. The kernel reports that process's user.
    pub(crate) fn for_daemon(
        env: CommandEnvironment,
        flags: GlobalFlags,
        line: OutputSender,
        host: CommandHost,
        uid: u32,
    ) -> Self {
        let out = CommandOutput::new(&flags, &env, Some(line));
        Self { out, host, uid, ..Self::new(env, flags) }
    }

    /// The context of a command that a client of the HTTP server sent to this daemon, whose own context this is.
    pub(crate) fn for_face(
        &self,
        flags: &GlobalFlags,
        repo: Option<PathBuf>,
        line: OutputSender,
        host: CommandHost,
        actor: Actor,
    ) -> Self {
        let out = CommandOutput::new(flags, &self.env, Some(line));
        let own = self.duplicate();
        Self { out, host, repo: repo.or(own.repo.clone()), named_actor: Some(actor), ..own }
    }

    /// The same context for one of the commands of a page.
    pub(crate) fn with_loop_files(self, files: Option<LoopFilesOnce>) -> Self {
        Self { files, ..self }
    }

    /// The context of a command line that this process runs for its own face, with a printer of its own.
    pub(crate) fn for_words(&self, flags: &GlobalFlags, line: OutputSender) -> Self {
        let out = CommandOutput::new(flags, &self.env, Some(line));
        let own = self.duplicate();
        Self { out, repo: flags.repo.clone().or(own.repo.clone()), ..own }
    }

    /// The same context for the holder of a token.
    pub(crate) fn for_token(self, actor: Actor, secret: &str) -> Self {
        Self { named_actor: Some(actor), token: Some(secret.to_owned()), ..self }
    }

    /// The token that identified the actor.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The daemon's resources, if the daemon performs the command.
    pub(crate) fn daemon_resources(&self) -> Option<&DaemonResources> {
        match &self.host {
            CommandHost::ThisProcess => None,
            CommandHost::Daemon(shared, _) => Some(shared),
        }
    }

    /// The context of the same command for another repository and state directory.
    pub(crate) fn with_repo_and_state(&self, repo: &Path, state: &Path) -> Self {
        // The user's own configuration does not apply there.
        let env = CommandEnvironment { config: None, store: None, xdg_config: None, home: None, ..self.env.clone() };
        let (repo, state) = (Some(repo.to_owned()), Some(state.to_owned()));
        Self {
            env,
            repo,
            state,
            host: CommandHost::ThisProcess,
            last_good: LastGoodConfigs::default(),
            ..self.duplicate()
        }
    }

    /// The same context with its own printer, for a task that outlives the command that made it.
    pub(crate) fn duplicate(&self) -> Self {
        let (repo, state, hands) = (self.repo.clone(), self.state.clone(), self.host.clone());
        let (uid, last_good, clients) = (self.uid, self.last_good.clone(), self.clients.clone());
        let (env, out, named_actor) = (self.env.clone(), self.out.duplicate(), self.named_actor.clone());
        let (token, files) = (self.token.clone(), self.files.clone());
        Self { env, out, repo, state, host: hands, uid, named_actor, token, files, last_good, clients }
    }

    /// The clients of forges and messengers: in a daemon, those that all its commands and rounds share.
    pub(crate) fn clients(&self) -> SharedClients {
        match &self.host {
            CommandHost::ThisProcess => self.clients.clone(),
            CommandHost::Daemon(shared, _) => shared.clients.clone(),
        }
    }

    /// The same context for a long-running process: a configuration that breaks keeps its last good form.
    pub(crate) fn with_config_fallback(self) -> Self {
        Self { last_good: LastGoodConfigs(Some(Arc::default())), ..self }
    }

    /// The problems of configuration files whose last good form is in use.
    pub(crate) fn config_problems(&self) -> Vec<String> {
        self.last_good.problems()
    }

    /// A path of the user's own configuration.
    pub(crate) fn user_path(&self, path: &str) -> Result<PathBuf, String> {
        let whole = match (path.strip_prefix("~/"), &self.env.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) => return Err(format!("`{path}`: HOME is not set")),
            (None, _) => PathBuf::from(path),
        };
        if whole.is_absolute() { Ok(whole) } else { Err(format!("`{path}` is not an absolute path")) }
    }

    /// The constructor of all git commands.
    pub(crate) fn git(&self) -> Git {
        Git::new(Seam::none())
    }

    /// The repository the command is about: `--repo`, else the one around the current folder.
    pub(crate) async fn repo(&self) -> Result<UserRepo, CommandError> {
        let found = self.git().discover(&self.repo_search_path()).await.map_err(CommandError::from);
        found.map_err(|error| match &self.repo {
            Some(named) => {
                let why = if named.exists() { error.text } else { "there is no such folder".to_owned() };
                CommandError { text: format!("--repo {}: {why}", named.display()), ..error }
            }
            None => error,
        })
    }

    /// The folder where the search for that repository starts.
    fn repo_search_path(&self) -> PathBuf {
        self.repo.as_ref().map_or_else(|| self.env.cwd.clone(), |named| self.env.cwd.join(named))
    }

    /// The repository that a flag named.
    pub(crate) fn explicit_repo(&self) -> Option<&Path> {
        self.repo.as_deref()
    }

    /// Whether a flag named the repository.
    pub(crate) fn has_explicit_repo(&self) -> bool {
        self.repo.is_some()
    }

    /// The loop files of a repository.
    pub(crate) fn loops(&self, repo: &UserRepo) -> Result<RepoLoops, CommandError> {
        match &self.files {
            Some(page) => page.read(&repo.work_tree),
            None => RepoLoops::read(&repo.work_tree),
        }
    }

    /// The state directory and its source.
    pub(crate) fn state_dir(&self) -> Result<(PathBuf, &'static str), CommandError> {
        if let Some(named) = self.explicit_state_dir() {
            return Ok(named);
        }
        let own = self.user_config().map_err(|found| error_from_problems(&found))?;
        self.default_state_dir(own.state_dir.map(PathBuf::from))
    }

    /// The state directory for a command that has to work with a broken configuration: if the file cannot be read, the
    /// one line with `state_dir` still counts.
    pub(crate) fn state_dir_with_broken_config(&self) -> Result<PathBuf, CommandError> {
        let found = self.state_dir().or_else(|_| self.default_state_dir(self.broken_config_state()));
        found.map(|(dir, _)| dir)
    }

    /// The state directory of a flag or a variable.
    fn explicit_state_dir(&self) -> Option<(PathBuf, &'static str)> {
        let named = self.state.clone().map(|dir| (dir, "--state"));
        let named = named.or_else(|| Some((self.env.state_dir.clone()?, "LOOPWRIGHT_STATE_DIR")));
        named.map(|(dir, origin)| (self.env.cwd.join(dir), origin))
    }

    /// The state directory of the user's own configuration, else the default one.
    fn default_state_dir(&self, own: Option<PathBuf>) -> Result<(PathBuf, &'static str), CommandError> {
        let env = &self.env;
        let named = own.map(|dir| (dir, "user configuration"));
        let named = named.or_else(|| Some((env.xdg_state.as_ref()?.join("loopwright"), "XDG_STATE_HOME")));
        let named = named.or_else(|| Some((env.home.as_ref()?.join(".local/state/loopwright"), "default")));
        let (dir, origin) = named.ok_or_else(|| {
            CommandError::invalid("there is no default state directory: HOME is not set")
                .hint("set LOOPWRIGHT_STATE_DIR, or use --state DIR")
        })?;
        if dir.is_absolute() {
            return Ok((dir, origin));
        }
        Err(CommandError::invalid(format!("`state_dir: {}` is not an absolute path", dir.display())))
    }

    fn broken_config_state(&self) -> Option<PathBuf> {
        let named = self.env.config.as_ref().map(|named| self.env.cwd.join(named));
        let bytes = read_bytes(&named.or_else(|| self.env.user_config())?).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let said = text.lines().find_map(|line| line.strip_prefix("state_dir:"))?;
        let said = said.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
        Some(PathBuf::from(said))
    }

    /// How much to log while a round runs.
    pub(crate) fn progress_detail(&self) -> Result<ProgressDetail, CommandError> {
        let word = self.env.log.as_deref();
        ProgressDetail::parse(word).ok_or_else(|| {
            CommandError::invalid(format!("LOOPWRIGHT_LOG is `{}`", word.unwrap_or_default()))
                .hint("it is one of: off, info, debug")
        })
    }

    /// The person who gave the command: the holder of a token, or the operating system's user, by the name that `people` gives this user. A broken
    /// configuration names no person, and is reported elsewhere.
    pub(crate) fn actor(&self) -> Actor {
        if let Some(actor) = &self.named_actor {
            return actor.clone();
        }
        let user = user::actor(self.uid);
        let people = self.user_config().map(|config| config.people).unwrap_or_default();
        Actor::user(&people.user_name(user.name()), self.uid)
    }

    /// The name of that person, as records keep it.
    pub(crate) fn actor_name(&self) -> String {
        self.actor().name().to_owned()
    }
}
