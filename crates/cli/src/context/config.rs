//! The effective configuration: the user's file, the repository's, the environment and the flags; later ones override
//! earlier ones. The keys and their reader are in `core`.

use super::{CommandContext, CommandError, FileProblem, error_from_problems, providers, read_bytes, read_repo_file};
use loopwright::repo_file::RepoFileError;
use loopwright_core::config::{
    ConcurrencyConfig, ConfigLayer, ConfigOrigin, DemoteConfig, EffectiveConfig, SharedBudget, WebConfig,
    read_config_file,
};
use loopwright_core::dispatch::ConcurrencyLimits;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The repository's file, from the root of the working copy.
pub(crate) const REPOSITORY_FILE: &str = ".loopwright/config.yaml";

impl CommandContext {
    /// The effective configuration for a working copy, or for the user alone.
    pub(crate) fn config(&self, work_tree: Option<&Path>) -> Result<EffectiveConfig, CommandError> {
        self.try_config(work_tree).map_err(|findings| error_from_problems(&findings))
    }

    /// The limits of the user's configuration, with defaults.
    pub(crate) fn limits(&self) -> Result<ConcurrencyLimits, CommandError> {
        let said = self.config(None)?.config().concurrency.clone();
        let number = |number: Option<u32>, otherwise: usize| number.map_or(otherwise, |number| number as usize);
        let total = number(said.total, ConcurrencyLimits::default().total);
        let per_agent = said.agents.iter().map(|(agent, number)| (agent.as_str().into(), *number as usize));
        Ok(ConcurrencyLimits { total, per_repo: number(said.repo, total), per_agent: per_agent.collect() })
    }

    /// As `config`, but returns all problems, for a caller that reports more than these.
    pub(crate) fn try_config(&self, work_tree: Option<&Path>) -> Result<EffectiveConfig, Vec<FileProblem>> {
        let mut findings = Vec::new();
        let user = self.user_config().unwrap_or_else(|found| record_findings(found, &mut findings));
        let own = |tree: &Path| self.last_good.or_last_good(&tree.join(REPOSITORY_FILE), repository_config(tree));
        let repository = match work_tree.map(own) {
            Some(read) => read.unwrap_or_else(|found| record_findings(found, &mut findings)),
            None => ConfigLayer::default(),
        };
        if !findings.is_empty() {
            return Err(findings);
        }
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let env = ConfigLayer {
            state_dir: self.env.state_dir.as_ref().map(text),
            store: self.env.store.clone(),
            ..ConfigLayer::default()
        };
        let flags = ConfigLayer { state_dir: self.state.as_ref().map(text), ..ConfigLayer::default() };
        let files =
            EffectiveConfig::default().merge(user, ConfigOrigin::User).merge(repository, ConfigOrigin::Repository);
        Ok(files.merge(env, ConfigOrigin::Environment).merge(flags, ConfigOrigin::Flag))
    }

    /// The user's own file. A file that LOOPWRIGHT_CONFIG names must exist; the default one may be absent.
    pub(super) fn user_config(&self) -> ReadConfig {
        if let Some(named) = &self.env.config {
            let (path, shown) = (self.env.cwd.join(named), named.to_string_lossy());
            let absent =
                || vec![FileProblem::for_file(shown.clone(), "LOOPWRIGHT_CONFIG names a file that does not exist")];
            let read = read_file(&path, &shown).and_then(|read| read.ok_or_else(absent));
            return self.last_good.or_last_good(&path, read.and_then(|config| check_config(&shown, config)));
        }
        let Some(path) = self.env.user_config() else { return Ok(ConfigLayer::default()) };
        let shown = path.to_string_lossy();
        let read = read_file(&path, &shown).map(Option::unwrap_or_default);
        self.last_good.or_last_good(&path, read.and_then(|config| check_config(&shown, config)))
    }
}

/// A configuration file as it was read, or its problems.
type ReadConfig = Result<ConfigLayer, Vec<FileProblem>>;

fn check_config(shown: &str, config: ConfigLayer) -> ReadConfig {
    providers::check_providers(shown, &config).map(|()| config)
}

/// The last good forms of configuration files, for a long-running process; other processes keep none. A file breaks
/// while the user is editing it; loops that are due meanwhile still run.
#[derive(Debug, Default, Clone)]
pub(super) struct LastGoodConfigs(pub(super) Option<Arc<Mutex<HashMap<PathBuf, CachedConfig>>>>);

#[derive(Debug)]
pub(super) struct CachedConfig {
    config: ConfigLayer,
    /// The problem of the file as it is now.
    broken: Option<String>,
}

impl LastGoodConfigs {
    /// The configuration that was read. If it is broken, its last good form.
    fn or_last_good(&self, path: &Path, read: ReadConfig) -> ReadConfig {
        let Some(known) = &self.0 else { return read };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match (read, known.get_mut(path)) {
            (Ok(config), _) => {
                known.insert(path.to_owned(), CachedConfig { config: config.clone(), broken: None });
                Ok(config)
            }
            (Err(findings), Some(known)) => {
                known.broken = findings.first().map(FileProblem::one_line);
                Ok(known.config.clone())
            }
            (Err(findings), None) => Err(findings),
        }
    }

