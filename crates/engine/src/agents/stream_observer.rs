//! Collects the observations about a running agent in a common form: usage by model, ceilings, its answer, its trouble.
//! Stream readers report here; nothing here depends on the program.

use super::repetition::{LINES_MAX, MESSAGES_MAX, RepetitionDetector, cycle_max_ms};
use super::run_listener::LogLines;
use super::{ActivityReader, AgentError, AgentEvent, AgentInvocation, AgentLog, AgentOutcome, AgentSelfReport};
use crate::clock::{Clock, SystemClock};
use crate::proc::{CapturedOutput, FinishedRun, OutputStream, RunEnd, WatchFlow};
use loopwright_core::budget::{AgentUsage, BudgetLimit, ModelTokens, Tokens};
use loopwright_core::provider::{ProviderTrouble, TroubleKind, is_plausible_reset};
use loopwright_core::units::Usd;
use std::time::Duration;

/// Bytes of an answer that are stored.
const ANSWER_MAX: usize = 1 << 20;
/// Most models that one start may name.
const MODELS_MAX: usize = 64;

/// Whether a figure is the agent's total usage of a model so far, or one more step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageFigure {
    /// One more step.
    Step,
    /// The total so far.
    Total,
}

/// Observes the stream of one start.
pub(super) struct StreamObserver<'a> {
    log: &'a mut dyn AgentLog,
    invocation: &'a AgentInvocation,
    /// Tests replace it.
    pub(super) clock: &'a dyn Clock,
    stdout: LogLines,
    stderr: LogLines,
    self_report: AgentSelfReport,
    text: String,
    usage: AgentUsage,
    /// Its usage is known, even if it is zero.
    pub(super) has_usage: bool,
    turns: u32,
    /// Reads what it did, to count the calls that were refused.
    activity: ActivityReader,
    /// Its messages.
    messages: RepetitionDetector,
    /// The lines of a program that prints text.
    lines: RepetitionDetector,
    /// It repeats itself, as of its last line or message.
    repeats: bool,
    limit: Option<BudgetLimit>,
    done: bool,
    /// The first reason why the agent must not be used.
    pub(super) refused: Option<AgentError>,
}

impl<'a> StreamObserver<'a> {
    pub(super) fn new(log: &'a mut dyn AgentLog, invocation: &'a AgentInvocation) -> Self {
        let [stdout, stderr] = [OutputStream::Stdout, OutputStream::Stderr].map(LogLines::raw);
        Self { stdout, stderr, ..Self::of_text(log, invocation) }
    }

    /// The same for a program whose output is text for people.
    pub(super) fn of_text(log: &'a mut dyn AgentLog, invocation: &'a AgentInvocation) -> Self {
        let lasts_ms = cycle_max_ms(invocation.limits.wall);
        Self {
            log,
            invocation,
            clock: &SystemClock,
            stdout: LogLines::new(OutputStream::Stdout),
            stderr: LogLines::new(OutputStream::Stderr),
            self_report: AgentSelfReport::default(),
            text: String::new(),
            usage: AgentUsage::Reported(Tokens::default()),
            has_usage: false,
            turns: 0,
            activity: ActivityReader::new(),
            messages: RepetitionDetector::new(MESSAGES_MAX, lasts_ms),
            lines: RepetitionDetector::new(LINES_MAX, lasts_ms),
            repeats: false,
            limit: None,
            done: false,
            refused: None,
        }
    }

    /// Writes a line of the engine to the transcript and the screen.
    pub(super) fn note(&mut self, text: &str) {
        self.log.line(AgentEvent::Text { stream: OutputStream::Stderr, bytes: text.as_bytes() });
    }

    /// Writes the output to the transcript.
    pub(super) fn raw(&mut self, stream: OutputStream, bytes: &[u8]) {
        match stream {
            OutputStream::Stdout => self.stdout.push(bytes, self.log),
            OutputStream::Stderr => self.stderr.push(bytes, self.log),
        }
    }

