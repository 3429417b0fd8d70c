//! Reads one value: the expected type, and the message if another is found. Problems are collected and reading always
//! continues. The rules decide which combinations of values are valid.

use crate::level::LoopLevel;
use crate::spec::Argv;
use crate::spec::path::SpecPath;
use crate::spec::problem::{ProblemKind, SpecProblem, quoted};
use crate::spec::rules::RuleViolation;
use crate::spec::source::{SourceSpan, SourceText};
use crate::spec::tree::{YamlEntry, YamlNode, YamlValue, describe_value};
use crate::units::{TimeSpan, Usd, parse_tokens};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The most problems of a file that are listed.
const PROBLEMS_MAX: usize = 100;

/// Collects problems while a file is read.
pub(crate) struct ProblemCollector<'s> {
    source: &'s SourceText<'s>,
    problems: RefCell<Vec<SpecProblem>>,
    /// Paths that already have a problem; rules skip them.
    touched: RefCell<Vec<SpecPath>>,
}

impl<'s> ProblemCollector<'s> {
    /// A collector without problems.
    pub(crate) fn new(source: &'s SourceText<'s>) -> Self {
        Self { source, problems: RefCell::default(), touched: RefCell::default() }
    }

    /// Adds a problem.
    pub(crate) fn add(&self, kind: ProblemKind, place: SourceSpan, what: String, hint: Option<String>) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < PROBLEMS_MAX {
            problems.push(self.source.problem(kind, place, what, hint));
        }
    }

    /// Adds a violated rule at its place in the file, unless its value already has a problem.
    pub(crate) fn add_violation(&self, violation: RuleViolation, root: &YamlNode) {
        let RuleViolation { kind, path, what, hint } = violation;
        if !self.is_faulty(&path) {
            self.add(kind, path.span_in(root), what, hint);
        }
    }

    /// Whether further problems would not be listed, so that checks may be skipped.
    pub(crate) fn is_full(&self) -> bool {
        self.problems.borrow().len() >= PROBLEMS_MAX
    }

    /// Keeps the rules from reporting a value that already has a problem.
    pub(crate) fn mark_faulty(&self, path: SpecPath) {
        self.touched.borrow_mut().push(path);
    }

    /// Whether a value on this path already has a problem.
    pub(crate) fn is_faulty(&self, path: &SpecPath) -> bool {
        self.touched.borrow().iter().any(|touched| touched.overlaps(path))
    }

    /// All collected problems.
    pub(crate) fn into_problems(self) -> Vec<SpecProblem> {
        self.problems.into_inner()
    }
}

/// A value with its position and its path.
#[derive(Clone)]
pub(crate) struct SpecValue<'n> {
    pub(crate) findings: &'n ProblemCollector<'n>,
    pub(crate) node: &'n YamlNode,
    pub(crate) path: SpecPath,
}

/// A mapping whose keys are known.
pub(crate) struct SpecFields<'n> {
    at: SpecValue<'n>,
    entries: &'n [YamlEntry],
}

impl<'n> SpecValue<'n> {
    /// The root of a file.
    pub(crate) fn root(findings: &'n ProblemCollector<'n>, node: &'n YamlNode) -> Self {
        Self { findings, node, path: SpecPath::default() }
    }

    fn child(&self, node: &'n YamlNode, path: SpecPath) -> Self {
        Self { findings: self.findings, node, path }
    }

    /// Records a problem with this value.
    pub(crate) fn add_problem(&self, kind: ProblemKind, what: String, hint: Option<String>) {
        self.findings.mark_faulty(self.path.clone());
        self.findings.add(kind, self.node.place, what, hint);
    }

    /// Records that a value has the wrong type.
    pub(crate) fn wrong_type<T>(&self, wanted: &str, hint: Option<String>) -> Option<T> {
        let name = if self.path == SpecPath::default() { "a loop file".to_owned() } else { format!("`{}`", self.path) };
        let hint = hint.or_else(|| match self.node.value {
            YamlValue::Null => Some("give it a value, or leave the key out".to_owned()),
            _ => None,
        });
        self.add_problem(
            ProblemKind::WrongType,
            format!("{name} wants {wanted}, found {}", describe_value(&self.node.value)),
            hint,
        );
        None
    }

