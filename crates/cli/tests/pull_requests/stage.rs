//! A repository whose `origin` is on the fake forge, with the loops of a test.

use loopwright_testkit::{CommandRun, FakeForge, FakeRepo, TestEnv, TestRepo};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;

const NAME: &str = "acme/app";

/// The repository, the forge and the program.
pub(super) struct PullStage {
    pub(super) env: TestEnv,
    pub(super) repo: TestRepo,
    pub(super) forge: FakeForge,
}

impl PullStage {
    pub(super) fn new() -> Self {
        let forge = FakeForge::start();
        forge.create_repo(NAME).add_writer("bot");
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let (config, token) = (env.root().join("config.yaml"), env.root().join("token"));
        std::fs::write(&token, forge.token("bot")).expect("a token");
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        let text =
            format!("forges:\n  work: {{ kind: github, url: {}, token_file: {} }}\n", forge.url(), token.display());
        std::fs::write(&config, text).expect("a configuration");
        let env = env.with_env("LOOPWRIGHT_CONFIG", config);
        let repo = env.repo("r");
        repo.write("answer", "41\n").write("notes", "one\n");
        repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").commit("first");
        repo.git(["remote", "add", "origin", &forge.repo(NAME).clone_url()]);
        Self { env, repo, forge }
    }

    /// Commits a loop and pushes the repository.
    pub(super) fn with_loop(self, name: &str, text: &str) -> Self {
        self.repo.write(&format!(".loopwright/loops/{name}.md"), text).commit("a loop");
        self.push();
        self
    }

    /// A person pushes the branches of the clone.
    pub(super) fn push(&self) {
        self.remote().copy_branches_from(self.repo.path());
    }

    pub(super) fn remote(&self) -> FakeRepo<'_> {
        self.forge.repo(NAME)
    }

    pub(super) fn run(&self, words: &[&str]) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), words)
    }

    pub(super) fn json(&self, words: &[&str], code: i32) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        self.run(&words).code(code).json()
    }
}
