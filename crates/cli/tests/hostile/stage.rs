//! The stage: a repository with a bug, a loop at L3 that would ship automatically, and the checks after each round.
//!
//! The loop is at L3 on purpose: a lie that gets past the engine is delivered there, and no human hides it.

use loopwright_testkit::{TestEnv, TestRepo, TreeDigest};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

/// Fixes the bug.
pub(crate) const FIX: &str = "replace calc.sh \"- $2\" \"+ $2\"\n";

/// A checker that passes the fix.
pub(crate) const PASS: &str = "@ checker\nverdict pass correctness=5@calc.sh:1 scope=5@gate:tests tests=4@gate:tests\n";

/// The same without its header.
pub(crate) const PASS_STEPS: &str = "verdict pass correctness=5@calc.sh:1 scope=5@gate:tests tests=4@gate:tests";

/// The honest gate.
pub(crate) const TESTS: &str = "{ name: tests, run: [sh, check.sh] }";

/// A case under construction: the base commit, the loop and the script.
pub(crate) struct Stage {
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
    level: &'static str,
    output: String,
    gates: Vec<String>,
    extra: Vec<String>,
}

impl Stage {
    /// A repository whose one function subtracts instead of adding, with a test that says so.
    pub(crate) fn new() -> Self {
        Self::named("project")
    }

    /// The same in a folder of this name.
    pub(crate) fn named(folder: &str) -> Self {
        let env = TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo(folder);
        repo.write("calc.sh", "add() { echo $(($1 - $2)); }\n")
            .write("tests/test_add.sh", "test_add() {\n  test \"$(add 2 3)\" = 5\n}\n. ./calc.sh\ntest_add\n")
            .write("check.sh", "set -e\nfor t in tests/test_*.sh; do sh \"$t\"; done\necho 1 passed\n")
            .write("README.md", "A calculator.\n");
        Self {
            env,
            repo,
            level: "L3",
            output: "[pull-request]".to_owned(),
            gates: vec![TESTS.to_owned()],
            extra: Vec::new(),
        }
    }

    /// Adds another file to base.
    pub(crate) fn base(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.repo.write(path, text);
        self
    }

    /// Sets another level.
    pub(crate) fn level(mut self, level: &'static str) -> Self {
        self.level = level;
        self
    }

    /// Sets other outputs.
    pub(crate) fn output(mut self, output: &str) -> Self {
        output.clone_into(&mut self.output);
        self
    }

    /// Replaces the honest gate by other gates.
    pub(crate) fn gates(mut self, gates: &[&str]) -> Self {
        self.gates = gates.iter().map(|gate| (*gate).to_owned()).collect();
        self
    }

    /// Adds a line of front matter.
    pub(crate) fn with(mut self, line: &str) -> Self {
        self.extra.push(line.to_owned());
        self
    }

    /// Sets a variable in the user's own shell, from which the engine is started.
    pub(crate) fn with_env(mut self, key: &str, value: &str) -> Self {
        self.env = self.env.with_env(key, value);
        self
    }

    /// Writes loop and script, commits all of it.
    pub(crate) fn commit(&self, script: &str) {
        self.loop_file("{ use: scripted, script: s.script }");
        self.repo.write(".loopwright/s.script", script);
        self.repo.commit("base");
    }

    /// Writes the loop with another agent; the checker stays scripted.
    pub(crate) fn loop_file(&self, maker: &str) {
        let gates = self.gates.iter().fold(String::new(), |text, gate| text + "\n  - " + gate);
        let gates = if gates.is_empty() { String::new() } else { format!("gates:{gates}\n") };
        let extra: String = self.extra.iter().map(|line| format!("{line}\n")).collect();
        let allow = if self.level == "L3" { "allow: [pull-request]\n" } else { "" };
        let text = format!(
            "---\nname: fix\nintent: Make add add.\nlevel: {level}\noutput: {output}\n{allow}agents:\n  maker: {maker}\n  \
             checker: {{ use: scripted, script: s.script }}\n{gates}{extra}---\n\n# Maker\n\nMake the tests pass.\n",
            level = self.level,
            output = self.output,
        );
        self.repo.write(".loopwright/loops/fix.md", text);
    }

    /// Commits with a maker's block and the passing checker, and runs one round.
    #[must_use = "a round proves nothing until its end is asked for"]
    #[track_caller]
    pub(crate) fn maker(&self, steps: &str) -> Round {
        self.script(&format!("@ maker\n{steps}\n{PASS}"))
    }

