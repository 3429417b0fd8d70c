//! The programs that gates really run, with their versions: found as a round finds them, and asked in the repository, so
//! that version files such as `.python-version` and `rust-toolchain.toml` act as they do in a gate. Only `doctor` and
//! `check LOOP` start programs.

use crate::context::CommandContext;
use loopwright::gates::{self, GateEnv, GateProgram};
use loopwright::git::UserRepo;
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, SpawnRequest, TreeCookie, base_env};
use loopwright::sandbox_view::HiddenPaths;
use loopwright::seam::Seam;
use loopwright::toolchains;
use loopwright_core::spec::{Argv, Gate, LoopSpec, RunGate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest version that is shown.
const VERSION_MAX: usize = 100;

/// The program of one gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GateProgramLine {
    /// The gate.
    pub(crate) gate: String,
    /// The program's path; a path of the repository for a script.
    pub(crate) program: String,
    /// The first line that it prints for its version; `None` for a script, and if it prints none.
    pub(crate) version: Option<String>,
}

impl GateProgramLine {
    /// The line for people.
    pub(crate) fn text(&self) -> String {
        let version = self.version.as_deref().map_or(String::new(), |version| format!(" ({version})"));
        format!("gate `{}` runs {}{version}", self.gate, self.program)
    }
}

/// The programs of a loop's gates.
pub(crate) async fn gate_programs(cx: &CommandContext, repo: &UserRepo, spec: &LoopSpec) -> Vec<GateProgramLine> {
    let path = cx.extra_path(Some(&repo.work_tree));
    let vars = toolchain_vars(cx, repo, spec, &path);
    let env = GateEnv { extra_path: path, ..GateEnv::default() };
    let mut lines = Vec::new();
    for gate in &spec.gates {
        let Gate::Run(run) = gate else { continue };
        lines.push(gate_program(repo, run, &env, &vars).await);
    }
    lines
}

/// The variables by which the programs of version managers find their own files.
fn toolchain_vars(
    cx: &CommandContext,
    repo: &UserRepo,
    spec: &LoopSpec,
    path: &[PathBuf],
) -> BTreeMap<OsString, OsString> {
    let Ok((state, _)) = cx.state_dir() else { return BTreeMap::new() };
    let hidden = HiddenPaths::new(&state, repo, cx.env.home.as_deref());
    let ground = loopwright::path_roots::PathRoots { repo: repo.work_tree.clone(), home: cx.env.home.clone() };
    toolchains::detect(&ground, path, &spec.toolchains, &hidden).map(|tools| tools.env).unwrap_or_default()
}

async fn gate_program(
    repo: &UserRepo,
    gate: &RunGate,
    env: &GateEnv,
    vars: &BTreeMap<OsString, OsString>,
) -> GateProgramLine {
    let name = without_env(&gate.run);
    let line = |program: String, version| GateProgramLine { gate: gate.name.clone(), program, version };
    if name.contains('/') && !name.starts_with('/') {
        return line(name.to_owned(), None);
    }
    match gates::find_installed(name, env) {
        GateProgram::Installed(path) => {
            let version = version(repo, &path, env, vars).await;
            line(path.display().to_string(), version)
        }
        GateProgram::Script(path) => line(path, None),
        GateProgram::Missing(name) => line(format!("{name}, which is not installed"), None),
    }
}

/// The program that `env` starts, or the first word.
fn without_env(run: &Argv) -> &str {
    let first = run.first().map_or("", String::as_str);
    if first != "env" {
        return first;
    }
    let inner = run.iter().skip(1).find(|word| !word.starts_with('-') && !word.contains('='));
    inner.map_or(first, String::as_str)
}

async fn version(
    repo: &UserRepo,
    program: &std::path::Path,
    env: &GateEnv,
    vars: &BTreeMap<OsString, OsString>,
) -> Option<String> {
    let is_go = program.file_name().is_some_and(|name| name == "go");
    let nowhere = std::path::Path::new("/nonexistent");
    let mut spawn = SpawnRequest::new(program, &repo.work_tree, TreeCookie::new("lw-programs"));
    spawn.args = vec![if is_go { "version" } else { "--version" }.into()];
    spawn.env = base_env(nowhere, nowhere, &env.extra_path);
    spawn.env.extend(vars.clone());
    // A question for a version installs nothing.
    spawn.env.insert("RUSTUP_AUTO_INSTALL".into(), "0".into());
    spawn.limits.wall = Some(PATIENCE);
    let ended = ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await.ok()?;
    let texts = [ended.stdout.to_lossy_string(), ended.stderr.to_lossy_string()];
    let line = texts.iter().flat_map(|text| text.lines()).find(|line| !line.trim().is_empty())?;
    let line: String = line.trim().chars().take(VERSION_MAX).collect();
    match ended.how {
        RunEnd::Exited(0) => Some(line),
        // Some shells, and many small programs, know no such option; that says nothing about the gate.
        _ if ["option", "usage", "--version"].iter().any(|word| line.to_lowercase().contains(word)) => None,
        // A shim without the version that the repository asks for says so here.
        _ => Some(format!("does not work: {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_behind_env_is_the_program_of_the_gate() {
        for (run, expected) in [
            ("cargo test", "cargo"),
            ("env .venv/bin/python -m pytest", ".venv/bin/python"),
            ("env --chdir=web CI=1 npm test", "npm"),
            ("env", "env"),
            ("", ""),
        ] {
            let run: Argv = run.split_whitespace().map(str::to_owned).collect();
            assert_eq!(without_env(&run), expected);
        }
    }
}
