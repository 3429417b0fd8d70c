//! One conversation: greeting, session, mode and model, the brief, and everything the agent says and asks until it has
//! answered. One call of ours is open at a time; whatever does not belong there is passed over and counted.

use super::super::driver::{LINE_MAX, Reader};
use super::super::hearing::{Count, Hearing};
use super::super::{Invocation, json};
use super::known::Known;
use super::policy::{self, Answer, Policy};
use super::wire::{self, Ask, Change, Failure, Greeting, Message, Session, Stopped, Update, What};
use crate::proc::{Feed, FeedError, How};
use loopwright_core::budget::BudgetLimit;
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How much of one message is kept.
const MESSAGE_MAX: usize = 1 << 20;
/// How goose tells of trouble: as words of the model, in a turn that went well.
const GOOSE_TROUBLE: &str = "Ran into this error:";

/// Why the agent is not used after all, and what to do about it.
pub(super) type Refusal = Arc<Mutex<Option<(String, String)>>>;

/// A conversation with one start of an agent.
pub(super) struct Talk {
    feed: Feed,
    policy: Policy,
    known: Known,
    refusal: Refusal,
    prompt: String,
    cwd: PathBuf,
    model: Option<String>,
    tokens_most: Option<u64>,
    stage: Stage,
    /// The number of the open call.
    open: u64,
    session: String,
    version: Option<String>,
    message: String,
    message_id: Option<String>,
    /// A tool has ended since the model last said or did something.
    is_fed: bool,
    denied: bool,
    /// Lines that were no message, or none that belongs here.
    odd: u64,
}

/// Which call of ours is open.
enum Stage {
    Greeting,
    Session,
    /// The change that is being made, and those to come.
    Change(Change, VecDeque<Change>),
    Prompt,
    Over,
}