    /// It has started its work.
    pub(super) fn started(&mut self, model: Option<&str>, version: Option<&str>) {
        self.log.line(AgentEvent::Started { model, version });
    }

    /// A message; the last one is its answer unless it returns a structured one.
    pub(super) fn message(&mut self, text: &str) {
        self.log.line(AgentEvent::Message(text));
        self.repeats = self.messages.add(text.as_bytes(), self.clock.now_ms());
        self.text.clear();
        self.text.push_str(bounded(text));
    }

    /// Its final message, repeated, which is not a new event.
    pub(super) fn final_message(&mut self, text: &str) {
        if self.text.is_empty() {
            self.text.push_str(bounded(text));
        }
    }

    /// A structured answer, as JSON text.
    pub(super) fn structured_answer(&mut self, json: &str) {
        self.self_report.answer = Some(bounded(json).to_owned());
    }

    /// It uses a tool.
    pub(super) fn tool(&mut self, name: &str, what: &str) {
        self.log.line(AgentEvent::Tool { name, what });
    }

    /// A whole line of its output, whatever its form.
    pub(super) fn whole_line(&mut self, line: &[u8]) {
        let refused = u32::try_from(self.activity.refusals_in(line)).unwrap_or(u32::MAX);
        self.self_report.refused_calls = self.self_report.refused_calls.saturating_add(refused);
    }

    /// A line of a program that prints text for people.
    pub(super) fn text_line(&mut self, line: &[u8]) {
        self.whole_line(line);
        self.repeats = self.lines.add(line, self.clock.now_ms());
    }

    /// Its provider did not answer, and it retries by itself.
    pub(super) fn retries(&mut self, status: Option<u16>) {
        self.log.line(AgentEvent::Retries { status });
    }

