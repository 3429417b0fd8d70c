//! The facts that the checks of all loops of one repository share: each is found once, whatever the number of loops.
//! It checks nothing itself.

use super::{AgentDefaults, CheckedLoopFile, CommandContext, CommandError, FileProblem, ModelAccess};
use loopwright::agents;
use loopwright::gates::{self, GateEnv, GateProgram};
use loopwright::git::{GitError, GitErrorKind, UserRepo};
use loopwright::path_roots::PathRoots;
use loopwright::sandbox_view::HiddenPaths;
use loopwright::toolchains::{self, ToolchainError, Toolchains};
use loopwright_core::config::EffectiveConfig;
use loopwright_core::spec::{AgentUse, CheckedSpec, LoopSpec};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// Facts that the loops of one repository share, so that a check of many loops finds each of them once.
pub(crate) struct PreflightCache<'c> {
    pub(super) cx: &'c CommandContext,
    pub(super) repo: &'c UserRepo,
    /// `None` if the configuration is broken, which the caller reports.
    pub(super) config: Option<EffectiveConfig>,
    agents: Option<AgentDefaults<'c>>,
    pub(super) hidden: HiddenPaths,
    pub(super) gate_env: GateEnv,
    pub(super) base_files: BTreeMap<Option<String>, BTreeSet<String>>,
    /// Those of them that are links or submodules.
    pub(super) base_links: BTreeMap<Option<String>, BTreeSet<String>>,
    programs: BTreeMap<String, GateProgram>,
    /// Whether the program of an agent is installed, by its word.
    installed_agents: BTreeMap<&'static str, bool>,
    toolchains: BTreeMap<Vec<String>, Result<Toolchains, Vec<ToolchainError>>>,
    model_access: OnceCell<ModelAccess>,
    pub(super) prompt_notes: OnceCell<Vec<String>>,
    /// The address of the repository's remote.
    origin: Option<Option<String>>,
    /// The note about a forge's credential on this machine, by the forge.
    pub(super) credential_notes: BTreeMap<String, Option<String>>,
}

impl<'c> PreflightCache<'c> {
    /// The facts of a repository as they are now.
    pub(crate) fn new(cx: &'c CommandContext, repo: &'c UserRepo) -> Result<Self, CommandError> {
        let state = cx.state_dir()?.0;
        let extra_path = cx.extra_path(Some(&repo.work_tree));
        Ok(Self {
            cx,
            repo,
            config: cx.try_config(Some(&repo.work_tree)).ok(),
            agents: AgentDefaults::read(cx, &repo.work_tree).ok(),
            hidden: HiddenPaths::new(&state, repo, cx.env.home.as_deref()),
            gate_env: GateEnv { extra_path, ..GateEnv::default() },
            base_files: BTreeMap::new(),
            base_links: BTreeMap::new(),
            programs: BTreeMap::new(),
            installed_agents: BTreeMap::new(),
            toolchains: BTreeMap::new(),
            model_access: OnceCell::new(),
            prompt_notes: OnceCell::new(),
            origin: None,
            credential_notes: BTreeMap::new(),
        })
    }

    /// The loop as a round would run it. With a broken configuration it stays as its file is.
    pub(crate) fn with_configured_agents(&self, spec: &CheckedSpec) -> CheckedSpec {
        let completed = self.agents.as_ref().map(|agents| agents.complete(spec.clone()));
        completed.and_then(Result::ok).unwrap_or_else(|| spec.clone())
    }

    /// The address of the repository's remote.
    pub(super) async fn origin(&mut self) -> Result<Option<String>, CommandError> {
        if let Some(known) = &self.origin {
            return Ok(known.clone());
        }
        let origin = self.cx.git().origin_url(self.repo).await?;
        Ok(self.origin.insert(origin).clone())
    }

