//! The typical mistakes of a first hour, as one table with the real program: every message names the place, the cause
//! and the next command, on one screen, with the documented exit code. Nothing panics, and nothing is lost.
#![allow(clippy::disallowed_methods, reason = "a test may change a store and start the program itself")]

#[path = "mistakes/places.rs"]
mod places;

use loopwright_testkit::wait::until;
use loopwright_testkit::{CommandRun, TRUSTED_PATH, TestEnv, TestRepo, skip};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const GOOD: &str = "---\nname: a\nintent: Say what is here.\nlevel: L1\ncheck: none\n\
    agents: { maker: { use: scripted, script: a.script } }\n---\n# Maker\nLook.\n";

/// The lines of a small terminal.
const SCREEN: usize = 24;

struct Place {
    env: TestEnv,
    repo: TestRepo,
}

impl Place {
    fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("repo");
        repo.write(".loopwright/loops/a.md", GOOD).write(".loopwright/a.script", "@ maker\nsay all is well\n");
        repo.write("t.sh", "#!/bin/sh\nexit 0\n").commit("first");
        Self { env, repo }
    }

    fn run_in(&self, folder: &Path, line: &str) -> CommandRun {
        self.env.loopwright_in(folder, line.split(' '))
    }

    /// Writes the loop file, runs a command line, and checks the answer.
    fn check_file(&self, mistake: &str, file: &str, line: &str, says: &[&str]) {
        self.repo.write(".loopwright/loops/a.md", file);
        check(mistake, self.run_in(self.repo.path(), line), 2, says);
        self.repo.write(".loopwright/loops/a.md", GOOD);
    }
}

#[track_caller]
fn check(mistake: &str, ran: CommandRun, code: i32, says: &[&str]) {
    let text = format!("{}{}", ran.stdout(), ran.stderr());
    drop(ran.code(code));
    check_text(mistake, &text, says);
}

/// The answer of a program that `TestEnv` cannot start, as `check` sees it.
#[track_caller]
fn check_started(mistake: &str, command: &mut Command, code: i32, says: &[&str]) {
    let ran = command.output().expect("it starts");
    let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.status.code(), Some(code), "{mistake}:\n{text}");
    check_text(mistake, &text, says);
}

#[track_caller]
fn check_text(mistake: &str, text: &str, says: &[&str]) {
    for part in says {
        assert!(text.contains(part), "{mistake}: no `{part}` in:\n{text}");
    }
    assert!(text.lines().count() <= SCREEN, "{mistake}: more than a screen:\n{text}");
    assert!(!text.contains("panicked"), "{mistake}:\n{text}");
}

#[test]
fn mistakes_in_a_loop_file_name_the_line_the_cause_and_the_fix() {
    let place = Place::new();
    let replaced = |from: &str, to: &str| GOOD.replace(from, to);
    let table = [
        (
            "a wrong key",
            replaced("level:", "levle:"),
            &["a.md:4:1", "unknown key `levle`", "did you mean `level`?"][..],
        ),
        ("a wrong type", replaced("L1", "7"), &["a.md:4:8", "`L1`, `L2` or `L3`", "found the number 7"]),
        (
            "a wrong agent",
            replaced("scripted,", "scirpted,"),
            &["a.md:6:25", "one of `claude`", "did you mean `scripted`?"],
        ),
        ("a missing script", replaced("a.script", "b.script"), &["a.md", ".loopwright/b.script", "relative to"]),
        ("an empty file", String::new(), &["a.md:1:1", "starts with front matter", "the first line is `---`"]),
        (
            "no prompt",
            replaced("# Maker\nLook.\n", ""),
            &["a.md:7:1", "the maker has no prompt", "add a `# Maker` section"],
        ),
        (
            "a wrong heading",
            replaced("# Maker", "# Mkaer"),
            &["a.md:8:1", "unknown heading `Mkaer`", "did you mean `# Maker`?"],
        ),
        (
            "broken YAML",
            replaced("agents: {", "agents: {{"),
            &["a.md:6:10", "a key must be text, found a list or mapping", "put the key in quotes"],
        ),
        (
            "a missing intent",
            replaced("intent: Say what is here.\n", ""),
            &["a.md:1:1", "missing key `intent`", "write `intent: one sentence"],
        ),
        (
            "a bare duration",
            replaced("check: none", "check: none\non: 15m"),
            &["a.md:6:5", "`15m` is not a cadence", "write `every 15m`"],
        ),
        (
            "a gate script that is not committed",
            replaced("check: none", "check: none\ngates: [{ name: t, run: [./no.sh] }]"),
            &["a.md", "`no.sh` is not in base", "commit the script"],
        ),
        (
            "no checker above L1",
            replaced("level: L1", "level: L2"),
            &["a.md:5:8", "only an L1 loop may do without a checker", "remove `check`, or set `level: L1`"],
        ),
    ];
    for (mistake, file, says) in &table {
        place.check_file(mistake, file, "run a", says);
    }
}

