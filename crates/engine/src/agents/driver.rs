//! Driving a coding agent's own program: from an [`Invocation`] to a command line, and from its stream to events.
//!
//! What differs between programs is a [`Dialect`]: flags, environment, files in its HOME, and a [`Reader`] of its stream.
//! Everything else is here once: starting it in its room, splitting the stream, counting, ceilings, and what the end means.

use super::hearing::Hearing;
use super::installed::Installed;
use super::providers::Asks;
use super::{Agent, AgentError, AgentLog, AgentOutcome, Capabilities, Invocation, env, home};
use crate::clock::{Clock, SystemClock};
use crate::proc::{Cancel, Ended, Flow, How, Output, Proc, Spawn, Started, Stdin, Stream, Watch};
use crate::room::Room;
use loopwright_core::BoxFuture;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A longer line is not kept whole: its reader sees its beginning and is told so.
pub(super) const LINE_MAX: usize = 4 << 20;

/// How one program is spoken to and understood.
pub(super) trait Dialect: Send + Sync {
    /// The name in loop files.
    fn name(&self) -> &'static str;

    /// What the program can do.
    fn capabilities(&self) -> Capabilities;

    /// What to start. Starts nothing itself and reads nothing of the host but whether a sign-in lies in the HOME, so that it
    /// can be tested word by word.
    ///
    /// # Errors
    /// When the program cannot keep to what is asked. A restriction is never weakened in silence.
    fn launch(&self, invocation: &Invocation) -> Result<Launch, AgentError>;

    /// Reads the stream of one start.
    fn reader(&self, invocation: &Invocation) -> Box<dyn Reader>;
}

/// One start of a program, besides what every start has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Launch {
    /// Its arguments.
    pub(super) args: Vec<OsString>,
    /// Variables beside those of the role.
    pub(super) env: Vec<(OsString, OsString)>,
    /// What it reads on standard input.
    pub(super) stdin: Vec<u8>,
    /// Files to lay into its HOME before it starts: path below HOME, content. See [`own_folder`] for where.
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// Names at the top of the workspace that the program would read as its instructions and that no flag turns off. Where
    /// they exist, something empty lies over them; without walls the program reads them, which is said.
    pub(super) hidden: Vec<&'static str>,
    /// The same for files of these names in every folder below the top: programs that read a file take its folder's
    /// instructions with it.
    pub(super) hidden_below: Vec<&'static str>,
    /// The same for what it would run or be steered by: without walls, a workspace that has one is refused.
    pub(super) needs_hidden: Vec<&'static str>,
}

/// A folder below HOME that only this start has: nothing that an earlier one left is in it, because nobody knew its name.
/// Programs keep their settings and sessions there.
pub(super) fn own_folder(invocation: &Invocation) -> PathBuf {
    PathBuf::from(format!(".agent-{}", invocation.cookie.as_str()))
}

/// How a program gets to its model provider.
pub(super) enum Way<'a> {
    /// By this base URL, with the round's token.
    Proxy(&'a str),
    /// By itself, with its own sign-in.
    Own,
}

/// How a program gets to this provider.
///
/// # Errors
/// When there is no way.
pub(super) fn way_to<'a>(invocation: &'a Invocation, provider: &str) -> Result<Way<'a>, AgentError> {
    let endpoints = &invocation.endpoints;
    match (endpoints.urls.get(provider), &endpoints.login) {
        (Some(url), _) => Ok(Way::Proxy(url)),
        (None, Some(_)) => Ok(Way::Own),
        (None, None) => {
            let hint = Asks::One(provider.to_owned()).remedy();
            Err(AgentError::Unavailable { what: format!("there is no way to the provider `{provider}`"), hint })
        }
    }
}

/// Its own sign-in as a file of its own folder, where there is one.
pub(super) fn signed_in(invocation: &Invocation, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let login = invocation.endpoints.login.iter();
    login.map(|login| (own_folder(invocation).join(name), login.to_vec())).collect()
}

/// A path below HOME as the program names it.
pub(super) fn in_home(invocation: &Invocation, below: &Path) -> PathBuf {
    invocation.room.see(&invocation.home).join(below)
}