    /// A mapping with these keys, separated by spaces, and no others.
    pub(crate) fn fields(&self, known: &str) -> Option<SpecFields<'n>> {
        let known: Vec<&str> = known.split_whitespace().collect();
        let YamlValue::Map(entries) = &self.node.value else {
            let some = listed(&known[..known.len().min(3)]);
            return self.wrong_type(&format!("a mapping with keys such as {some}"), None);
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            // The search for the nearest word is expensive, so it stops when no more problems are listed.
            if !self.findings.is_full() {
                self.unknown_key(entry, &known);
            }
        }
        Some(SpecFields { at: self.clone(), entries })
    }

    /// The block of a key, for messages.
    fn inside(&self) -> String {
        if self.path == SpecPath::default() { String::new() } else { format!(" in `{}`", self.path) }
    }

    fn unknown_key(&self, entry: &YamlEntry, known: &[&str]) {
        let place = self.inside();
        let near = nearest(&entry.key, known.iter().copied());
        if let Some(near) = near {
            // The key that was probably meant is not also reported as missing.
            self.findings.mark_faulty(self.path.key(near.to_owned()));
        }
        let hint = near
            .map_or_else(|| format!("known keys here: {}", listed(known)), |near| format!("did you mean `{near}`?"));
        let what = format!("unknown key {}{place}", quoted(&entry.key));
        self.findings.add(ProblemKind::UnknownKey, entry.place, what, Some(hint));
    }

    /// A mapping with free keys.
    pub(crate) fn entries(&self, wanted: &str) -> Option<Vec<(&'n YamlEntry, SpecValue<'n>)>> {
        let YamlValue::Map(entries) = &self.node.value else { return self.wrong_type(wanted, None) };
        Some(entries.iter().map(|entry| (entry, self.child(&entry.value, self.path.key(entry.key.clone())))).collect())
    }

    /// A mapping with free keys whose values are all of one kind; those that cannot be read are left out.
    pub(crate) fn map_of<T>(&self, wanted: &str, read: impl Fn(&Self) -> Option<T>) -> Option<BTreeMap<String, T>> {
        let entries = self.entries(wanted)?.into_iter();
        Some(entries.filter_map(|(entry, at)| Some((entry.key.clone(), read(&at)?))).collect())
    }

    /// A list; an item that cannot be read is replaced by `blank`, so that the others keep their index.
    pub(crate) fn list<T>(
        &self,
        wanted: &str,
        blank: impl Fn() -> T,
        each: impl Fn(&Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let YamlValue::List(items) = &self.node.value else { return self.wrong_type(wanted, None) };
        let item = |(index, node)| {
            let at = self.child(node, self.path.index(index));
            each(&at).unwrap_or_else(|| {
                self.findings.mark_faulty(at.path);
                blank()
            })
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// One value, or a list of them.
    pub(crate) fn one_or_many<T>(
        &self,
        wanted: &str,
        blank: impl Fn() -> T,
        each: impl Fn(&Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        match &self.node.value {
            YamlValue::List(_) => self.list(wanted, blank, each),
            _ => each(self).map(|value| vec![value]),
        }
    }

    /// Text.
    pub(crate) fn text(&self) -> Option<String> {
        self.text_like("text")
    }

    /// Text, with a description for the message.
    pub(crate) fn text_like(&self, wanted: &str) -> Option<String> {
        match &self.node.value {
            YamlValue::Text(text) => Some(text.clone()),
            YamlValue::Int(_) | YamlValue::Float(_) | YamlValue::Bool(_) => {
                self.wrong_type(wanted, Some("put it in quotes".to_owned()))
            }
            _ => self.wrong_type(wanted, None),
        }
    }

    /// One text, or a list of them.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        match &self.node.value {
            YamlValue::List(_) => self.text_list(),
            _ => self.text_like("text or a list of texts").map(|text| vec![text]),
        }
    }

    /// A list of texts.
    pub(crate) fn text_list(&self) -> Option<Vec<String>> {
        if let YamlValue::Text(text) = &self.node.value {
            return self.wrong_type("a list of texts", Some(format!("write `[{}]`", flow_word(text))));
        }
        self.list("a list of texts", String::new, Self::text)
    }

    /// A command as a list of words.
    pub(crate) fn argv(&self) -> Option<Argv> {
        if let YamlValue::Text(text) = &self.node.value {
            let words: Vec<String> = text.split_whitespace().take(12).map(flow_word).collect();
            let hint = format!("write `[{}]`; a shell is asked for by name: `[sh, -c, \"…\"]`", words.join(", "));
            return self.wrong_type("a command as a list of words", Some(hint));
        }
        self.list("a command as a list of words", String::new, Self::text)
    }

    /// A whole number within a type's range.
    pub(crate) fn whole<T: TryFrom<i128>>(&self, range: RangeInclusive<i128>) -> Option<T> {
        match self.node.value {
            YamlValue::Int(number) if range.contains(&number) => T::try_from(number).ok(),
            _ => self.wrong_type(&format!("a whole number from {} to {}", range.start(), range.end()), None),
        }
    }

    /// Any finite number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.node.value {
            YamlValue::Int(number) => Some(number as f64),
            YamlValue::Float(number) if number.is_finite() => Some(number),
            _ => self.wrong_type("a number", None),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self) -> Option<bool> {
        match self.node.value {
            YamlValue::Bool(flag) => Some(flag),
            _ => self.wrong_type("`true` or `false`", None),
        }
    }

    /// A span of time.
    pub(crate) fn span(&self) -> Option<TimeSpan> {
        const WANTED: &str = "a span of time such as `15m`";
        match &self.node.value {
            YamlValue::Text(text) => TimeSpan::parse(text).or_else(|| {
                self.wrong_type(WANTED, Some("one number and one unit: `30s`, `15m`, `2h`, `1d`".to_owned()))
            }),
            YamlValue::Int(number) if *number > 0 => {
                self.wrong_type(WANTED, Some(format!("write `{number}m` for minutes")))
            }
            _ => self.wrong_type(WANTED, None),
        }
    }

    /// A count of tokens.
    pub(crate) fn tokens(&self) -> Option<u64> {
        let read = match &self.node.value {
            YamlValue::Int(number) => u64::try_from(*number).ok(),
            YamlValue::Text(text) => parse_tokens(text),
            _ => None,
        };
        read.or_else(|| self.wrong_type("a count of tokens such as `200k` or `400000`", None))
    }

    /// An amount of money.
    pub(crate) fn usd(&self) -> Option<Usd> {
        let read = match self.node.value {
            YamlValue::Int(number) => Usd::from_dollars(number as f64),
            YamlValue::Float(number) => Usd::from_dollars(number),
            _ => None,
        };
        read.or_else(|| self.wrong_type("an amount in US dollars such as `2.50`", None))
    }

    /// A level, also in the seed's words.
    pub(crate) fn level(&self) -> Option<LoopLevel> {
        let read = match &self.node.value {
            YamlValue::Text(text) => LoopLevel::parse(text),
            _ => None,
        };
        read.or_else(|| self.wrong_type("a level: `L1`, `L2` or `L3`", None))
    }

    /// One word of a closed set.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = if let YamlValue::Text(text) = &self.node.value { text.as_str() } else { "" };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = nearest(text, names.iter().copied()).filter(|_| matches!(self.node.value, YamlValue::Text(_)));
        self.wrong_type(&format!("one of {}", listed(&names)), near.map(|near| format!("did you mean `{near}`?")))
    }
}

