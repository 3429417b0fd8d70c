//! Parses a scenario: blocks, headers, turns, with the syntax of the scripted agent's scripts. Every error has its
//! line.
//!
//! `say`, `usage`, `delay` and all faults belong to the next act; text after the last act is the model's last message.
//! A block whose last turn is an act ends with an implicit `done.`.

use super::scenario::{
    ErrorReply, ModelScenario, ScenarioBlock, ScenarioHeader, ScenarioScore, ScenarioTurn, ScenarioUsage,
    ScenarioVerdict, ScoreEvidence, TurnAction, TurnFault, TurnFaultKind,
};
use loopwright::agents::scripted::words;
use loopwright_core::spec::Role;

/// A scenario larger than this is not read.
pub(super) const SCENARIO_MAX: usize = 4 << 20;

/// The most repetitions of `length` and `refuse`.
const TURNS_MAX: u32 = 1000;

/// A problem of a scenario, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScenarioError {
    pub(super) line: usize,
    pub(super) text: String,
}

const VERBS: &str = "say, write, replace, run, read, stage, verdict, answer, usage, delay, error, overloaded, failed, cut, \
    hang, refuse, length";

impl ModelScenario {
    pub(super) fn parse(text: &str) -> Result<Self, ScenarioError> {
        if text.len() > SCENARIO_MAX {
            let text = format!("the scenario has {} bytes, at most {SCENARIO_MAX} are read", text.len());
            return Err(ScenarioError { line: 1, text });
        }
        let mut reader = ScenarioReader { lines: text.lines().enumerate(), blocks: Vec::new(), open: None };
        while let Some((index, line)) = reader.lines.next() {
            reader.line(index + 1, line.trim()).map_err(|text| ScenarioError { line: index + 1, text })?;
        }
        reader.close();
        if reader.blocks.is_empty() {
            return Err(ScenarioError { line: 1, text: "the scenario has no block".to_owned() });
        }
        Ok(Self { blocks: reader.blocks })
    }
}

struct ScenarioReader<'t> {
    lines: std::iter::Enumerate<std::str::Lines<'t>>,
    blocks: Vec<ScenarioBlock>,
    open: Option<OpenBlock>,
}

/// A block that is being parsed, with the parts of its next turn.
struct OpenBlock {
    header: ScenarioHeader,
    turns: Vec<ScenarioTurn>,
    say: Vec<String>,
    said_at: usize,
    delay_ms: u64,
    usage: ScenarioUsage,
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
            usage: ScenarioUsage::USUAL,
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

impl ScenarioReader<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        match line.strip_prefix('@') {
            Some(words) => self.header(words),
            None => self.step(number, line),
        }
    }

    fn header(&mut self, words: &str) -> Result<(), String> {
        self.close();
        let header = header(words)?;
        if self.blocks.iter().any(|block| block.header == header) {
            return Err("another block already has this header, so this one would never be used".to_owned());
        }
        self.open = Some(OpenBlock::new(header));
        Ok(())
    }

    fn step(&mut self, number: usize, line: &str) -> Result<(), String> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (rest, heredoc) = self.heredoc(rest.trim())?;
        let open = self.open.get_or_insert_with(|| OpenBlock::new(ScenarioHeader::Any));
        Step { number, name, rest, heredoc }.put(open)
    }

    /// Takes the lines up to the end word when the line ends with `<<WORD`.
    fn heredoc<'l>(&mut self, rest: &'l str) -> Result<(&'l str, Option<String>), String> {
        let at = rest.rfind("<<").filter(|at| *at == 0 || rest[..*at].ends_with(char::is_whitespace));
        let is_word = |end: &str| !end.is_empty() && end.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let Some((at, end)) = at.map(|at| (at, &rest[at + 2..])).filter(|(_, end)| is_word(end)) else {
            return Ok((rest, None));
        };
        let mut text = String::new();
        for (_, line) in self.lines.by_ref() {
            if line == end {
                return Ok((rest[..at].trim_end(), Some(text)));
            }
            text.push_str(line);
            text.push('\n');
        }
        Err(format!("the text that begins here has no line `{end}` at its end"))
    }

    fn close(&mut self) {
        self.blocks.extend(self.open.take().map(OpenBlock::close));
    }
}

