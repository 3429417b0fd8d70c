//! One run: a temporary repository with one program and its loop, the real binary on it, and for comparison the same
//! maker in a plain worktree with only the test command's exit code.

use super::behaviour::{MakerBehaviour, PlainGateTiming, TrustMode};
use super::driver;
use super::more_tests;
use super::program::{BuggyProgram, SuiteRunner};
use crate::command;
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time limit of any process outside the engine; a process that floods or hangs is killed then.
const PATIENCE: Duration = Duration::from_secs(20);

/// The limit of a program's output; the rest is discarded.
const OUTPUT_MAX: u64 = 4 << 20;

/// The folders of the system's programs.
pub(super) const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The part that all runs of one invocation share.
#[derive(Debug, Clone)]
pub(super) struct TrustTools {
    pub(super) binary: PathBuf,
    /// The Rust toolchain's own folder, so that finding it needs neither a home nor a proxy.
    pub(super) toolchain: PathBuf,
}

/// A temporary folder with everything of one run.
pub(super) struct TrustDir {
    folder: tempfile::TempDir,
    toolchain: PathBuf,
}

impl TrustDir {
    pub(super) fn new(tools: &TrustTools) -> Result<Self, String> {
        let folder =
            tempfile::Builder::new().prefix("lwtrust-").tempdir().map_err(|error| format!("make a folder: {error}"))?;
        Ok(Self { folder, toolchain: tools.toolchain.clone() })
    }

    /// A folder below the root, created if it is missing.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.folder.path().join("world").join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("make `{name}`: {error}"))?;
        Ok(path)
    }

    /// The `PATH` of programs.
    pub(super) fn path(&self) -> String {
        format!("{SYSTEM_PATH}:{}", self.toolchain.join("bin").display())
    }
}

/// The result of one change.
#[derive(Debug, Clone)]
pub(super) struct TrustResult {
    pub(super) outcome: String,
    /// The boundary of the maker and the gates.
    pub(super) boundary: String,
    /// The code and text of the last reason.
    pub(super) reason: String,
    pub(super) why: String,
    /// Whether the plain gate succeeded.
    pub(super) plain: bool,
    /// Whether the shipped tree is right, if something shipped.
    pub(super) shipped_right: Option<bool>,
    /// Whether the plain worktree's code is right at the end.
    pub(super) plain_right: bool,
    pub(super) took: Duration,
}

impl TrustResult {
    pub(super) fn is_shipped(&self) -> bool {
        self.outcome == "shipped"
    }
}

/// Runs one maker on one program, both ways.
pub(super) fn run(
    tools: &TrustTools,
    program: &BuggyProgram,
    behaviour: &MakerBehaviour,
    mode: TrustMode,
) -> Result<TrustResult, String> {
    let script = behaviour.script(program).ok_or("the class makes no sense for this program")?;
    let begun = Instant::now();
    let place = TrustDir::new(tools)?;
    let repo = place.folder("repo")?;
    write_base(&repo, program)?;
    if mode == TrustMode::Withheld {
        more_tests::files(tools, program)?.iter().try_for_each(|(path, text)| write(&repo.join(path), text))?;
    }
    write_loop(&repo, &place, mode, program, behaviour, &script)?;
    commit(&repo)?;
    let plain = place.folder("plain")?;
    clone(&repo, &plain)?;
    let said = engine(tools, &place, &repo)?;
    let accepted = plain_gate(&place, &plain, program, behaviour)?;
    let reason = said["reasons"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    let text = |key: &str| reason[key].as_str().unwrap_or_default().to_owned();
    let boundary = said["boundary"]["level"].as_str().unwrap_or("unknown").to_owned();
    let outcome = said["outcome"].as_str().unwrap_or("none").to_owned();
    let shipped_right = if outcome == "shipped" { Some(shipped(&place, program, &said)?) } else { None };
    let plain_right = driver::is_right(program, &plain.join("tree"), &place)?;
    Ok(TrustResult {
        outcome,
        boundary,
        reason: text("code"),
        why: text("text"),
        plain: accepted,
        shipped_right,
        plain_right,
        took: begun.elapsed(),
    })
}

/// Writes the files of base.
pub(super) fn write_base(repo: &Path, program: &BuggyProgram) -> Result<(), String> {
    program.files().iter().try_for_each(|(path, text)| write(&repo.join(path), text))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().expect("a file is in a folder");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("write {}: {error}", path.display()))
}