    /// The text of a loop file, to find a line in it.
    pub(super) fn text(&self, file: &CheckedLoopFile) -> String {
        let text = super::read_repo_file(&self.repo.work_tree, &file.file).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The problem of a loop whose base does not exist; no round of it would start.
    pub(super) async fn unknown_base(&mut self, file: &CheckedLoopFile) -> Result<Option<FileProblem>, CommandError> {
        let base = file.spec.base.as_deref();
        let error = match self.base_files(base).await {
            Ok(_) => return Ok(None),
            Err(error) if error.kind == GitErrorKind::UnknownRef => error,
            Err(error) => return Err(error.into()),
        };
        let text = format!("base `{}` does not exist in this repository", base.unwrap_or_default());
        let problem = FileProblem::for_file(&file.file, text).with_hint(error.hint().unwrap_or_default());
        Ok(Some(problem.located_at(&self.text(file), "base:")))
    }

    /// The files of a base commit.
    pub(super) async fn base_files(&mut self, base: Option<&str>) -> Result<&BTreeSet<String>, GitError> {
        let key = base.map(str::to_owned);
        if !self.base_files.contains_key(&key) {
            let git = self.cx.git();
            let head = git.head(self.repo, base).await?;
            let files = git.tree(self.repo, &head.commit).await?;
            let links = files.iter().filter(|file| !file.is_file()).map(|file| file.path.clone());
            self.base_links.insert(key.clone(), links.collect());
            self.base_files.insert(key.clone(), files.into_iter().map(|file| file.path).collect());
        }
        Ok(&self.base_files[&key])
    }

    /// The program of this machine that has a name.
    pub(super) fn program(&mut self, word: &str) -> GateProgram {
        if let Some(known) = self.programs.get(word) {
            return known.clone();
        }
        let found = gates::find_installed(word, &self.gate_env);
        self.programs.insert(word.to_owned(), found.clone());
        found
    }

    /// Whether the program of an agent is installed.
    pub(super) fn has_agent(&mut self, agent: AgentUse) -> bool {
        let find = || agents::find(agent, &self.gate_env.extra_path, Some(&self.repo.work_tree)).is_some();
        *self.installed_agents.entry(agent.word()).or_insert_with(find)
    }

    /// The toolchains on `PATH` and at the places that a loop declares.
    pub(super) fn toolchains(
        &mut self,
        declared: &[String],
        ground: &PathRoots,
    ) -> &Result<Toolchains, Vec<ToolchainError>> {
        let detect = || toolchains::detect(ground, &self.gate_env.extra_path, declared, &self.hidden);
        self.toolchains.entry(declared.to_vec()).or_insert_with(detect)
    }

    pub(super) fn model_notes(&self, spec: &LoopSpec) -> Result<Vec<String>, CommandError> {
        let access = match self.model_access.get() {
            Some(access) => access,
            None => {
                let read = ModelAccess::read(self.cx)?;
                self.model_access.get_or_init(|| read)
            }
        };
        Ok(access.notes(spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::GlobalFlags;
    use crate::context::CommandEnvironment;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn install(folder: &Path, name: &str) {
        let file = folder.join(name);
        std::fs::write(&file, "").expect("a file can be written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a mode can be set");
    }

    #[test]
    fn facts_of_a_machine_are_found_once_for_all_loops() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        ["bin", "repo/.loopwright"].iter().for_each(|name| std::fs::create_dir_all(at(name)).expect("a folder"));
        let env = CommandEnvironment {
            cwd: at("repo"),
            state_dir: Some(at("state")),
            home: Some(at("home")),
            path: at("bin").into(),
            ..CommandEnvironment::default()
        };
        let cx = CommandContext::new(env, GlobalFlags::default());
        let repo = UserRepo {
            id: "repo".to_owned(),
            work_tree: at("repo"),
            git_dir: at("repo/.git"),
            common_dir: at("repo/.git"),
            format: loopwright::git::ObjectFormat::Sha1,
        };
        let mut cache = PreflightCache::new(&cx, &repo).expect("no configuration, no problem");
        let ground = PathRoots { repo: at("repo"), home: Some(at("home")) };
        let config = at("repo/.loopwright/config.yaml");
        let mut facts = || {
            let program = cache.program("lw-no-such-program");
            let agents = (cache.has_agent(AgentUse::Claude), cache.has_agent(AgentUse::Codex));
            let tools =
                cache.toolchains(&[], &ground).clone().map(|tools| tools.shown.len()).map_err(|errors| errors.len());
            (program, agents, tools, cache.config.is_some())
        };
        let before = facts();
        assert_eq!(before.0, GateProgram::Missing("lw-no-such-program".to_owned()));
        // Another search would find these; a search for each of 10,000 loops took minutes.
        ["lw-no-such-program", "claude", "codex", "rustup"].iter().for_each(|name| install(&at("bin"), name));
        std::fs::write(config, "no: such: key").expect("a file can be written");
        assert_eq!(facts(), before);
        let again = PreflightCache::new(&cx, &repo)
            .expect("a broken configuration is reported elsewhere")
            .program("lw-no-such-program");
        assert_eq!(
            again,
            GateProgram::Installed(at("bin").join("lw-no-such-program")),
            "the next command searches again"
        );
    }
}
