//! The small part of YAML that nearly every loop file is written in, read in a fraction of the time: block mappings and lists,
//! words, quotes without escapes, and `[…]` or `{…}` on one line.
//!
//! It knows no places and makes no messages. Whatever is not surely of that part, or surely right, is nothing here, and is the
//! whole reader's: what this does read, that reads the same (a test holds the two against each other).

use super::scalar::{is_word, typed};
use super::source::Place;
use super::tree::{Entry, Node, Value};
use saphyr_parser::ScalarStyle;

/// Lines, keys and nesting up to these are surely within the limits of the whole reader.
const LINE_MAX: usize = 900;
const KEY_MAX: usize = 64;
const DEPTH_MAX: usize = 8;
const NODES_MAX: usize = 2_000;

/// A document whose root is a mapping, if it is written simply.
pub(super) fn parse(yaml: &str) -> Option<Node> {
    let mut lines = Lines { rest: yaml, next: None, nodes: 0 };
    lines.advance()?;
    let (indent, _) = lines.next?;
    let root = if indent == 0 { lines.mapping(0, 0)? } else { return None };
    lines.next.is_none().then_some(root)
}

/// The lines that say something, one ahead.
struct Lines<'y> {
    rest: &'y str,
    /// The next of them: its indent, and the text after it.
    next: Option<(usize, &'y str)>,
    nodes: usize,
}

impl<'y> Lines<'y> {
    /// Goes to the next line that says something; nothing, when it has what is not simple.
    fn advance(&mut self) -> Option<()> {
        self.next = None;
        while self.next.is_none() && !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            let line = line.trim_end_matches(' ');
            let is_plain = line.len() <= LINE_MAX && line.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            let text = line.trim_start_matches(' ');
            if !is_plain || text.starts_with('%') || text.starts_with("---") || text.starts_with("...") {
                return None;
            }
            if !text.is_empty() && !text.starts_with('#') {
                self.next = Some((line.len() - text.len(), text));
            }
        }
        Some(())
    }

    /// A mapping whose keys stand at an indent.
    fn mapping(&mut self, indent: usize, depth: usize) -> Option<Node> {
        let mut entries = Vec::new();
        while let Some((at, text)) = self.next.filter(|(at, _)| *at >= indent) {
            let (key, value) = pair(text).filter(|_| at == indent)?;
            self.entry(key, value, indent, depth, &mut entries)?;
        }
        self.node(Value::Map(entries))
    }

    /// One key with its value; the line it begins on is the next one.
    fn entry(
        &mut self,
        key: &str,
        value: &'y str,
        indent: usize,
        depth: usize,
        entries: &mut Vec<Entry>,
    ) -> Option<()> {
        self.advance()?;
        let value = if value.is_empty() { self.below(indent, depth)? } else { self.value(value, depth)? };
        self.add(key, value, entries)
    }

    fn add(&mut self, key: &str, value: Node, entries: &mut Vec<Entry>) -> Option<()> {
        // A word that is no text is no key, and of two keys the whole reader tells.
        let is_text = is_word(key) || matches!(typed(key, ScalarStyle::Plain), Value::Text(_));
        if !is_text || entries.iter().any(|entry| entry.key == key) {
            return None;
        }
        entries.push(Entry { key: key.to_owned(), place: Place::default(), value });
        Some(())
    }

    /// The value of a key that has none on its own line.
    fn below(&mut self, indent: usize, depth: usize) -> Option<Node> {
        if depth >= DEPTH_MAX {
            return None;
        }
        match self.next {
            Some((at, text)) if at >= indent && is_item(text) => self.list(at, depth + 1),
            Some((at, _)) if at > indent => self.mapping(at, depth + 1),
            _ => self.node(Value::Null),
        }
    }

    /// A list whose dashes stand at an indent.
    fn list(&mut self, indent: usize, depth: usize) -> Option<Node> {
        let mut items = Vec::new();
        while let Some((at, text)) = self.next.filter(|(at, text)| *at > indent || (*at == indent && is_item(text))) {
            let item = text.strip_prefix('-').filter(|_| at == indent)?;
            let inner = item.trim_start_matches(' ');
            if is_item(inner) {
                return None;
            }
            let column = indent + text.len() - inner.len();
            items.push(match pair(inner) {
                Some((key, value)) => self.item_mapping(key, value, column, depth)?,
                None => {
                    self.advance()?;
                    self.value(inner, depth)?
                }
            });
        }
        self.node(Value::List(items))
    }

    /// A mapping that begins on the line of a dash.
    fn item_mapping(&mut self, key: &str, value: &'y str, column: usize, depth: usize) -> Option<Node> {
        if depth >= DEPTH_MAX {
            return None;
        }
        let mut entries = Vec::new();
        self.entry(key, value, column, depth + 1, &mut entries)?;
        while let Some((at, text)) = self.next.filter(|(at, _)| *at >= column) {
            let (key, value) = pair(text).filter(|_| at == column)?;
            self.entry(key, value, column, depth + 1, &mut entries)?;
        }
        self.node(Value::Map(entries))
    }

    /// A value that stands on one line, whole.
    fn value(&mut self, text: &str, depth: usize) -> Option<Node> {
        let (node, rest) = match text.as_bytes().first()? {
            b'[' | b'{' | b'"' | b'\'' => self.flow(text, depth)?,
            _ => (self.node(plain(text, |byte| matches!(byte, b'#'))?)?, ""),
        };
        rest.is_empty().then_some(node)
    }

    /// A value inside brackets or in quotes, and what follows it.
    fn flow<'t>(&mut self, text: &'t str, depth: usize) -> Option<(Node, &'t str)> {
        let (open, inner) = text.split_at_checked(1)?;
        match open {
            "\"" | "'" => {
                let (word, rest) = inner.split_once(open)?;
                // An escape, or a quote that is written twice.
                let is_more = word.contains('\\') || rest.starts_with(open);
                (!is_more).then_some(())?;
                Some((self.node(Value::Text(word.to_owned()))?, rest))
            }
            "[" | "{" if depth >= DEPTH_MAX => None,
            "[" => self.flow_list(inner.trim_start_matches(' '), depth + 1),
            "{" => self.flow_mapping(inner.trim_start_matches(' '), depth + 1),
            _ => {
                let end = text.find([',', ']', '}']).unwrap_or(text.len());
                let (word, rest) = text.split_at(end);
                let word = word.trim_end_matches(' ');
                // The whole reader takes a dash before a bracket or comma for the mark of a list.
                let value =
                    plain(word, |byte| b"#[]{},\"'`&!|>%@?".contains(&byte)).filter(|_| !word.ends_with('-'))?;
                Some((self.node(value)?, rest))
            }
        }
    }

    fn flow_list<'t>(&mut self, mut rest: &'t str, depth: usize) -> Option<(Node, &'t str)> {
        let mut items = Vec::new();
        while !rest.starts_with(']') {
            let (item, after) = self.flow(rest, depth)?;
            items.push(item);
            rest = separated(after, ']')?;
        }
        Some((self.node(Value::List(items))?, &rest[1..]))
    }

    fn flow_mapping<'t>(&mut self, mut rest: &'t str, depth: usize) -> Option<(Node, &'t str)> {
        let mut entries = Vec::new();
        while !rest.starts_with('}') {
            let (key, value) = pair(rest).filter(|(_, value)| !value.is_empty())?;
            let (value, after) = self.flow(value, depth)?;
            self.add(key, value, &mut entries)?;
            rest = separated(after, '}')?;
        }
        Some((self.node(Value::Map(entries))?, &rest[1..]))
    }

    fn node(&mut self, value: Value) -> Option<Node> {
        self.nodes += 1;
        (self.nodes <= NODES_MAX).then_some(Node { value, place: Place::default() })
    }
}

