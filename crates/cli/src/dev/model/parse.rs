//! Parses a scenario: blocks, headers, turns, with the syntax of the scripted agent's scripts. Every error has its
//! line.
//!
//! `say`, `usage`, `delay` and all faults belong to the next act; text after the last act is the model's last message.
//! A block whose last turn is an act ends with an implicit `done.`.

use super::scenario::{
    ErrorReply, ModelScenario, ScenarioBlock, ScenarioHeader, ScenarioTurn, TurnAction, TurnFault, TurnFaultKind,
    USUAL_USAGE,
};
use loopwright::agents::scripted::script_text::{
    ScriptError, ScriptItem, ScriptLine, next, quoted, read_attempt, read_role, read_script, words,
};
use loopwright_core::budget::Tokens;
use serde_json::{Map, Value};

/// The most repetitions of `length` and `refuse`.
const TURNS_MAX: u32 = 1000;

const VERBS: &str = "say, write, replace, run, read, call, stage, verdict, answer, usage, delay, error, overloaded, failed, \
    cut, hang, silent, raw, refuse, length";

impl ModelScenario {
    pub(super) fn parse(text: &str) -> Result<Self, ScriptError> {
        let (mut blocks, mut open): (Vec<_>, Option<OpenBlock>) = (Vec::new(), None);
        read_script(text, "scenario", |item| match item {
            ScriptItem::Blank => Ok(()),
            ScriptItem::Header(words) => {
                blocks.extend(open.take().map(OpenBlock::close));
                open = Some(OpenBlock::new(header(words, &blocks)?));
                Ok(())
            }
            ScriptItem::Step(line) => put(line, open.get_or_insert_with(|| OpenBlock::new(ScenarioHeader::Any))),
        })?;
        blocks.extend(open.map(OpenBlock::close));
        if blocks.is_empty() {
            return Err(ScriptError { line: 1, text: "the scenario has no block".to_owned() });
        }
        Ok(Self { blocks })
    }
}

/// A block that is being parsed, with the parts of its next turn.
struct OpenBlock {
    header: ScenarioHeader,
    turns: Vec<ScenarioTurn>,
    say: Vec<String>,
    said_at: usize,
    delay_ms: u64,
    usage: Tokens,
    troubles: Vec<TurnFault>,
}

impl OpenBlock {
    fn new(header: ScenarioHeader) -> Self {
        Self {
            header,
            turns: Vec::new(),
            say: Vec::new(),
            said_at: 0,
            delay_ms: 0,
            usage: USUAL_USAGE,
            troubles: Vec::new(),
        }
    }

    fn act(&mut self, line: usize, act: TurnAction) {
        self.turns.push(ScenarioTurn {
            line,
            say: std::mem::take(&mut self.say).join("\n"),
            delay_ms: std::mem::take(&mut self.delay_ms),
            usage: self.usage,
            faults: std::mem::take(&mut self.troubles),
            act,
        });
    }

    /// The turn after the last act: the remaining text, or a plain end.
    fn close(mut self) -> ScenarioBlock {
        if self.say.is_empty() {
            self.say.push("done.".to_owned());
        }
        self.act(self.said_at, TurnAction::End);
        ScenarioBlock { header: self.header, turns: self.turns }
    }
}

fn header(text: &str, known: &[ScenarioBlock]) -> Result<ScenarioHeader, String> {
    let words = words(text)?;
    let role = |word: &str| read_role(word).map_err(|error| format!("{error}, and `text \"WORDS\"` is for any"));
    let header = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["any"] => ScenarioHeader::Any,
        ["text", words] => ScenarioHeader::Text((*words).to_owned()),
        [word] => ScenarioHeader::Role { role: role(word)?, attempt: None },
        [word, option] => ScenarioHeader::Role { role: role(word)?, attempt: Some(read_attempt(option)?) },
        _ => return Err("a header is `@ ROLE`, `@ ROLE attempt=N`, `@ text \"WORDS\"` or `@ any`".to_owned()),
    };
    if known.iter().any(|block| block.header == header) {
        return Err("another block already has this header, so this one would never be used".to_owned());
    }
    Ok(header)
}

/// Adds a step to a block. Long because it is the table of verbs.
fn put(mut line: ScriptLine<'_>, open: &mut OpenBlock) -> Result<(), String> {
    let number = line.number;
    match line.name {
        "say" => {
            open.say.push(text(&mut line)?);
            open.said_at = number;
        }
        "delay" => open.delay_ms = line.rest.parse().or_else(|_| line.usage_line("MILLISECONDS"))?,
        "usage" => open.usage = usage(&line)?,
        "write" => {
            let (path, text) = name_and_text(&mut line, "PATH")?;
            open.act(number, TurnAction::Write(path, text));
        }
        "stage" => {
            let (name, text) = name_and_text(&mut line, "NAME")?;
            open.act(number, TurnAction::Stage(name, text));
        }
        "replace" => {
            let [path, old, new] = line.exactly("PATH \"old\" \"new\"")?;
            open.act(number, TurnAction::Replace(path, old, new));
        }
        "run" => open.act(number, TurnAction::Run(text(&mut line)?)),
        "read" => line.exactly("PATH").map(|[path]| open.act(number, TurnAction::Read(path)))?,
        "call" => {
            let (name, text) = name_and_text(&mut line, "TOOL")?;
            let arguments = serde_json::from_str::<Map<String, Value>>(if text.is_empty() { "{}" } else { &text });
            let arguments = arguments.map_err(|error| format!("the arguments are no JSON object: {error}"))?;
            open.act(number, TurnAction::Call(name, arguments.into()));
        }
        "verdict" => open.act(number, TurnAction::Verdict(line.verdict()?)),
        "answer" => {
            let text = line.raw_text(line.rest)?;
            let value = serde_json::from_str(&text).map_err(|error| format!("the answer is not JSON: {error}"))?;
            open.act(number, TurnAction::Answer(value));
        }
        "refuse" => turns(&line)?.for_each(|_| open.act(number, TurnAction::Refuse)),
        "length" => turns(&line)?.for_each(|_| open.act(number, TurnAction::Length)),
        "cut" => open.troubles.push(TurnFault { kind: TurnFaultKind::Cut, times: times_of(&line)? }),
        "hang" => open.troubles.push(TurnFault { kind: TurnFaultKind::Hang, times: times_of(&line)? }),
        "silent" => open.troubles.push(TurnFault { kind: TurnFaultKind::Silent, times: times_of(&line)? }),
        "error" | "overloaded" | "failed" | "raw" => open.troubles.push(trouble(&mut line)?),
        other => return Err(format!("unknown verb `{other}`; verbs are {VERBS}")),
    }
    line.check_taken()
}

