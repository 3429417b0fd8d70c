//! Drives a coding agent's own program: from an [`AgentInvocation`] to a command line, and from its stream to events.
//!
//! An [`AgentDialect`] holds the differences between programs: flags, environment, files in its HOME, and an
//! [`AgentStreamReader`] of its stream. The common parts are here: starting it in its sandbox view, splitting the
//! stream, counting, ceilings, and the meaning of its end.

use super::installed::InstalledAgent;
use super::providers::ProviderChoice;
use super::stream_observer::StreamObserver;
use super::tools::unsupported_error;
use super::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome, env, home};
use crate::proc::{
    CancelToken, FinishedRun, OutputChannel, OutputStream, OutputWatch, ProcessRunner, RunEnd, SpawnRequest,
    StartedProcess, StdinSource, WatchFlow,
};
use crate::sandbox_view::SandboxView;
use loopwright_core::BoxFuture;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A longer line is truncated: its reader gets only the start.
pub(super) const LINE_MAX: usize = 4 << 20;

/// One program: its package, its sign-in, its command line and its stream format.
pub(super) struct AgentDialect {
    /// The program's capabilities.
    pub(super) capabilities: AgentCapabilities,
    /// The npm package that installs it.
    pub(super) package: &'static str,
    /// The path at which it stores its sign-in, below a home.
    pub(super) login: &'static str,
    /// The hosts that it talks to with its own sign-in.
    pub(super) login_hosts: &'static [&'static str],
    /// The start of the program. Starts nothing itself and reads nothing of the host, so that tests can compare every
    /// word. It fails when the program cannot enforce what is requested: a restriction is never weakened silently.
    pub(super) launch: fn(&AgentInvocation) -> Result<ProgramLaunch, AgentError>,
    /// Reads the stream of one start.
    pub(super) reader: fn(&AgentInvocation) -> Box<dyn AgentStreamReader>,
}

/// One start of a program, besides the parts that every start has.
#[derive(Debug, Default)]
pub(super) struct ProgramLaunch {
    /// Its arguments.
    pub(super) args: Vec<OsString>,
    /// Variables beside those of the role.
    pub(super) env: Vec<(OsString, OsString)>,
    /// Its standard input.
    pub(super) stdin: StdinSource,
    /// Files to write into its HOME before it starts: path below HOME, content. See [`own_folder`] for the folder.
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// Names at the top of the workspace that the program would read as its instructions and that no flag turns off.
    /// Existing ones are covered by something empty. Without a sandbox the program reads them, which the transcript
    /// notes.
    pub(super) hidden: Vec<&'static str>,
    /// The same for files of these names in every folder below the top: programs that read a file also read its
    /// folder's instructions.
    pub(super) hidden_below: Vec<&'static str>,
    /// The same for files that it would run or be configured by: without a sandbox, a workspace that has one is
    /// refused.
    pub(super) needs_hidden: Vec<&'static str>,
}

/// A folder below HOME that only this start has. It is empty, because no earlier start knew its name. Programs store
/// their settings and sessions there.
pub(super) fn own_folder(invocation: &AgentInvocation) -> PathBuf {
    PathBuf::from(format!(".agent-{}", invocation.cookie.as_str()))
}

/// The base URL at which the program reaches this provider, or the one that the loop file names instead, with the
/// start's token; `None` if it signs in by itself.
///
/// # Errors
/// When it has no access.
pub(super) fn provider_url<'a>(invocation: &'a AgentInvocation, provider: &str) -> Result<Option<&'a str>, AgentError> {
    let provider = invocation.endpoints.provider.as_deref().unwrap_or(provider);
    let url = invocation.endpoints.urls.get(provider).map(String::as_str);
    if url.is_none() && invocation.endpoints.login.is_none() {
        let hint = ProviderChoice::One(provider.to_owned()).remedy();
        return Err(unsupported_error(format!("there is no access to the provider `{provider}`"), hint));
    }
    Ok(url)
}