/// What comes after a comma, or the end itself; a comma before the end is left to the whole reader.
fn separated(after: &str, end: char) -> Option<&str> {
    let after = after.trim_start_matches(' ');
    if after.starts_with(end) {
        return Some(after);
    }
    let next = after.strip_prefix(',')?.trim_start_matches(' ');
    (!next.starts_with(end)).then_some(next)
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// A key that is a word, and what follows its colon.
fn pair(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.split_once(':')?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && key.bytes().all(is_word);
    let is_pair = is_key && key.len() <= KEY_MAX && (rest.is_empty() || rest.starts_with(' '));
    is_pair.then(|| (key, rest.trim_start_matches(' ')))
}

/// A word without quotes that begins and goes on so that it can be nothing else.
fn plain(word: &str, is_odd: impl Fn(u8) -> bool) -> Option<Value> {
    let bytes = word.as_bytes();
    let (first, second) = (*bytes.first()?, bytes.get(1).copied().unwrap_or(b' '));
    let begins = match first {
        b'-' => second.is_ascii_alphanumeric(),
        first => first.is_ascii_alphanumeric() || b"/._$(+~<=".contains(&first),
    };
    let colon = |pair: &[u8]| pair[0] != b':' || pair[1].is_ascii_alphanumeric() || pair[1] == b'/';
    let is_simple =
        begins && bytes.last() != Some(&b':') && bytes.windows(2).all(colon) && !bytes.iter().any(|byte| is_odd(*byte));
    is_simple.then(|| typed(word, ScalarStyle::Plain))
}

#[cfg(test)]
mod tests;
