//! The programs that perform roles, behind one interface: an invocation in, live events and an outcome out.
//!
//! An adapter starts exactly one process tree through [`ProcessRunner`], reads its output, and returns when the tree
//! has ended. It decides nothing: the round decides whether an outcome is good, and nothing an agent prints is a
//! verdict.

mod absent;
mod acp;
mod activity;
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
pub(crate) mod mcp_servers;
mod opencode;
pub mod providers;
mod repetition;
mod run_listener;
pub mod scripted;
mod steering_files;
mod stream_observer;
#[cfg(test)]
mod tests;
mod tools;

pub use absent::AbsentAgent;
pub use acp::AcpAgent;
pub use activity::{ActivityReader, AgentActivity, ToolEnd};
pub use command::CommandAgent;
pub use driven_agents::{DRIVEN_AGENTS, driven_agent, driven_agent_at, replay_stream};
pub use error::AgentError;
pub use installed::{InstalledAgent, find, install_hint};
pub use login::{AgentLogin, login_hosts};
pub use mcp_servers::McpServer;
pub(crate) use run_listener::LINE_MAX;
pub use scripted::{ScriptedAgent, main_if_asked};
pub use steering_files::{INSTRUCTION_FILES, STEERING_PLACES};
pub use tools::{ToolGround, check_agent};

use crate::budget_meter::StartMeter;
use crate::egress::{CloudApi, ProviderGrant};
use crate::proc::{CancelToken, OutputStream, ProcessRunner, RunEnd, StartedProcess, TreeCookie};
use crate::sandbox_view::SandboxView;
use loopwright_core::BoxFuture;
use loopwright_core::budget::{AgentUsage, BudgetLimit, ModelTokens, Tokens};
use loopwright_core::config::AgentOptions;
use loopwright_core::prices::ModelPrices;
use loopwright_core::provider::ProviderTrouble;
use loopwright_core::spec::Role;
use loopwright_core::units::Usd;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The input of one start of an agent.
#[derive(Debug, Clone)]
pub struct AgentInvocation {
    /// Its role.
    pub role: Role,
    /// The loop.
    pub loop_name: String,
    /// The round.
    pub round: String,
    /// The attempt inside the round, from 1; 0 for a planner.
    pub attempt: u32,
    /// The phase of the plan that a maker works on, from 1.
    pub phase: Option<u32>,
    /// The role of an attacker in the loop file.
    pub attack_role: Option<String>,
    /// The brief.
    pub prompt: String,
    /// The role's view of the workspace: its working folder.
    pub workspace: PathBuf,
    /// The folder in which it may stage items, or report that it cannot do the task.
    pub outbox: PathBuf,
    /// The recalled state as JSON, read-only.
    pub state_file: PathBuf,
    /// The staged items as they were sealed, for a checker to read.
    pub items: Option<PathBuf>,
    /// The HOME of this start.
    pub home: PathBuf,
    /// Its folder for temporary files.
    pub tmp: PathBuf,
    /// The destination of a checker's verdict or of an attacker's findings, and the values that bind it.
    pub verdict: Option<VerdictSink>,
    /// The folder for a planner's files.
    pub plan: Option<PathBuf>,
    /// The model, if the agent has a choice.
    pub model: Option<String>,
    /// Tools the role may use, by their names in loop files; empty means the role's usual tools.
    pub tools: Vec<String>,
    /// Servers of the Model Context Protocol that it starts for its tools.
    pub mcp_servers: Vec<McpServer>,
    /// The user's options of the agent.
    pub options: AgentOptions,
    /// The addresses of model providers, and the credential for them.
    pub endpoints: ProviderEndpoints,
    /// The prices of tokens.
    pub prices: Arc<ModelPrices>,
    /// The limits at which it is stopped.
    pub limits: AgentLimits,
    /// The cookie that marks its process tree.
    pub cookie: TreeCookie,
    /// The sandbox of its programs. Paths of the invocation are the host's; [`SandboxView::inside_path`] converts them.
    pub view: SandboxView,
}

/// An agent's access to its model provider: base URLs as seen in its sandbox, and the token that it sends there instead
/// of a key.
#[derive(Clone, Default)]
pub struct ProviderEndpoints {
    /// Provider's name to its base URL, such as `http://127.0.0.1:3128/provider/anthropic`: the providers that the
    /// role's agent may use. An agent whose provider is missing here signs in by itself, see `login`.
    pub urls: BTreeMap<String, String>,
    /// Those of them that are clouds with an interface of their own.
    pub clouds: BTreeMap<String, CloudApi>,
    /// The token of this start. It is invalid for other providers, and after the start.
    pub token: String,
    /// The stored sign-in of the agent's own program, for an agent whose provider has no key and whose user allows
    /// this. It is written where the program expects it; the agent then gets neither a base URL nor a token.
    pub login: Option<Arc<[u8]>>,
    /// The provider that the loop file names for this agent; `None` means the agent's usual one.
    pub provider: Option<String>,
    /// The grant behind the token, which is valid as long as this is held.
    pub grant: Option<Arc<ProviderGrant>>,
}

impl ProviderEndpoints {
    /// The providers of a grant.
    #[must_use]
    pub fn from_grant(pass: ProviderGrant) -> Self {
        let (urls, token) = (pass.urls().clone(), pass.token().to_owned());
        let clouds = pass.clouds().clone();
        Self { urls, clouds, token, login: None, provider: None, grant: Some(Arc::new(pass)) }
    }
}

