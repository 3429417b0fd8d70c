//! The requirements of a loop besides a well-formed file: scripts, skills, a forge that this build has, gate scripts in
//! base.

use super::{CheckedLoopFile, CommandContext, CommandError, FileProblem, ModelAccess, bindings, prompts};
use loopwright::agents::{self, ScriptedAgent};
use loopwright::caches;
use loopwright::gates::{self, GateEnv, GateProgram, HeldoutChecks, ResolveError, ResolvedRun};
use loopwright::git::UserRepo;
use loopwright::path_roots::PathRoots;
use loopwright::proc::trusted_path;
use loopwright::sandbox_view::HiddenPaths;
use loopwright::toolchains::{self, ToolchainError, Toolchains};
use loopwright_core::spec::{AgentUse, LoopSpec, Role, SandboxMode};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The reasons against running a loop, and notes for the user.
#[derive(Debug, Default)]
pub(crate) struct LoopPreflight {
    /// The reasons not to run it.
    pub(crate) problems: Vec<FileProblem>,
    /// Problems on this machine only.
    pub(crate) notes: Vec<String>,
}

/// Facts that the loops of one repository share, so that a check of many loops finds each of them once.
#[derive(Debug, Default)]
pub(crate) struct PreflightCache {
    base_files: BTreeMap<Option<String>, BTreeSet<String>>,
    path: OnceCell<Vec<PathBuf>>,
    toolchains: BTreeMap<Vec<String>, Result<Toolchains, Vec<ToolchainError>>>,
    model_access: OnceCell<ModelAccess>,
    prompt_notes: OnceCell<Vec<String>>,
}

impl PreflightCache {
    /// The files of a base commit.
    async fn base_files(
        &mut self,
        cx: &CommandContext,
        repo: &UserRepo,
        base: Option<&str>,
    ) -> Result<&BTreeSet<String>, CommandError> {
        let key = base.map(str::to_owned);
        if !self.base_files.contains_key(&key) {
            let git = cx.git();
            let head = git.head(repo, base).await?;
            self.base_files.insert(key.clone(), git.paths(repo, &head.commit).await?);
        }
        Ok(&self.base_files[&key])
    }

    fn path(&self, cx: &CommandContext, repo: &UserRepo) -> &[PathBuf] {
        self.path.get_or_init(|| cx.extra_path(Some(&repo.work_tree)))
    }

    /// The toolchains on `PATH` and at the places that a loop declares.
    fn toolchains(
        &mut self,
        declared: &[String],
        ground: &PathRoots,
        path: &[PathBuf],
        keep_out: &HiddenPaths,
    ) -> &Result<Toolchains, Vec<ToolchainError>> {
        let detect = || toolchains::detect(ground, path, declared, keep_out);
        self.toolchains.entry(declared.to_vec()).or_insert_with(detect)
    }

    fn model_notes(&self, cx: &CommandContext, spec: &LoopSpec) -> Result<Vec<String>, CommandError> {
        let access = match self.model_access.get() {
            Some(access) => access,
            None => {
                let read = ModelAccess::read(cx)?;
                self.model_access.get_or_init(|| read)
            }
        };
        Ok(access.notes(spec))
    }
}

impl LoopPreflight {
    /// All reasons against running a loop, at once.
    pub(crate) async fn check(
        cx: &CommandContext,
        repo: &UserRepo,
        file: &CheckedLoopFile,
        cache: &mut PreflightCache,
    ) -> Result<Self, CommandError> {
        let spec = file.spec.spec();
        let mut found = Self { problems: check_scripts(spec, &repo.work_tree, &file.file), notes: Vec::new() };
        found.problems.extend(check_skills(spec, &repo.work_tree, &file.file));
        found.check_gate_programs(cx, repo, file, cache).await?;
        found.check_outside_paths(cx, repo, file, cache)?;
        found.check_forge(cx, repo, file).await?;
        found.notes.extend(check_agent_programs(cx, repo, spec, cache).await?);
        found.notes.extend(cache.model_notes(cx, spec)?);
        found.notes.extend(cache.prompt_notes.get_or_init(|| prompts::prompt_notes(&repo.work_tree)).iter().cloned());
        Ok(found)
    }