#[test]
fn mistakes_on_the_command_line_name_the_word_and_the_next_command() {
    let place = Place::new();
    check("the first round", place.run_in(place.repo.path(), "run a"), 0, &["reported"]);
    let table: [(&str, &str, i32, &[&str]); 13] = [
        ("an unknown loop", "run nope", 2, &["no loop is called `nope`", "loops here: a"]),
        (
            "an unknown round",
            "show rnothere",
            2,
            &["no round and no loop is called `rnothere`", "see `loopwright rounds`"],
        ),
        ("an unknown verb", "stauts", 2, &["stauts", "status", "--help"]),
        ("an unknown flag", "run a --itm 3", 2, &["--itm", "--item"]),
        ("a missing argument", "run", 2, &["<LOOP>", "Usage: loopwright run"]),
        ("a value out of range", "rounds --limit 0", 2, &["--limit", "1..=10000"]),
        (
            "a folder that does not exist",
            "--repo /nowhere status",
            2,
            &["--repo /nowhere: there is no such folder", "git init"],
        ),
        ("an answer to nothing", "approve rnothere", 2, &["`rnothere`", "loopwright inbox"]),
        ("a denial without a reason", "deny rnothere", 2, &["not provided", "loopwright deny --why <TEXT> <ID>"]),
        (
            "a loop instead of a round",
            "diff a",
            2,
            &["`a` is a loop; name one of its rounds", "see `loopwright rounds a`"],
        ),
        ("no daemon to stop", "stop", 0, &["no daemon runs here"]),
        ("an unknown pattern", "new nothing-like-this", 2, &["nothing-like-this", "patterns: daily-triage"]),
        ("a missing backup", "restore /nowhere", 2, &["/nowhere", "loopwright backup"]),
    ];
    for (mistake, line, code, says) in table {
        check(mistake, place.run_in(place.repo.path(), line), code, says);
    }
}

#[test]
fn mistakes_with_places_name_the_place_and_what_to_use_instead() {
    let place = Place::new();
    let root = place.env.root().to_owned();
    let folder = |name: &str| {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    };
    check("no repository", place.run_in(&folder("plain"), "run a"), 2, &["not a git repository", "--repo", "git init"]);
    let fresh = TestRepo::init_at(&root.join("fresh"));
    fresh.write(".loopwright/loops/a.md", GOOD).write(".loopwright/a.script", "@ maker\nsay x\n");
    let says = &["the repository has no commits", "git add -A && git commit -m start"];
    check("no commits", place.run_in(fresh.path(), "run a"), 2, says);
    let bare = folder("bare");
    place.repo.git(["clone", "-q", "--bare", ".", &bare.display().to_string()]);
    check("a bare repository", place.run_in(&bare, "run a"), 2, &["bare", "--repo"]);
    place.repo.write("file", "x");
    let file = place.repo.path().join("file").display().to_string();
    let line = format!("--state {file} run a");
    check("a state directory that is a file", place.run_in(place.repo.path(), &line), 1, &[&file, "--state DIR"]);
    check("a proc state", place.run_in(place.repo.path(), "--state /proc/lw run a"), 1, &["/proc/lw", "--state DIR"]);
    // Work that is not a mistake: a dirty checkout, a detached head, a shallow clone. The round uses the commit.
    place.repo.git(["checkout", "-q", "--detach"]);
    check("dirty and detached", place.run_in(place.repo.path(), "run a"), 0, &["reported"]);
    let shallow = folder("shallow");
    let from = format!("file://{}", place.repo.path().display());
    place.repo.git(["clone", "-q", "--depth", "1", &from, &shallow.display().to_string()]);
    check("a shallow clone", place.run_in(&shallow, "run a"), 0, &["reported"]);
}

