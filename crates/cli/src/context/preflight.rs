//! The requirements of a loop besides a well-formed file: scripts, skills, a forge that this build has, gate scripts in
//! base.

use super::repo_loops::SKILLS_FOLDER;
use super::{CheckedLoopFile, CommandError, FileProblem, PreflightCache, bindings, prompts, read_repo_file};
use crate::verbs::programs::GateProgramLine;
use loopwright::agents::{self, ScriptedAgent, ToolGround};
use loopwright::caches;
use loopwright::gates::{self, GateProgram, HeldoutChecks, ResolveError, ResolvedRun};
use loopwright::path_roots::PathRoots;
use loopwright::repo_file::RepoFileError;
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::{AgentSpec, AgentUse, LoopSpec, ProbeSpec, Role, SandboxMode};
use std::collections::BTreeSet;
use std::path::Path;

/// The reasons against running a loop, and notes for the user.
#[derive(Debug, Default)]
pub(crate) struct LoopPreflight {
    /// The reasons not to run it.
    pub(crate) problems: Vec<FileProblem>,
    /// Problems on this machine only.
    pub(crate) notes: Vec<String>,
    /// The programs of the gates, if they were started to print their versions.
    pub(crate) programs: Vec<GateProgramLine>,
}

impl LoopPreflight {
    /// All reasons against running a loop, at once.
    pub(crate) async fn check(file: &CheckedLoopFile, cache: &mut PreflightCache<'_>) -> Result<Self, CommandError> {
        let (spec, tree) = (file.spec.spec(), &cache.repo.work_tree);
        let mut found = Self { problems: check_scripts(spec, tree, &file.file), ..Self::default() };
        found.problems.extend(check_skills(spec, tree, &file.file));
        found.problems.extend(check_agents(spec, &file.file));
        found.problems.extend(file.spec.notes().iter().map(|note| FileProblem::for_file(&file.file, note.clone())));
        match cache.unknown_base(file).await? {
            Some(problem) => found.problems.push(problem),
            None => {
                found.problems.extend(check_base_files(file, cache).await?);
                found.check_gate_programs(file, cache).await?;
                found.notes.extend(check_agent_programs(spec, cache).await?);
            }
        }
        found.check_outside_paths(file, cache);
        found.check_forge(file, cache).await?;
        found.notes.extend(cache.model_notes(spec)?);
        found.notes.extend(cache.prompt_notes.get_or_init(|| prompts::prompt_notes(tree)).iter().cloned());
        Ok(found)
    }

    /// Paths outside the repository that are missing, or that a role may not see.
    fn check_outside_paths(&mut self, file: &CheckedLoopFile, cache: &mut PreflightCache<'_>) {
        let home = cache.cx.env.home.clone();
        let (spec, ground) = (&file.spec, PathRoots { repo: cache.repo.work_tree.clone(), home });
        let tools = cache.toolchains(&spec.toolchains, &ground);
        if spec.sandbox == SandboxMode::On {
            self.notes.extend(tools.iter().flat_map(|tools| tools.left_out.clone()));
        }
        let shown = tools.as_ref().map(|tools| tools.shown.clone()).unwrap_or_default();
        let tools = tools.as_ref().err().cloned().unwrap_or_default();
        let checks = HeldoutChecks::read(spec, &ground, &cache.gate_env, &shown).err().unwrap_or_default();
        let stores = caches::find(&ground, &spec.caches, &BTreeSet::new(), &cache.hidden).err().unwrap_or_default();
        if tools.is_empty() && checks.is_empty() && stores.is_empty() {
            return;
        }
        let errors = tools.iter().map(|error| (error.to_string(), error.hint, &error.path));
        let errors = errors.chain(stores.iter().map(|error| (error.to_string(), error.hint, &error.path)));
        let errors = errors.chain(checks.iter().map(|error| (error.to_string(), error.hint, &error.path)));
        let text = cache.text(file);
        let finding = |(what, hint, path): (String, &str, &String)| {
            FileProblem::for_file(&file.file, what).with_hint(hint).located_at(&text, path)
        };
        self.problems.extend(errors.map(finding));
    }