    /// Paths outside the repository that are missing, or that a role may not see.
    fn check_outside_paths(
        &mut self,
        cx: &CommandContext,
        repo: &UserRepo,
        file: &CheckedLoopFile,
        cache: &mut PreflightCache,
    ) -> Result<(), CommandError> {
        let (spec, ground) = (&file.spec, PathRoots { repo: repo.work_tree.clone(), home: cx.env.home.clone() });
        let path = cache.path(cx, repo).to_vec();
        let keep_out = HiddenPaths::new(&cx.state_dir()?.0, repo, cx.env.home.as_deref());
        let tools = cache.toolchains(&spec.toolchains, &ground, &path, &keep_out);
        if spec.sandbox == SandboxMode::On {
            self.notes.extend(tools.iter().flat_map(|tools| tools.left_out.clone()));
        }
        let shown = tools.as_ref().map(|tools| tools.shown.clone()).unwrap_or_default();
        let tools = tools.as_ref().err().map(Vec::as_slice).unwrap_or_default();
        let env = GateEnv { extra_path: path, ..GateEnv::default() };
        let checks = HeldoutChecks::read(spec, &ground, &env, &shown).err().unwrap_or_default();
        let stores = caches::find(&ground, &spec.caches, &BTreeSet::new(), &keep_out).err().unwrap_or_default();
        let errors = tools.iter().map(|error| (error.to_string(), error.hint, &error.path));
        let errors = errors.chain(stores.iter().map(|error| (error.to_string(), error.hint, &error.path)));
        let errors = errors.chain(checks.iter().map(|error| (error.to_string(), error.hint, &error.path)));
        let text = super::read_bytes(&repo.work_tree.join(&file.file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let finding = |(what, hint, path): (String, &str, &String)| {
            FileProblem::for_file(&file.file, what).with_hint(hint).located_at(&text, path)
        };
        self.problems.extend(errors.map(finding));
        Ok(())
    }

    /// Gate scripts come from base, so a script that base does not have can never run.
    async fn check_gate_programs(
        &mut self,
        cx: &CommandContext,
        repo: &UserRepo,
        file: &CheckedLoopFile,
        cache: &mut PreflightCache,
    ) -> Result<(), CommandError> {
        let spec = &file.spec;
        if spec.gates.is_empty() {
            return Ok(());
        }
        let extra_path = cache.path(cx, repo).to_vec();
        let paths = cache.base_files(cx, repo, spec.base.as_deref()).await?;
        let env = GateEnv { extra_path, ..GateEnv::default() };
        match gates::resolve(&spec.gates, paths, &env) {
            Ok(resolved) => self.notes.extend(resolved.runs().filter_map(not_installed)),
            Err(errors) => self.problems.extend(errors.iter().map(|error| gate_script(error, &file.file))),
        }
        Ok(())
    }
}

/// Programs of agents that a round would not find. These are only notes: `setup` may install them, or another
/// machine may have them.
async fn check_agent_programs(
    cx: &CommandContext,
    repo: &UserRepo,
    spec: &LoopSpec,
    cache: &mut PreflightCache,
) -> Result<Vec<String>, CommandError> {
    let path = cache.path(cx, repo).to_vec();
    let mut missing: Vec<String> = spec
        .agents
        .iter()
        .filter_map(|(role, agent)| {
            let hint = agents::install_hint(agent.agent)?;
            let there = agents::find(agent.agent, &path, Some(&repo.work_tree)).is_some();
            let (role, name) = (role.word(), agent.agent.word());
            (!there).then(|| format!("agent of the {role}: `{name}` is not installed on this machine; {hint}"))
        })
        .collect();
    let commands = spec.agents.iter().filter(|(_, agent)| agent.agent == AgentUse::Command);
    let programs: Vec<_> = commands.filter_map(|(role, agent)| Some((role.word(), agent.run.first()?))).collect();
    if programs.is_empty() {
        return Ok(missing);
    }
    let paths = cache.base_files(cx, repo, spec.base.as_deref()).await?;
    let folders: Vec<PathBuf> = std::env::split_paths(trusted_path()).chain(path).collect();
    let note = |(role, program): (&str, &String)| match program.strip_prefix("./").unwrap_or(program) {
        inside if program.contains('/') && !program.starts_with('/') => (!paths.contains(inside)).then(|| {
            format!("agent of the {role}: `{program}` is not committed, and a round works on a copy of the commit")
        }),
        // Joining to an absolute name yields that name.
        name => (!folders.iter().any(|folder| folder.join(name).is_file()))
            .then(|| format!("agent of the {role}: `{program}` is not installed on this machine")),
    };
    missing.extend(programs.into_iter().filter_map(note));
    Ok(missing)
}

fn not_installed(run: &ResolvedRun) -> Option<String> {
    let GateProgram::Missing(name) = &run.program else { return None };
    Some(format!("gate `{}`: `{name}` is not installed on this machine", run.gate.name))
}

fn gate_script(error: &ResolveError, file: &str) -> FileProblem {
    let finding = FileProblem::for_file(file, error.to_string());
    match error {
        ResolveError::NotInBase(_) => finding.with_hint("commit the script; gates run what base has"),
        ResolveError::Outside(_) | ResolveError::Empty(_) => finding,
    }
}

fn check_scripts(spec: &LoopSpec, work_tree: &Path, file: &str) -> Vec<FileProblem> {
    let all = spec.agents.iter().flat_map(|(role, agent)| agent.chain().into_iter().map(|agent| (*role, agent)));
    let named = all.filter(|(_, agent)| agent.agent == AgentUse::Scripted);
    let paths = named.filter_map(|(role, agent)| Some((role, bindings::script_path(&agent, work_tree)?)));
    paths.filter_map(|(role, path)| script(role, &path, work_tree, file)).collect()
}

fn script(role: Role, path: &Path, work_tree: &Path, file: &str) -> Option<FileProblem> {
    let role = role.word();
    let shown = path.strip_prefix(work_tree).unwrap_or(path).display();
    let text = match super::read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) {
        Ok(text) => text,
        Err(error) => {
            let finding = FileProblem::for_file(file, format!("script of the {role} `{shown}`: {error}"));
            return Some(finding.with_hint("`script:` is relative to `.loopwright/`"));
        }
    };
    let error = ScriptedAgent::check(&text).err()?;
    Some(FileProblem::for_file(file, format!("script of the {role} `{shown}`: {error}")))
}

fn check_skills(spec: &LoopSpec, work_tree: &Path, file: &str) -> Vec<FileProblem> {
    let folder = work_tree.join(".loopwright").join("skills");
    let missing = spec.skills.iter().filter(|name| !folder.join(name).is_file());
    let finding = |name: &String| {
        FileProblem::for_file(file, format!("skill `{name}` is not in .loopwright/skills/"))
            .with_hint("write it, or take it out of `skills`")
    };
    missing.map(finding).collect()
}
