//! `cargo xtask record-streams [AGENT…] [--case NAME]`: records the output of the real agents for the tests of our
//! readers.
//!
//! The scripted model plays each scenario of `crates/engine/tests/streams/scenarios` to each agent. The agent's output
//! is stored unchanged beside the scenarios, in a folder named by agent and version. Only the names of this machine are
//! replaced: the folder of the recording and the model's port.

mod acp;
mod case;
mod launch;

use crate::agents;
use crate::command::{cargo, root, run as run_command};
use acp::AcpRecorder;
use case::RecordingCase;
use launch::{RecordedAgent, RecordingDir};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const STREAMS: &str = "crates/engine/tests/streams";
/// The time that an agent has to end after its conversation has ended.
const GRACE: Duration = Duration::from_secs(3);
/// The placeholders in recordings for the folder of the recording and for the model's address.
const FOLDER: &str = "/recording";
const ADDRESS: &str = "127.0.0.1:4000";

pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let (agents, only) = wanted(words)?;
    let mut build = cargo();
    build.args(["build", "--package", "loopwright-cli"]);
    run_command(build)?;
    let scenarios = root().join(STREAMS).join("scenarios");
    let mut cases = RecordingCase::all(&scenarios, "")?;
    cases.extend(RecordingCase::all(&scenarios.join("acp"), "acp/")?);
    let mut unwell = Vec::new();
    for agent in agents {
        for case in cases.iter().filter(|case| case.is_for(agent.name())) {
            if only.is_some_and(|only| only != case.name) {
                continue;
            }
            if let Err(why) = record(agent, case) {
                println!("  {:<10} {:<24} FAILED: {why}", agent.name(), case.name);
                unwell.push(format!("{} {}", agent.name(), case.name));
            }
        }
    }
    if unwell.is_empty() { Ok(()) } else { Err(format!("not recorded: {}", unwell.join(", "))) }
}

fn wanted<'w>(words: &[&'w str]) -> Result<(Vec<RecordedAgent>, Option<&'w str>), String> {
    let (names, only) = match words {
        [names @ .., "--case", case] => (names, Some(*case)),
        names => (names, None),
    };
    let find = |name: &&str| {
        RecordedAgent::ALL.into_iter().find(|agent| agent.name() == *name).ok_or_else(|| format!("no agent `{name}`"))
    };
    let agents: Vec<RecordedAgent> = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok((if agents.is_empty() { RecordedAgent::ALL.to_vec() } else { agents }, only))
}

fn record(agent: RecordedAgent, case: &RecordingCase) -> Result<(), String> {
    let broke = |error: std::io::Error| error.to_string();
    let place = RecordingDir::create(&root().join("target/tmp/record").join(agent.name()))?;
    let mut model = Model::start(case.scenario_for(agent.name()), &place)?;
    if case.how == case::LaunchMode::Unreachable {
        model.stop();
    }
    let mut command = agent.command(case.how, &place, &model.address)?;
    if case.how.is_acp() {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    } else {
        command.stdin(std::fs::File::open(place.prompt()).map_err(broke)?);
        command.stdout(std::fs::File::create(place.file("stdout")).map_err(broke)?);
    }
    command.process_group(0);
    command.stderr(std::fs::File::create(place.file("stderr")).map_err(broke)?);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("start `{}`: {error}", agent.name()))?;
    let talk = case.how.is_acp().then(|| AcpRecorder::start(&mut child, &place, case.how)).transpose()?;
    let wall = case.wall * agent.timeout_factor();
    let ended = std::thread::scope(|scope| {
        // The end of the conversation closes the agent's input, which ends most agents; the others are killed soon
        // after.
        let talk = talk.map(|talk| scope.spawn(move || talk.record(launch::PROMPT)));
        let is_over = || talk.as_ref().is_some_and(|talk| talk.is_finished());
        let ended = wait(&mut child, wall, &is_over).map_err(broke);
        if let Some(said) = talk.and_then(|talk| talk.join().ok()) {
            std::fs::write(place.file("stdout"), said).map_err(broke)?;
        }
        ended
    })?;
    model.stop();
    keep(agent, case, &place, &model.address, ended)?;
    let end = ended.map_or_else(|| "killed".to_owned(), show);
    println!("  {:<10} {:<24} {end:<10} {:.1} s", agent.name(), case.name, started.elapsed().as_secs_f64());
    Ok(())
}