/// The brief for a program that would put a file's content in the place of every name behind an at sign, also in what others
/// wrote: the brief says what the brief says. A name with a backslash before the at sign is left alone.
pub(super) fn plain_brief(prompt: &str) -> String {
    if !prompt.contains('@') {
        return prompt.to_owned();
    }
    format!("(A backslash before an at sign in this text is not part of it.)\n\n{}", prompt.replace('@', "\\@"))
}

/// Understands the stream of one start.
pub(super) trait Reader: Send {
    /// One line of standard output without its newline; of one that is too long, the beginning.
    fn line(&mut self, line: &[u8], hearing: &mut Hearing<'_>);

    /// One line of standard error.
    fn error_line(&mut self, _: &[u8], _: &mut Hearing<'_>) {}

    /// The program and its tree are gone: says what is still to be said, above all whether it ever came to its own end.
    fn end(&mut self, how: How, hearing: &mut Hearing<'_>);
}

/// A coding agent's program as an agent.
pub(super) struct Driven {
    dialect: &'static dyn Dialect,
    installed: Installed,
    clock: Arc<dyn Clock>,
}

impl Driven {
    /// A program that was found on this host.
    pub(super) fn new(dialect: &'static dyn Dialect, installed: Installed) -> Self {
        Self { dialect, installed, clock: Arc::new(SystemClock) }
    }

    fn spawn(&self, launch: Launch, room: &Room, invocation: &Invocation) -> Result<Spawn, AgentError> {
        for (path, bytes) in &launch.files {
            home::lay(&invocation.home, path, bytes)
                .map_err(|error| AgentError::failed(format!("write `{}`: {error}", path.display()), ""))?;
        }
        let mut spawn = env::spawn_in(room, invocation, self.installed.starts().to_owned());
        spawn.args = self.installed.script().into_iter().map(|script| room.see(script).into()).collect();
        spawn.args.extend(launch.args);
        spawn.env.extend(launch.env);
        spawn.stdin = Stdin::Bytes(launch.stdin);
        spawn.output = Output::Private;
        Ok(spawn)
    }

    /// The room with the rest of a script's package in it. The program itself is shown by its start.
    fn show(&self, room: Room) -> Room {
        match self.installed.needs().and_then(|folder| Some((folder, folder.to_str()?))) {
            Some((folder, at)) => room.showing(folder, at),
            None => room,
        }
    }

    async fn run(
        &self,
        invocation: &Invocation,
        proc: &Proc,
        log: &mut dyn AgentLog,
        cancel: &Cancel,
        started: &mut (dyn FnMut(&Started) + Send),
    ) -> Result<AgentOutcome, AgentError> {
        let launch = self.dialect.launch(invocation)?;
        let room = self.show(hide(&launch, invocation)?);
        let mut hearing = Hearing::new(log, invocation).by(self.clock.as_ref());
        for name in room.shows(&launch.hidden, &invocation.workspace) {
            hearing.note(&format!("without walls, {} reads the repository's `{name}`", self.dialect.name()));
        }
        if let Some(path) = room.shows_below(&launch.hidden_below, &invocation.workspace) {
            let (name, path) = (self.dialect.name(), path.display());
            hearing.note(&format!("without walls, {name} may read the repository's `{path}` and its like"));
        }
        let _lent = Lent::of(invocation);
        let spawn = self.spawn(launch, &room, invocation)?;
        let mut listener = Listener::new(self.dialect.reader(invocation), hearing);
        let ended = proc.run(spawn, &mut listener, cancel, started).await?;
        let mut outcome = listener.finish(ended);
        outcome.told.version = outcome.told.version.or_else(|| self.installed.version.clone());
        Ok(outcome)
    }
}

/// The folder of a start that was lent its user's sign-in. It goes however the start ends: also when nothing could be started,
/// and when nobody waits for it any more, as a suspended round keeps its HOME.
struct Lent(PathBuf);

impl Lent {
    fn of(invocation: &Invocation) -> Option<Self> {
        let folder = || Self(invocation.home.join(own_folder(invocation)));
        invocation.endpoints.login.as_ref().map(|_| folder())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // What cannot be taken away goes with the workspace. A link is not followed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The room without what the program would load of the repository's.
pub(super) fn hide(launch: &Launch, invocation: &Invocation) -> Result<Room, AgentError> {
    if let Some(name) = invocation.room.shows(&launch.needs_hidden, &invocation.workspace).first() {
        let what = format!("the repository's `{name}` would steer the agent, and without walls it cannot be hidden");
        let hint = "`loopwright doctor` says why there are no walls; or remove the file";
        return Err(AgentError::Unavailable { what, hint: hint.to_owned() });
    }
    let names = [launch.hidden.as_slice(), &launch.needs_hidden].concat();
    let hidden = invocation.room.clone().hiding(&names, &invocation.home);
    let hidden = hidden.and_then(|room| match launch.hidden_below.as_slice() {
        [] => Ok(room),
        names => room.hiding_below(names, &invocation.home),
    });
    hidden.map_err(|what| {
        let hint = "settings of an agent that lie in a repository are hidden from it; this one cannot be".to_owned();
        AgentError::Unavailable { what, hint }
    })
}

impl Agent for Driven {
    fn name(&self) -> &str {
        self.dialect.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.dialect.capabilities()
    }

    fn version(&self) -> Option<&str> {
        self.installed.version.as_deref()
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a Invocation,
        proc: &'a Proc,
        log: &'a mut dyn AgentLog,
        cancel: &'a Cancel,
        started: &'a mut (dyn FnMut(&Started) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(self.run(invocation, proc, log, cancel, started))
    }
}

/// Hears a program while it runs.
pub(super) struct Listener<'a> {
    reader: Box<dyn Reader>,
    hearing: Hearing<'a>,
    stdout: Lines,
    stderr: Lines,
}

impl<'a> Listener<'a> {
    pub(super) fn new(reader: Box<dyn Reader>, hearing: Hearing<'a>) -> Self {
        Self { reader, hearing, stdout: Lines::default(), stderr: Lines::default() }
    }

    /// Bytes that are kept of lines which have not ended.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.stdout.open.capacity() + self.stderr.open.capacity()
    }

    /// The outcome of a program whose tree is gone.
    pub(super) fn finish(mut self, ended: Ended) -> AgentOutcome {
        let (reader, hearing) = (&mut self.reader, &mut self.hearing);
        self.stdout.rest(|line| reader.line(line, hearing));
        self.stderr.rest(|line| reader.error_line(line, hearing));
        reader.end(ended.how, hearing);
        self.hearing.settle(&ended);
        self.hearing.finish(ended)
    }
}

impl Watch for Listener<'_> {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) -> Flow {
        self.hearing.raw(stream, bytes);
        let (reader, hearing) = (&mut self.reader, &mut self.hearing);
        match stream {
            Stream::Stdout => self.stdout.push(bytes, |line| reader.line(line, hearing)),
            Stream::Stderr => self.stderr.push(bytes, |line| reader.error_line(line, hearing)),
        }
        self.hearing.flow()
    }
}

/// Splits a stream at its newlines. A line that lies whole in what was read is not copied.
#[derive(Debug, Default)]
struct Lines {
    open: Vec<u8>,
}

impl Lines {
    fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
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
    use super::super::{Endpoints, claude, testing};
    use super::*;
    use crate::seam::Seam;
    use loopwright_core::spec::{AgentUse, Role};

