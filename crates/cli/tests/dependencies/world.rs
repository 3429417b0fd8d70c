//! A repository with a loop that has a set-up, and the real binary on it.

use loopwright_testkit::{TestEnv, TestRepo};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The repository and its environment.
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo(name);
        Self { env, repo }
    }

    /// Puts the toolchain that builds these tests on the PATH, as a user has it.
    pub(crate) fn with_cargo(name: &str) -> Self {
        let cargo = Path::new(env!("CARGO")).parent().expect("cargo lies in a folder");
        let path = format!("/usr/local/bin:/usr/bin:/bin:{}", cargo.display());
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright")).with_env("PATH", path);
        let repo = env.repo(name);
        Self { env, repo }
    }

    /// Puts programs of the user's home on the PATH.
    pub(crate) fn with_home_programs(name: &str, folder: &str) -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let path = format!("/usr/local/bin:/usr/bin:/bin:{}", env.home().join(folder).display());
        let env = env.with_env("PATH", path);
        let repo = env.repo(name);
        Self { env, repo }
    }

    /// Writes a program or another file of the user's home.
    pub(crate) fn home_file(&self, name: &str, text: &str) {
        let path = self.env.home().join(name);
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
        std::fs::write(&path, text).expect("a file can be written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode can be set");
    }

    /// Writes the loop; its maker and checker follow `s.script`.
    pub(crate) fn loop_file(&self, setup: &str, gate: &str) {
        let agent = "{ use: scripted, script: s.script }";
        let text = format!(
            "---\nname: fix\nintent: Greet the world.\nlevel: L3\noutput: [pull-request]\nallow: [pull-request]\nattempts: 1\n\
             agents:\n  maker: {agent}\n  checker: {agent}\n{setup}\ngates:\n  - {gate}\n---\n\n# Maker\n\nFix it.\n"
        );
        self.repo.write(".loopwright/loops/fix.md", text);
    }

    /// Commits everything with this script, and runs one round.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.repo.write(".loopwright/s.script", script);
        self.repo.commit("base");
        self.run_again()
    }

    /// Runs another round of the committed state, after a person closed the pull requests of earlier rounds: an open change
    /// is not proposed again.
    pub(crate) fn run_again(&self) -> Value {
        self.env.close_pulls();
        let output = self.env.command(self.repo.path()).args(["run", "fix", "--json"]).output().expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
    }

    /// Asserts that the round shipped exactly these changes.
    #[track_caller]
    pub(crate) fn shipped(&self, round: &Value, paths: &[&str]) {
        assert_eq!(round["outcome"], "shipped", "{round:#}");
        let changes = round["changes"].as_array().expect("changes are a list");
        let changed: Vec<_> = changes.iter().filter_map(|change| change["path"].as_str()).collect();
        assert_eq!(changed, paths, "{round:#}");
    }
}
