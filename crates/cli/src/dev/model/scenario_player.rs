//! Selects the block and the turn that answer a request, and the faults before. The turn follows from the conversation
//! itself; the only memory is how often each fault has occurred.

use super::model_request::{ModelRequest, tool_call_id};
use super::reply::{ModelReply, ScenarioCall, StopReason};
use super::scenario::{
    ErrorReply, ModelScenario, ScenarioBlock, ScenarioHeader, ScenarioTurn, ScenarioUsage, ScenarioVerdict, TurnAction,
    TurnFaultKind,
};
use super::tools::{self, PlannedCall};
use super::verdict;
use loopwright_core::prompt;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The answer to an agent's own helper calls.
const SIDE_CALL_TEXT: &str = "Scripted work";
/// The answer after the end of the scenario.
const DONE: &str = "done.";
const NO_BLOCK: &str = "The scenario has no block for this conversation.";

/// A scenario that is being played.
#[derive(Debug)]
pub(super) struct ScenarioPlayer {
    scenario: ModelScenario,
    seen: Mutex<HashMap<(usize, usize, usize), u32>>,
    numbers: AtomicU64,
}

/// The answer to a request, and its source.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChosenAnswer {
    /// The request's number.
    pub(super) number: u64,
    /// The block's header; `None` for side calls and when no block fits.
    pub(super) block: Option<String>,
    pub(super) step: usize,
    /// The scenario's line; 0 if the answer is not from the scenario.
    pub(super) line: usize,
    pub(super) word: &'static str,
    pub(super) side: bool,
    pub(super) delay_ms: u64,
    pub(super) answer: ScenarioAnswer,
}

/// The bytes to send.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScenarioAnswer {
    Whole(ModelReply),
    Fault(ErrorReply),
    Failed { begun: ModelReply, code: String, text: String },
    Cut(ModelReply),
    Hang(ModelReply),
}

impl ScenarioAnswer {
    /// The usage that the agent sees: that of whole answers, and the part that a cut answer reports first.
    pub(super) fn usage(&self, asked: &ModelRequest) -> Option<ScenarioUsage> {
        match self {
            Self::Whole(reply) => Some(reply.usage),
            Self::Failed { begun, .. } | Self::Cut(begun) | Self::Hang(begun) if asked.streams => {
                asked.protocol.usage_sent_first(begun.usage)
            }
            Self::Fault(_) | Self::Failed { .. } | Self::Cut(_) | Self::Hang(_) => None,
        }
    }
}

impl ScenarioPlayer {
    pub(super) fn new(scenario: ModelScenario) -> Self {
        Self { scenario, seen: Mutex::default(), numbers: AtomicU64::new(0) }
    }

    /// The next request's number, from 1.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Chooses the answer to a request.
    pub(super) fn choose(&self, asked: &ModelRequest, number: u64) -> ChosenAnswer {
        let step = asked.turn_index();
        let plain = |word, text: &str| ChosenAnswer {
            number,
            block: None,
            step,
            line: 0,
            word,
            side: word == "side",
            delay_ms: 0,
            answer: ScenarioAnswer::Whole(words(asked, number, text, ScenarioUsage::USUAL)),
        };
        if asked.is_side_call() {
            return plain("side", SIDE_CALL_TEXT);
        }
        let Some((index, block)) = self.block(asked) else { return plain("no block", NO_BLOCK) };
        let Some(turn) = block.turns.get(step) else {
            let usage = block.turns.last().map_or(ScenarioUsage::USUAL, |turn| turn.usage);
            let answer = ScenarioAnswer::Whole(words(asked, number, DONE, usage));
            return ChosenAnswer { block: Some(block.header.to_string()), answer, ..plain("end", DONE) };
        };
        let reply = reply(asked, number, step, turn);
        let (word, answer) = match self.trouble(index, step, turn) {
            None => (turn.act.word(), ScenarioAnswer::Whole(reply)),
            Some(TurnFaultKind::Error(fault)) => ("error", ScenarioAnswer::Fault(fault.clone())),
            Some(TurnFaultKind::Cut) => ("cut", ScenarioAnswer::Cut(reply)),
            Some(TurnFaultKind::Hang) => ("hang", ScenarioAnswer::Hang(reply)),
            Some(TurnFaultKind::Failed { code, text }) => {
                ("failed", ScenarioAnswer::Failed { begun: reply, code: code.clone(), text: text.clone() })
            }
        };
        let (block, line) = (Some(block.header.to_string()), turn.line);
        ChosenAnswer { number, block, step, line, word, side: false, delay_ms: turn.delay_ms, answer }
    }