    #[tokio::test]
    async fn lent_sign_in_goes_also_when_nothing_could_be_started() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        ["home", "work", "tmp"].iter().for_each(|name| std::fs::create_dir(at(name)).expect("a folder"));
        let endpoints = Endpoints { login: Some(b"dummy".as_slice().into()), ..Endpoints::default() };
        let (home, workspace, tmp) = (at("home"), at("work"), at("tmp"));
        let invocation = Invocation { home, workspace, tmp, endpoints, ..testing::without_walls(Role::Maker) };
        let agent = Driven::new(&claude::Claude, Installed::at(AgentUse::Claude, at("no-such-program")));
        let laid = agent.spawn(agent.dialect.launch(&invocation).expect("a launch"), &invocation.room, &invocation);
        assert!(laid.is_ok() && std::fs::read_dir(at("home")).expect("HOME").count() == 1, "the sign-in was laid");
        let (proc, cancel) = (Proc::new(Seam::none()), Cancel::new());
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
    fn endless_line_is_kept_to_its_bound() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for _ in 0..100 {
            lines.push(&[b'x'; 1 << 16], |line| seen.push(line.len()));
        }
        lines.push(b"\nshort\n", |line| seen.push(line.len()));
        assert_eq!(seen, [LINE_MAX, 5]);
        assert!(lines.open.capacity() <= 2 * LINE_MAX);
    }
}
