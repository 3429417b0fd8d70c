//! One conversation: initialization, session, mode and model, the brief, and all messages of the agent until it has
//! answered. One call of the engine is open at a time; unexpected messages are skipped and counted.

use super::super::driver::{AgentStreamReader, LINE_MAX};
use super::super::stream_observer::{StreamObserver, UsageFigure};
use super::super::tools::unsupported_error;
use super::super::{AgentInvocation, json, mcp_servers};
use super::policy::{self, AcpPolicy};
use super::profile::AcpAgentProfile;
use super::protocol::{
    self, AcpFailure, AcpMessage, AcpSession, InitializeResult, PermissionRequest, PromptResponse, SessionChange,
    SessionNotification, SessionSetting,
};
use crate::proc::{FeedError, RunEnd, StdinFeed};
use loopwright_core::budget::BudgetLimit;
use loopwright_core::config::ModelEffort;
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Bytes of one message that are stored.
const MESSAGE_MAX: usize = 1 << 20;
/// The prefix with which goose reports trouble: as text of the model, in a successful turn.
const GOOSE_TROUBLE: &str = "Ran into this error:";

/// A conversation with one start of an agent.
pub(super) struct AcpConversation {
    feed: StdinFeed,
    policy: AcpPolicy,
    profile: AcpAgentProfile,
    prompt: String,
    cwd: PathBuf,
    model: Option<String>,
    /// How long its model thinks, if the user sets that.
    effort: Option<&'static str>,
    /// The servers for its tools, as the session gets them.
    servers: Value,
    tokens_most: Option<u64>,
    stage: Stage,
    /// The number of the open call.
    open: u64,
    session: String,
    version: Option<String>,
    message: String,
    message_id: Option<String>,
    /// A tool has ended since the model last sent something.
    is_fed: bool,
    denied: bool,
    /// Lines that were not a message, or not one that is expected here.
    odd: u64,
}

/// The open call of the engine.
enum Stage {
    Greeting,
    Session,
    /// The change that is in progress, and those that follow.
    Change(SessionChange, VecDeque<SessionChange>),
    Prompt,
    Over,
}

