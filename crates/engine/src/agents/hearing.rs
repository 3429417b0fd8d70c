//! What is heard of a running agent, in common words: usage by model, ceilings, its answer, its trouble. Readers of streams
//! say what they understood here; nothing here knows one program from another.

use super::listen::Lines as LogLines;
use super::{AgentEvent, AgentLog, AgentOutcome, Invocation, Told};
use crate::proc::{Ended, Flow, How, Stream};
use loopwright_core::budget::{BudgetLimit, ModelTokens, Tokens, Usage};
use loopwright_core::provider::ProviderTrouble;
use loopwright_core::units::Usd;

/// How much of an answer is kept.
const ANSWER_MAX: usize = 1 << 20;
/// How many models one start may name, and denied tools; more are no list but a flood.
const LIST_MAX: usize = 64;

/// Whether a figure is the agent's whole use of a model so far, or one step more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// One step more.
    Step,
    /// All so far.
    Total,
}

/// The ear of one start.
pub(super) struct Hearing<'a> {
    log: &'a mut dyn AgentLog,
    invocation: &'a Invocation,
    stdout: LogLines,
    stderr: LogLines,
    told: Told,
    text: String,
    usage: Usage,
    heard_usage: bool,
    turns: u32,
    limit: Option<BudgetLimit>,
    done: bool,
}

impl<'a> Hearing<'a> {
    pub(super) fn new(log: &'a mut dyn AgentLog, invocation: &'a Invocation) -> Self {
        Self {
            log,
            invocation,
            stdout: LogLines::new(Stream::Stdout),
            stderr: LogLines::new(Stream::Stderr),
            told: Told::default(),
            text: String::new(),
            usage: Usage::Reported(Tokens::default()),
            heard_usage: false,
            turns: 0,
            limit: None,
            done: false,
        }
    }

