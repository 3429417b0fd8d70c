//! The text of scripts, for every program that reads them: lines, headers, steps with the text below them, words, and
//! the verdict of a checker. [`super`] describes the syntax; each program has its own verbs.

use loopwright_core::spec::Role;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A script larger than this is not read.
pub const SCRIPT_MAX: usize = 4 << 20;

/// A problem of a script, and its line.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// The problem with it.
    pub text: String,
}

/// A line of a script that means something.
#[derive(Debug)]
pub enum ScriptItem<'t> {
    /// An empty line.
    Blank,
    /// `@ …`, without the at sign.
    Header(&'t str),
    /// A step.
    Step(ScriptLine<'t>),
}

/// A step as written in the script.
#[derive(Debug)]
pub struct ScriptLine<'t> {
    /// Its line, from 1.
    pub number: usize,
    /// Its verb.
    pub name: &'t str,
    /// The rest of its line.
    pub rest: &'t str,
    /// The lines below it, up to its end word.
    pub heredoc: Option<String>,
}

/// Reads a text line by line; `what` names it in messages.
///
/// # Errors
/// The first line that cannot be read or that `each` does not accept.
pub fn read_script<'t>(
    text: &'t str,
    what: &str,
    mut each: impl FnMut(ScriptItem<'t>) -> Result<(), String>,
) -> Result<(), ScriptError> {
    if text.len() > SCRIPT_MAX {
        let text = format!("the {what} has {} bytes, at most {SCRIPT_MAX} are read", text.len());
        return Err(ScriptError { line: 1, text });
    }
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        let item = match line.trim() {
            "" => Ok(ScriptItem::Blank),
            comment if comment.starts_with('#') => continue,
            line => match line.strip_prefix('@') {
                Some(header) => Ok(ScriptItem::Header(header)),
                None => step(number, line, lines.by_ref().map(|(_, line)| line)).map(ScriptItem::Step),
            },
        };
        item.and_then(&mut each).map_err(|text| ScriptError { line: number, text })?;
    }
    Ok(())
}

/// A step, with the lines below it up to the end word if its line ends with `<<WORD`.
fn step<'t>(number: usize, line: &'t str, below: impl Iterator<Item = &'t str>) -> Result<ScriptLine<'t>, String> {
    let (name, rest) = split_verb(line);
    let is_end_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let at = rest.rfind("<<").filter(|at| *at == 0 || rest[..*at].ends_with(char::is_whitespace));
    let Some((at, end)) = at.map(|at| (at, &rest[at + 2..])).filter(|(_, end)| is_end_word(end)) else {
        return Ok(ScriptLine { number, name, rest, heredoc: None });
    };
    let mut text = String::new();
    for line in below {
        if line == end {
            return Ok(ScriptLine { number, name, rest: rest[..at].trim_end(), heredoc: Some(text) });
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("the text that starts here has no line `{end}` at its end"))
}

/// The first word of a line, and the rest.
pub(super) fn split_verb(line: &str) -> (&str, &str) {
    line.split_once(char::is_whitespace).map_or((line, ""), |(name, rest)| (name, rest.trim()))
}

/// A header's role.
pub fn read_role(word: &str) -> Result<Role, String> {
    Role::ALL.into_iter().find(|role| role.word() == word).ok_or_else(|| {
        let known: Vec<_> = Role::ALL.into_iter().map(Role::word).collect();
        format!("unknown role `{word}`; roles are {}", known.join(", "))
    })
}

/// A header's `attempt=N`.
pub fn read_attempt(option: &str) -> Result<u32, String> {
    let number = option.strip_prefix("attempt=").and_then(|number| number.parse().ok());
    number.filter(|number| *number > 0).ok_or_else(|| format!("`{option}` is not `attempt=N` with N from 1"))
}

/// A number of a step.
pub fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not a number in range"))
}

impl ScriptLine<'_> {
    /// The error for a step of another form, which is always returned.
    pub fn usage_line<T>(&self, form: &str) -> Result<T, String> {
        Err(format!("write `{} {form}`", self.name))
    }

    /// Its words.
    pub fn words(&self) -> Result<Vec<String>, String> {
        words(self.rest)
    }

    /// Exactly this many words.
    pub fn exactly<const N: usize>(&self, form: &str) -> Result<[String; N], String> {
        self.words()?.try_into().or_else(|_| self.usage_line(form))
    }

    /// Takes the lines below it as its text, if there are any; `rest` is the text on its line. There may not be both.
    pub fn text_below(&mut self, rest: &str) -> Result<Option<String>, String> {
        match self.heredoc.take() {
            Some(_) if !rest.is_empty() => Err("text is on the line or below it, not both".to_owned()),
            below => Ok(below),
        }
    }

    /// Its lines below or the text on its line, unchanged.
    pub fn raw_text(&mut self, rest: &str) -> Result<String, String> {
        Ok(self.text_below(rest)?.unwrap_or_else(|| rest.to_owned()))
    }

    /// Refuses lines below it that its verb did not take.
    pub fn check_taken(&self) -> Result<(), String> {
        match self.heredoc {
            None => Ok(()),
            Some(_) => Err(format!("`{}` takes no multi-line text", self.name)),
        }
    }

    /// The verdict in its words.
    pub fn verdict(&mut self) -> Result<ScriptVerdict, String> {
        if let Some(raw) = self.rest.strip_prefix("raw").filter(|raw| raw.is_empty() || raw.starts_with(' ')) {
            // It starts with a brace, not with a quote.
            return self.raw_text(raw.trim()).map(ScriptVerdict::Raw);
        }
        let words = self.words()?;
        let Some((word, rest)) = words.split_first() else {
            return self.usage_line("pass|fail|escalate dimension=score@path:line …, or raw JSON");
        };
        let (mut summary, mut scores) = (format!("scripted verdict: {word}"), Vec::new());
        for item in rest {
            match score(item)? {
                Some(score) => scores.push(score),
                None => summary.clone_from(item),
            }
        }
        Ok(ScriptVerdict::Honest { word: word.clone(), scores, summary })
    }
}