impl AcpConversation {
    /// Starts with the `initialize` call.
    pub(super) fn begin(
        feed: StdinFeed,
        policy: AcpPolicy,
        known: AcpAgentProfile,
        invocation: &AgentInvocation,
    ) -> Self {
        let mut talk = Self {
            feed,
            policy,
            profile: known,
            prompt: invocation.prompt.clone(),
            cwd: invocation.view.inside_path(&invocation.workspace),
            model: invocation.model.clone(),
            effort: invocation.options.effort.map(ModelEffort::word),
            servers: mcp_servers::for_session(if known.takes_servers_from_session() {
                &invocation.mcp_servers
            } else {
                &[]
            }),
            tokens_most: invocation.limits.tokens,
            stage: Stage::Greeting,
            open: 0,
            session: String::new(),
            version: None,
            message: String::new(),
            message_id: None,
            is_fed: true,
            denied: false,
            odd: 0,
        };
        // The program's files are visible only to itself, so the engine serves neither files nor terminals.
        let offers = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let client = json!({ "name": "loopwright", "title": "Loopwright", "version": env!("CARGO_PKG_VERSION") });
        let params =
            json!({ "protocolVersion": protocol::VERSION, "clientCapabilities": offers, "clientInfo": client });
        // The queue is empty and has space for this call.
        let _ = talk.call("initialize", &params);
        talk
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<(), FeedError> {
        self.open += 1;
        self.feed.send(&protocol::call(self.open, method, params))
    }

    /// Ends the conversation when the program does not read. A program whose input is closed is about to end by itself.
    fn sent(&mut self, sent: Result<(), FeedError>, hearing: &mut StreamObserver<'_>) {
        if sent == Err(FeedError::Full) {
            self.give_up("it does not read its input", hearing);
        }
    }

    /// Ends the conversation with this trouble.
    fn give_up(&mut self, why: &str, hearing: &mut StreamObserver<'_>) {
        hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, why));
        self.over(hearing);
    }

    /// Ends the conversation because the agent must not be used.
    fn refuse(&mut self, (what, hint): (String, String), hearing: &mut StreamObserver<'_>) {
        hearing.refused.get_or_insert(unsupported_error(what, hint));
        self.over(hearing);
    }

    fn over(&mut self, hearing: &mut StreamObserver<'_>) {
        self.stage = Stage::Over;
        self.feed.set_final_input(Vec::new());
        self.feed.close();
        hearing.mark_done();
    }

    fn message(&mut self, message: &AcpMessage, hearing: &mut StreamObserver<'_>) {
        match (message.method.as_deref(), message.id()) {
            (Some("session/update"), _) => self.update(message, hearing),
            (Some("session/request_permission"), Some(id)) => self.answer_permission(message, id, hearing),
            (Some(_), Some(id)) => {
                let sent = self.feed.send(&protocol::not_served(id));
                self.sent(sent, hearing);
            }
            // An unknown notification.
            (Some(_), None) => (),
            (None, Some(id)) if id == self.open.to_string() => self.answered(message, hearing),
            (None, _) => self.odd += 1,
        }
    }

    fn answer_permission(&mut self, message: &AcpMessage, id: &str, hearing: &mut StreamObserver<'_>) {
        let ask = message.params::<PermissionRequest>();
        // A request that cannot be parsed is rejected.
        let allowed = ask.as_ref().is_some_and(|ask| self.policy.allows(ask));
        let kinds: &[&str] = if allowed { &["allow_once"] } else { &["reject_once", "reject_always"] };
        let option = ask.as_ref().and_then(|ask| ask.option(kinds));
        if !allowed || option.is_none() {
            self.denied = true;
        }
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        let sent = self.feed.send(&protocol::answer(id, &json!({ "outcome": outcome })));
        self.sent(sent, hearing);
    }

    fn answered(&mut self, message: &AcpMessage, hearing: &mut StreamObserver<'_>) {
        match (std::mem::replace(&mut self.stage, Stage::Over), &message.error) {
            (Stage::Over, _) => self.odd += 1,
            (Stage::Change(change, rest), Some(failure)) => self.not_changed(change.what, rest, failure, hearing),
            (_, Some(failure)) => self.failed(failure, hearing),
            (Stage::Greeting, None) => self.greeted(message.result(), hearing),
            (Stage::Session, None) => self.opened(message.result(), hearing),
            (Stage::Change(_, rest), None) => self.next(rest, hearing),
            (Stage::Prompt, None) => self.stopped(message.result(), hearing),
        }
    }

    fn failed(&mut self, failure: &AcpFailure, hearing: &mut StreamObserver<'_>) {
        self.finish_message(hearing);
        hearing.trouble_from_text(failure.status(), &failure.text());
        self.over(hearing);
    }

    fn not_changed(
        &mut self,
        what: SessionSetting,
        rest: VecDeque<SessionChange>,
        failure: &AcpFailure,
        hearing: &mut StreamObserver<'_>,
    ) {
        let (refused, hint) = match what {
            SessionSetting::Model => no_model(self.model.as_deref()),
            SessionSetting::Mode if self.policy.needs_mode() => policy::no_mode(),
            // The sandbox confines it anyway.
            SessionSetting::Mode => return self.send_prompt(hearing),
            SessionSetting::Effort => {
                hearing.note(&format!("the agent refuses another effort: {}", json::first_line(&failure.text())));
                return self.next(rest, hearing);
            }
        };
        self.refuse((format!("{refused} ({})", json::first_line(&failure.text())), hint), hearing);
    }

    fn greeted(&mut self, result: &str, hearing: &mut StreamObserver<'_>) {
        let Ok(greeting) = serde_json::from_str::<InitializeResult>(result) else {
            return self.give_up("its answer to `initialize` cannot be read", hearing);
        };
        if greeting.protocol_version != protocol::VERSION {
            let what = format!("the acp agent uses version {} of the protocol, not 1", greeting.protocol_version);
            return self.refuse((what, "use another version of the agent's program".to_owned()), hearing);
        }
        self.version = greeting.agent_info.and_then(|info| info.version);
        self.stage = Stage::Session;
        let sent = self.call("session/new", &json!({ "cwd": self.cwd, "mcpServers": self.servers }));
        self.sent(sent, hearing);
    }

    fn opened(&mut self, result: &str, hearing: &mut StreamObserver<'_>) {
        let Ok(session) = serde_json::from_str::<AcpSession>(result) else {
            return self.give_up("its session cannot be read", hearing);
        };
        self.session.clone_from(&session.session_id);
        let model = self.model.clone().or_else(|| session.model());
        hearing.started(model.as_deref(), self.version.as_deref());
        let effort = self.effort.map(|effort| session.change_effort(effort).ok_or(effort));
        if let Some(Err(effort)) = effort {
            hearing.note(&format!("the agent offers no effort `{effort}` for its model"));
        }
        let effort = effort.and_then(Result::ok).flatten();
        match self.changes(&session, effort) {
            Ok(changes) => self.next(changes, hearing),
            Err(refusal) => self.refuse(refusal, hearing),
        }
    }

    /// The changes before the brief. The mode is the last one: it restricts the agent.
    fn changes(
        &self,
        session: &AcpSession,
        effort: Option<SessionChange>,
    ) -> Result<VecDeque<SessionChange>, (String, String)> {
        let modes = session.modes();
        let mode = self.policy.mode(&modes)?.and_then(|id| session.change_mode(id));
        let model = match &self.model {
            // The program got it in a variable.
            Some(model) if self.profile.takes_model_from_variable() && !session.has_other_model(model) => None,
            Some(model) => session.change_model(model).ok_or_else(|| no_model(Some(model)))?,
            None => None,
        };
        Ok(model.into_iter().chain(effort).chain(mode).collect())
    }

    fn next(&mut self, mut changes: VecDeque<SessionChange>, hearing: &mut StreamObserver<'_>) {
        let Some(change) = changes.pop_front() else { return self.send_prompt(hearing) };
        let sent = self.call(change.method, &change.params);
        self.stage = Stage::Change(change, changes);
        self.sent(sent, hearing);
    }

    /// Sends the brief.
    fn send_prompt(&mut self, hearing: &mut StreamObserver<'_>) {
        let prompt = std::mem::take(&mut self.prompt);
        let params = json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": prompt }] });
        self.feed.set_final_input(protocol::notification("session/cancel", &json!({ "sessionId": self.session })));
        self.stage = Stage::Prompt;
        let sent = self.call("session/prompt", &params);
        self.sent(sent, hearing);
    }

    fn stopped(&mut self, result: &str, hearing: &mut StreamObserver<'_>) {
        self.finish_message(hearing);
        match self.profile.usage(result, self.model.as_deref()) {
            Some(models) => models.iter().for_each(|(model, tokens)| hearing.usage(model, *tokens, UsageFigure::Total)),
            None => hearing.usage_unknown(),
        }
        let stopped = serde_json::from_str::<PromptResponse>(result);
        let reason = stopped.as_ref().map_or("", |stopped| stopped.stop_reason.as_str());
        let trouble = |kind, text: &str| ProviderTrouble::new(kind, None, text);
        match reason {
            "end_turn" => (),
            "max_turn_requests" => hearing.meet(BudgetLimit::Turns),
            "max_tokens" => hearing.trouble(trouble(TroubleKind::Context, "its turn reached a token limit")),
            "refusal" => hearing.trouble(trouble(TroubleKind::Declined, "the model declined to continue")),
            // Some agents end their turn when something is not allowed.
            "cancelled" if self.denied => (),
            other => hearing.trouble(trouble(TroubleKind::Unclear, &format!("its turn ended with `{other}`"))),
        }
        self.over(hearing);
    }

    fn update(&mut self, message: &AcpMessage, hearing: &mut StreamObserver<'_>) {
        let Some(SessionNotification { update }) = message.params() else {
            self.odd += 1;
            return;
        };
        match update.session_update.as_str() {
            "agent_message_chunk" => {
                self.acts(hearing);
                self.append_message(update.message_id.as_deref(), update.text().unwrap_or_default(), hearing);
            }
            "agent_thought_chunk" => self.acts(hearing),
            "tool_call" => {
                self.acts(hearing);
                self.finish_message(hearing);
                let title = json::first_line(update.title.as_deref().unwrap_or_default());
                hearing.tool(update.kind.as_deref().unwrap_or("tool"), title);
            }
            "tool_call_update" => {
                self.is_fed |= matches!(update.status.as_deref(), Some("completed" | "failed"));
            }
            // The current size of the conversation is a lower bound of the used tokens.
            "usage_update" if self.tokens_most.zip(update.used).is_some_and(|(most, used)| used > most) => {
                hearing.meet(BudgetLimit::Total);
            }
            _ => (),
        }
    }

    /// The model sends text or starts a tool. The protocol does not report turns. One starts with the first message
    /// after the end of a tool, so a model that uses several tools at once is counted too often rather than too seldom.
    fn acts(&mut self, hearing: &mut StreamObserver<'_>) {
        if std::mem::take(&mut self.is_fed) && matches!(self.stage, Stage::Prompt) {
            hearing.turn();
        }
    }

    fn append_message(&mut self, id: Option<&str>, text: &str, hearing: &mut StreamObserver<'_>) {
        if id != self.message_id.as_deref() {
            self.finish_message(hearing);
            self.message_id = id.map(str::to_owned);
        }
        let room = MESSAGE_MAX.saturating_sub(self.message.len());
        self.message.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Ends the current message.
    fn finish_message(&mut self, hearing: &mut StreamObserver<'_>) {
        let message = std::mem::take(&mut self.message);
        if message.trim().is_empty() {
            return;
        }
        if self.profile == AcpAgentProfile::Goose && message.starts_with(GOOSE_TROUBLE) {
            hearing.trouble_from_text(None, &message);
        }
        hearing.message(&message);
    }
}