    /// The most specific block: a role in one attempt, then text of the prompt, then a role, then any.
    fn block(&self, asked: &ModelRequest) -> Option<(usize, &ScenarioBlock)> {
        let role = prompt::read_role(&asked.prompt);
        let fit = |header: &ScenarioHeader| match (header, role) {
            (ScenarioHeader::Role { role: wanted, attempt: Some(number) }, Some((role, attempt))) => {
                (*wanted == role && attempt == Some(*number)).then_some(3)
            }
            (ScenarioHeader::Text(words), _) => asked.prompt.contains(words.as_str()).then_some(2),
            (ScenarioHeader::Role { role: wanted, attempt: None }, Some((role, _))) => (*wanted == role).then_some(1),
            (ScenarioHeader::Role { .. }, _) => None,
            (ScenarioHeader::Any, _) => Some(0),
        };
        let fitting = self
            .scenario
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(index, block)| fit(&block.header).map(|rank| (rank, (index, block))));
        fitting.max_by_key(|(rank, (index, _))| (*rank, std::cmp::Reverse(*index))).map(|(_, found)| found)
    }

    /// The fault of this request, if one is left.
    fn trouble<'t>(&self, block: usize, step: usize, turn: &'t ScenarioTurn) -> Option<&'t TurnFaultKind> {
        let mut seen = self.seen.lock().ok()?;
        for (index, trouble) in turn.faults.iter().enumerate() {
            let Some(times) = trouble.times else { return Some(&trouble.kind) };
            let count = seen.entry((block, step, index)).or_default();
            if *count < times {
                *count += 1;
                return Some(&trouble.kind);
            }
        }
        None
    }
}

fn words(asked: &ModelRequest, number: u64, text: &str, usage: ScenarioUsage) -> ModelReply {
    ModelReply {
        model: asked.model.clone(),
        number,
        text: text.to_owned(),
        call: None,
        stop: StopReason::End,
        usage: asked.protocol.reported_usage(usage),
    }
}

/// The turn as an answer to this request.
fn reply(asked: &ModelRequest, number: u64, step: usize, turn: &ScenarioTurn) -> ModelReply {
    let mut reply = words(asked, number, &turn.say, turn.usage);
    let plan = match &turn.act {
        TurnAction::Verdict(verdict) => judged(asked, verdict, &mut reply),
        TurnAction::Answer(answer) => {
            let plan = tools::structured_answer_call(asked, answer);
            if plan.is_none() {
                reply.text = answer.to_string();
            }
            plan
        }
        TurnAction::Refuse => {
            reply.stop = StopReason::Refusal;
            if reply.text.is_empty() {
                reply.text = "I cannot help with that.".to_owned();
            }
            None
        }
        TurnAction::Length => {
            reply.stop = StopReason::Length;
            if reply.text.is_empty() {
                reply.text = "and so on".to_owned();
            }
            None
        }
        act => tools::plan_call(asked, act),
    };
    if let Some(PlannedCall { name, namespace, payload }) = plan {
        reply.stop = StopReason::Tool;
        reply.call = Some(ScenarioCall { id: tool_call_id(step, number), name, namespace, payload });
    }
    reply
}

/// Delivers a verdict in the way the agent supports: a structured answer, the verdict's file, or the last message.
fn judged(asked: &ModelRequest, verdict: &ScenarioVerdict, reply: &mut ModelReply) -> Option<PlannedCall> {
    let text = verdict::verdict_json(verdict, &asked.prompt);
    if let Ok(value) = serde_json::from_str(&text)
        && let Some(plan) = tools::structured_answer_call(asked, &value)
    {
        return Some(plan);
    }
    if !asked.wants_json
        && asked.prompt.contains("LOOPWRIGHT_VERDICT")
        && let Some(plan) = tools::verdict_file_call(asked, &text)
    {
        return Some(plan);
    }
    reply.text = text;
    None
}