/// As many turns as `times=N` states: agents that are refused or cut short may ask again.
fn turns(line: &ScriptLine<'_>) -> Result<std::ops::Range<u32>, String> {
    Ok(0..times_of(line)?.unwrap_or(1).min(TURNS_MAX))
}

/// Text on the line, quoted or unquoted, or below it.
fn text(line: &mut ScriptLine<'_>) -> Result<String, String> {
    match line.text_below(line.rest)? {
        Some(text) => Ok(text.trim_end_matches('\n').to_owned()),
        None if line.rest.is_empty() => Err(format!("`{}` has nothing after it", line.name)),
        None => whole(line.rest),
    }
}

fn name_and_text(line: &mut ScriptLine<'_>, what: &str) -> Result<(String, String), String> {
    let (name, after) = next(line.rest)?;
    if name.is_empty() {
        return line.usage_line(&format!("{what} TEXT"));
    }
    let after = after.trim();
    let below = line.text_below(after)?;
    Ok((name, below.map_or_else(|| whole(after), Ok)?))
}

fn times_of(line: &ScriptLine<'_>) -> Result<Option<u32>, String> {
    match line.rest {
        "" => Ok(None),
        rest => times(rest)?.map(Some).ok_or_else(|| format!("`{rest}` is not `times=N`")),
    }
}

fn usage(line: &ScriptLine<'_>) -> Result<Tokens, String> {
    let mut usage = Tokens::default();
    for word in line.words()? {
        let wrong = || format!("`{word}` is not input=N, output=N, cache_read=N or cache_write=N");
        let (key, value) = word.split_once('=').ok_or_else(wrong)?;
        let field = match key {
            "input" => &mut usage.input,
            "output" => &mut usage.output,
            "cache_read" => &mut usage.cache_read,
            "cache_write" => &mut usage.cache_write,
            _ => return Err(wrong()),
        };
        *field = value.parse().map_err(|_| wrong())?;
    }
    Ok(usage)
}

/// `error STATUS [type] [retry-after=S] [header=NAME:VALUE] [times=N] [text…]`, `overloaded …`, `failed CODE …`,
/// `raw TYPE …`.
fn trouble(line: &mut ScriptLine<'_>) -> Result<TurnFault, String> {
    let mut words = line.words()?.into_iter().peekable();
    let first = if line.name == "overloaded" { Some("529".to_owned()) } else { words.next() };
    let Some(first) = first else { return Err(format!("`{}` does not name the fault", line.name)) };
    let (mut times_said, mut headers, mut text) = (None, Vec::new(), Vec::new());
    let kind = words.next_if(|word| is_error_word(word));
    for word in words {
        if let Some(count) = times(&word)? {
            times_said = Some(count);
        } else if let Some(seconds) = word.strip_prefix("retry-after=") {
            headers.push(("retry-after".to_owned(), seconds.to_owned()));
        } else if let Some((name, value)) = word.strip_prefix("header=").and_then(|pair| pair.split_once(':')) {
            headers.push((name.to_owned(), value.to_owned()));
        } else {
            text.push(word);
        }
    }
    let text = text.join(" ");
    let kind = match line.name {
        "failed" => TurnFaultKind::Failed {
            code: first,
            text: [kind, Some(text)].into_iter().flatten().collect::<Vec<_>>().join(" "),
        },
        "raw" => {
            headers.push(("content-type".to_owned(), first));
            TurnFaultKind::Error(ErrorReply { status: 200, kind, text, headers, body: line.heredoc.take() })
        }
        _ => {
            TurnFaultKind::Error(ErrorReply { status: status(&first)?, kind, text, headers, body: line.heredoc.take() })
        }
    };
    Ok(TurnFault { kind, times: times_said })
}

/// A provider's word for an error, not the text for people.
fn is_error_word(word: &str) -> bool {
    word.contains('_') && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn status(word: &str) -> Result<u16, String> {
    let status = word.parse().ok().filter(|status| (400..=599).contains(status));
    status.ok_or_else(|| format!("`{word}` is not an error status from 400 to 599"))
}

fn times(word: &str) -> Result<Option<u32>, String> {
    match word.strip_prefix("times=") {
        Some(count) => count.parse().map(Some).map_err(|_| format!("`{word}` is not `times=N`")),
        None => Ok(None),
    }
}

/// The rest of a line: one quoted word, or everything unquoted.
fn whole(rest: &str) -> Result<String, String> {
    if rest.starts_with('"') { quoted(rest) } else { Ok(rest.to_owned()) }
}