impl Talk {
    /// Begins with the greeting.
    pub(super) fn begin(feed: Feed, policy: Policy, known: Known, invocation: &Invocation, refusal: Refusal) -> Self {
        let mut talk = Self {
            feed,
            policy,
            known,
            refusal,
            prompt: invocation.prompt.clone(),
            cwd: invocation.room.see(&invocation.workspace),
            model: invocation.model.clone(),
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
        // The program's files lie where only it can see them, so none are served from here, and neither are terminals.
        let offers = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let client = json!({ "name": "loopwright", "title": "Loopwright", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": wire::VERSION, "clientCapabilities": offers, "clientInfo": client });
        // The queue is empty and holds more than a greeting.
        let _ = talk.call("initialize", &params);
        talk
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<(), FeedError> {
        self.open += 1;
        self.feed.send(&wire::call(self.open, method, params))
    }

    /// Sends, and ends the conversation when the program does not read. One whose input is closed is about to end by itself.
    fn sent(&mut self, sent: Result<(), FeedError>, hearing: &mut Hearing<'_>) {
        if sent == Err(FeedError::Full) {
            self.give_up("it does not read what it is told", hearing);
        }
    }

    /// It cannot go on like this.
    fn give_up(&mut self, why: &str, hearing: &mut Hearing<'_>) {
        hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, why));
        self.over(hearing);
    }

    /// It is not to be used.
    fn refuse(&mut self, (what, hint): (String, String), hearing: &mut Hearing<'_>) {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((what, hint));
        self.over(hearing);
    }

    fn over(&mut self, hearing: &mut Hearing<'_>) {
        self.stage = Stage::Over;
        self.feed.set_last_words(Vec::new());
        self.feed.close();
        hearing.done();
    }

    fn message(&mut self, message: &Message<'_>, hearing: &mut Hearing<'_>) {
        match (message.method.as_deref(), message.id()) {
            (Some("session/update"), _) => self.update(message, hearing),
            (Some("session/request_permission"), Some(id)) => self.asked(message, id, hearing),
            (Some(_), Some(id)) => {
                let sent = self.feed.send(&wire::not_served(id));
                self.sent(sent, hearing);
            }
            // A notification that is not known.
            (Some(_), None) => (),
            (None, Some(id)) if id == self.open.to_string() => self.answered(message, hearing),
            (None, _) => self.odd += 1,
        }
    }

    fn asked(&mut self, message: &Message<'_>, id: &str, hearing: &mut Hearing<'_>) {
        let ask = message.params.and_then(|params| serde_json::from_str::<Ask<'_>>(params.get()).ok());
        // What cannot be understood is not allowed.
        let decided = ask.as_ref().map_or(Answer::Reject, |ask| self.policy.decide(ask));
        let option = ask.as_ref().and_then(|ask| match decided {
            Answer::Allow => ask.option(&["allow_once"]),
            Answer::Reject => ask.option(&["reject_once", "reject_always"]),
        });
        if decided == Answer::Reject || option.is_none() {
            self.denied = true;
            hearing.denied(ask.as_ref().map_or("a tool", Ask::name));
        }
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        let sent = self.feed.send(&wire::answer(id, &json!({ "outcome": outcome })));
        self.sent(sent, hearing);
    }

    fn answered(&mut self, message: &Message<'_>, hearing: &mut Hearing<'_>) {
        match (std::mem::replace(&mut self.stage, Stage::Over), &message.error) {
            (Stage::Over, _) => self.odd += 1,
            (Stage::Change(change, _), Some(failure)) => self.not_changed(change.what, failure, hearing),
            (_, Some(failure)) => self.failed(failure, hearing),
            (Stage::Greeting, None) => self.greeted(message.result(), hearing),
            (Stage::Session, None) => self.opened(message.result(), hearing),
            (Stage::Change(_, rest), None) => self.next(rest, hearing),
            (Stage::Prompt, None) => self.stopped(message.result(), hearing),
        }
    }

    fn failed(&mut self, failure: &Failure<'_>, hearing: &mut Hearing<'_>) {
        self.say(hearing);
        hearing.trouble_said(failure.status(), &failure.text());
        self.over(hearing);
    }

    fn not_changed(&mut self, what: What, failure: &Failure<'_>, hearing: &mut Hearing<'_>) {
        let (refused, hint) = match what {
            What::Model => no_model(self.model.as_deref()),
            What::Mode if self.policy.needs_mode() => policy::no_mode(),
            // The walls hold it.
            What::Mode => return self.ask(hearing),
        };
        self.refuse((format!("{refused} ({})", json::glance(&failure.text())), hint), hearing);
    }

    fn greeted(&mut self, result: &str, hearing: &mut Hearing<'_>) {
        let Ok(greeting) = serde_json::from_str::<Greeting<'_>>(result) else {
            return self.give_up("its greeting cannot be read", hearing);
        };
        if greeting.protocol_version != wire::VERSION {
            let what = format!("the acp agent speaks version {} of the protocol, not 1", greeting.protocol_version);
            return self.refuse((what, "use another version of the agent's program".to_owned()), hearing);
        }
        self.version = greeting.agent_info.and_then(|info| info.version).map(std::borrow::Cow::into_owned);
        self.stage = Stage::Session;
        let sent = self.call("session/new", &json!({ "cwd": self.cwd, "mcpServers": [] }));
        self.sent(sent, hearing);
    }

    fn opened(&mut self, result: &str, hearing: &mut Hearing<'_>) {
        let Ok(session) = serde_json::from_str::<Session<'_>>(result) else {
            return self.give_up("its session cannot be read", hearing);
        };
        self.session = session.session_id.clone().into_owned();
        let model = self.model.clone().or_else(|| session.model());
        hearing.started(Some(&self.session), model.as_deref(), self.version.as_deref());
        match self.changes(&session) {
            Ok(changes) => self.next(changes, hearing),
            Err(refusal) => self.refuse(refusal, hearing),
        }
    }

    fn changes(&self, session: &Session<'_>) -> Result<VecDeque<Change>, (String, String)> {
        let modes = session.modes();
        let mode = self.policy.mode(&modes)?.and_then(|id| session.change_mode(id));
        let model = match &self.model {
            Some(model) => session.change_model(model).map_err(|_| no_model(Some(model)))?,
            None => None,
        };
        Ok(model.into_iter().chain(mode).collect())
    }

    fn next(&mut self, mut changes: VecDeque<Change>, hearing: &mut Hearing<'_>) {
        let Some(change) = changes.pop_front() else { return self.ask(hearing) };
        let sent = self.call(change.method, &change.params);
        self.stage = Stage::Change(change, changes);
        self.sent(sent, hearing);
    }

    /// Hands it the brief.
    fn ask(&mut self, hearing: &mut Hearing<'_>) {
        let prompt = std::mem::take(&mut self.prompt);
        let params = json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": prompt }] });
        self.feed.set_last_words(wire::notification("session/cancel", &json!({ "sessionId": self.session })));
        self.stage = Stage::Prompt;
        let sent = self.call("session/prompt", &params);
        self.sent(sent, hearing);
    }

    fn stopped(&mut self, result: &str, hearing: &mut Hearing<'_>) {
        self.say(hearing);
        match self.known.usage(result, self.model.as_deref()) {
            Some(models) => models.iter().for_each(|(model, tokens)| hearing.usage(model, *tokens, Count::Total)),
            None => hearing.usage_unknown(),
        }
        let stopped = serde_json::from_str::<Stopped<'_>>(result);
        let reason = stopped.as_ref().map_or("", |stopped| stopped.stop_reason.as_ref());
        let trouble = |kind, text: &str| ProviderTrouble::new(kind, None, text);
        match reason {
            "end_turn" => (),
            "max_turn_requests" => hearing.limited(BudgetLimit::Turns),
            "max_tokens" => hearing.trouble(trouble(TroubleKind::Context, "its turn met a limit of tokens")),
            "refusal" => hearing.trouble(trouble(TroubleKind::Declined, "the model declined to go on")),
            // Some end their turn when something is not allowed.
            "cancelled" if self.denied => (),
            other => hearing.trouble(trouble(TroubleKind::Unclear, &format!("its turn ended with `{other}`"))),
        }
        self.over(hearing);
    }

    fn update(&mut self, message: &Message<'_>, hearing: &mut Hearing<'_>) {
        let update = message.params.and_then(|params| serde_json::from_str::<Update<'_>>(params.get()).ok());
        let Some(Update { update }) = update else {
            self.odd += 1;
            return;
        };
        match update.session_update.as_ref() {
            "agent_message_chunk" => {
                self.acts(hearing);
                self.hear(update.message_id.as_deref(), update.text().as_deref().unwrap_or_default(), hearing);
            }
            "agent_thought_chunk" => self.acts(hearing),
            "tool_call" => {
                self.acts(hearing);
                self.say(hearing);
                let title = json::glance(update.title.as_deref().unwrap_or_default());
                hearing.tool(update.kind.as_deref().unwrap_or("tool"), title);
            }
            "tool_call_update" => {
                self.is_fed |= matches!(update.status.as_deref(), Some("completed" | "failed"));
            }
            "usage_update" => self.weighed(update.used, update.dollars(), hearing),
            _ => (),
        }
    }

    /// The model says or does something. Turns are not told; one begins with whatever follows the end of a tool, so that a
    /// model which asks for several tools at once is counted too often rather than too seldom.
    fn acts(&mut self, hearing: &mut Hearing<'_>) {
        if std::mem::take(&mut self.is_fed) && matches!(self.stage, Stage::Prompt) {
            hearing.turn();
        }
    }

    /// What a conversation weighs now was used at least.
    fn weighed(&self, used: Option<u64>, dollars: Option<f64>, hearing: &mut Hearing<'_>) {
        if let Some(dollars) = dollars {
            hearing.billed(dollars);
        }
        if self.tokens_most.zip(used).is_some_and(|(most, used)| used > most) {
            hearing.limited(BudgetLimit::Total);
        }
    }

    fn hear(&mut self, id: Option<&str>, text: &str, hearing: &mut Hearing<'_>) {
        if id != self.message_id.as_deref() {
            self.say(hearing);
            self.message_id = id.map(str::to_owned);
        }
        let room = MESSAGE_MAX.saturating_sub(self.message.len());
        self.message.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// The message is whole.
    fn say(&mut self, hearing: &mut Hearing<'_>) {
        let message = std::mem::take(&mut self.message);
        if message.trim().is_empty() {
            return;
        }
        if self.known == Known::Goose && message.starts_with(GOOSE_TROUBLE) {
            hearing.trouble_said(None, &message);
        }
        hearing.says(&message);
    }
}

/// Why a session is no use for a model.
fn no_model(model: Option<&str>) -> (String, String) {
    let model = model.unwrap_or_default();
    (
        format!("the acp agent does not offer the model `{model}`"),
        "leave `model` out, or name one that it offers".to_owned(),
    )
}

impl Reader for Talk {
    fn line(&mut self, line: &[u8], hearing: &mut Hearing<'_>) {
        if matches!(self.stage, Stage::Over) || line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let text = json::text(line);
        match serde_json::from_str::<Message<'_>>(&text) {
            Ok(message) => self.message(&message, hearing),
            // A call in there would wait for its answer for ever; reports may be lost.
            Err(_) if line.len() >= LINE_MAX && !is_report(line) => {
                self.give_up("it sent a message that is too long to be read", hearing);
            }
            Err(_) => self.odd += 1,
        }
    }

    fn end(&mut self, how: How, hearing: &mut Hearing<'_>) {
        self.say(hearing);
        if self.odd > 0 {
            hearing.note(&format!("{} lines of the agent were no messages of the protocol", self.odd));
        }
        if matches!(self.stage, Stage::Over) || !matches!(how, How::Exited(_) | How::Signaled(_)) {
            return;
        }
        let when = match self.stage {
            Stage::Greeting => "before it had answered the greeting: does it speak the Agent Client Protocol?",
            Stage::Prompt => "in the middle of its work",
            Stage::Session | Stage::Change(..) | Stage::Over => "before its work began",
        };
        hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, &format!("it ended {when}")));
    }
}

/// Whether the beginning of a line says that it is a report.
fn is_report(line: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&line[..line.len().min(200)]);
    start.replace(' ', "").contains(r#""method":"session/update""#)
}
