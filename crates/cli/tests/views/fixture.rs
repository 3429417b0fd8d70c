//! A repository with scripted loops, and the queries that all tests share.

use loopwright_testkit::{CommandRun, TestEnv, TestRepo};
use serde_json::Value;

/// A test folder with one repository.
pub(crate) struct Place {
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
}

/// A maker that fixes the sum, and a checker that passes it.
pub(crate) const FIX: &str = r#"@ maker
say I will fix the sign
replace calc.sh "$1 - $2" "$1 + $2"
usage input=1200 output=300

@ checker
verdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2
"#;

impl Place {
    /// A repository with a wrong sum and the L2 loop `fix`.
    pub(crate) fn new() -> Self {
        Self::with_env(TestEnv::new(env!("CARGO_BIN_EXE_loopwright")))
    }

    pub(crate) fn with_env(env: TestEnv) -> Self {
        let repo = env.repo("repo");
        let place = Self { env, repo };
        place.repo.write("calc.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n");
        place.add("fix", "L2", "output: [{ pull-request: {} }]", FIX);
        place.repo.commit("first");
        place
    }

    /// Adds a scripted loop.
    pub(crate) fn add(&self, name: &str, level: &str, more: &str, script: &str) -> &Self {
        let file = format!(
            "---\nname: {name}\nintent: keep the sum right\nlevel: {level}\nagents:\n  \
             maker: {{ use: scripted, script: {name}.script }}\n{more}\n---\n# Maker\nDo it.\n"
        );
        self.repo.write(&format!(".loopwright/loops/{name}.md"), file);
        self.repo.write(&format!(".loopwright/{name}.script"), script);
        self
    }

    /// Runs the binary in the repository.
    pub(crate) fn run(&self, line: &str) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), line.split(' '))
    }

    /// Runs the binary and checks only its exit code.
    #[track_caller]
    pub(crate) fn ends(&self, line: &str, code: i32) {
        drop(self.run(line).code(code));
    }

    /// Runs a loop, expects this exit code and returns its round.
    pub(crate) fn round(&self, name: &str, code: i32) -> String {
        let report = self.run(&format!("run {name} --json")).code(code).json();
        report["round"].as_str().expect("a report names its round").to_owned()
    }
}

/// The keys of an object in their order.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}
