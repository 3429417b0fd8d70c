//! A repository whose `origin` is on the fake forge, with a loop that asks people elsewhere, and people with accounts.

use loopwright_testkit::fake_forge::FakeComment;
use loopwright_testkit::fake_slack::{SLACK_TOKEN, send_signed};
use loopwright_testkit::{CommandRun, FakeForge, FakeRepo, FakeSlack, TestEnv, TestRepo, wait};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const NAME: &str = "acme/app";
pub(crate) const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const LONG: Duration = Duration::from_secs(60);

pub(crate) struct AskingWorld {
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
    pub(crate) forge: FakeForge,
    pub(crate) slack: FakeSlack,
    kind: &'static str,
}

impl AskingWorld {
    /// `more` are further lines of the loop file.
    pub(crate) fn new(kind: &'static str, more: &str) -> Self {
        let forge = FakeForge::start();
        forge.create_repo(NAME).add_writer("bot");
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let config = env.root().join("config.yaml");
        let env = env.with_env("LOOPWRIGHT_CONFIG", config);
        let repo = env.repo("r");
        let loop_file = format!(
            "---\nname: fix\nintent: Make the answer right.\nlevel: L2\nforge: work\noutput: [pull-request]\nagents: {{ maker: \
             {{ use: scripted, script: fix.script }} }}\ngates:\n  - {{ name: tests, run: [./test.sh], red_before: true \
             }}\n{more}---\n# Maker\nFix the answer.\n"
        );
        repo.write(".loopwright/loops/fix.md", loop_file).write("answer", "41\n");
        repo.write_executable("test.sh", "#!/bin/sh\ngrep -q 42 answer\n").commit("first");
        repo.write(
            ".loopwright/fix.script",
            "@ maker\nreplace answer \"41\" \"42\"\nstage pull-request.md \"Fix @all the answer\\n\\nIt was wrong.\"\nusage \
             input=100 output=20\n\n@ checker\nverdict pass correctness=5@answer:1 scope=5@gate:tests tests=4@gate:tests\n",
        );
        repo.git(["remote", "add", "origin", &forge.repo(NAME).clone_url()]);
        forge.repo(NAME).copy_branches_from(repo.path());
        let world = Self { env, repo, forge, slack: FakeSlack::start(), kind };
        for (name, text) in [("token", world.forge.token("bot").as_str()), ("slack", SLACK_TOKEN), ("signing", SECRET)]
        {
            let path = world.env.root().join(name);
            std::fs::write(&path, text).expect("a secret");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        }
        world.configure("");
        world
    }

    /// Grace and Ada have accounts everywhere, Eve has none. `more` are further lines.
    pub(crate) fn configure(&self, more: &str) {
        self.configure_with("", more);
    }

    /// The same with further secrets; `SIGNING` is the path of one.
    pub(crate) fn configure_with(&self, secrets: &str, more: &str) {
        let at = |name: &str| self.env.root().join(name).display().to_string();
        let id = |user: &str| self.forge.account_id(user);
        let user = String::from_utf8(std::process::Command::new("id").arg("-un").output().expect("id runs").stdout);
        let text = format!(
            "forges:\n  work: {{ kind: {}, url: {}, token_file: {} }}\nslack: {{ token_file: {}, channel: C1, api_url: {} \
             }}\nwebhooks: {{ secrets: {{ {}slack: {{ file: {} }} }} }}\npeople:\n  grace: {{ work: {}, slack: U0GRACE }}\n  ada: \
             {{ work: {}, slack: U0ADA, os: {} }}\n  carol: {{ work: {} }}\n{more}",
            self.kind,
            self.forge.url(),
            at("token"),
            at("slack"),
            self.slack.url(),
            secrets.replace("SIGNING", &at("signing")),
            at("signing"),
            id("grace"),
            id("ada"),
            user.expect("text").trim(),
            id("carol"),
        );
        std::fs::write(self.env.root().join("config.yaml"), text).expect("a configuration");
    }

    pub(crate) fn run(&self, words: &[&str]) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), words)
    }

    /// One pass: it asks, and decides answers.
    pub(crate) fn tick(&self) -> CommandRun {
        self.run(&["tick"]).success()
    }

    /// Runs the loop to the question, and returns the round.
    pub(crate) fn escalate(&self) -> String {
        let ran = self.run(&["run", "fix", "--json"]).code(10).json();
        assert_eq!(ran["outcome"], "escalated", "{ran}");
        ran["round"].as_str().expect("a round").to_owned()
    }

    /// The state of a round and its reasons.
    pub(crate) fn show(&self, round: &str) -> (String, Value) {
        let shown = self.run(&["show", round, "--json"]).success().json();
        (shown["outcome"].as_str().unwrap_or("none").to_owned(), shown["reasons"].clone())
    }

    pub(crate) fn remote(&self) -> FakeRepo<'_> {
        self.forge.repo(NAME)
    }

    /// The comments on an issue that Loopwright did not write as its question, by their bodies.
    pub(crate) fn replies(&self, number: u64) -> Vec<FakeComment> {
        self.remote().comments(number).into_iter().filter(|one| one.author == "bot").collect()
    }
}

/// The seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("it fits")
}

/// A daemon that listens. It is killed when the value is dropped.
pub(crate) struct ListeningDaemon {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    pub(crate) address: String,
}

impl ListeningDaemon {
    pub(crate) fn start(world: &AskingWorld) -> Self {
        let mut command = world.env.command(world.repo.path());
        command.args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        for stream in [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(err)] {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    lines.lock().expect("no panic").push(line);
                }
            });
        }
        let mut daemon = Self { child, lines, address: String::new() };
        let line = daemon.wait_for("listening at http://");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        daemon.address = address.expect("an address").to_owned();
        daemon
    }

    pub(crate) fn said(&self) -> String {
        self.lines.lock().expect("no panic").join("\n")
    }

    pub(crate) fn wait_for(&self, text: &str) -> String {
        let look = || self.lines.lock().expect("no panic").iter().find(|line| line.contains(text)).cloned();
        wait::within(LONG, look).unwrap_or_else(|| panic!("no `{text}` in:\n{}", self.said()))
    }

    /// Delivers an event as GitLab does, with a new id; returns the first line of the answer.
    pub(crate) fn deliver_gitlab(&self, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let request = format!(
            "POST /hooks/gitlab HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
             application/json\r\nx-gitlab-token: {SECRET}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// Presses a button as Slack reports it.
    pub(crate) fn press(&self, message: &Value, action: &str, user: &str) -> String {
        send_signed(&self.address, SECRET, now(), &FakeSlack::press(message, action, user))
    }
}

impl Drop for ListeningDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn until(what: &str, check: impl FnMut() -> bool) {
    wait::until(what, LONG, check);
}
