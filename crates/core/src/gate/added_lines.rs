//! The lines that a change added: a cheap line difference that never misses the text of an added line.
//!
//! Lines are compared as a multiset between the common head and tail, so a moved line is not an added one. That is
//! correct for scans, because a moved line adds nothing new.

use std::collections::HashMap;

/// One added line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedLine {
    /// Its number in the new file, from 1.
    pub number: u32,
    /// Its text without the line end.
    pub text: String,
}

/// The lines a change added to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedLines {
    /// The file.
    pub path: String,
    /// Its added lines, in order.
    pub lines: Vec<AddedLine>,
}

impl AddedLines {
    /// Compares two versions of a file; an absent version is an empty one.
    #[must_use]
    pub fn between(path: impl Into<String>, before: &[u8], after: &[u8]) -> Self {
        Self { path: path.into(), lines: difference(before, after) }
    }
}

fn difference(before: &[u8], after: &[u8]) -> Vec<AddedLine> {
    let old: Vec<&[u8]> = split(before);
    let new: Vec<&[u8]> = split(after);
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mut left: HashMap<&[u8], u64> = HashMap::new();
    for line in &old[head..old.len() - tail] {
        *left.entry(line).or_default() += 1;
    }
    let mut added = Vec::new();
    for (at, line) in new[head..new.len() - tail].iter().enumerate() {
        match left.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => added.push(AddedLine {
                number: u32::try_from(head + at + 1).unwrap_or(u32::MAX),
                text: String::from_utf8_lossy(line).trim_end_matches('\r').to_owned(),
            }),
        }
    }
    added
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|byte| *byte == b'\n').collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(before: &str, after: &str) -> Vec<(u32, String)> {
        let found = AddedLines::between("f", before.as_bytes(), after.as_bytes());
        found.lines.into_iter().map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn added_lines_carry_their_number() {
        assert_eq!(added("a\nb\n", "a\nnew\nb\n"), [(2, "new".to_owned())]);
        assert_eq!(added("", "x"), [(1, "x".to_owned())]);
        assert_eq!(added("a\nb\n", "a\n"), []);
    }

    #[test]
    fn moved_lines_are_not_added_but_copies_are() {
        assert_eq!(added("a\nb\nc\n", "c\nb\na\n"), []);
        assert_eq!(added("a\n", "a\na\n"), [(2, "a".to_owned())]);
        assert_eq!(added("a\nb\n", "c\n"), [(1, "c".to_owned())]);
    }
}