    /// Another turn started.
    pub(super) fn turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.invocation.limits.turns.is_some_and(|most| self.turns > most) {
            self.meet(BudgetLimit::Turns);
        }
    }

    /// A usage report. A step adds to the model's known usage. A total never reduces it, because reported usage must
    /// not become cheaper by a later omission.
    pub(super) fn usage(&mut self, model: &str, tokens: Tokens, count: UsageFigure) {
        self.count(model, tokens, count);
        self.sum();
    }

    fn count(&mut self, model: &str, tokens: Tokens, count: UsageFigure) {
        self.has_usage = true;
        let model: String = model.chars().take(200).collect();
        let known = self.self_report.models.iter().position(|used| used.model == model);
        let at = known.unwrap_or_else(|| {
            if self.self_report.models.len() < MODELS_MAX {
                self.self_report.models.push(ModelTokens::charged(model, Tokens::default()));
            }
            self.self_report.models.len() - 1
        });
        let used = &mut self.self_report.models[at].tokens;
        *used = match count {
            UsageFigure::Step => used.plus(tokens),
            UsageFigure::Total => max_tokens(*used, tokens),
        };
    }

    /// The agent's final report by model replaces all earlier figures, which were partly estimated. The usage that was
    /// reported for certain is the minimum: a final report does not reduce it.
    pub(super) fn account(&mut self, finals: &[(&str, Tokens)], certain: Tokens) {
        self.has_usage = true;
        let earlier = std::mem::take(&mut self.self_report.models);
        finals.iter().for_each(|(model, tokens)| self.count(model, *tokens, UsageFigure::Step));
        let sum = finals.iter().fold(Tokens::default(), |sum, (_, tokens)| sum.plus(*tokens));
        let rest = certain.less(sum);
        if rest.total() > 0 {
            let model = earlier.first().map(|used| used.model.clone()).unwrap_or_default();
            self.count(&model, rest, UsageFigure::Step);
        }
        self.sum();
    }

    /// A usage report cannot be trusted; the usage of the whole start is then unknown.
    pub(super) fn usage_unknown(&mut self) {
        self.usage = AgentUsage::Unknown;
        self.log.line(AgentEvent::UsageUnknown);
    }

    fn sum(&mut self) {
        if self.usage == AgentUsage::Unknown {
            return;
        }
        let all = self.self_report.models.iter().fold(Tokens::default(), |sum, used| sum.plus(used.tokens));
        if all.total() == u64::MAX {
            return self.usage_unknown();
        }
        self.usage = AgentUsage::Reported(all);
        self.log.line(AgentEvent::Usage(all));
        let limits = &self.invocation.limits;
        let (tokens, usd, cost) = (limits.tokens, limits.usd, self.cost());
        if tokens.is_some_and(|most| all.total() > most) {
            self.meet(BudgetLimit::Total);
        }
        if usd.is_some_and(|most| cost > most) {
            self.meet(BudgetLimit::Usd);
        }
        if let Some(limit) = self.invocation.limits.meter.report(all.total(), cost) {
            self.meet(limit);
        }
    }

    fn cost(&self) -> Usd {
        let prices = &self.invocation.prices;
        let sum = self.self_report.models.iter().map(|used| prices.cost_of(&used.model, used.tokens).0);
        Usd(sum.fold(0, u64::saturating_add))
    }

    /// The trouble that prevented its work. Only the first is stored: later ones are mostly its consequences.
    pub(super) fn trouble(&mut self, trouble: ProviderTrouble) {
        self.self_report.trouble.get_or_insert(trouble);
    }

    /// The same from the program's own text: status and kind are parsed from it if they are not given.
    pub(super) fn trouble_from_text(&mut self, status: Option<u16>, text: &str) {
        self.trouble(ProviderTrouble::classify(status, text, self.clock.now_ms()));
    }

    /// The first request was refused, and a refused request costs nothing.
    pub(super) fn count_refusal_as_unused(&mut self) {
        let kind = self.self_report.trouble.as_ref().map(|trouble| trouble.kind);
        let turned_away = [TroubleKind::Auth, TroubleKind::RateLimited, TroubleKind::Quota, TroubleKind::BadRequest];
        if kind.is_some_and(|kind| turned_away.contains(&kind)) {
            self.has_usage = true;
        }
    }

    /// Sets the time at which a rate limit ends, if its text did not give one and the time is plausible: a wrong header
    /// must not cause a wait of years.
    pub(super) fn trouble_until(&mut self, at_ms: i64) {
        if let Some(trouble) = &mut self.self_report.trouble
            && trouble.kind == TroubleKind::RateLimited
            && is_plausible_reset(at_ms, self.clock.now_ms())
        {
            trouble.retry_at_ms.get_or_insert(at_ms);
        }
    }

    /// The same for a duration from now.
    pub(super) fn trouble_for(&mut self, wait: Duration) {
        let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        self.trouble_until(self.clock.now_ms().saturating_add(wait));
    }

    /// Trouble in the text of a program that retries only if it expects success: unclear trouble counts as temporary.
    pub(super) fn transient_trouble(&mut self, status: Option<u16>, text: &str) {
        let mut trouble = ProviderTrouble::classify(status, text, self.clock.now_ms());
        trouble.kind = match (trouble.kind, trouble.retry_at_ms) {
            (TroubleKind::Unclear, Some(_)) => TroubleKind::RateLimited,
            (TroubleKind::Unclear, None) => TroubleKind::Overloaded,
            (kind, _) => kind,
        };
        self.trouble(trouble);
    }

    /// Whether trouble was reported.
    pub(super) fn is_troubled(&self) -> bool {
        self.self_report.trouble.is_some()
    }

    /// Removes the reported trouble and the done mark: the agent continued.
    pub(super) fn clear_trouble(&mut self) {
        self.self_report.trouble = None;
        self.done = false;
    }

    /// It has completed its report; if it does not end by itself soon, it is ended, without trouble.
    pub(super) fn mark_done(&mut self) {
        self.done = true;
    }

    /// Whether it has completed its report.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// It reached a limit, its own or one of ours.
    pub(super) fn meet(&mut self, limit: BudgetLimit) {
        if self.limit.is_none() {
            self.limit = Some(limit);
            self.log.line(AgentEvent::Limit(limit));
        }
    }

    /// Whether it continues. Only this ends an agent that repeats itself: it is asked while the agent runs, not after
    /// its end.
    pub(super) fn flow(&mut self) -> WatchFlow {
        if self.repeats {
            self.meet(BudgetLimit::Repetition);
        }
        match (self.limit, self.done) {
            (Some(_), _) => WatchFlow::Stop,
            (None, true) => WatchFlow::Finish,
            (None, false) => WatchFlow::Continue,
        }
    }

    /// An agent succeeded if it completed its report, had no trouble, and exited with zero. Every other end is recorded
    /// as trouble here, if it is not yet.
    pub(super) fn judge_exit(&mut self, ended: &FinishedRun) {
        self.excuse_repetition(ended);
        let how = match ended.how {
            RunEnd::Exited(code) => format!("exit code {code}"),
            RunEnd::Signaled(signal) => format!("signal {signal}"),
            RunEnd::Finished => "our help".to_owned(),
            RunEnd::Wall | RunEnd::Idle | RunEnd::Flood | RunEnd::Disk | RunEnd::Stopped | RunEnd::Cancelled => return,
        };
        let went_well = self.done && matches!(ended.how, RunEnd::Exited(0) | RunEnd::Finished);
        if went_well || self.limit.is_some() || self.is_troubled() {
            return;
        }
        let what = if self.done { "it reported that it was done, and" } else { "it did not report a result, and" };
        let text = format!("{what} ended with {how}: {}", last_line(&ended.stderr));
        self.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, text.trim_end_matches([':', ' '])));
    }

    /// An agent that ended by itself before it could be ended as one that repeats itself did its work.
    fn excuse_repetition(&mut self, ended: &FinishedRun) {
        if ended.how != RunEnd::Stopped {
            self.limit = self.limit.filter(|limit| *limit != BudgetLimit::Repetition);
        }
    }

    /// The outcome of the start.
    pub(super) fn finish(mut self, ended: FinishedRun) -> AgentOutcome {
        self.excuse_repetition(&ended);
        self.stdout.flush(self.log);
        self.stderr.flush(self.log);
        self.log.line(AgentEvent::Finished { how: ended.how });
        let limit = match ended.how {
            RunEnd::Wall => Some(BudgetLimit::Wall),
            RunEnd::Idle => Some(BudgetLimit::Idle),
            RunEnd::Stopped | RunEnd::Exited(_) | RunEnd::Finished => self.limit,
            RunEnd::Signaled(_) | RunEnd::Flood | RunEnd::Disk | RunEnd::Cancelled => None,
        };
        // The usage of an agent that reported none is unknown.
        let usage = if self.has_usage { self.usage } else { AgentUsage::Unknown };
        let mut report = self.self_report;
        report.answer = report.answer.or_else(|| (!self.text.is_empty()).then(|| self.text.clone()));
        AgentOutcome {
            how: ended.how,
            exit: ended.code,
            usage,
            text: self.text,
            turns: self.turns,
            leaky: ended.leaky,
            term_ignored: ended.term_ignored,
            limit,
            self_report: report,
        }
    }
}

/// The maximum of two counts, kind by kind.
pub(super) fn max_tokens(a: Tokens, b: Tokens) -> Tokens {
    Tokens {
        input: a.input.max(b.input),
        output: a.output.max(b.output),
        cache_read: a.cache_read.max(b.cache_read),
        cache_write: a.cache_write.max(b.cache_write),
    }
}

/// The last non-empty line that a program printed.
fn last_line(captured: &CapturedOutput) -> String {
    let text = captured.to_lossy_string();
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(ANSWER_MAX)]
}
