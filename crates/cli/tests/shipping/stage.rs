//! A repository on a fake forge with a loop that ships to it.

use loopwright_testkit::fake_forge::FakeItem;
use loopwright_testkit::{CommandRun, FakeForge, FakeRepo, TestEnv, TestRepo};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

pub(crate) const NAME: &str = "acme/app";
pub(crate) const PULLS: &str = "/repos/*/*/pulls";
pub(crate) const PUSH: &str = "/acme/app.git/git-receive-pack";

/// A repository whose `origin` is on the fake forge, with a loop that fixes it.
pub(crate) struct ShippingStage {
    kind: &'static str,
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
    pub(crate) forge: FakeForge,
}

impl ShippingStage {
    /// `more` are further lines of the loop file.
    pub(crate) fn new(level: &str, more: &str) -> Self {
        Self::on("github", level, more)
    }

    /// As [`ShippingStage::new`], on a forge of this kind.
    pub(crate) fn on(kind: &'static str, level: &str, more: &str) -> Self {
        let forge = FakeForge::start();
        forge.create_repo(NAME).add_writer("bot");
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let env = {
            let config = env.root().join("config.yaml");
            env.with_env("LOOPWRIGHT_CONFIG", config)
        };
        let repo = env.repo("r");
        repo.write(".loopwright/loops/fix.md", loop_file(level, more)).write("answer", "41\n");
        repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").commit("first");
        repo.git(["remote", "add", "origin", &forge.repo(NAME).clone_url()]);
        forge.repo(NAME).copy_branches_from(repo.path());
        let stage = Self { kind, env, repo, forge };
        stage.configure("").set_token(&stage.forge.token("bot"));
        stage.set_script("one", "");
        stage
    }

    pub(crate) fn configure(&self, more: &str) -> &Self {
        let (url, token) = (self.forge.url(), self.env.root().join("token"));
        let kind = self.kind;
        let text =
            format!("forges:\n  work:\n    kind: {kind}\n    url: {url}\n    token_file: {}\n{more}", token.display());
        std::fs::write(self.env.root().join("config.yaml"), text).expect("a configuration");
        self
    }

    pub(crate) fn set_token(&self, token: &str) -> &Self {
        self.write_secret("token", token);
        self
    }

    /// Writes a file that only its owner can read; returns its path.
    pub(crate) fn write_secret(&self, name: &str, text: &str) -> String {
        let path = self.env.root().join(name);
        std::fs::write(&path, text).expect("a secret");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        path.display().to_string()
    }

    /// The maker fixes the answer and leaves a note, so that two notes are two changes.
    pub(crate) fn set_script(&self, note: &str, more: &str) -> &Self {
        let script = format!(
            "@ maker\nreplace answer \"41\" \"42\"\nwrite note \"{note}\"\nstage pull-request.md \"Fix the answer\\n\\nIt \
             was wrong.\"\n{more}usage input=100 output=20\n\n@ checker\n\
             verdict pass correctness=5@answer:1 scope=5@gate:tests tests=4@gate:tests\n"
        );
        self.repo.write(".loopwright/fix.script", script);
        self
    }

    pub(crate) fn run(&self, words: &[&str]) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), words)
    }

    /// Runs the loop to the question, and returns the round.
    pub(crate) fn escalate(&self) -> String {
        let ran = self.run(&["run", "fix", "--json"]).code(10).json();
        assert_eq!(ran["outcome"], "escalated", "{ran}");
        ran["round"].as_str().expect("a round").to_owned()
    }

    pub(crate) fn approve(&self, round: &str, code: i32) -> Value {
        self.run(&["approve", round, "--json"]).code(code).json()
    }

    pub(crate) fn remote(&self) -> FakeRepo<'_> {
        self.forge.repo(NAME)
    }

    pub(crate) fn open_pulls(&self) -> Vec<FakeItem> {
        self.remote().pulls().into_iter().filter(|pull| pull.open).collect()
    }

    /// From now on, everything is stopped when a push arrives. The forge itself reports that moment: its hook writes the
    /// stop file.
    pub(crate) fn stop_at_push(&self) {
        let (hook, stop) = self.stop_files();
        std::fs::write(&hook, format!("#!/bin/sh\necho enough > '{}'\n", stop.display())).expect("a hook");
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    /// Ends the stop after [`ShippingStage::stop_at_push`].
    pub(crate) fn end_stop(&self) {
        let (hook, stop) = self.stop_files();
        std::fs::remove_file(stop).expect("the stop file");
        std::fs::remove_file(hook).expect("the hook");
    }

    fn stop_files(&self) -> (PathBuf, PathBuf) {
        (self.remote().path().join("hooks/post-receive"), self.env.state().join("STOP"))
    }

    /// The requests that can change something.
    pub(crate) fn writes(&self) -> usize {
        self.forge.requests().iter().filter(|request| request.method != "GET").count()
    }
}

pub(crate) fn loop_file(level: &str, more: &str) -> String {
    format!(
        "---\nname: fix\nintent: Make the answer right.\nlevel: {level}\nforge: work\nagents: {{ maker: {{ use: scripted, \
         script: fix.script }} }}\ngates:\n  - {{ name: tests, run: [./test.sh], red_before: true }}\n{more}---\n# Maker\nFix \
         the answer.\n"
    )
}

pub(crate) const PULL: &str = "output: [pull-request]\n";
pub(crate) const UNATTENDED: &str = "output: [pull-request]\nallow: [pull-request]\n";

/// The texts of the reasons of a round.
pub(crate) fn reasons(report: &Value) -> String {
    report["reasons"].to_string()
}