    /// The stream as it is, for the transcript.
    pub(super) fn raw(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.push(bytes, self.log),
            Stream::Stderr => self.stderr.push(bytes, self.log),
        }
    }

    /// It is at work.
    pub(super) fn started(&mut self, session: Option<&str>, model: Option<&str>, version: Option<&str>) {
        self.told.session = session.map(str::to_owned).or(self.told.session.take());
        self.told.version = version.map(str::to_owned).or(self.told.version.take());
        self.log.line(AgentEvent::Started { model, version });
    }

    /// A message of its; the last one is its answer unless it gives a structured one.
    pub(super) fn says(&mut self, text: &str) {
        self.log.line(AgentEvent::Says(text));
        self.text.clear();
        self.text.push_str(bounded(text));
    }

    /// A structured answer, as JSON text.
    pub(super) fn answers(&mut self, json: &str) {
        self.told.answer = Some(bounded(json).to_owned());
    }

    /// It uses a tool.
    pub(super) fn tool(&mut self, name: &str, what: &str) {
        self.log.line(AgentEvent::Tool { name, what });
    }

    /// A tool was denied to it.
    pub(super) fn denied(&mut self, tool: &str) {
        if self.told.denied.len() < LIST_MAX {
            self.told.denied.push(tool.chars().take(200).collect());
        }
    }

    /// Its provider did not answer, and it tries again by itself.
    pub(super) fn retries(&mut self, status: Option<u16>) {
        self.log.line(AgentEvent::Retries { status });
    }

    /// Another turn began.
    pub(super) fn turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.invocation.limits.turns.is_some_and(|most| self.turns > most) {
            self.meet(BudgetLimit::Turns);
        }
    }

    /// A report of usage. A step adds to what is known of the model; a total never takes anything back, because what was
    /// once told may not become cheaper by silence.
    pub(super) fn usage(&mut self, model: &str, tokens: Tokens, count: Count) {
        self.heard_usage = true;
        let model: String = model.chars().take(200).collect();
        let known = self.told.models.iter().position(|used| used.model == model);
        let at = known.unwrap_or_else(|| {
            if self.told.models.len() < LIST_MAX {
                self.told.models.push(ModelTokens { model, tokens: Tokens::default() });
            }
            self.told.models.len() - 1
        });
        let used = &mut self.told.models[at].tokens;
        *used = match count {
            Count::Step => used.plus(tokens),
            Count::Total => most(*used, tokens),
        };
        self.sum();
    }

    /// Usage was reported in a way that cannot be believed; the whole start is then of unknown use.
    pub(super) fn usage_unknown(&mut self) {
        self.usage = Usage::Unknown;
        self.log.line(AgentEvent::UsageUnknown);
    }

    fn sum(&mut self) {
        if self.usage == Usage::Unknown {
            return;
        }
        let all = self.told.models.iter().fold(Tokens::default(), |sum, used| sum.plus(used.tokens));
        if all.total() == u64::MAX {
            return self.usage_unknown();
        }
        self.usage = Usage::Reported(all);
        self.log.line(AgentEvent::Usage(all));
        let limits = &self.invocation.limits;
        let (tokens, usd) = (limits.tokens, limits.usd);
        if tokens.is_some_and(|most| all.total() > most) {
            self.meet(BudgetLimit::Total);
        }
        if usd.is_some_and(|most| self.cost() > most) {
            self.meet(BudgetLimit::Usd);
        }
    }

    fn cost(&self) -> Usd {
        let prices = &self.invocation.prices;
        let sum = self.told.models.iter().map(|used| prices.of(&used.model, used.tokens).0);
        Usd(sum.fold(0, u64::saturating_add))
    }

    /// What it says it cost, by its own table.
    pub(super) fn billed(&mut self, dollars: f64) {
        self.told.billed = Usd::from_dollars(dollars);
    }

    /// Its own limit of turns or money ended it.
    pub(super) fn limited(&mut self, limit: BudgetLimit) {
        self.meet(limit);
    }

    /// What kept it from its work. The first is kept: what follows is mostly its echo.
    pub(super) fn trouble(&mut self, trouble: ProviderTrouble) {
        self.told.trouble.get_or_insert(trouble);
    }

    /// Whether trouble was told.
    pub(super) fn is_troubled(&self) -> bool {
        self.told.trouble.is_some()
    }

    /// What was told was no trouble after all: it went on.
    pub(super) fn untroubled(&mut self) {
        self.told.trouble = None;
    }

    /// It has said its last; if it does not end by itself soon, it is ended, and that is no fault.
    pub(super) fn done(&mut self) {
        self.done = true;
    }

    /// Whether it has said its last.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    fn meet(&mut self, limit: BudgetLimit) {
        if self.limit.is_none() {
            self.limit = Some(limit);
            self.log.line(AgentEvent::Limit(limit));
        }
    }

    pub(super) fn flow(&self) -> Flow {
        if self.limit.is_some() { Flow::Stop } else { Flow::Continue }
    }

    /// The outcome of the start.
    pub(super) fn finish(mut self, ended: Ended) -> AgentOutcome {
        self.stdout.flush(self.log);
        self.stderr.flush(self.log);
        self.log.line(AgentEvent::Finished { how: ended.how });
        let limit = match ended.how {
            How::Wall => Some(BudgetLimit::Wall),
            How::Idle => Some(BudgetLimit::Idle),
            How::Stopped | How::Exited(_) => self.limit,
            How::Signaled(_) | How::Flood | How::Disk | How::Cancelled => None,
        };
        // An agent that told nothing of its use may have used anything.
        let usage = if self.heard_usage { self.usage } else { Usage::Unknown };
        let mut told = self.told;
        told.answer = told.answer.or_else(|| (!self.text.is_empty()).then(|| self.text.clone()));
        AgentOutcome {
            how: ended.how,
            exit: ended.code,
            usage,
            text: self.text,
            turns: self.turns,
            stdout: ended.stdout,
            stderr: ended.stderr,
            leaky: ended.leaky,
            term_ignored: ended.term_ignored,
            limit,
            told,
        }
    }
}

fn most(a: Tokens, b: Tokens) -> Tokens {
    Tokens {
        input: a.input.max(b.input),
        output: a.output.max(b.output),
        cache_read: a.cache_read.max(b.cache_read),
        cache_write: a.cache_write.max(b.cache_write),
    }
}

fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(ANSWER_MAX)]
}