/// Waits for the end, or kills the whole process group after the deadline.
fn wait(child: &mut Child, wall: Duration, is_over: &dyn Fn() -> bool) -> std::io::Result<Option<ExitStatus>> {
    let (mut ending, mut until) = (false, Instant::now() + wall);
    while Instant::now() < until {
        if !ending && is_over() {
            (ending, until) = (true, until.min(Instant::now() + GRACE));
        }
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // The process may have ended just now.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    child.wait()?;
    Ok(None)
}

fn show(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

fn keep(
    agent: RecordedAgent,
    case: &RecordingCase,
    place: &RecordingDir,
    address: &str,
    ended: Option<ExitStatus>,
) -> Result<(), String> {
    let folder = root().join(STREAMS).join(format!("{}-{}", agent.name(), agents::version_of(agent.package())?));
    let put = |ending: &str, bytes: &[u8]| {
        let path = folder.join(format!("{}.{ending}", case.name));
        // A case of a protocol has its own folder.
        std::fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(|error| error.to_string())?;
        std::fs::write(&path, bytes).map_err(|error| format!("write `{}`: {error}", path.display()))
    };
    let read = |name: &str| std::fs::read(place.file(name)).map_err(|error| format!("read {name}: {error}"));
    put("jsonl", &place.plain(&read("stdout")?, address))?;
    put("exit", format!("{}\n", ended.map_or_else(|| "killed".to_owned(), show)).as_bytes())?;
    match place.plain(&read("stderr")?, address) {
        silent if silent.is_empty() => Ok(()),
        text => put("stderr", &text),
    }
}

/// The scripted model.
struct Model {
    child: Child,
    address: String,
}

impl Model {
    fn start(scenario: &Path, place: &RecordingDir) -> Result<Self, String> {
        let mut command = Command::new(root().join("target/debug/loopwright"));
        command.args(["dev", "model", "--json", "--until-eof", "--log"]).arg(place.file("requests")).arg(scenario);
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("start the scripted model: {error}"))?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the scripted model has no output")?;
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let document: serde_json::Value =
            serde_json::from_str(&line).map_err(|_| "the scripted model did not start")?;
        let url = document["url"].as_str().unwrap_or_default();
        Ok(Self { child, address: url.trim_start_matches("http://").to_owned() })
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes a file and creates its folders.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let make = || {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        std::fs::File::create(path)?.write_all(text.as_bytes())
    };
    make().map_err(|error: std::io::Error| format!("write `{}`: {error}", path.display()))
}

/// The paths of one recording.
impl RecordingDir {
    /// The text without the names of this machine.
    fn plain(&self, bytes: &[u8], address: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(bytes);
        let port = |at: &str| at.rsplit_once(':').map(|(_, port)| port.to_owned()).unwrap_or_default();
        let root = self.root.to_string_lossy();
        // Some agents write a path as the name of a folder.
        let dashed = |path: &str| path.replace(['/', '.', '_'], "-");
        let plain = text.replace(&*root, FOLDER).replace(&dashed(&root), &dashed(FOLDER));
        let plain = plain.replace(address, ADDRESS).replace(&format!("\"port\":{}", port(address)), "\"port\":4000");
        let home = crate::command::root();
        plain.replace(&*home.to_string_lossy(), "/workspace").into_bytes()
    }
}

/// The path of an agent's program.
fn program(name: &str) -> PathBuf {
    agents::bin_dir().join(name)
}