    /// Commits with a checker's block and the honest maker, and runs one round.
    #[must_use = "a round proves nothing until its end is asked for"]
    #[track_caller]
    pub(crate) fn checker(&self, steps: &str) -> Round {
        self.script(&format!("@ maker\n{FIX}\n@ checker\n{steps}\n"))
    }

    /// Commits with the whole script and runs one round.
    #[must_use = "a round proves nothing until its end is asked for"]
    #[track_caller]
    pub(crate) fn script(&self, script: &str) -> Round {
        self.commit(script);
        self.run()
    }

    /// Runs one round of what is committed.
    #[must_use = "a round proves nothing until its end is asked for"]
    #[track_caller]
    pub(crate) fn run(&self) -> Round {
        self.finish(self.start())
    }

    /// Starts a round and returns while it runs.
    pub(crate) fn start(&self) -> Running {
        let before = self.repo.tree_digest();
        let mut command = self.env.command(self.repo.path());
        command.args(["run", "fix", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { child: command.spawn().expect("the binary starts"), before }
    }

    /// Waits for the round and checks what no round may break.
    #[track_caller]
    pub(crate) fn finish(&self, running: Running) -> Round {
        let before = running.before.clone();
        self.finish_from(running, &before)
    }

    /// Does the same for a checkout that the test itself changed meanwhile.
    #[track_caller]
    pub(crate) fn finish_from(&self, running: Running, before: &TreeDigest) -> Round {
        let output = running.child.wait_with_output().expect("the round ends");
        before.assert_untouched(&self.repo.tree_digest());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{stderr}", String::from_utf8_lossy(&output.stdout)));
        if let Some(round) = json["round"].as_str() {
            assert_no_process_left(round);
        }
        Round { json, output, forge: self.env.state().join("forge"), state: self.env.state() }
    }

    /// Runs the binary without `--json`, as a person would.
    pub(crate) fn run_for_people(&self) -> Output {
        let mut command = self.env.command(self.repo.path());
        command.args(["run", "fix"]).output().expect("the binary starts")
    }

    /// The folder of the engine's own state.
    pub(crate) fn state(&self) -> PathBuf {
        self.env.state()
    }
}

/// A round under way.
pub(crate) struct Running {
    pub(crate) child: Child,
    before: TreeDigest,
}

/// A round at rest, before any assertion.
pub(crate) struct Round {
    pub(crate) json: Value,
    pub(crate) output: Output,
    forge: PathBuf,
    state: PathBuf,
}

impl Round {
    /// Asserts that the round ended with this outcome, its exit code and this code of its last reason, and that nothing
    /// was delivered.
    #[track_caller]
    pub(crate) fn ends(self, outcome: &str, code: &str) -> Self {
        self.is(outcome, code);
        assert_eq!(delivered(&self.forge), Vec::<String>::new(), "nothing may leave: {}", self.story());
        self
    }

    /// Asserts that the round shipped exactly the tree that was judged.
    #[track_caller]
    pub(crate) fn ships(self) -> Self {
        self.is("shipped", self.last_code().as_str());
        assert_eq!(self.json["outbox"][0]["state"], "sent", "{}", self.story());
        let tree = self.git(&["rev-parse", &format!("{}^{{tree}}", self.branch())]);
        assert_eq!(Value::from(tree), self.json["tree"], "what ships is what was judged");
        self
    }

    /// Asserts this end, whatever earlier rounds delivered.
    #[track_caller]
    pub(crate) fn ended(self, outcome: &str, code: &str) -> Self {
        self.is(outcome, code);
        self
    }

    #[track_caller]
    fn is(&self, outcome: &str, code: &str) {
        let facts = (self.json["outcome"].as_str(), self.last_code());
        assert_eq!(facts, (Some(outcome), code.to_owned()), "{}", self.story());
        let exit = match outcome {
            "shipped" | "reported" | "nothing-to-do" => 0,
            "failed" => 1,
            "escalated" => 10,
            "empty" | "rejected" => 11,
            "over-budget" => 12,
            "cannot" => 13,
            "plateaued" => 14,
            "refused" => 15,
            other => panic!("no exit code is known for {other}"),
        };
        assert_eq!(self.output.status.code(), Some(exit), "{}", self.story());
        assert_eq!(self.json["exit"], exit, "{}", self.story());
    }

    /// Asserts that some reason has this code.
    #[track_caller]
    pub(crate) fn because(self, code: &str) -> Self {
        assert!(self.codes().iter().any(|found| found == code), "no reason `{code}`: {}", self.story());
        self
    }

    /// Asserts that some reason or note contains this text.
    #[track_caller]
    pub(crate) fn saying(self, text: &str) -> Self {
        let reasons_text = format!("{}{}{}", self.json["reasons"], self.json["notes"], self.json["gates"]);
        assert!(reasons_text.contains(text), "nothing says `{text}`: {}", self.story());
        self
    }

    fn codes(&self) -> Vec<String> {
        let reasons = self.json["reasons"].as_array().expect("reasons are a list");
        reasons.iter().filter_map(|reason| reason["code"].as_str().map(str::to_owned)).collect()
    }

    fn last_code(&self) -> String {
        self.codes().last().cloned().unwrap_or_default()
    }

    pub(crate) fn story(&self) -> String {
        format!("{:#}\n{}", self.json, String::from_utf8_lossy(&self.output.stderr))
    }

    pub(crate) fn id(&self) -> String {
        self.json["round"].as_str().expect("a round has an id").to_owned()
    }

    /// The folder of the engine's own state.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    fn branch(&self) -> String {
        format!("loop/fix/{}", self.id())
    }

    /// Runs git in the local forge's repository.
    #[track_caller]
    pub(crate) fn git(&self, words: &[&str]) -> String {
        let repos = fs::read_dir(&self.forge).expect("there is a forge").flatten();
        let repo = repos.map(|entry| entry.path().join("repo.git")).next().expect("there is a repository");
        loopwright_testkit::repo::git(&repo, words)
    }

    /// The paths of the tree that shipped.
    pub(crate) fn shipped_paths(&self) -> Vec<String> {
        self.git(&["ls-tree", "-r", "--name-only", &self.branch()]).lines().map(str::to_owned).collect()
    }

    /// A file of the tree that shipped.
    pub(crate) fn shipped_file(&self, path: &str) -> String {
        self.git(&["show", &format!("{}:{path}", self.branch())])
    }

    /// The Markdown report.
    #[track_caller]
    pub(crate) fn report(&self) -> String {
        fs::read_to_string(self.json["report"].as_str().expect("a report was written")).expect("it can be read")
    }

    /// Asserts that the text occurs in nothing that users or programs see: streams, reports, forge files.
    #[track_caller]
    pub(crate) fn never_shows(self, secret: &str) -> Self {
        for (name, bytes) in [("stdout", &self.output.stdout), ("stderr", &self.output.stderr)] {
            assert!(!contains(bytes, secret), "{name} shows the value");
        }
        for folder in ["reports", "forge"] {
            for file in files(&self.state.join(folder)) {
                let bytes = fs::read(&file).unwrap_or_default();
                assert!(!contains(&bytes, secret), "{} shows the value", file.display());
            }
        }
        self
    }
}

pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Every file below a folder, without following links; an empty list if there is no folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(_) => found.push(entry.path()),
            Err(_) => {}
        }
    }
    found
}

/// The content of the local forge: files for people, and branches of loops.
pub(crate) fn delivered(forge: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.strip_prefix(forge).unwrap_or(path).to_string_lossy().into_owned();
    let all = files(forge).iter().map(name).collect::<Vec<_>>();
    let shown = |path: &String| {
        let rest = path.split_once('/').map_or("", |(_, rest)| rest);
        ["pulls/", "issues/", "messages/", "repo.git/refs/heads/loop/"].iter().any(|head| rest.starts_with(head))
    };
    all.into_iter().filter(shown).collect()
}

/// Asserts that no process carries the round's mark.
#[track_caller]
pub(crate) fn assert_no_process_left(round: &str) {
    let left = with_cookie(round);
    assert!(left.is_empty(), "processes of the round live on: {left:?}");
}

/// Processes whose environment has the round's mark.
pub(crate) fn with_cookie(round: &str) -> Vec<u32> {
    let mark = format!("LOOPWRIGHT_COOKIE=lw-{round}");
    let pids = fs::read_dir("/proc").expect("there is /proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    pids.filter(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| contains(&bytes, &mark))).collect()
}
