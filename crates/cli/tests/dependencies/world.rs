//! A repository with a loop that prepares it, and the real binary on it.

use loopwright_testkit::{TestEnv, TestRepo};
use serde_json::Value;
use std::path::Path;

/// The repository and where it runs.
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

    /// With the toolchain that builds these tests on the PATH, as a user has it.
    pub(crate) fn with_cargo(name: &str) -> Self {
        let cargo = Path::new(env!("CARGO")).parent().expect("cargo lies in a folder");
        let path = format!("/usr/local/bin:/usr/bin:/bin:{}", cargo.display());
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright")).with_env("PATH", path);
        let repo = env.repo(name);
        Self { env, repo }
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

    /// One more round of what is committed.
    pub(crate) fn run_again(&self) -> Value {
        let output = self.env.command(self.repo.path()).args(["run", "fix", "--json"]).output().expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
    }

    /// The round shipped exactly these changes.
    #[track_caller]
    pub(crate) fn shipped(&self, round: &Value, paths: &[&str]) {
        assert_eq!(round["outcome"], "shipped", "{round:#}");
        let changes = round["changes"].as_array().expect("changes are a list");
        let changed: Vec<_> = changes.iter().filter_map(|change| change["path"].as_str()).collect();
        assert_eq!(changed, paths, "{round:#}");
    }
}