impl<'n> SpecFields<'n> {
    /// The value of a key.
    pub(crate) fn get(&self, key: &'static str) -> Option<SpecValue<'n>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(self.at.child(&entry.value, self.at.path.key(key)))
    }

    /// Reads a key into a field that has a default.
    pub(crate) fn set<T>(&self, key: &'static str, slot: &mut T, read: impl FnOnce(&SpecValue<'n>) -> Option<T>) {
        if let Some(value) = self.get(key).and_then(|at| read(&at)) {
            *slot = value;
        }
    }

    /// Reads an optional key.
    pub(crate) fn option<T>(&self, key: &'static str, read: impl FnOnce(&SpecValue<'n>) -> Option<T>) -> Option<T> {
        self.get(key).and_then(|at| read(&at))
    }

    /// Reads a required key.
    pub(crate) fn required<T>(
        &self,
        key: &'static str,
        example: &str,
        read: impl FnOnce(&SpecValue<'n>) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(at) => read(&at),
            None => self.missing(key, example),
        }
    }

    fn missing<T>(&self, key: &'static str, example: &str) -> Option<T> {
        let path = self.at.path.key(key);
        if !self.at.findings.is_faulty(&path) {
            let (what, hint) =
                (format!("missing key `{key}`{}", self.at.inside()), format!("write `{key}: {example}`"));
            self.at.findings.add(ProblemKind::Missing, self.at.node.place, what, Some(hint));
            self.at.findings.mark_faulty(path);
        }
        None
    }
}

/// The known word that was probably meant.
pub(crate) fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    // A key longer than any known one is not a typo of it, and comparing would be slow.
    if text.len() > 40 {
        return None;
    }
    let text = text.to_lowercase().replace('-', "_");
    words
        .map(|word| (strsim::damerau_levenshtein(&text, &word.replace('-', "_")), word))
        .filter(|(distance, word)| *distance <= (word.len() / 3).clamp(1, 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Words as a list in a message.
pub(crate) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// A word as it is written inside `[…]`.
fn flow_word(word: &str) -> String {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=+".contains(c));
    let word: String = crate::spec::problem::printable(&word.chars().take(40).collect::<String>());
    if plain { word } else { format!("\"{}\"", word.replace('"', "\\\"")) }
}