fn header(text: &str) -> Result<ScenarioHeader, String> {
    let words = words::words(text)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let role = |word: &str| {
        let known: Vec<_> = Role::ALL.into_iter().map(Role::word).collect();
        let role = Role::ALL.into_iter().find(|role| role.word() == word);
        role.ok_or_else(|| {
            format!("unknown role `{word}`; roles are {}, and `text \"WORDS\"` is for any", known.join(", "))
        })
    };
    match words.as_slice() {
        [] | ["any"] => Ok(ScenarioHeader::Any),
        ["text", words] => Ok(ScenarioHeader::Text((*words).to_owned())),
        [word] => Ok(ScenarioHeader::Role { role: role(word)?, attempt: None }),
        [word, option] => Ok(ScenarioHeader::Role { role: role(word)?, attempt: Some(attempt(option)?) }),
        _ => Err("a header is `@ ROLE`, `@ ROLE attempt=N`, `@ text \"WORDS\"` or `@ any`".to_owned()),
    }
}

fn attempt(option: &str) -> Result<u32, String> {
    let number = option.strip_prefix("attempt=").and_then(|number| number.parse().ok());
    number.filter(|number| *number > 0).ok_or_else(|| format!("`{option}` is not `attempt=N` with N from 1"))
}

/// A step as written in the scenario.
struct Step<'l> {
    number: usize,
    name: &'l str,
    rest: &'l str,
    heredoc: Option<String>,
}

impl Step<'_> {
    /// Long because it is the table of verbs.
    fn put(mut self, open: &mut OpenBlock) -> Result<(), String> {
        let number = self.number;
        match self.name {
            "say" => {
                open.say.push(self.text()?);
                open.said_at = number;
            }
            "delay" => open.delay_ms = self.number_of("MILLISECONDS")?,
            "usage" => open.usage = self.usage()?,
            "write" => {
                let (path, text) = self.name_and_text("PATH")?;
                open.act(number, TurnAction::Write { path, text });
            }
            "stage" => {
                let (name, text) = self.name_and_text("NAME")?;
                open.act(number, TurnAction::Stage { name, text });
            }
            "replace" => match words::words(self.rest)?.as_slice() {
                [path, old, new] => {
                    let [path, old, new] = [path, old, new].map(Clone::clone);
                    open.act(number, TurnAction::Replace { path, old, new });
                }
                _ => return Err("`replace` is written `replace PATH \"old\" \"new\"`".to_owned()),
            },
            "run" => {
                let command = self.text()?;
                open.act(number, TurnAction::Run(command));
            }
            "read" => match words::words(self.rest)?.as_slice() {
                [path] => open.act(number, TurnAction::Read(path.clone())),
                _ => return Err("`read` is written `read PATH`".to_owned()),
            },
            "verdict" => {
                let verdict = self.verdict()?;
                open.act(number, TurnAction::Verdict(verdict));
            }
            "answer" => {
                let text = self.raw(self.rest)?;
                let value = serde_json::from_str(&text).map_err(|error| format!("the answer is not JSON: {error}"))?;
                open.act(number, TurnAction::Answer(value));
            }
            "refuse" => self.turns()?.for_each(|_| open.act(number, TurnAction::Refuse)),
            "length" => self.turns()?.for_each(|_| open.act(number, TurnAction::Length)),
            "cut" => open.troubles.push(TurnFault { kind: TurnFaultKind::Cut, times: self.times()? }),
            "hang" => open.troubles.push(TurnFault { kind: TurnFaultKind::Hang, times: self.times()? }),
            "error" | "overloaded" | "failed" => open.troubles.push(self.trouble()?),
            other => return Err(format!("unknown verb `{other}`; verbs are {VERBS}")),
        }
        match self.heredoc {
            None => Ok(()),
            Some(_) => Err(format!("`{}` takes no multi-line text", self.name)),
        }
    }

    /// Text on the line, quoted or unquoted, or below it.
    fn text(&mut self) -> Result<String, String> {
        match self.heredoc.take() {
            Some(text) if self.rest.is_empty() => Ok(text.trim_end_matches('\n').to_owned()),
            Some(_) => Err("put text on the line or below it, not both".to_owned()),
            None if self.rest.is_empty() => Err(format!("`{}` has nothing after it", self.name)),
            None => whole(self.rest),
        }
    }

    fn name_and_text(&mut self, what: &str) -> Result<(String, String), String> {
        let (name, after) = words::next(self.rest)?;
        if name.is_empty() {
            return Err(format!("`{}` is written `{} {what} TEXT`", self.name, self.name));
        }
        let after = after.trim();
        match self.heredoc.take() {
            Some(text) if after.is_empty() => Ok((name, text)),
            Some(_) => Err("put text on the line or below it, not both".to_owned()),
            None => Ok((name, whole(after)?)),
        }
    }

    fn raw(&mut self, rest: &str) -> Result<String, String> {
        match self.heredoc.take() {
            Some(text) if rest.is_empty() => Ok(text),
            Some(_) => Err("put text on the line or below it, not both".to_owned()),
            None => Ok(rest.to_owned()),
        }
    }

    fn number_of(&self, what: &str) -> Result<u64, String> {
        self.rest.parse().map_err(|_| format!("`{}` is written `{} {what}`", self.name, self.name))
    }

    fn times(&self) -> Result<Option<u32>, String> {
        match self.rest {
            "" => Ok(None),
            rest => times(rest)?.map(Some).ok_or_else(|| format!("`{rest}` is not `times=N`")),
        }
    }

    /// As many turns as `times=N` states: agents that are refused or cut short may ask again.
    fn turns(&self) -> Result<std::ops::Range<u32>, String> {
        Ok(0..self.times()?.unwrap_or(1).min(TURNS_MAX))
    }

    fn usage(&self) -> Result<ScenarioUsage, String> {
        let mut usage = ScenarioUsage::default();
        for word in words::words(self.rest)? {
            let wrong = || format!("`{word}` is not input=N, output=N, cache_read=N or cache_write=N");
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            let value = value.parse().map_err(|_| wrong())?;
            match key {
                "input" => usage.input = value,
                "output" => usage.output = value,
                "cache_read" => usage.cache_read = value,
                "cache_write" => usage.cache_write = value,
                _ => return Err(wrong()),
            }
        }
        Ok(usage)
    }

    fn verdict(&mut self) -> Result<ScenarioVerdict, String> {
        if let Some(raw) = self.rest.strip_prefix("raw").filter(|raw| raw.is_empty() || raw.starts_with(' ')) {
            return self.raw(raw.trim()).map(ScenarioVerdict::Raw);
        }
        let words = words::words(self.rest)?;
        let Some((word, rest)) = words.split_first() else {
            return Err("`verdict` is written `verdict pass|fail|escalate dimension=score@path:line …`".to_owned());
        };
        let (mut summary, mut scores) = (format!("scripted verdict: {word}"), Vec::new());
        for item in rest {
            match score(item)? {
                Some(score) => scores.push(score),
                None => summary.clone_from(item),
            }
        }
        Ok(ScenarioVerdict::Honest { word: word.clone(), scores, summary })
    }

    /// `error STATUS [type] [retry-after=S] [header=NAME:VALUE] [times=N] [text…]`, `overloaded …`, `failed CODE …`.
    fn trouble(&mut self) -> Result<TurnFault, String> {
        let mut words = words::words(self.rest)?.into_iter().peekable();
        let first = if self.name == "overloaded" { Some("529".to_owned()) } else { words.next() };
        let Some(first) = first else { return Err(format!("`{}` does not name the fault", self.name)) };
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
        let kind = match self.name {
            "failed" => TurnFaultKind::Failed {
                code: first,
                text: [kind, Some(text)].into_iter().flatten().collect::<Vec<_>>().join(" "),
            },
            _ => TurnFaultKind::Error(ErrorReply {
                status: status(&first)?,
                kind,
                text,
                headers,
                body: self.heredoc.take(),
            }),
        };
        Ok(TurnFault { kind, times: times_said })
    }
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
    if !rest.starts_with('"') {
        return Ok(rest.to_owned());
    }
    match words::words(rest)?.as_slice() {
        [text] => Ok(text.clone()),
        _ => Err("quote the whole text, or nothing of it".to_owned()),
    }
}