/// Why a session cannot use a model.
fn no_model(model: Option<&str>) -> (String, String) {
    let model = model.unwrap_or_default();
    (
        format!("the acp agent does not offer the model `{model}`"),
        "leave `model` out, or name one that it offers".to_owned(),
    )
}

impl AgentStreamReader for AcpConversation {
    fn line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        if matches!(self.stage, Stage::Over) || line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match json::read::<AcpMessage>(line) {
            Some(message) => self.message(&message, hearing),
            // A call in this line would wait for its answer forever; a lost report does no harm.
            None if line.len() >= LINE_MAX && !is_report(line) => {
                self.give_up("it sent a message that is too long to be read", hearing);
            }
            None => self.odd += 1,
        }
    }

    fn end(&mut self, how: RunEnd, hearing: &mut StreamObserver<'_>) {
        self.finish_message(hearing);
        if self.odd > 0 {
            hearing.note(&format!("{} lines of the agent were not protocol messages", self.odd));
        }
        if matches!(self.stage, Stage::Over) || !matches!(how, RunEnd::Exited(_) | RunEnd::Signaled(_)) {
            return;
        }
        let when = match self.stage {
            Stage::Greeting => "before it answered `initialize`: does it support the Agent Client Protocol?",
            Stage::Prompt => "in the middle of its work",
            Stage::Session | Stage::Change(..) | Stage::Over => "before its work started",
        };
        hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, &format!("it ended {when}")));
    }
}

/// Whether the start of a line shows that it is a report.
fn is_report(line: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&line[..line.len().min(200)]);
    start.replace(' ', "").contains(r#""method":"session/update""#)
}
