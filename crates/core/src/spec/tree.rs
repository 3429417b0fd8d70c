//! YAML and JSON as a tree of values with their positions. Limits apply from the first byte; nothing is ever expanded.
//!
//! Refused here: aliases and anchors (so that no expansion bomb is possible), tags, merge keys, keys that are not text,
//! several documents, and everything past the limits. The reader interprets the values.

use super::problem::{ProblemKind, SpecProblem, quoted};
use super::scalar::typed;
use super::source::{SourceLines, SourceSpan, SourceText};
use saphyr_parser::{Event, Parser, ScanError, Span, StrInput};
use std::collections::HashMap;

/// The largest file that is read.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// The deepest nesting.
const DEPTH_MAX: usize = 32;
/// The most values in a file.
const NODES_MAX: usize = 20_000;
/// The most duplicate keys that are listed.
const DUPLICATES_MAX: usize = 20;

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    pub(crate) value: YamlValue,
    pub(crate) place: SourceSpan,
}

/// A value by the core rules of YAML 1.2: `no` and `on` are text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlValue {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) place: SourceSpan,
    pub(crate) value: YamlNode,
}

impl YamlNode {
    /// A value that came from code.
    pub(crate) fn from_json(value: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => YamlValue::Null,
            Json::Bool(flag) => YamlValue::Bool(*flag),
            Json::Number(number) => {
                number.as_i128().map_or_else(|| YamlValue::Float(number.as_f64().unwrap_or(f64::NAN)), YamlValue::Int)
            }
            Json::String(text) => YamlValue::Text(text.clone()),
            Json::Array(items) => YamlValue::List(items.iter().map(Self::from_json).collect()),
            Json::Object(fields) => YamlValue::Map(
                fields
                    .iter()
                    .map(|(key, value)| YamlEntry {
                        key: key.clone(),
                        place: SourceSpan::default(),
                        value: Self::from_json(value),
                    })
                    .collect(),
            ),
        };
        Self { value, place: SourceSpan::default() }
    }

    /// The value as JSON; `None` if JSON cannot represent it (numbers that are not finite).
    pub(crate) fn to_json(&self) -> Option<serde_json::Value> {
        use serde_json::Value as Json;
        Some(match &self.value {
            YamlValue::Null => Json::Null,
            YamlValue::Bool(flag) => Json::Bool(*flag),
            YamlValue::Int(number) => Json::Number(serde_json::Number::from_i128(*number)?),
            YamlValue::Float(number) => Json::Number(serde_json::Number::from_f64(*number)?),
            YamlValue::Text(text) => Json::String(text.clone()),
            YamlValue::List(items) => Json::Array(items.iter().map(Self::to_json).collect::<Option<_>>()?),
            YamlValue::Map(entries) => Json::Object(
                entries.iter().map(|entry| Some((entry.key.clone(), entry.value.to_json()?))).collect::<Option<_>>()?,
            ),
        })
    }

    /// The entry of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&YamlEntry> {
        match &self.value {
            YamlValue::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

/// A tree, and its non-fatal problems.
pub(crate) struct ParsedYaml {
    pub(crate) root: YamlNode,
    pub(crate) problems: Vec<SpecProblem>,
}

/// Reads one document. `first_line` is the line of the file on which `yaml` starts.
pub(crate) fn parse(source: &SourceText<'_>, yaml: &str, first_line: usize) -> Result<ParsedYaml, Vec<SpecProblem>> {
    let mut builder = Builder::new(source, yaml, first_line);
    let mut parser = Parser::new_from_str(yaml);
    match builder.run(&mut parser) {
        Ok(()) => {
            Ok(ParsedYaml { root: builder.root.unwrap_or_else(|| null_at(first_line)), problems: builder.problems })
        }
        Err(problem) => {
            builder.problems.push(*problem);
            Err(builder.problems)
        }
    }
}

fn null_at(line: usize) -> YamlNode {
    YamlNode { value: YamlValue::Null, place: SourceSpan::new(line, 1, 1) }
}

/// The position of the first occurrence of each key of a mapping.
type KeyPlaces = HashMap<String, SourceSpan>;

/// A collection that is not closed yet.
enum Open {
    List { place: SourceSpan, items: Vec<YamlNode> },
    Map { place: SourceSpan, entries: Vec<YamlEntry>, keys: KeyPlaces, key: Option<(String, SourceSpan)> },
}

struct Builder<'s> {
    source: &'s SourceText<'s>,
    lines: SourceLines<'s>,
    first_line: usize,
    stack: Vec<Open>,
    root: Option<YamlNode>,
    nodes: usize,
    documents: usize,
    problems: Vec<SpecProblem>,
}