/// The two variables for a provider's base URL and the start's token; none if the program signs in by itself.
///
/// # Errors
/// When it has no access.
pub(super) fn provider_vars(
    invocation: &AgentInvocation,
    provider: &str,
    [url_name, token_name]: [&'static str; 2],
) -> Result<Vec<(&'static str, OsString)>, AgentError> {
    let url = provider_url(invocation, provider)?.into_iter();
    let vars = |url: &str| [(url_name, url.into()), (token_name, invocation.endpoints.token.clone().into())];
    Ok(url.flat_map(vars).collect())
}

/// The variables of a start. Requests to loopback need no proxy, and some programs would ask one for a tunnel.
pub(super) fn launch_env(vars: impl IntoIterator<Item = (&'static str, OsString)>) -> Vec<(OsString, OsString)> {
    let direct = ["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost".into()));
    vars.into_iter().chain(direct).map(|(name, value)| (name.into(), value)).collect()
}

/// Its own sign-in as a file of its own folder, if it has one.
pub(super) fn login_files(invocation: &AgentInvocation, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let login = invocation.endpoints.login.iter();
    login.map(|login| (own_folder(invocation).join(name), login.to_vec())).collect()
}

/// A path below HOME as the program sees it.
pub(super) fn in_home(invocation: &AgentInvocation, below: &Path) -> PathBuf {
    invocation.view.inside_path(&invocation.home).join(below)
}

/// The brief for a program that would replace every name after an at sign with the file's content, even in text by
/// other authors. A backslash before the at sign prevents that.
pub(super) fn plain_brief(prompt: &str) -> String {
    if !prompt.contains('@') {
        return prompt.to_owned();
    }
    format!("(A backslash before an at sign in this text is not part of it.)\n\n{}", prompt.replace('@', "\\@"))
}

/// Parses the stream of one start.
pub(super) trait AgentStreamReader: Send {
    /// One line of standard output without its newline; only the start of a line that is too long.
    fn line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>);

    /// One line of standard error.
    fn error_line(&mut self, _: &[u8], _: &mut StreamObserver<'_>) {}

    /// The program and its tree have ended: reports the rest, above all whether the program completed its work.
    fn end(&mut self, how: RunEnd, hearing: &mut StreamObserver<'_>);
}

/// The engine's side of one start.
pub(super) struct StartContext<'a> {
    pub(super) invocation: &'a AgentInvocation,
    pub(super) proc: &'a ProcessRunner,
    pub(super) log: &'a mut dyn AgentLog,
    pub(super) cancel: &'a CancelToken,
    pub(super) started: &'a mut (dyn FnMut(&StartedProcess) + Send),
}

/// Runs an installed program in its sandbox view until its tree has ended. `who` names it in notes. `package` is the
/// folder of a script's package, shown beside the program itself.
pub(super) async fn run_program(
    installed: &InstalledAgent,
    (who, package): (&str, Option<&Path>),
    launch: ProgramLaunch,
    reader: Box<dyn AgentStreamReader>,
    start: StartContext<'_>,
) -> Result<AgentOutcome, AgentError> {
    let invocation = start.invocation;
    let mut room = hidden_view(&launch, invocation)?;
    if let Some((folder, at)) = package.and_then(|folder| Some((folder, folder.to_str()?))) {
        room = room.with_path_shown(folder, at);
    }
    let mut hearing = StreamObserver::new(start.log, invocation);
    // Instruction files influence the agent, but run nothing.
    for name in room.visible_names(&launch.hidden, &invocation.workspace) {
        hearing.note(&format!("without a sandbox, {who} may read the repository's `{name}`"));
    }
    if let Some(path) = room.visible_below(&launch.hidden_below, &invocation.workspace) {
        let path = path.display();
        hearing.note(&format!("without a sandbox, {who} may read files such as the repository's `{path}`"));
    }
    let spawn = spawn(installed, launch, &room, invocation)?;
    let mut listener = ProgramListener::new(reader, hearing);
    let ended = start.proc.run(spawn, &mut listener, start.cancel, start.started).await?;
    listener.finish(ended)
}

fn spawn(
    installed: &InstalledAgent,
    launch: ProgramLaunch,
    room: &SandboxView,
    invocation: &AgentInvocation,
) -> Result<SpawnRequest, AgentError> {
    for (path, bytes) in &launch.files {
        home::write_private_file(&invocation.home, path, bytes)
            .map_err(|error| AgentError::failed(format!("write `{}`: {error}", path.display()), ""))?;
    }
    let mut spawn = env::spawn_in(room, invocation, installed.executable().to_owned());
    spawn.args = installed.script_argument().into_iter().map(|script| room.inside_path(script).into()).collect();
    spawn.args.extend(launch.args);
    spawn.args.extend(invocation.options.args.iter().map(OsString::from));
    spawn.env.extend(launch.env);
    for (name, value) in &invocation.options.env {
        spawn.env.entry(name.into()).or_insert_with(|| value.into());
    }
    spawn.stdin = launch.stdin;
    spawn.output = OutputChannel::Private;
    Ok(spawn)
}

/// A coding agent's program as an agent.
pub(super) struct DrivenAgent {
    pub(super) dialect: &'static AgentDialect,
    pub(super) installed: InstalledAgent,
}

/// The folder of a start that got its user's sign-in. It is removed however the start ends: even if nothing could be
/// started, and if the start is dropped, because a suspended round keeps its HOME.
struct LoginFolderGuard(PathBuf);

impl Drop for LoginFolderGuard {
    fn drop(&mut self) {
        // A folder that cannot be removed is deleted with the workspace. Links are not followed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The sandbox view without the repository's files that the program would load.
fn hidden_view(launch: &ProgramLaunch, invocation: &AgentInvocation) -> Result<SandboxView, AgentError> {
    if let Some(name) = invocation.view.visible_names(&launch.needs_hidden, &invocation.workspace).first() {
        let what =
            format!("the repository's `{name}` would configure the agent and cannot be hidden without a sandbox");
        return Err(unsupported_error(what, "`loopwright doctor` shows why there is no sandbox; or remove the file"));
    }
    let names = [launch.hidden.as_slice(), &launch.needs_hidden].concat();
    let hidden = invocation.view.clone().with_names_hidden(&names, &launch.hidden_below, &invocation.home);
    let hint = "settings of an agent that lie in a repository are hidden from it; this one cannot be";
    hidden.map_err(|what| unsupported_error(what, hint))
}

impl Agent for DrivenAgent {
    fn name(&self) -> &str {
        self.installed.agent.word()
    }

    fn capabilities(&self) -> AgentCapabilities {
        self.dialect.capabilities
    }

    fn version(&self) -> Option<&str> {
        self.installed.version.as_deref()
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        proc: &'a ProcessRunner,
        log: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        started: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(async move {
            let launch = (self.dialect.launch)(invocation)?;
            let folder = || LoginFolderGuard(invocation.home.join(own_folder(invocation)));
            let _lent = invocation.endpoints.login.as_ref().map(|_| folder());
            let reader = (self.dialect.reader)(invocation);
            let start = StartContext { invocation, proc, log, cancel, started };
            let named = (self.name(), self.installed.package_folder());
            run_program(&self.installed, named, launch, reader, start).await
        })
    }
}

/// Parses a program's output while it runs.
pub(super) struct ProgramListener<'a> {
    reader: Box<dyn AgentStreamReader>,
    observer: StreamObserver<'a>,
    stdout: Lines,
    stderr: Lines,
}

impl<'a> ProgramListener<'a> {
    pub(super) fn new(reader: Box<dyn AgentStreamReader>, observer: StreamObserver<'a>) -> Self {
        Self { reader, observer, stdout: Lines::default(), stderr: Lines::default() }
    }

    /// Bytes of incomplete lines that are stored.
    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.stdout.open.capacity() + self.stderr.open.capacity()
    }

    /// The outcome of a program whose tree has ended.
    ///
    /// # Errors
    /// The program turned out to be one that must not be used.
    pub(super) fn finish(mut self, ended: FinishedRun) -> Result<AgentOutcome, AgentError> {
        let (reader, hearing) = (&mut self.reader, &mut self.observer);
        self.stdout.rest(|line| {
            hearing.whole_line(line);
            reader.line(line, hearing);
        });
        self.stderr.rest(|line| reader.error_line(line, hearing));
        reader.end(ended.how, hearing);
        self.observer.judge_exit(&ended);
        let refused = self.observer.refused.take();
        let outcome = self.observer.finish(ended);
        refused.map_or(Ok(outcome), Err)
    }
}

impl OutputWatch for ProgramListener<'_> {
    fn chunk(&mut self, stream: OutputStream, bytes: &[u8]) -> WatchFlow {
        self.observer.raw(stream, bytes);
        let (reader, hearing) = (&mut self.reader, &mut self.observer);
        match stream {
            OutputStream::Stdout => self.stdout.push(bytes, |line| {
                hearing.whole_line(line);
                reader.line(line, hearing);
            }),
            OutputStream::Stderr => self.stderr.push(bytes, |line| reader.error_line(line, hearing)),
        }
        self.observer.flow()
    }
}