#[test]
fn mistakes_with_the_environment_and_the_state_name_the_cause_and_lose_nothing() {
    let place = Place::new();
    check("the first round", place.run_in(place.repo.path(), "run a"), 0, &["reported"]);
    let alone = |unset: &str| {
        let mut command = place.env.command(place.repo.path());
        command.env_remove(unset).env_remove("LOOPWRIGHT_STATE_DIR").env_remove("XDG_STATE_HOME");
        let ran = command.args(["run", "a"]).output().expect("it starts");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (code, said) = alone("HOME");
    assert!(code == Some(2) && said.contains("HOME is not set") && said.contains("--state DIR"), "{said}");
    let missing = TestEnv::new(env!("CARGO_BIN_EXE_loopwright")).with_env("LOOPWRIGHT_CONFIG", "/nowhere.yaml");
    let repo = missing.repo("repo");
    repo.write("a", "x").commit("first");
    check(
        "a missing configuration",
        missing.loopwright_in(repo.path(), ["check"]),
        2,
        &["/nowhere.yaml", "LOOPWRIGHT_CONFIG"],
    );
    let store = place.env.state().join("store.db");
    let sql = |text: &str| Command::new("python3").arg("-c").arg(SET_VERSION).arg(&store).arg(text).status();
    assert!(sql("99").expect("python runs").success());
    let newer = &["store.db", "schema version 99", "newer", "docs/install.md"];
    check("a state of a newer build", place.run_in(place.repo.path(), "status"), 1, newer);
    check("a run on it", place.run_in(place.repo.path(), "run a"), 1, newer);
    std::fs::write(&store, "garbage".repeat(2000)).expect("writes");
    let damaged = &["store.db", "keep a copy of the file", "loopwright verify", "restore a backup"];
    check("a damaged store", place.run_in(place.repo.path(), "run a"), 1, damaged);
    let kept = std::fs::read(&store).expect("reads");
    assert!(kept.starts_with(b"garbage"), "a damaged store is never replaced");
}

const SET_VERSION: &str = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
    c.execute('update meta set schema_version = ' + sys.argv[2])\nc.commit()\n";

#[test]
fn a_second_daemon_names_the_first_and_how_to_stop_it() {
    let place = Place::new();
    let mut first = place.env.command(place.repo.path());
    let mut first = first.arg("up").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    until("the daemon", Duration::from_secs(20), || {
        place.run_in(place.repo.path(), "status").stdout().contains("the daemon runs")
    });
    let says = &[&format!("process {}", first.id())[..], "loopwright status", "loopwright stop"];
    check("a second daemon", place.run_in(place.repo.path(), "up"), 1, says);
    check("its end", place.run_in(place.repo.path(), "stop"), 0, &["has ended"]);
    let _ = first.wait();
}

#[test]
fn any_unique_beginning_names_a_round_and_an_ambiguous_one_lists_the_candidates() {
    let place = Place::new();
    let mut ids: Vec<String> = Vec::new();
    // Ids have 32 first digits, so two of 33 begin alike; mostly after seven.
    let (first, second) = loop {
        let report = place.run_in(place.repo.path(), "run a --json").code(0).json();
        let id = report["round"].as_str().expect("an id").to_owned();
        if let Some(same) = ids.iter().find(|other| other[..2] == id[..2]) {
            break (same.clone(), id);
        }
        ids.push(id);
    };
    for verb in ["show", "logs", "why", "report", "diff", "take", "approve", "retry"] {
        let ran = place.run_in(place.repo.path(), &format!("{verb} {}", &first[..2]));
        check(verb, ran, 2, &[&first, &second, "more characters"]);
    }
    let alone =
        ids.iter().find(|id| ids.iter().filter(|other| other[..2] == id[..2]).count() == 1 && id[..2] != first[..2]);
    for id in alone.into_iter().chain([&first]) {
        let short = (2..=id.len())
            .map(|end| &id[..end])
            .find(|short| ids.iter().chain([&second]).filter(|other| other.starts_with(short)).count() == 1);
        let line = format!("why {}", short.expect("ids differ"));
        check("a unique beginning", place.run_in(place.repo.path(), &line), 0, &[id.as_str()]);
    }
}

/// A folder with an agent's program that does what the lines of a shell script say.
fn fake_agent(place: &Place, agent: &str, script: &str) -> String {
    let folder = place.env.root().join("tools").join(agent);
    std::fs::create_dir_all(&folder).expect("a folder");
    let about = format!("{{\"name\":\"{agent}\",\"version\":\"2.1.325\"}}");
    std::fs::write(folder.join("package.json"), about).expect("a file");
    let program = folder.join(agent);
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    format!("{TRUSTED_PATH}:{}", folder.display())
}

#[test]
fn mistakes_with_agents_and_their_models_name_the_program_the_variable_or_the_address() {
    let place = Place::new();
    let claude = GOOD.replace("{ use: scripted, script: a.script }", "{ use: claude }");
    place.repo.write(".loopwright/loops/a.md", &claude);
    let run = |key: Option<&str>, path: &str| {
        let mut command = place.env.command(place.repo.path());
        command.args(["run", "a"]).env("PATH", path).envs(key.map(|key| ("ANTHROPIC_API_KEY", key)));
        command
    };
    let says = ["agent program `claude` not found", "loopwright doctor", "loopwright why"];
    // No round starts, and no key is used: the configured provider is a dead port of this machine.
    let config = place.env.root().join("config/loopwright");
    std::fs::create_dir_all(&config).expect("a folder");
    std::fs::write(config.join("config.yaml"), "providers: { anthropic: { url: \"http://127.0.0.1:9\" } }\n")
        .expect("a file");
    place.repo.write(".loopwright/config.yaml", "provider_wait: 1s\n");
    check_started("an agent that is not installed", &mut run(Some("dummy"), TRUSTED_PATH), 1, &says);
    let path = fake_agent(&place, "claude", "exit 1");
    let says = ["`claude` has no key for its model provider", "set ANTHROPIC_API_KEY"];
    check_started("no key", &mut run(None, &path), 1, &says);
    let asks = "curl -s -X POST -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'content-type: application/json' -d '{\"model\":\"m\"}' \"$ANTHROPIC_BASE_URL/v1/messages\"; exit 1";
    let path = fake_agent(&place, "claude", asks);
    let says = ["the provider `anthropic` could not be reached", "loopwright config", "loopwright retry"];
    check_started("a dead port", &mut run(Some("dummy"), &path), 75, &says);
}

#[test]
fn mistakes_with_the_machine_name_the_folder_or_the_program() {
    let place = Place::new();
    let mut home = place.env.command(place.repo.path());
    home.args(["run", "a"]).env("HOME", "/proc/home");
    home.env_remove("LOOPWRIGHT_STATE_DIR").env_remove("XDG_STATE_HOME");
    check_started("a HOME that cannot be written", &mut home, 1, &["/proc/home", "write to", "--state DIR"]);
    // Programs of the system are always found, so a machine without git is one without the file.
    let machine = place.env.root().join("machine").display().to_string();
    let hide = format!(
        "mkdir -p {machine}/usr {machine}/bin && mount --rbind /usr {machine}/usr && ln -s {machine}/usr/bin/* {machine}/bin/ && \
         rm {machine}/bin/git && mount -t tmpfs none /usr/local/bin && mount --bind {machine}/bin /usr/bin"
    );
    if !in_own_mounts(&place, "true", "--version").output().is_ok_and(|ran| ran.status.success()) {
        return skip("`unshare --user --mount` does not work here, so git cannot be hidden");
    }
    let mut no_git = in_own_mounts(&place, &hide, "run a");
    check_started("no git", &mut no_git, 1, &["git is not installed", "PATH", "install git"]);
}

/// The program in a namespace of its own, where a shell first does what `prepare` says: no other process sees its mounts.
fn in_own_mounts(place: &Place, prepare: &str, line: &str) -> Command {
    let inner = place.env.command(place.repo.path());
    let script = format!("{prepare} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(inner.get_program());
    command.args(line.split(' ')).env_clear().envs(place.env.variables());
    command.current_dir(place.repo.path()).stdin(Stdio::null());
    command
}

/// The program with a small file system as its state directory; `fill` leaves no space on it.
fn on_a_small_disk(place: &Place, line: &str, size: &str, fill: &str) -> Command {
    let state = place.env.state().display().to_string();
    let disk = format!("mount -t tmpfs -o size={size} tmpfs {state} && cp -a {state}.kept/. {state}/ && {fill}");
    in_own_mounts(place, &disk, line)
}

#[test]
fn full_disk_of_the_state_names_the_disk_and_the_ways_out_and_loses_nothing() {
    let place = Place::new();
    check("the first round", place.run_in(place.repo.path(), "run a"), 0, &["reported"]);
    let state = place.env.state();
    let kept = format!("{}.kept", state.display());
    assert!(Command::new("cp").args(["-a", &state.display().to_string(), &kept]).status().expect("cp").success());
    if !on_a_small_disk(&place, "--version", "64m", "true").output().is_ok_and(|ran| ran.status.success()) {
        return skip("`unshare --user --mount` does not work here, so a full disk cannot be made");
    }
    let store = state.join("store.db").display().to_string();
    let fill = format!("(cat /dev/zero > {}/filler 2>/dev/null; true)", state.display());
    let says = ["no space is left", &store, "free space", "loopwright gc", "--state DIR"];
    check_started("a full disk", &mut on_a_small_disk(&place, "run a", "8m", &fill), 1, &says);
    let says = ["MiB are free", &state.display().to_string()[..], "loopwright gc"];
    check_started("a nearly full disk", &mut on_a_small_disk(&place, "run a", "32m", "true"), 1, &says);
    check("the record", place.run_in(place.repo.path(), "verify"), 0, &["the record is intact"]);
}

/// Runs a command line on a real terminal of 60 columns.
fn on_a_narrow_terminal(place: &Place, line: &str) -> String {
    let line = format!("stty cols 60; {} {line}", env!("CARGO_BIN_EXE_loopwright"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(place.repo.path()).env_clear();
    script.envs(place.env.variables()).env("PAGER", "cat").env("SHELL", "/bin/sh").env("TERM", "xterm");
    let ran = script.stdin(Stdio::null()).output().expect("script is a Debian base tool");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Text as a terminal shows it, without styles.
fn without_styles(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn lists_fit_a_terminal_of_60_columns_and_are_coloured_there_and_nowhere_else() {
    let place = Place::new();
    check("the first round", place.run_in(place.repo.path(), "run a"), 0, &["reported"]);
    check("a task", place.run_in(place.repo.path(), "tasks add First"), 0, &[]);
    for line in [
        "status",
        "rounds",
        "budget",
        "costs",
        "tasks list",
        "patterns",
        "prompts",
        "config",
        "schedule",
        "simulate --days 1",
    ] {
        let shown = on_a_narrow_terminal(&place, line);
        let plain = place.run_in(place.repo.path(), line).stdout();
        assert!(!plain.contains('\u{1b}'), "{line}: {plain}");
        if !plain.starts_with("nothing") {
            assert!(shown.contains("\u{1b}[1m"), "{line} has no bold heading: {shown:?}");
        }
        let shown = without_styles(&shown);
        let wide = shown.lines().map(str::trim_end).find(|row| row.chars().count() > 60);
        assert_eq!(wide, None, "{line}:\n{shown}");
    }
    assert!(on_a_narrow_terminal(&place, "rounds").contains("\u{1b}[32mreported"), "a good end is green");
}