type Step = Result<(), Box<SpecProblem>>;

impl<'s> Builder<'s> {
    fn new(source: &'s SourceText<'s>, yaml: &'s str, first_line: usize) -> Self {
        let (lines, stack, problems) = (SourceLines::new(yaml), Vec::new(), Vec::new());
        Self { source, lines, first_line, stack, root: None, nodes: 0, documents: 0, problems }
    }

    fn run(&mut self, parser: &mut Parser<'s, StrInput<'s>>) -> Step {
        while let Some(event) = parser.next_event() {
            match event {
                Ok((event, span)) => self.event(event, span)?,
                Err(error) => return Err(self.scan_error(&error)),
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Step {
        let place = self.place(span);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.document(place),
            Event::Alias(_) => Err(self.alias(place)),
            Event::Scalar(text, style, anchor, tag) => {
                self.open_value(place, anchor, tag.is_some())?;
                self.value(YamlNode { value: typed(&text, style), place })
            }
            Event::SequenceStart(anchor, tag) => {
                self.open_value(place, anchor, tag.is_some())?;
                self.push(place, Open::List { place, items: Vec::new() })
            }
            Event::MappingStart(anchor, tag) => {
                self.open_value(place, anchor, tag.is_some())?;
                self.push(place, Open::Map { place, entries: Vec::new(), keys: Default::default(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    fn document(&mut self, place: SourceSpan) -> Step {
        self.documents += 1;
        if self.documents > 1 {
            let hint = Some("one loop a file; remove the second `---`".to_owned());
            return Err(self.wrong(ProblemKind::Syntax, place, "a second document starts here", hint));
        }
        Ok(())
    }

    /// The checks of every value: the limits, and no anchor or tag.
    fn open_value(&mut self, place: SourceSpan, anchor: usize, tagged: bool) -> Step {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let what = format!("more than {NODES_MAX} values in one file");
            return Err(self.wrong(ProblemKind::Limit, place, &what, None));
        }
        if anchor > 0 {
            return Err(self.alias(place));
        }
        if tagged {
            let hint = Some("remove the word that starts with `!`".to_owned());
            return Err(self.wrong(ProblemKind::Syntax, place, "tags are not supported", hint));
        }
        Ok(())
    }

    fn alias(&self, place: SourceSpan) -> Box<SpecProblem> {
        let hint =
            Some("write the value out where it is needed; text that starts with `*` or `&` needs quotes".to_owned());
        self.wrong(ProblemKind::Alias, place, "anchors and aliases (`&name`, `*name`) are not supported", hint)
    }

    fn push(&mut self, place: SourceSpan, open: Open) -> Step {
        if self.stack.len() >= DEPTH_MAX {
            let what = format!("nested more than {DEPTH_MAX} levels deep");
            return Err(self.wrong(ProblemKind::Limit, place, &what, None));
        }
        if let Some(Open::Map { key: None, .. }) = self.stack.last() {
            return Err(self.bad_key(place, "a list or mapping"));
        }
        self.stack.push(open);
        Ok(())
    }

    fn close(&mut self) -> Step {
        let node = match self.stack.pop() {
            Some(Open::List { place, items }) => YamlNode { value: YamlValue::List(items), place },
            Some(Open::Map { place, entries, .. }) => YamlNode { value: YamlValue::Map(entries), place },
            None => return Ok(()),
        };
        self.value(node)
    }

    /// Puts a finished value into its place: as a key, a value, an item or the root.
    fn value(&mut self, node: YamlNode) -> Step {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { key: None, .. }) => return self.key(node),
            Some(Open::Map { entries, key, .. }) => {
                if let Some((key, place)) = key.take() {
                    entries.push(YamlEntry { key, place, value: node });
                }
            }
        }
        Ok(())
    }

    fn key(&mut self, node: YamlNode) -> Step {
        let text = match node.value {
            YamlValue::Text(text) => text,
            other => return Err(self.bad_key(node.place, describe_value(&other).as_str())),
        };
        if text == "<<" {
            return Err(self.wrong(ProblemKind::Alias, node.place, "merge keys (`<<`) are not supported", None));
        }
        let Some(Open::Map { keys, key, .. }) = self.stack.last_mut() else { return Ok(()) };
        let first = *keys.entry(text.clone()).or_insert(node.place);
        *key = Some((text.clone(), node.place));
        if first != node.place {
            self.duplicate(&text, first, node.place);
        }
        Ok(())
    }

    /// The first entry stays in effect while the rest of the file is read for further problems.
    fn duplicate(&mut self, key: &str, first: SourceSpan, second: SourceSpan) {
        if self.problems.len() < DUPLICATES_MAX {
            let what = format!("key {} is given twice", quoted(key));
            let hint = Some(format!("it is first given at line {}, column {}", first.line, first.column));
            let problem = self.wrong(ProblemKind::Duplicate, second, &what, hint);
            self.problems.push(*problem);
        }
    }

    fn bad_key(&self, place: SourceSpan, found: &str) -> Box<SpecProblem> {
        let hint = Some("put the key in quotes if it is meant as text".to_owned());
        self.wrong(ProblemKind::Syntax, place, &format!("a key must be text, found {found}"), hint)
    }

    fn wrong(&self, kind: ProblemKind, place: SourceSpan, what: &str, hint: Option<String>) -> Box<SpecProblem> {
        Box::new(self.source.problem(kind, place, what.to_owned(), hint))
    }

    fn place(&self, span: Span) -> SourceSpan {
        let line = span.start.line().max(1);
        let len = if span.end.line() == line {
            span.end.index().saturating_sub(span.start.index())
        } else {
            self.rest_of_line(line, span.start.col())
        };
        SourceSpan::new(line + self.first_line - 1, span.start.col() + 1, len.max(1))
    }

    fn rest_of_line(&self, line: usize, column: usize) -> usize {
        let text = self.lines.get(line).unwrap_or_default();
        text.len().saturating_sub(column).min(200)
    }

    fn scan_error(&self, error: &ScanError) -> Box<SpecProblem> {
        let mark = error.marker();
        let line = mark.line().max(1);
        if let Some(tab) = [line, line.saturating_sub(1)].into_iter().find_map(|line| self.tab_indent(line)) {
            let hint = Some("indent with spaces".to_owned());
            return self.wrong(ProblemKind::Syntax, tab, "a tab in the indentation", hint);
        }
        let place = SourceSpan::new(line + self.first_line - 1, mark.col() + 1, 1);
        let hint = error.info().contains("mapping values").then(|| "a value with `: ` in it needs quotes".to_owned());
        if error.info().contains("recursion limit") {
            let what = format!("nested more than {DEPTH_MAX} levels deep");
            return self.wrong(ProblemKind::Limit, place, &what, None);
        }
        if error.info().contains("anchor") {
            return self.alias(place);
        }
        self.wrong(ProblemKind::Syntax, place, &format!("syntax error: {}", error.info()), hint)
    }

    fn tab_indent(&self, line: usize) -> Option<SourceSpan> {
        let text = self.lines.get(line)?;
        let indent = text.chars().take_while(|c| matches!(c, ' ' | '\t'));
        let column = indent.enumerate().find(|(_, c)| *c == '\t').map(|(at, _)| at + 1)?;
        Some(SourceSpan::new(line + self.first_line - 1, column, 1))
    }
}

/// The name of a value in messages.
pub(crate) fn describe_value(value: &YamlValue) -> String {
    match value {
        YamlValue::Null => "nothing".to_owned(),
        YamlValue::Bool(flag) => format!("`{flag}`"),
        YamlValue::Int(number) => format!("the number {number}"),
        YamlValue::Float(number) if number.abs() >= 1e15 => format!("the number {number:e}"),
        YamlValue::Float(number) => format!("the number {number}"),
        YamlValue::Text(text) => format!("the text {}", quoted(text)),
        YamlValue::List(_) => "a list".to_owned(),
        YamlValue::Map(_) => "a mapping".to_owned(),
    }
}