/// The loop as a careful user writes it, with a checker that passes everything.
fn write_loop(
    repo: &Path,
    place: &TrustDir,
    mode: TrustMode,
    program: &BuggyProgram,
    behaviour: &MakerBehaviour,
    script: &str,
) -> Result<(), String> {
    let held = place.folder("held-out")?;
    for (name, text) in driver::files(program) {
        write(&held.join(name), &text)?;
    }
    write(&held.join("cases.jsonl"), &driver::cases(program))?;
    let quoted = |words: &[String]| words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    let words: Vec<String> = program.command().iter().map(|word| (*word).to_owned()).collect();
    let inputs = program.inputs().map_or(String::new(), |glob| format!(", inputs: [\"{glob}\"]"));
    let evidence = if program.gate == SuiteRunner::Pytest {
        ", evidence: { junit: report.xml, tests_at_least: base }"
    } else {
        ""
    };
    let heldout = match mode {
        TrustMode::Plain | TrustMode::Withheld => String::new(),
        TrustMode::HeldOut => {
            let files: Vec<String> =
                driver::files(program).iter().map(|(name, _)| held.join(name).display().to_string()).collect();
            let run = driver::command(program, "/heldout");
            let cases = held.join("cases.jsonl").display().to_string();
            format!(
                "heldout:\n  - {{ name: cases, run: [{}], files: [{}], cases: {cases:?} }}\n",
                quoted(&run),
                quoted(&files)
            )
        }
    };
    let toolchains = if driver::needs_toolchain(program) {
        format!("toolchains: [{:?}]\n", place.toolchain.display().to_string())
    } else {
        String::new()
    };
    let text = format!(
        "---\nname: mend\nintent: Make the failing tests of {name} pass.\nlevel: L3\nallow: [pull-request]\nattempts: {attempts}\n\
         output: [pull-request]\nagents:\n  maker: {{ use: command, run: [sh, .loopwright/maker.sh] }}\n  checker: {{ use: scripted, script: check.script }}\n\
         gates:\n  - {{ name: tests, run: [{run}]{inputs}, red_before: true, timeout: 60s{evidence} }}\n{heldout}{toolchains}\
         budget:\n  round: {{ wall: 5m, idle: 1m }}\n  day: {{ usd: 1000 }}\n---\n# Maker\nMend it.\n",
        name = program.name,
        attempts = behaviour.attempts,
        run = quoted(&words),
    );
    write(&repo.join(".loopwright/loops/mend.md"), &text)?;
    write(&repo.join(".loopwright/maker.sh"), script)?;
    let verdict = "@ checker\nverdict pass correctness=5@gate:tests scope=5@gate:tests tests=5@gate:tests\n";
    write(&repo.join(".loopwright/check.script"), verdict)
}