/// `dimension=score@place@place…`; `None` for a word without `=`, which is the summary.
fn score(item: &str) -> Result<Option<ScenarioScore>, String> {
    let Some((dimension, rest)) = item.split_once('=') else { return Ok(None) };
    if dimension.contains(char::is_whitespace) {
        return Ok(None);
    }
    let mut parts = rest.split('@');
    let score = parts.next().unwrap_or_default();
    let score = score.parse().map_err(|_| format!("`{score}` is not a valid score"))?;
    let places = parts.map(place).collect::<Result<_, _>>()?;
    Ok(Some(ScenarioScore { dimension: dimension.to_owned(), score, evidence: places }))
}

/// `gate:NAME`, `PATH:LINE`, `item:NAME:LINE`, the last two with `=QUOTE` where the brief does not show the line.
fn place(text: &str) -> Result<ScoreEvidence, String> {
    if let Some(gate) = text.strip_prefix("gate:") {
        return Ok(ScoreEvidence::Gate(gate.to_owned()));
    }
    let (place, quote) = match text.split_once('=') {
        Some((place, quote)) => (place, Some(quote.to_owned())),
        None => (text, None),
    };
    let wrong = || format!("`{text}` is not path:line, gate:name or item:name:line");
    let (path, line) = place.rsplit_once(':').ok_or_else(wrong)?;
    let line = line.parse().map_err(|_| wrong())?;
    Ok(match path.strip_prefix("item:") {
        Some(item) => ScoreEvidence::Item { item: item.to_owned(), line, quote },
        None => ScoreEvidence::Line { path: path.to_owned(), line, quote },
    })
}
