//! A small repository in which every document has content: scripted loops that ship, report, are rejected, fail and
//! wait.

use loopwright_testkit::{TestEnv, TestRepo};
use serde_json::Value;

/// A repository with loops, and the binary.
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
}

const GATES: &str = "gates:
  - { name: tests, run: [./test.sh], red_before: true, score: { pattern: 'tests=([0-9]+)', better: higher } }
  - { name: small, diff: { files_max: 3 } }
output: [{ pull-request: {} }]";

const FIX: &str = r#"@ maker
say I will fix the sign
replace calc.sh "$1 - $2" "$1 + $2"
stage pull-request.md "Fix the sign"
usage input=1200 output=300 cache_read=10 cache_write=5

@ checker
verdict pass correctness=5@calc.sh:2 scope=5@gate:small tests=4@item:pull-request.md:1
"#;

const LOOK: &str = r#"@ maker
stage report.md "All is well."
stage memory.jsonl <<END
{"kind": "fact", "key": "sum", "text": "the sum is looked at by hand"}
END
usage none

@ checker
verdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1
"#;

const SLACK: &str = "@ maker\nreplace calc.sh \"echo\" \"printf '%s'\"\n";

const TALK: &str = r#"@ maker
stage issue-comment-7.md "The sign is wrong."

@ checker
verdict escalate correctness=3@item:issue-comment-7.md:1
"#;

impl World {
    /// A repository with a wrong sum, a failing test for it, and four loops.
    pub(crate) fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("repo");
        repo.write("calc.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n");
        repo.write_executable("test.sh", "#!/bin/sh\necho tests=1\n[ \"$(sh calc.sh 2 3)\" = 5 ]\n");
        let world = Self { env, repo };
        world.add("fix", "L2", GATES, FIX);
        world.add("look", "L1", "on: { daily: \"03:00\" }", LOOK);
        world.add("slack", "L2", &format!("attempts: 1\n{GATES}"), SLACK);
        // Without a sandbox there are gaps to report on every machine.
        world.add("talk", "L2", "sandbox: off\noutput: [{ issue-comment: {} }]", TALK);
        world.repo.commit("first");
        world
    }

    fn add(&self, name: &str, level: &str, more: &str, script: &str) {
        let file = format!(
            "---\nname: {name}\nintent: keep the sum right\nlevel: {level}\nagents:\n  \
             maker: {{ use: scripted, script: {name}.script }}\n{more}\n---\n# Maker\nDo it.\n"
        );
        self.repo.write(&format!(".loopwright/loops/{name}.md"), file);
        self.repo.write(&format!(".loopwright/{name}.script"), script);
    }

    /// A loop file that cannot be used.
    pub(crate) fn break_a_loop(&self) {
        self.repo.write(".loopwright/loops/broken.md", "---\nname: broken\nintent: x\nbudjet: 1\n---\n# Maker\nx\n");
    }

    /// The output of a command with `--json`: one document of the present version, and nothing else on standard output.
    #[track_caller]
    pub(crate) fn json(&self, line: &str, code: i32) -> Value {
        let words = line.split(' ').chain(["--json"]);
        let document = self.env.loopwright_in(self.repo.path(), words).code(code).json();
        assert_eq!(document["schema"], 1, "{line}: {document}");
        document
    }

    /// Runs a loop, expects this exit code and returns its document.
    #[track_caller]
    pub(crate) fn run(&self, name: &str, code: i32) -> Value {
        self.json(&format!("run {name}"), code)
    }
}

/// The round that a document describes.
pub(crate) fn round(document: &Value) -> &str {
    document["round"].as_str().expect("a report names its round")
}