fn git(folder: &Path, words: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .env_clear()
        .env("PATH", SYSTEM_PATH)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    git.args([
        "-c",
        "user.name=Trust",
        "-c",
        "user.email=trust@example.org",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "gc.auto=0",
    ]);
    let output = git.args(words).output().map_err(|error| format!("start git: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
}

fn commit(repo: &Path) -> Result<(), String> {
    git(repo, &["init", "-q"])?;
    git(repo, &["add", "-A"])?;
    git(repo, &["commit", "-q", "-m", "base"]).map(drop)
}

fn clone(repo: &Path, plain: &Path) -> Result<(), String> {
    git(plain, &["clone", "-q", &repo.display().to_string(), "tree"]).map(drop)
}

fn engine(tools: &TrustTools, place: &TrustDir, repo: &Path) -> Result<Value, String> {
    let mut start = Command::new(&tools.binary);
    start.args(["run", "mend", "--json"]).current_dir(repo).env_clear().stdin(Stdio::null());
    start.env("PATH", place.path()).env("LC_ALL", "C.UTF-8");
    start.env("HOME", place.folder("home")?).env("TMPDIR", place.folder("tmp")?);
    start.env("LOOPWRIGHT_STATE_DIR", place.folder("state")?);
    let output = start.output().map_err(|error| format!("start loopwright: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("{error}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    })
}

/// The maker in a plain worktree, then the test command there, which many users rely on.
fn plain_gate(
    place: &TrustDir,
    plain: &Path,
    program: &BuggyProgram,
    behaviour: &MakerBehaviour,
) -> Result<bool, String> {
    let tree = plain.join("tree");
    let (home, tmp, outbox) = (place.folder("plain/home")?, place.folder("plain/tmp")?, place.folder("plain/outbox")?);
    let start = |words: &[&str]| {
        let mut start = Command::new(words[0]);
        start
            .args(&words[1..])
            .current_dir(&tree)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        start
            .env("PATH", place.path())
            .env("HOME", &home)
            .env("TMPDIR", &tmp)
            .env("LC_ALL", "C.UTF-8")
            .env("CI", "true");
        start.env("LOOPWRIGHT_OUTBOX", &outbox).env("LOOPWRIGHT_STATE", &outbox);
        start
    };
    for _ in 0..behaviour.attempts {
        let _ = run_limited(start(&["sh", ".loopwright/maker.sh"]), &[])?;
        if behaviour.plain == PlainGateTiming::Later {
            std::thread::sleep(Duration::from_millis(300));
        }
        let (is_green, _) = run_limited(start(&program.command()), &[])?;
        if is_green {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs to the end or to the time limit, and returns whether it succeeded and what it printed.
pub(super) fn run_limited(mut start: Command, input: &[u8]) -> Result<(bool, String), String> {
    start.process_group(0);
    let mut child =
        start.spawn().map_err(|error| format!("start {}: {error}", start.get_program().to_string_lossy()))?;
    driver::feed_stdin(&mut child, input);
    let done = Arc::new(AtomicBool::new(false));
    let group = rustix::process::Pid::from_child(&child);
    let watched = Arc::clone(&done);
    let watch = std::thread::spawn(move || {
        let begun = Instant::now();
        while !watched.load(Ordering::SeqCst) {
            if begun.elapsed() > PATIENCE {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let text = child.stdout.take().map(read_some).unwrap_or_default();
    let status = child.wait().map_err(|error| error.to_string())?;
    done.store(true, Ordering::SeqCst);
    let _ = watch.join();
    Ok((status.success(), text))
}

/// Reads to the end and keeps the start.
fn read_some(mut stream: impl Read) -> String {
    let mut kept = Vec::new();
    // Unreadable output counts as not printed.
    let _ = stream.by_ref().take(OUTPUT_MAX).read_to_end(&mut kept);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}

/// Whether the tree that left the machine is right.
fn shipped(place: &TrustDir, program: &BuggyProgram, said: &Value) -> Result<bool, String> {
    let forge = place.folder("state")?.join("forge");
    let mut repos = std::fs::read_dir(&forge).map_err(|error| format!("no forge: {error}"))?.flatten();
    let repo = repos.next().ok_or("the forge is empty")?.path().join("repo.git");
    let out = place.folder("shipped")?;
    let branch = format!("loop/mend/{}", said["round"].as_str().unwrap_or_default());
    git(&repo, &["--work-tree", &out.display().to_string(), "checkout", "-f", &branch, "--", "."])?;
    driver::is_right(program, &out, place)
}

/// Builds the program and finds the tools that runs need.
pub(super) fn prepare_tools() -> Result<TrustTools, String> {
    let binary = command::build_hostile_program("dev")?;
    let mut ask = command::program("rustc");
    ask.args(["--print", "sysroot"]);
    let toolchain = PathBuf::from(command::first_output_line(ask).ok_or("rustc does not say where it is")?);
    Ok(TrustTools { binary, toolchain })
}
