//! Built-in probes. Probes about files and branches read git's own files; probes about a forge read it through
//! [`ReadForge`].

use super::outdated::{self, ProbeProgram};
use super::pull_text::pull_text;
use super::{chain, command, followed, forge, open_items, quick};
use crate::autonomy::conflicts;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{RoundBase, UserRepo};
use crate::outbox::{LocalReader, connect_forge};
use crate::store::WorkItemState;
use crate::triggers::{branch_heads, commit_contents};
use loopwright_core::forge::{ForgeError, PullRequest, ReadForge};
use loopwright_core::hash;
use loopwright_core::paths::Globs;
use loopwright_core::round::{ProbeAnswer, ProbeItem};
use loopwright_core::spec::{Ask, LoopSpec, ProbeSpec};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Hex digits of a revision that the engine computes as a hash.
pub(super) const DIGITS: usize = 16;

/// How a probe is answered.
pub(crate) enum ProbeMethod {
    /// The engine has answered it.
    Answered(ProbeAnswer),
    /// A program has to run.
    Program(ProbeProgram),
}

/// The probe of one loop.
pub(crate) struct LoopProbe<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) spec: &'a LoopSpec,
    pub(crate) repo: &'a UserRepo,
    /// A round already knows its base.
    pub(crate) base: Option<&'a RoundBase>,
}

impl LoopProbe<'_> {
    /// Answers the probe, or returns the program to run.
    pub(crate) async fn method(&self) -> Result<ProbeMethod, EngineError> {
        let ask = match &self.spec.on.probe {
            None => return Ok(ProbeMethod::Answered(ProbeAnswer::Work { items: Vec::new() })),
            Some(ProbeSpec::Run { run, items, .. }) => {
                return Ok(ProbeMethod::Program(ProbeProgram::Own { run: run.clone(), items: *items }));
            }
            Some(ProbeSpec::Named(name)) => Ask::new(name),
            Some(ProbeSpec::Ask(ask)) => Ask::clone(ask),
        };
        let answered = match ask.probe.as_str() {
            "commits" => self.commits(&ask).await?,
            "files" => self.files(&ask).await?,
            "open-prs" | "open-issues" | "failing-ci" => self.query_forge(&ask).await?,
            "outdated" => return self.outdated(&ask).await,
            other => command::probe_failed(&format!("`{other}` is not a built-in probe")),
        };
        Ok(ProbeMethod::Answered(answered))
    }

    /// One item: the commit that the branch points to.
    async fn commits(&self, ask: &Ask) -> Result<ProbeAnswer, EngineError> {
        let RoundBase { branch, commit } = self.branch_tip(ask).await?;
        let key = format!("{}@{commit}", branch.as_deref().unwrap_or("HEAD"));
        let row = self.engine.store.item(&self.repo.id, &self.spec.name, &key).await?;
        let known = row.is_some_and(|row| row.state != WorkItemState::Failed);
        let title = match &branch {
            // Git reads the commit's subject only if the item is new.
            Some(branch) if !known => branch_heads(&self.engine.git, self.repo, &BTreeSet::from([branch.as_str()]))
                .await?
                .remove(branch)
                .map(|head| format!("`{branch}` is at {}: {}", &commit.as_str()[..12], head.subject)),
            Some(_) | None => None,
        };
        let chain = if known { 0 } else { chain::after_commit(self.engine, self.repo, &commit).await? };
        Ok(command::checked_items(vec![ProbeItem { key, title, data: None, chain }]))
    }

    /// One item: the content of base at the probe's globs, or else at the loop's.
    async fn files(&self, ask: &Ask) -> Result<ProbeAnswer, EngineError> {
        let patterns = if ask.paths.is_empty() { &self.spec.on.files } else { &ask.paths };
        let Ok(globs) = Globs::new(patterns) else { return Ok(command::probe_failed("`files` holds no globs")) };
        if globs.is_empty() {
            return Ok(command::probe_failed("`probe: files` needs globs in `files:`, and there are none"));
        }
        let commit = self.branch_tip(ask).await?.commit;
        let entries = commit_contents(&self.engine.git, self.repo, commit.as_str()).await?;
        let matching = entries.iter().filter(|(path, _)| globs.matches(path));
        let facts: Vec<String> = matching.map(|(path, oid)| format!("{oid} {path}")).collect();
        let fields: Vec<&[u8]> = facts.iter().map(String::as_bytes).collect();
        let digest = &hash::hash_fields(&fields)[..DIGITS];
        let (key, title) = (format!("files@{digest}"), Some(format!("files changed at {}", patterns.join(", "))));
        let is_new = self.engine.store.item(&self.repo.id, &self.spec.name, &key).await?.is_none();
        let chain = if is_new { chain::after_commit(self.engine, self.repo, &commit).await? } else { 0 };
        Ok(command::checked_items(vec![ProbeItem { key, title, data: None, chain }]))
    }

    async fn query_forge(&self, ask: &Ask) -> Result<ProbeAnswer, EngineError> {
        let forge = match read_forge(self.engine, self.spec, &self.repo.id, &self.repo.work_tree).await {
            Ok(forge) => forge,
            Err(error) => return Ok(command::probe_failed(&format!("`probe: {}`: {error}", ask.probe))),
        };
        let probe = forge::ForgeProbe { engine: self.engine, forge: forge.as_ref(), loop_name: &self.spec.name, ask };
        let tip = ask.branch.as_ref().and_then(|branch| quick::base(self.repo, Some(branch)));
        let items = match ask.probe.as_str() {
            "open-prs" => return self.open_pulls(&probe).await,
            "open-issues" => probe.open_issues().await,
            _ => probe.failing_checks(tip.map(|tip| tip.commit.to_string())).await,
        };
        let mut items = match items {
            Ok(items) => items,
            Err(error) => return Ok(command::probe_failed(&error.to_string())),
        };
        chain::count_commits(self.engine, self.repo, &mut items).await?;
        Ok(command::checked_items(items))
    }

    async fn open_pulls(&self, probe: &forge::ForgeProbe<'_>) -> Result<ProbeAnswer, EngineError> {
        let found = async {
            let pulls = probe.open_pulls().await?;
            let items = pull_items(probe, &pulls).await?;
            Ok::<_, ForgeError>((pulls, items))
        };
        let (pulls, mut items) = match found.await {
            Ok(found) => found,
            Err(error) => return Ok(command::probe_failed(&error.to_string())),
        };
        if probe.ask.follow_own {
            items.extend(self.conflict_items(&pulls).await?);
        }
        let (store, all) = (self.engine.store.as_ref(), command::checked_items(items));
        let open = open_items(store, &self.repo.id, self.spec, all).await?;
        let ProbeAnswer::Work { mut items } = open else { return Ok(open) };
        chain::count_commits(self.engine, self.repo, &mut items).await?;
        let described = described(probe, &pulls, items).await;
        Ok(described.map_or_else(|error| command::probe_failed(&error.to_string()), command::checked_items))
    }

    /// Pull requests of loops that cannot be moved onto their base, which has changed.
    async fn conflict_items(&self, pulls: &[PullRequest]) -> Result<Vec<ProbeItem>, EngineError> {
        let mut items = Vec::new();
        for pull in pulls.iter().filter(|pull| followed::is_of_a_loop(pull)) {
            // A base that this clone does not have says nothing.
            let Ok(base) = self.engine.git.head(self.repo, Some(&pull.base_branch)).await else { continue };
            let spaces = self.engine.workspaces(self.repo.clone()).await?;
            spaces.import(&base.commit).await?;
            let paths = conflicts(&spaces, pull, &base.commit).await.unwrap_or_default();
            items.extend((!paths.is_empty()).then(|| followed::conflict_item(pull, &base.commit, &paths)));
        }
        Ok(items)
    }

    async fn outdated(&self, ask: &Ask) -> Result<ProbeMethod, EngineError> {
        let commit = self.branch_tip(ask).await?.commit;
        let paths = self.engine.git.paths(self.repo, &commit).await?;
        Ok(outdated::program_for_base(&paths, &self.spec.network, &ask.packages)
            .map_or_else(|text| ProbeMethod::Answered(command::probe_failed(&text)), ProbeMethod::Program))
    }

    /// The probe's branch, or else the loop's base: from the round, from git's files, or from git.
    async fn branch_tip(&self, ask: &Ask) -> Result<RoundBase, EngineError> {
        if let Some(base) = self.base.filter(|_| ask.branch.is_none()) {
            return Ok(base.clone());
        }
        let wanted = ask.branch.as_deref().or(self.spec.base.as_deref());
        if let Some(at) = quick::base(self.repo, wanted) {
            return Ok(at);
        }
        let head = self.engine.git.head(self.repo, wanted).await?;
        // Git does not name the branch of a remote; the probe's own name for it is used.
        Ok(RoundBase { branch: head.branch.or_else(|| ask.branch.clone()), ..head })
    }
}

