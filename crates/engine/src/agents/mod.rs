//! The programs that play roles, behind one interface: an invocation in, live events and an outcome out.
//!
//! An adapter starts exactly one process tree through [`ProcessRunner`], reads what it says, and returns when the tree is gone.
//! It decides nothing: whether an outcome is good is the round's to say, and nothing an agent prints is a verdict.

mod absent;
mod acp;
mod claude;
mod codex;
mod command;
mod driven_agents;
mod driver;
mod env;
mod error;
mod gemini;
mod home;
mod installed;
mod json;
mod login;
mod opencode;
pub mod providers;
mod run_listener;
pub mod scripted;
mod stream_observer;
#[cfg(test)]
mod testing;
mod tools;

pub use absent::AbsentAgent;
pub use acp::AcpAgent;
pub use command::CommandAgent;
pub use driven_agents::{DRIVEN_AGENTS, driven_agent, driven_agent_at, replay_stream};
pub use error::AgentError;
pub use installed::{InstalledAgent, find, install_hint};
pub use login::{AgentLogin, login_hosts};
pub(crate) use run_listener::LINE_MAX;
pub use scripted::{ScriptedAgent, main_if_asked};

use crate::budget_meter::StartMeter;
use crate::egress::ProviderGrant;
use crate::proc::{CancelToken, CapturedOutput, OutputStream, ProcessRunner, RunEnd, StartedProcess, TreeCookie};
use crate::sandbox_view::SandboxView;
use loopwright_core::BoxFuture;
use loopwright_core::budget::{AgentUsage, BudgetLimit, ModelTokens, Tokens};
use loopwright_core::prices::ModelPrices;
use loopwright_core::provider::ProviderTrouble;
use loopwright_core::spec::Role;
use loopwright_core::units::Usd;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything one start of an agent is given.
#[derive(Debug, Clone)]
pub struct AgentInvocation {
    /// The role it plays.
    pub role: Role,
    /// The loop.
    pub loop_name: String,
    /// The round.
    pub round: String,
    /// The attempt inside the round, from 1.
    pub attempt: u32,
    /// The brief.
    pub prompt: String,
    /// The role's view of the workspace: where it starts.
    pub workspace: PathBuf,
    /// Where it may stage items, and say that it cannot.
    pub outbox: PathBuf,
    /// JSON of what was recalled, for reading.
    pub state_file: PathBuf,
    /// The staged items as they were sealed, for a checker to read.
    pub items: Option<PathBuf>,
    /// The HOME of this start.
    pub home: PathBuf,
    /// Its folder for temporary files.
    pub tmp: PathBuf,
    /// Where a checker puts its verdict, and what binds it.
    pub verdict: Option<VerdictSink>,
    /// The model, where the agent has a choice.
    pub model: Option<String>,
    /// Tools the role may use, by the names of loop files; empty means what the role usually has.
    pub tools: Vec<String>,
    /// Where model providers are reached, and with what.
    pub endpoints: ProviderEndpoints,
    /// What tokens cost.
    pub prices: Arc<ModelPrices>,
    /// When it is stopped.
    pub limits: AgentLimits,
    /// The mark of its process tree.
    pub cookie: TreeCookie,
    /// What its programs see. Paths of the invocation are the host's; [`SandboxView::inside_path`] says what they are called inside.
    pub view: SandboxView,
}

/// Where an agent reaches its model provider: base URLs as they are seen in its room, and what it shows there instead of a key.
#[derive(Clone, Default)]
pub struct ProviderEndpoints {
    /// Provider's name to its base URL, such as `http://127.0.0.1:3128/provider/anthropic`: those that the role's agent
    /// may use. One whose provider is not here signs in by itself, see `login`.
    pub urls: BTreeMap<String, String>,
    /// The token of this start. It is worth nothing with another provider, and nothing after it.
    pub token: String,
    /// What the agent's own program keeps as its sign-in, for an agent whose provider has no key and whose user allows this.
    /// It is laid where the program looks for it, and neither a base URL nor a token is given then.
    pub login: Option<Arc<[u8]>>,
    /// What opens the way; the token is worth something as long as this is held.
    pub grant: Option<Arc<ProviderGrant>>,
}

impl ProviderEndpoints {
    /// The providers of a pass.
    #[must_use]
    pub fn from_grant(pass: ProviderGrant) -> Self {
        let (urls, token) = (pass.urls().clone(), pass.token().to_owned());
        Self { urls, token, login: None, grant: Some(Arc::new(pass)) }
    }
}

impl std::fmt::Debug for ProviderEndpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoints").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// A checker's one way to be heard.
#[derive(Debug, Clone)]
pub struct VerdictSink {
    /// The file it writes; made for this checker alone.
    pub path: PathBuf,
    /// The secret of this check.
    pub nonce: String,
    /// The sealed tree.
    pub tree: String,
    /// The candidate.
    pub candidate: String,
}

/// The bounds of one start.
#[derive(Debug, Clone)]
pub struct AgentLimits {
    /// Wall time.
    pub wall: Option<Duration>,
    /// Time without a byte of output.
    pub idle: Option<Duration>,
    /// Turns, where the agent tells them.
    pub turns: Option<u32>,
    /// Tokens: the tree is ended when a usage report passes this.
    pub tokens: Option<u64>,
    /// Money: the tree is ended when a usage report passes this.
    pub usd: Option<Usd>,
    /// What is shared with other starts: takes every usage report, and says when a ceiling was passed.
    pub meter: StartMeter,
    /// Bytes of output after which the tree is ended.
    pub output_max: u64,
}

