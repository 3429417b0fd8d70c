//! Which block and which turn answers a request, and what goes wrong first. The turn is read from the conversation itself; the
//! only memory is how often each trouble has been seen.

use super::asked::{Asked, id_of};
use super::reply::{Call, Reply, Stop};
use super::scenario::{Act, Block, Fault, Header, Kind, Scenario, Turn, Usage, Verdict};
use super::tools::{self, Plan};
use super::verdict;
use loopwright_core::prompt;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an agent's own small questions are answered with.
const SIDE: &str = "Scripted work";
/// What comes when the scenario has nothing more to say.
const DONE: &str = "done.";
const NO_BLOCK: &str = "The scenario has no block for this conversation.";

/// A scenario that is being played.
#[derive(Debug)]
pub(super) struct Stage {
    scenario: Scenario,
    seen: Mutex<HashMap<(usize, usize, usize), u32>>,
    numbers: AtomicU64,
}

/// What a request gets, and why.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chosen {
    /// The request's number.
    pub(super) number: u64,
    /// The block's header; none for side calls and when no block fits.
    pub(super) block: Option<String>,
    pub(super) step: usize,
    /// The scenario's line; 0 where it says nothing.
    pub(super) line: usize,
    pub(super) word: &'static str,
    pub(super) side: bool,
    pub(super) delay_ms: u64,
    pub(super) answer: Answer,
}

/// What goes over the wire.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Whole(Reply),
    Fault(Fault),
    Failed { begun: Reply, code: String, text: String },
    Cut(Reply),
    Hang(Reply),
}

impl Answer {
    /// The tokens that the agent is told of: those of whole answers, and those that stand at the beginning of a broken one.
    pub(super) fn usage(&self, asked: &Asked) -> Option<Usage> {
        match self {
            Self::Whole(reply) => Some(reply.usage),
            Self::Failed { begun, .. } | Self::Cut(begun) | Self::Hang(begun) if asked.streams => {
                asked.protocol.told_first(begun.usage)
            }
            Self::Fault(_) | Self::Failed { .. } | Self::Cut(_) | Self::Hang(_) => None,
        }
    }
}

impl Stage {
    pub(super) fn new(scenario: Scenario) -> Self {
        Self { scenario, seen: Mutex::default(), numbers: AtomicU64::new(0) }
    }

    /// The next request's number, from 1.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Decides what a request gets.
    pub(super) fn choose(&self, asked: &Asked, number: u64) -> Chosen {
        let step = asked.step();
        let plain = |word, text: &str| Chosen {
            number,
            block: None,
            step,
            line: 0,
            word,
            side: word == "side",
            delay_ms: 0,
            answer: Answer::Whole(words(asked, number, text, Usage::USUAL)),
        };
        if asked.is_side_call() {
            return plain("side", SIDE);
        }
        let Some((index, block)) = self.block(asked) else { return plain("no block", NO_BLOCK) };
        let Some(turn) = block.turns.get(step) else {
            let usage = block.turns.last().map_or(Usage::USUAL, |turn| turn.usage);
            let answer = Answer::Whole(words(asked, number, DONE, usage));
            return Chosen { block: Some(block.header.to_string()), answer, ..plain("end", DONE) };
        };
        let reply = reply(asked, number, step, turn);
        let (word, answer) = match self.trouble(index, step, turn) {
            None => (turn.act.word(), Answer::Whole(reply)),
            Some(Kind::Error(fault)) => ("error", Answer::Fault(fault.clone())),
            Some(Kind::Cut) => ("cut", Answer::Cut(reply)),
            Some(Kind::Hang) => ("hang", Answer::Hang(reply)),
            Some(Kind::Failed { code, text }) => {
                ("failed", Answer::Failed { begun: reply, code: code.clone(), text: text.clone() })
            }
        };
        let (block, line) = (Some(block.header.to_string()), turn.line);
        Chosen { number, block, step, line, word, side: false, delay_ms: turn.delay_ms, answer }
    }

    /// The most particular block: a role in one attempt, then words of the prompt, then a role, then any.
    fn block(&self, asked: &Asked) -> Option<(usize, &Block)> {
        let role = prompt::read_role(&asked.prompt);
        let fit = |header: &Header| match (header, role) {
            (Header::Role { role: wanted, attempt: Some(number) }, Some((role, attempt))) => {
                (*wanted == role && attempt == Some(*number)).then_some(3)
            }
            (Header::Text(words), _) => asked.prompt.contains(words.as_str()).then_some(2),
            (Header::Role { role: wanted, attempt: None }, Some((role, _))) => (*wanted == role).then_some(1),
            (Header::Role { .. }, _) => None,
            (Header::Any, _) => Some(0),
        };
        let fitting = self
            .scenario
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(index, block)| fit(&block.header).map(|rank| (rank, (index, block))));
        fitting.max_by_key(|(rank, (index, _))| (*rank, std::cmp::Reverse(*index))).map(|(_, found)| found)
    }

    /// What goes wrong this time, if anything still does.
    fn trouble<'t>(&self, block: usize, step: usize, turn: &'t Turn) -> Option<&'t Kind> {
        let mut seen = self.seen.lock().ok()?;
        for (index, trouble) in turn.troubles.iter().enumerate() {
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

fn words(asked: &Asked, number: u64, text: &str, usage: Usage) -> Reply {
    Reply {
        model: asked.model.clone(),
        number,
        text: text.to_owned(),
        call: None,
        stop: Stop::End,
        usage: asked.protocol.tells(usage),
    }
}

/// The turn as an answer to this request.
fn reply(asked: &Asked, number: u64, step: usize, turn: &Turn) -> Reply {
    let mut reply = words(asked, number, &turn.say, turn.usage);
    let plan = match &turn.act {
        Act::Verdict(verdict) => judged(asked, verdict, &mut reply),
        Act::Answer(answer) => {
            let plan = tools::structured(asked, answer);
            if plan.is_none() {
                reply.text = answer.to_string();
            }
            plan
        }
        Act::Refuse => {
            reply.stop = Stop::Refusal;
            if reply.text.is_empty() {
                reply.text = "I cannot help with that.".to_owned();
            }
            None
        }
        Act::Length => {
            reply.stop = Stop::Length;
            if reply.text.is_empty() {
                reply.text = "and so on".to_owned();
            }
            None
        }
        act => tools::plan(asked, act),
    };
    if let Some(Plan { name, namespace, payload }) = plan {
        reply.stop = Stop::Tool;
        reply.call = Some(Call { id: id_of(step, number), name, namespace, payload });
    }
    reply
}

/// A verdict goes the way that the agent has for it: a structured answer, the verdict's file, or the last words.
fn judged(asked: &Asked, verdict: &Verdict, reply: &mut Reply) -> Option<Plan> {
    let text = verdict::text(verdict, &asked.prompt);
    if let Ok(value) = serde_json::from_str(&text)
        && let Some(plan) = tools::structured(asked, &value)
    {
        return Some(plan);
    }
    if !asked.wants_json
        && asked.prompt.contains("LOOPWRIGHT_VERDICT")
        && let Some(plan) = tools::verdict_file(asked, &text)
    {
        return Some(plan);
    }
    reply.text = text;
    None
}