    /// Gate scripts come from base, so a script that base does not have can never run.
    async fn check_gate_programs(
        &mut self,
        file: &CheckedLoopFile,
        cache: &mut PreflightCache<'_>,
    ) -> Result<(), CommandError> {
        let spec = &file.spec;
        let all = spec.gates_and_exercise();
        if all.is_empty() {
            return Ok(());
        }
        cache.base_files(spec.base.as_deref()).await?;
        let base_files = std::mem::take(&mut cache.base_files);
        let paths = &base_files[&spec.base];
        let resolved = gates::resolve_with(&all, paths, &mut |word| cache.program(word));
        cache.base_files = base_files;
        match resolved {
            Ok(resolved) => self.notes.extend(resolved.runs().filter_map(not_installed)),
            Err(errors) => {
                let text = cache.text(file);
                self.problems.extend(errors.iter().map(|error| gate_script(error, &file.file, &text)));
            }
        }
        Ok(())
    }
}

/// Programs of agents that a round would not find. These are only notes: `setup` may install them, or another
/// machine may have them.
async fn check_agent_programs(spec: &LoopSpec, cache: &mut PreflightCache<'_>) -> Result<Vec<String>, CommandError> {
    let mut missing: Vec<String> = spec
        .agents
        .iter()
        .filter_map(|(role, agent)| {
            let hint = agents::install_hint(agent.agent)?;
            let there = cache.has_agent(agent.agent);
            let (role, name) = (role.word(), agent.agent.word());
            (!there).then(|| format!("agent of the {role}: `{name}` is not installed on this machine; {hint}"))
        })
        .collect();
    let commands = spec.agents.iter().filter(|(_, agent)| agent.agent == AgentUse::Command);
    let programs: Vec<_> = commands.filter_map(|(role, agent)| Some((role.word(), agent.run.first()?))).collect();
    if programs.is_empty() {
        return Ok(missing);
    }
    cache.base_files(spec.base.as_deref()).await?;
    for (role, program) in programs {
        let inside = program.strip_prefix("./").unwrap_or(program);
        let is_path = program.contains('/') && !program.starts_with('/');
        if is_path && !cache.base_files[&spec.base].contains(inside) {
            missing.push(format!(
                "agent of the {role}: `{program}` is not committed, and a round works on a copy of the commit"
            ));
        }
        if !is_path && matches!(cache.program(program), GateProgram::Missing(_)) {
            missing.push(format!("agent of the {role}: `{program}` is not installed on this machine"));
        }
    }
    Ok(missing)
}

fn not_installed(run: &ResolvedRun) -> Option<String> {
    let GateProgram::Missing(name) = &run.program else { return None };
    Some(format!("gate `{}`: `{name}` is not installed on this machine", run.gate.name))
}

fn gate_script(error: &ResolveError, file: &str, text: &str) -> FileProblem {
    let finding = FileProblem::for_file(file, error.to_string());
    match error {
        ResolveError::NotInBase(path) => {
            finding.with_hint("commit the script; gates run what base has").located_at(text, path)
        }
        ResolveError::Outside(path) => finding.with_hint("name a script of the repository").located_at(text, path),
        ResolveError::Empty(name) => finding.with_hint("write `run: [PROGRAM, ARGUMENT]`").located_at(text, name),
    }
}

fn check_scripts(spec: &LoopSpec, work_tree: &Path, file: &str) -> Vec<FileProblem> {
    let all = spec.agents.iter().flat_map(|(role, agent)| agent.chain().into_iter().map(|agent| (*role, agent)));
    let named = all.filter(|(_, agent)| agent.agent == AgentUse::Scripted);
    let paths = named.filter_map(|(role, agent)| Some((role, bindings::script_path(&agent)?)));
    paths.filter_map(|(role, path)| script(role, &path, work_tree, file)).collect()
}