/// How a start went, once its whole tree is gone.
#[derive(Debug, Clone)]
pub struct AgentOutcome {
    /// How it ended.
    pub how: RunEnd,
    /// The exit code, if it exited.
    pub exit: Option<i32>,
    /// What it used.
    pub usage: AgentUsage,
    /// The last text it wrote, bounded: an L1 maker's report when it stages none.
    pub text: String,
    /// How many turns it told of.
    pub turns: u32,
    /// The kept standard output.
    pub stdout: CapturedOutput,
    /// The kept standard error.
    pub stderr: CapturedOutput,
    /// Somebody still held its pipes when it had ended.
    pub leaky: bool,
    /// It lived on through SIGTERM and had to be killed.
    pub term_ignored: bool,
    /// The ceiling it met. A flood of output is no ceiling of the budget: see [`RunEnd::FloodKind`] in `how`.
    pub limit: Option<BudgetLimit>,
    /// What it told about itself.
    pub self_report: AgentSelfReport,
}

/// What an agent tells about itself in its stream, besides its usage. None of it is evidence of good work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentSelfReport {
    /// Its program's version.
    pub version: Option<String>,
    /// Its session.
    pub session: Option<String>,
    /// Tokens by model.
    pub models: Vec<ModelTokens>,
    /// What it says that cost, by its own table.
    pub billed: Option<Usd>,
    /// Its structured answer, or else its last message. A checker that has no file to write gives its verdict so.
    pub answer: Option<String>,
    /// Tools that were denied to it.
    pub denied: Vec<String>,
    /// What kept it from its work. With this, an exit code of zero means nothing.
    pub trouble: Option<ProviderTrouble>,
}

impl AgentOutcome {
    /// The outcome of an agent that has no process of its own: it ended with this exit code, these last words and this use.
    #[must_use]
    pub fn in_process(exit: i32, text: impl Into<String>, usage: AgentUsage) -> Self {
        Self {
            how: RunEnd::Exited(exit),
            exit: Some(exit),
            usage,
            text: text.into(),
            turns: 0,
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
            leaky: false,
            term_ignored: false,
            limit: None,
            self_report: AgentSelfReport::default(),
        }
    }
}

/// Something an agent did, as it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEvent<'a> {
    /// A line, or a piece of one that is too long, byte for byte and without its newline.
    Text {
        /// The stream it came from.
        stream: OutputStream,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A line, or a piece of one that is too long, of a stream that is spoken between programs: for transcripts, while what
    /// it says to people comes as other events.
    Raw {
        /// The stream it came from.
        stream: OutputStream,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// It is at work.
    Started {
        /// The model, if it said.
        model: Option<&'a str>,
        /// Its program's version, if it said.
        version: Option<&'a str>,
    },
    /// It wrote this to whoever listens.
    Message(&'a str),
    /// It uses a tool.
    Tool {
        /// The tool's name.
        name: &'a str,
        /// On what, in a line.
        what: &'a str,
    },
    /// Its provider was not able to answer, and it tries again by itself.
    Retries {
        /// The HTTP status, if it said.
        status: Option<u16>,
    },
    /// The tokens it says it used so far.
    Usage(Tokens),
    /// A report of usage that cannot be believed.
    UsageUnknown,
    /// It met a ceiling and is being ended.
    Limit(BudgetLimit),
    /// It and its tree are gone.
    Finished {
        /// How it ended.
        how: RunEnd,
    },
}

/// Takes the live events, for transcripts and screens.
pub trait AgentLog: Send {
    /// Sees the next event.
    fn line(&mut self, event: AgentEvent<'_>);
}

/// Sees nothing.
impl AgentLog for () {
    fn line(&mut self, _: AgentEvent<'_>) {}
}

/// What an agent can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCapabilities {
    /// It says what it used.
    pub usage: bool,
    /// Its output follows a schema.
    pub structured_output: bool,
    /// As a checker it gives its verdict as its last message; without, it writes a file.
    pub answers: bool,
    /// It can be limited to a list of tools.
    pub tool_allowlist: bool,
    /// It starts fresh each time.
    pub session_isolation: bool,
    /// It can be sent through a proxy.
    pub proxy: bool,
    /// It starts its programs in the room of its invocation. One that does not has this process's own reach, which is said
    /// in the boundary of its rounds, and gets plain folders to work in.
    pub confined: bool,
}

impl AgentCapabilities {
    /// Those of a program that the engine drives and listens to.
    pub(crate) const DRIVEN: Self = Self {
        usage: true,
        structured_output: true,
        answers: true,
        tool_allowlist: true,
        session_isolation: true,
        proxy: true,
        confined: true,
    };
}

/// A program that can play a role.
pub trait Agent: Send + Sync {
    /// Its name in loop files and reports.
    fn name(&self) -> &str;

    /// What it can do.
    fn capabilities(&self) -> AgentCapabilities;

    /// The version of its program, where that is known without starting it.
    fn version(&self) -> Option<&str> {
        None
    }

    /// Plays the role once and returns when the whole process tree is gone. `started` is called once, before any
    /// event.
    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        proc: &'a ProcessRunner,
        log: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        started: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>>;
}

/// An agent that several hands hold, such as one that was found on this machine.
impl<A: Agent + ?Sized> Agent for Arc<A> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn capabilities(&self) -> AgentCapabilities {
        (**self).capabilities()
    }

    fn version(&self) -> Option<&str> {
        (**self).version()
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        proc: &'a ProcessRunner,
        log: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        started: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        (**self).invoke(invocation, proc, log, cancel, started)
    }
}
