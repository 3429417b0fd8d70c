//! Selects the block and the turn that answer a request, and the faults before. The turn follows from the conversation
//! itself; the only memory is how often each fault has occurred.

use super::model_request::{ModelRequest, tool_call_id};
use super::reply::{ModelReply, ScenarioCall, StopReason};
use super::scenario::{
    ModelScenario, ScenarioBlock, ScenarioHeader, ScenarioTurn, TurnAction, TurnFaultKind, USUAL_USAGE,
};
use super::tools;
use loopwright::agents::scripted::script_text::{ScriptCitation, ScriptVerdict};
use loopwright_core::budget::Tokens;
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
    pub(super) reply: ModelReply,
    /// The fault instead of the whole reply.
    pub(super) fault: Option<TurnFaultKind>,
}

impl ChosenAnswer {
    /// The usage that the agent sees: that of whole answers, and the part that a cut answer reports first.
    pub(super) fn usage(&self, asked: &ModelRequest) -> Option<Tokens> {
        match &self.fault {
            None => Some(self.reply.usage),
            Some(TurnFaultKind::Error(_) | TurnFaultKind::Silent) => None,
            Some(_) => asked.protocol.usage_sent_first(self.reply.usage).filter(|_| asked.streams),
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
            reply: words(asked, number, text, USUAL_USAGE),
            fault: None,
        };
        if asked.is_side_call() {
            return plain("side", asked.helper_document().as_deref().unwrap_or(SIDE_CALL_TEXT));
        }
        let Some((index, block)) = self.block(asked) else { return plain("no block", NO_BLOCK) };
        let Some(turn) = block.turns.get(step) else {
            let usage = block.turns.last().map_or(USUAL_USAGE, |turn| turn.usage);
            let reply = words(asked, number, DONE, usage);
            return ChosenAnswer { block: Some(block.header.to_string()), reply, ..plain("end", DONE) };
        };
        let reply = reply(asked, number, step, turn);
        let fault = self.trouble(index, step, turn).cloned();
        let word = match &fault {
            None => turn.act.word(),
            Some(TurnFaultKind::Error(_)) => "error",
            Some(TurnFaultKind::Cut) => "cut",
            Some(TurnFaultKind::Hang) => "hang",
            Some(TurnFaultKind::Silent) => "silent",
            Some(TurnFaultKind::Failed { .. }) => "failed",
        };
        let (block, line) = (Some(block.header.to_string()), turn.line);
        ChosenAnswer { number, block, step, line, word, side: false, delay_ms: turn.delay_ms, reply, fault }
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

fn words(asked: &ModelRequest, number: u64, text: &str, usage: Tokens) -> ModelReply {
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
    if let Some(call) = plan {
        reply.stop = StopReason::Tool;
        reply.call = Some(ScenarioCall { id: tool_call_id(step, number), ..call });
    }
    reply
}

/// Delivers a verdict in the way the agent supports: a structured answer, the verdict's file, or the last message.
fn judged(asked: &ModelRequest, verdict: &ScriptVerdict, reply: &mut ModelReply) -> Option<ScenarioCall> {
    let text = verdict_text(verdict, &asked.prompt);
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

/// A checker's verdict as an honest model would write it: bound to the values of its brief, with quotes from it. Values
/// that the brief lacks stay empty, and the engine does not accept it.
fn verdict_text(verdict: &ScriptVerdict, brief: &str) -> String {
    // One agent treats names after an at sign as files unless a backslash precedes them, so its brief has backslashes.
    let brief = &brief.replace("\\@", "@");
    let binding = prompt::read_binding(brief);
    let part = |of: fn(&prompt::VerdictBinding) -> &String| binding.as_ref().map_or("", |all| of(all).as_str());
    let (nonce, tree, candidate) = (part(|all| &all.nonce), part(|all| &all.tree), part(|all| &all.candidate));
    if let ScriptVerdict::Raw(raw) = verdict {
        return raw.trim_end().replace("$NONCE", nonce).replace("$TREE", tree).replace("$CANDIDATE", candidate);
    }
    verdict.write([nonce, tree, candidate], |place| {
        let found = match place {
            ScriptCitation::Gate(_) => None,
            ScriptCitation::Line(path, line, _) => prompt::read_diff_line(brief, path, *line),
            ScriptCitation::Item(item, line, _) => prompt::read_item_line(brief, item, *line),
        };
        found.unwrap_or_default()
    })
}