/// The items of open pull requests. Of one that a loop opened, they are what it needs, if the probe follows it.
async fn pull_items(probe: &forge::ForgeProbe<'_>, pulls: &[PullRequest]) -> Result<Vec<ProbeItem>, ForgeError> {
    let mut items = Vec::new();
    for pull in pulls {
        match probe.ask.follow_own && followed::is_of_a_loop(pull) {
            true => items.extend(followed::needs(probe.forge, pull).await?),
            false => items.push(probe.pull_item(pull).await?),
        }
    }
    items.truncate(command::ITEMS_MAX);
    Ok(items)
}

/// The items of a round with their pull requests: only these are read completely, because that takes several requests. A
/// pull request that has several items is described once.
async fn described(
    probe: &forge::ForgeProbe<'_>,
    pulls: &[PullRequest],
    items: Vec<ProbeItem>,
) -> Result<Vec<ProbeItem>, ForgeError> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for mut item in items {
        let pull = pulls.iter().find(|pull| forge::is_about(&item, pull));
        if let Some(pull) = pull.filter(|pull| seen.insert(pull.about.number)) {
            let need = item.data.take().map(|need| format!("{}\n\n", need.trim_end())).unwrap_or_default();
            item.data = Some(format!("{need}{}", pull_text(probe.forge, pull).await?));
        }
        all.push(item);
    }
    Ok(all)
}

/// The forge that a loop names, for reading.
pub(crate) async fn read_forge(
    engine: &Engine,
    spec: &LoopSpec,
    repo_id: &str,
    work_tree: &Path,
) -> Result<Arc<dyn ReadForge>, ForgeError> {
    if spec.forge == "local" {
        return Ok(Arc::new(LocalReader { folder: engine.state_dir.forge(repo_id), git: engine.git.clone() }));
    }
    Ok(connect_forge(engine, spec, work_tree).await.map_err(|error| ForgeError::Refused(error.text))?.read)
}