impl std::fmt::Debug for ProviderEndpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoints").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// The only channel for a checker's verdict.
#[derive(Debug, Clone)]
pub struct VerdictSink {
    /// The file it writes; created for this checker alone.
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
    /// Turns, if the agent reports them.
    pub turns: Option<u32>,
    /// Tokens: the tree is ended when a usage report exceeds this.
    pub tokens: Option<u64>,
    /// Money: the tree is ended when a usage report exceeds this.
    pub usd: Option<Usd>,
    /// The meter that is shared with other starts: it receives every usage report, and reports an exceeded ceiling.
    pub meter: StartMeter,
    /// Bytes of output after which the tree is ended.
    pub output_max: u64,
}

/// The outcome of a start, once its whole tree has ended.
#[derive(Debug, Clone)]
pub struct AgentOutcome {
    /// How it ended.
    pub how: RunEnd,
    /// The exit code, if it exited.
    pub exit: Option<i32>,
    /// Its usage.
    pub usage: AgentUsage,
    /// The last text it wrote, bounded: an L1 maker's report if it stages none.
    pub text: String,
    /// The number of turns it reported.
    pub turns: u32,
    /// Another process still held its pipes when it had ended.
    pub leaky: bool,
    /// It ignored SIGTERM and had to be killed.
    pub term_ignored: bool,
    /// The ceiling it reached. A flood of output is not a ceiling of the budget: see [`RunEnd::Flood`] in `how`.
    pub limit: Option<BudgetLimit>,
    /// Its report about itself.
    pub self_report: AgentSelfReport,
}

/// An agent's report about itself in its stream, besides its usage. It is never evidence of good work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentSelfReport {
    /// Tokens by model.
    pub models: Vec<ModelTokens>,
    /// Its structured answer, or its last message. A checker that has no file to write returns its verdict here.
    pub answer: Option<String>,
    /// The trouble that prevented its work. If there is any, an exit code of zero means nothing.
    pub trouble: Option<ProviderTrouble>,
    /// Its tool calls that were refused, as its output shows them.
    pub refused_calls: u32,
}

impl AgentOutcome {
    /// The outcome of an agent that has no process of its own: it ended with this exit code, this last text and this
    /// usage.
    #[must_use]
    pub fn in_process(exit: i32, text: impl Into<String>, usage: AgentUsage) -> Self {
        Self {
            how: RunEnd::Exited(exit),
            exit: Some(exit),
            usage,
            text: text.into(),
            turns: 0,
            leaky: false,
            term_ignored: false,
            limit: None,
            self_report: AgentSelfReport::default(),
        }
    }
}

/// A live event of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEvent<'a> {
    /// A line, or a piece of one that is too long, byte for byte and without its newline.
    Text {
        /// The stream it came from.
        stream: OutputStream,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A line, or a piece of one that is too long, of a stream between programs. It is for transcripts; the text for
    /// people arrives as other events.
    Raw {
        /// The stream it came from.
        stream: OutputStream,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// It has started its work.
    Started {
        /// The model, if it reported one.
        model: Option<&'a str>,
        /// Its program's version, if it reported one.
        version: Option<&'a str>,
    },
    /// It wrote this message to the user.
    Message(&'a str),
    /// It uses a tool.
    Tool {
        /// The tool's name.
        name: &'a str,
        /// The tool's input, in a line.
        what: &'a str,
    },
    /// Its provider could not answer, and it retries by itself.
    Retries {
        /// The HTTP status, if it reported one.
        status: Option<u16>,
    },
    /// The tokens it reports as used so far.
    Usage(Tokens),
    /// A usage report that cannot be trusted.
    UsageUnknown,
    /// It reached a ceiling and is being ended.
    Limit(BudgetLimit),
    /// It and its tree have ended.
    Finished {
        /// How it ended.
        how: RunEnd,
    },
}

/// Receives the live events, for transcripts and screens.
pub trait AgentLog: Send {
    /// Receives the next event.
    fn line(&mut self, event: AgentEvent<'_>);
}

/// Ignores all events.
impl AgentLog for () {
    fn line(&mut self, _: AgentEvent<'_>) {}
}

/// The capabilities of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCapabilities {
    /// It reports its usage.
    pub usage: bool,
    /// Its output follows a schema.
    pub structured_output: bool,
    /// As a checker it returns its verdict as its last message; otherwise it writes a file.
    pub answers: bool,
    /// It can be restricted to a list of tools.
    pub tool_allowlist: bool,
    /// It starts fresh each time.
    pub session_isolation: bool,
    /// It can be sent through a proxy.
    pub proxy: bool,
    /// It starts its programs in the sandbox view of its invocation. An agent that does not has this process's own
    /// access, which the boundary of its rounds states, and works in plain folders.
    pub confined: bool,
}

impl AgentCapabilities {
    /// Those of a program that the engine starts and whose output it reads.
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

/// A program that can perform a role.
pub trait Agent: Send + Sync {
    /// Its name in loop files and reports.
    fn name(&self) -> &str;

    /// Its capabilities.
    fn capabilities(&self) -> AgentCapabilities;

    /// The version of its program, if it is known without starting it.
    fn version(&self) -> Option<&str> {
        None
    }

    /// Performs the role once and returns when the whole process tree has ended. `started` is called once, before any
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

/// A shared agent, such as one that was found on this machine.
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