/// Splits a stream at its newlines. A line that is complete in one read is not copied.
#[derive(Debug, Default)]
pub(super) struct Lines {
    open: Vec<u8>,
}

impl Lines {
    pub(super) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            if self.open.is_empty() {
                line(&bytes[..end.min(LINE_MAX)]);
            } else {
                self.keep(&bytes[..end]);
                line(&self.open);
                self.open.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LINE_MAX.saturating_sub(self.open.len());
        self.open.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn rest(&mut self, line: impl FnOnce(&[u8])) {
        if !self.open.is_empty() {
            line(&std::mem::take(&mut self.open));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ProviderEndpoints, claude, tests};
    use super::*;
    use crate::seam::Seam;
    use loopwright_core::spec::{AgentUse, Role};

    #[tokio::test]
    async fn lent_sign_in_is_removed_even_if_nothing_could_be_started() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        ["home", "work", "tmp"].iter().for_each(|name| std::fs::create_dir(at(name)).expect("a folder"));
        let endpoints = ProviderEndpoints { login: Some(b"dummy".as_slice().into()), ..ProviderEndpoints::default() };
        let (home, workspace, tmp) = (at("home"), at("work"), at("tmp"));
        let invocation = AgentInvocation { home, workspace, tmp, endpoints, ..tests::unconfined(Role::Maker) };
        let installed = InstalledAgent::from_path(AgentUse::Claude, at("no-such-program"));
        let agent = DrivenAgent { dialect: &claude::DIALECT, installed };
        let launch = (agent.dialect.launch)(&invocation).expect("a launch");
        let laid = spawn(&agent.installed, launch, &invocation.view, &invocation);
        assert!(laid.is_ok() && std::fs::read_dir(at("home")).expect("HOME").count() == 1, "the sign-in was written");
        let (proc, cancel) = (ProcessRunner::new(Seam::none()), CancelToken::new());
        let ran = agent.invoke(&invocation, &proc, &mut (), &cancel, &mut |_| ()).await;
        assert!(matches!(ran, Err(AgentError::NotFound { .. })), "{ran:?}");
        assert_eq!(std::fs::read_dir(at("home")).expect("HOME").count(), 0, "nothing of it is left");
    }

    #[test]
    fn lines_do_not_depend_on_where_reads_are_cut() {
        let text = b"one\n\ntwo\xff\nthree";
        for size in 1..text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            text.chunks(size).for_each(|chunk| lines.push(chunk, |line| seen.push(line.to_vec())));
            lines.rest(|line| seen.push(line.to_vec()));
            assert_eq!(seen, [b"one".to_vec(), Vec::new(), b"two\xff".to_vec(), b"three".to_vec()], "size {size}");
        }
    }

    #[test]
    fn endless_line_is_stored_up_to_its_limit() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for _ in 0..100 {
            lines.push(&[b'x'; 1 << 16], |line| seen.push(line.len()));
        }
        lines.push(b"\nshort\n", |line| seen.push(line.len()));
        assert_eq!(seen, [LINE_MAX, 5]);
        assert!(lines.open.capacity() <= 2 * LINE_MAX);
    }
}
