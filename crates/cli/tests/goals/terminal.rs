//! Rounds that leave a real terminal: they survive its end, can be seen, steered and stopped, and keep the machine awake.

use super::{LONG as HANGS, LOOK, env};
use loopwright_testkit::{TestEnv, TestRepo, TestTerminal, wait};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A repository with the loop `look`, whose set-up waits for the file `go`, and the loop `long`, whose maker never ends.
struct LookRepo {
    env: TestEnv,
    repo: TestRepo,
    go: PathBuf,
}

impl LookRepo {
    fn new(env: TestEnv) -> Self {
        let (repo, go) = (env.repo("r"), env.root().join("go"));
        repo.write(".loopwright/loops/look.md", LOOK.replace("GO", &go.to_string_lossy()));
        repo.write(".loopwright/loops/long.md", HANGS)
            .write(".loopwright/long.script", "@ maker\nhang\n")
            .commit("first");
        Self { env, repo, go }
    }

    fn run(&self, words: &[&str], code: i32) -> String {
        self.env.loopwright_in(self.repo.path(), words).code(code).stdout()
    }

    /// Starts a round in a terminal of its own, and closes the terminal.
    fn start_in_terminal(&self, name: &str) -> String {
        let mut command = self.env.command(self.repo.path());
        command.args(["run", name, "--detach"]);
        let mut terminal = TestTerminal::start(&command, 120, 24);
        let screen = terminal.wait_for("stop it: loopwright stop");
        assert!(terminal.wait().success(), "{screen}");
        let round = screen.split("attach ").nth(1).and_then(|rest| rest.split_whitespace().next());
        round.expect("an id").to_owned()
    }

    /// A detached round, with its log.
    fn start(&self, words: &[&str]) -> (String, PathBuf) {
        let words = ["run", "look", "--detach", "--json"].iter().chain(words);
        let started = self.env.loopwright_in(self.repo.path(), words).success().json();
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        (text(&started["round"]), PathBuf::from(text(&started["detached"]["log"])))
    }

    fn release(&self) {
        std::fs::write(&self.go, "").expect("the set-up may end");
    }
}

#[test]
fn round_survives_the_terminal_that_started_it_and_is_seen_steered_and_stopped() {
    let look = LookRepo::new(env());
    let round = look.start_in_terminal("look");
    let status = look.run(&["status"], 0);
    assert!(status.contains(&format!("look {round}:")), "it runs: {status}");
    look.run(&["steer", &round, "prefer the short form"], 0);
    look.release();
    let attached = look.run(&["attach", &round], 0);
    assert!(attached.contains("reported"), "{attached}");
    assert!(look.run(&["report", &round], 0).contains(": prefer the short form"));
    let second = look.start_in_terminal("long");
    assert!(look.run(&["status"], 0).contains(&format!("long {second}:")));
    look.run(&["stop", &second], 0);
    assert!(look.run(&["attach", &second], 130).contains("interrupted"));
}

/// Behaves as the program of systemd: it records its arguments and runs the command, or refuses.
fn with_inhibitor(script: &str) -> LookRepo {
    let env = env();
    let folder = env.root().join("bin");
    std::fs::create_dir(&folder).expect("a folder");
    let path = format!("{}:{}", folder.display(), loopwright_testkit::TRUSTED_PATH);
    let look = LookRepo::new(env.with_env("PATH", path));
    let tools = TestRepo::init_at(&look.env.root().join("tools"));
    tools.write_executable("systemd-inhibit", script.replace("ROOT", &look.env.root().to_string_lossy()));
    std::fs::rename(tools.path().join("systemd-inhibit"), folder.join("systemd-inhibit")).expect("one file system");
    look
}

const INHIBITOR: &str = "\
#!/bin/sh
printf '%s\\n' \"$@\" > ROOT/inhibitor.words
echo $$ > ROOT/inhibitor.pid
while case \"$1\" in --*) true ;; *) false ;; esac; do shift; done
exec \"$@\"
";

#[test]
fn machine_stays_awake_exactly_as_long_as_a_detached_round_runs() {
    let look = with_inhibitor(INHIBITOR);
    let read = |name: &str| std::fs::read_to_string(look.env.root().join(name));
    let (round, log) = look.start(&[]);
    let awake = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("the machine does not sleep"));
    wait::until("the machine is kept awake", LONG, awake);
    let words = read("inhibitor.words").expect("it was started");
    assert!(words.starts_with("--what=idle:sleep\n--mode=block\n"), "{words}");
    assert!(words.contains(&format!("--why=round {round}\n")), "{words}");
    let process = Path::new("/proc").join(read("inhibitor.pid").expect("its id").trim());
    assert!(process.exists(), "it holds the lock while the round runs");
    look.release();
    look.run(&["attach", &round], 0);
    wait::until("the lock is released", LONG, || !process.exists());
    std::fs::remove_file(look.env.root().join("inhibitor.words")).expect("the first record");
    let (second, _) = look.start(&["--allow-sleep"]);
    look.run(&["attach", &second], 0);
    assert!(read("inhibitor.words").is_err(), "a round that allows sleep starts no such program");
}

#[test]
fn round_runs_and_says_so_where_the_system_refuses_to_stay_awake() {
    let look = with_inhibitor("#!/bin/sh\necho 'Access denied' >&2\nexit 1\n");
    look.release();
    let (round, log) = look.start(&[]);
    look.run(&["attach", &round], 0);
    let text = std::fs::read_to_string(log).expect("its log");
    assert!(text.contains("the system refused to stay awake; it may sleep"), "{text}");
}