    /// The problems of files whose last good form is in use.
    pub(super) fn problems(&self) -> Vec<String> {
        let Some(known) = &self.0 else { return Vec::new() };
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter_map(|known| known.broken.clone()).collect()
    }
}

fn record_findings(found: Vec<FileProblem>, findings: &mut Vec<FileProblem>) -> ConfigLayer {
    findings.extend(found);
    ConfigLayer::default()
}

/// Any committer can change a repository's file, so it cannot set where state is kept: that would move the record, and
/// commands outside the repository would use another state directory. Nor can it lower apparent costs, configure other
/// repositories, or decide where keys are sent.
fn repository_config(work_tree: &Path) -> ReadConfig {
    let config = match read_repo_file(work_tree, REPOSITORY_FILE) {
        Ok(bytes) => parse_file(REPOSITORY_FILE, &bytes)?,
        Err(RepoFileError::NotFound) => ConfigLayer::default(),
        Err(error) => return Err(vec![FileProblem::unreadable(REPOSITORY_FILE, "read configuration", &error)]),
    };
    let findings: Vec<_> = misplaced_keys(&config)
        .map(|(text, hint)| FileProblem::for_file(REPOSITORY_FILE, text).with_hint(hint))
        .collect();
    if findings.is_empty() { Ok(config) } else { Err(findings) }
}

/// Keys that are not allowed in a repository's file, each with a hint.
fn misplaced_keys(config: &ConfigLayer) -> impl Iterator<Item = (String, &'static str)> {
    let place = "put it into your own configuration, or set LOOPWRIGHT_STATE_DIR or LOOPWRIGHT_STORE";
    let own = "put it into your own configuration";
    let fleet = SharedBudget { repo_day: config.budget.repo_day, ..SharedBudget::default() } != config.budget;
    let (limits, hooks) = (config.concurrency != ConcurrencyConfig::default(), !config.webhooks.is_default());
    let receivers = !config.webhooks_out.is_empty();
    let rules = [
        (config.state_dir.is_some(), "`state_dir`: a repository does not decide where state is kept", place),
        (config.store.is_some(), "`store`: a repository does not decide where state is kept", place),
        (!config.prices.is_empty(), "`prices`: a repository does not decide what its own rounds seem to cost", own),
        (fleet, "`budget.fleet`: a repository does not decide about other repositories", own),
        (!config.providers.is_empty(), "`providers`: a repository does not decide where your keys are sent", own),
        (!config.agent_options.is_empty(), "`agent_options`: a repository does not decide how your agents run", own),
        (
            !config.mcp_servers.is_empty(),
            "`mcp_servers`: a repository does not decide which servers your agents start",
            own,
        ),
        (!config.repos.is_empty(), "`repos`: a repository does not decide about other repositories", own),
        (limits, "`concurrency`: a repository does not decide about others", own),
        (!config.logins.is_empty(), "`logins`: a repository does not decide which agents get your sign-in", own),
        (hooks, "`webhooks`: a repository does not decide which senders may start your loops", own),
        (config.web != WebConfig::default(), "`web`: a repository does not decide who reaches your daemon", own),
        (!config.forges.is_empty(), "`forges`: a repository does not decide where your tokens are sent", own),
        (config.slack.is_some(), "`slack`: a repository does not decide where your messages are sent", own),
        (
            !config.notify.is_empty(),
            "`notify`: a repository does not decide who is notified, or which programs run",
            own,
        ),
        (config.telemetry.is_some(), "`telemetry`: a repository does not decide where your data is sent", own),
        (!config.people.is_empty(), "`people`: a repository does not decide whose answers count", own),
        (config.require_promotion.is_some(), "`require_promotion`: a repository does not decide about trust", own),
        (config.demote != DemoteConfig::default(), "`demote`: a repository does not decide about trust", own),
        (config.signing.is_some(), "`signing`: a repository does not decide which key signs your commits", own),
        (receivers, "`webhooks_out`: a repository does not decide where your secrets are used", own),
    ];
    rules.into_iter().filter(|(is_said, ..)| *is_said).map(|(_, text, hint)| (text.to_owned(), hint))
}

fn parse_file(shown: &str, bytes: &[u8]) -> ReadConfig {
    read_config_file(shown, bytes).map_err(|problems| problems.into_iter().map(FileProblem::from).collect())
}

fn read_file(path: &Path, shown: &str) -> Result<Option<ConfigLayer>, Vec<FileProblem>> {
    match read_bytes(path) {
        Ok(bytes) => parse_file(shown, &bytes).map(Some),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(vec![FileProblem::for_file(shown, format!("read configuration: {error}"))]),
    }
}