/// Agents that would not start: lists of tools that they cannot keep or would ignore, and a model that is missing.
fn check_agents(spec: &LoopSpec, file: &str) -> Vec<FileProblem> {
    let roles = Role::ALL.into_iter().filter(|role| spec.plays(*role));
    let agents = roles.flat_map(|role| spec.chain(role).into_iter().map(move |agent| (role, agent)));
    let problem = |(role, agent): (Role, AgentSpec)| {
        let ground = match (spec.sandbox, role, spec.level) {
            (SandboxMode::Off, ..) => ToolGround::Open,
            (SandboxMode::On, Role::Maker, LoopLevel::L2Assisted | LoopLevel::L3Unattended) => ToolGround::Writable,
            (SandboxMode::On, ..) => ToolGround::ReadOnly,
        };
        let error = agents::check_agent(&agent, role, ground).err()?;
        let finding = FileProblem::for_file(file, format!("agent of the {}: {error}", role.word()));
        Some(match error.hint() {
            Some(hint) => finding.with_hint(hint),
            None => finding,
        })
    };
    let mut found: Vec<FileProblem> = agents.filter_map(problem).collect();
    found.dedup_by(|a, b| a.text == b.text);
    found
}

fn script(role: Role, path: &Path, work_tree: &Path, file: &str) -> Option<FileProblem> {
    let role = role.word();
    let shown = path.display();
    let text = match read_repo_file(work_tree, path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) {
        Ok(text) => text,
        Err(error) => {
            let finding = FileProblem::for_file(file, format!("script of the {role} `{shown}`: {error}"));
            return Some(finding.with_hint(error.hint().unwrap_or("`script:` is relative to `.loopwright/`")));
        }
    };
    let error = ScriptedAgent::check(&text).err()?;
    Some(FileProblem::for_file(file, format!("script of the {role} `{shown}`: {error}")))
}

/// Context files come from base, so a file that base does not have is never shown; and a probe for newer versions of
/// base's dependencies needs the network.
async fn check_base_files(
    file: &CheckedLoopFile,
    cache: &mut PreflightCache<'_>,
) -> Result<Vec<FileProblem>, CommandError> {
    let spec = &file.spec;
    let asks_registry = match &spec.on.probe {
        Some(ProbeSpec::Named(name)) => name == "outdated",
        Some(ProbeSpec::Ask(ask)) => ask.probe == "outdated",
        Some(ProbeSpec::Run { .. }) | None => false,
    };
    let is_cut_off = asks_registry && spec.network.is_empty();
    if spec.context.is_empty() && !is_cut_off {
        return Ok(Vec::new());
    }
    let _listed = cache.base_files(spec.base.as_deref()).await?;
    let (paths, links) = (&cache.base_files[&spec.base], &cache.base_links[&spec.base]);
    let unusable = spec.context.iter().filter_map(|name| {
        let (text, hint) = match (paths.contains(name), links.contains(name)) {
            (true, false) => return None,
            (false, _) => ("is not in base", "commit it, or take it out of `context`"),
            (true, true) => {
                ("is not a plain file in base", "commit a plain file, or name the file that the link names")
            }
        };
        Some(FileProblem::for_file(&file.file, format!("context file `{name}` {text}")).with_hint(hint))
    });
    let mut problems: Vec<FileProblem> = unusable.collect();
    if is_cut_off && ["Cargo.toml", "package.json", "go.mod"].iter().any(|name| paths.contains(*name)) {
        let text = "`probe: outdated` queries a package registry, and the loop has no network";
        let hint = "name the hosts of the registry under `network:`";
        problems.push(FileProblem::for_file(&file.file, text).with_hint(hint));
    }
    Ok(problems)
}

fn check_skills(spec: &LoopSpec, work_tree: &Path, file: &str) -> Vec<FileProblem> {
    let finding = |name: &String| {
        let error = read_repo_file(work_tree, Path::new(SKILLS_FOLDER).join(name)).err()?;
        Some(match error {
            RepoFileError::NotFound => {
                FileProblem::for_file(file, format!("skill `{name}` is not in {SKILLS_FOLDER}/"))
                    .with_hint("write it, or take it out of `skills`")
            }
            other => FileProblem::unreadable(file, &format!("read skill `{name}`"), &other),
        })
    };
    spec.skills.iter().filter_map(finding).collect()
}