/// The verdict of a scripted checker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptVerdict {
    /// As an honest checker would write it.
    Honest {
        /// The decision.
        word: String,
        /// The scores.
        scores: Vec<ScriptScore>,
        /// The summary.
        summary: String,
    },
    /// Exactly this text.
    Raw(String),
}

/// The score of one dimension, with its citations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptScore {
    dimension: String,
    score: i64,
    places: Vec<ScriptCitation>,
}

/// A citation. A missing quote is found when the verdict is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptCitation {
    /// `gate:NAME`.
    Gate(String),
    /// `PATH:LINE`, or `PATH:LINE=QUOTE`.
    Line(String, u32, Option<String>),
    /// `item:NAME:LINE`, or `item:NAME:LINE=QUOTE`.
    Item(String, u32, Option<String>),
}

impl ScriptVerdict {
    /// The verdict as text, bound to a check's nonce, tree and candidate. `quote` finds the cited line; a line that does
    /// not exist is empty, and so without effect.
    #[must_use]
    pub fn write(&self, [nonce, tree, candidate]: [&str; 3], quote: impl Fn(&ScriptCitation) -> String) -> String {
        let (word, scores, summary) = match self {
            Self::Raw(text) => return text.clone(),
            Self::Honest { word, scores, summary } => (word, scores, summary),
        };
        let evidence = |place: &ScriptCitation| match place {
            ScriptCitation::Gate(gate) => json!({ "gate": gate }),
            ScriptCitation::Line(path, line, said) => {
                json!({ "path": path, "line": line, "quote": said.clone().unwrap_or_else(|| quote(place)).trim() })
            }
            ScriptCitation::Item(item, line, said) => {
                json!({ "item": item, "line": line, "quote": said.clone().unwrap_or_else(|| quote(place)).trim() })
            }
        };
        let score = |one: &ScriptScore| {
            let evidence: Vec<Value> = one.places.iter().map(evidence).collect();
            json!({ "dimension": one.dimension, "score": one.score, "why": "scripted", "evidence": evidence })
        };
        let scores: Vec<Value> = scores.iter().map(score).collect();
        json!({
            "nonce": nonce, "tree": tree, "candidate": candidate,
            "verdict": word, "summary": summary, "scores": scores,
        })
        .to_string()
    }
}

/// `dimension=score@place@place…`; `None` for a word without `=`, which is the summary.
fn score(item: &str) -> Result<Option<ScriptScore>, String> {
    let Some((dimension, rest)) = item.split_once('=') else { return Ok(None) };
    if dimension.contains(char::is_whitespace) {
        return Ok(None);
    }
    let mut parts = rest.split('@');
    let score = number(parts.next().unwrap_or_default())?;
    let places = parts.map(place).collect::<Result<_, _>>()?;
    Ok(Some(ScriptScore { dimension: dimension.to_owned(), score, places }))
}

fn place(text: &str) -> Result<ScriptCitation, String> {
    if let Some(gate) = text.strip_prefix("gate:") {
        return Ok(ScriptCitation::Gate(gate.to_owned()));
    }
    let (place, quote) = text.split_once('=').map_or((text, None), |(place, quote)| (place, Some(quote.to_owned())));
    let wrong = || format!("`{text}` is not path:line, gate:name or item:name:line");
    let (path, line) = place.rsplit_once(':').ok_or_else(wrong)?;
    let line = line.parse().map_err(|_| wrong())?;
    Ok(match path.strip_prefix("item:") {
        Some(item) => ScriptCitation::Item(item.to_owned(), line, quote),
        None => ScriptCitation::Line(path.to_owned(), line, quote),
    })
}

/// A text in quotes, without them.
pub fn quoted(text: &str) -> Result<String, String> {
    match next(text)? {
        (text, after) if after.trim().is_empty() => Ok(text),
        _ => Err("words after the quoted text".to_owned()),
    }
}

/// Splits a line into words.
///
/// # Errors
/// A quote that is not closed, or an unknown escape.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = next(rest)?;
        found.push(word);
        rest = after.trim_start();
    }
    Ok(found)
}

/// The first word and the rest after it.
///
/// # Errors
/// A quote that is not closed, or an unknown escape.
pub fn next(text: &str) -> Result<(String, &str), String> {
    match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted),
        None => {
            let end = text.find(char::is_whitespace).unwrap_or(text.len());
            Ok((text[..end].to_owned(), &text[end..]))
        }
    }
}

fn unquote(text: &str) -> Result<(String, &str), String> {
    let mut word = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if text[at + 1..].starts_with(|c: char| !c.is_whitespace()) => {
                return Err("a closing quote must be followed by a space or the end of the line".to_owned());
            }
            '"' => return Ok((word, &text[at + 1..])),
            '\\' => word.push(escaped(chars.next().map(|(_, c)| c))?),
            other => word.push(other),
        }
    }
    Err("a quote is not closed".to_owned())
}

fn escaped(c: Option<char>) -> Result<char, String> {
    match c {
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some(c @ ('"' | '\\')) => Ok(c),
        Some(other) => Err(format!("unknown escape `\\{other}`; known are \\n, \\t, \\\" and \\\\")),
        None => Err("a quote is not closed".to_owned()),
    }
}
