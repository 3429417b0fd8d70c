//! Rust files for tidy: the text, and the same text with comments and literals blanked out.

use std::path::{Path, PathBuf};

/// One Rust file of the workspace.
pub(crate) struct SourceFile {
    /// The path from the workspace's root, with `/`.
    pub(crate) path: String,
    /// The file as written.
    pub(crate) text: String,
    /// The same lines and characters, but only code: comments and literals are blank.
    pub(crate) code: String,
    /// The same lines, but only comments.
    pub(crate) comments: String,
    /// The same lines, but only string literals.
    pub(crate) strings: String,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let [code, comments, strings] = [Part::Code, Part::Comment, Part::String].map(|part| only(part, text));
        Self { path: path.to_owned(), text: text.to_owned(), code, comments, strings }
    }

    /// Every Rust file under `crates` and `xtask`, in order of path. Fixtures are data and are not checked.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>, String> {
        let mut paths = Vec::new();
        for folder in ["crates", "xtask"] {
            collect(&root.join(folder), &mut paths).map_err(|error| format!("walk `{folder}`: {error}"))?;
        }
        paths.sort();
        paths.iter().map(|path| Self::read(root, path)).collect()
    }

    fn read(root: &Path, path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("read `{}`: {error}", path.display()))?;
        let short = path.strip_prefix(root).unwrap_or(path);
        Ok(Self::new(&short.to_string_lossy(), &text))
    }

    /// The folder of its crate: `engine` of `crates/engine/src/…`.
    pub(crate) fn crate_name(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            other => other.unwrap_or_default(),
        }
    }

    /// Whether line `index` (from 0) is test code: a file for tests, or below the file's `#[cfg(test)]`.
    pub(crate) fn is_test(&self, index: usize) -> bool {
        let file = self.path.contains("/tests/") || self.path.ends_with("/tests.rs") || self.path.contains("testkit/");
        file || self.code.lines().position(|line| line.contains("#[cfg(test)]")).is_some_and(|start| index > start)
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "fixtures"].contains(&name.as_str()) && !name.starts_with('.') {
                collect(&path, paths)?;
            }
        } else if name.ends_with(".rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// A kind of text in a Rust file.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Comment,
    String,
    Character,
}

/// The text with every other part blanked, so that lines and columns stay.
fn only(wanted: Part, text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let (part, end) = part_at(&chars, at);
        let keep = |c: &char| if part == wanted || *c == '\n' { *c } else { ' ' };
        kept.extend(chars[at..end].iter().map(keep));
        at = end;
    }
    kept
}

/// The part that starts here, and where it ends.
fn part_at(chars: &[char], at: usize) -> (Part, usize) {
    match chars[at] {
        '/' if chars.get(at + 1) == Some(&'/') => (Part::Comment, line_end(chars, at)),
        '/' if chars.get(at + 1) == Some(&'*') => (Part::Comment, block_end(chars, at)),
        '"' => (Part::String, string_end(chars, at + 1)),
        'r' if !follows_word(chars, at) && raw_hashes(chars, at).is_some() => {
            (Part::String, raw_end(chars, at, raw_hashes(chars, at).unwrap_or(0)))
        }
        '\'' => char_end(chars, at).map_or((Part::Code, at + 1), |end| (Part::Character, end)),
        _ => (Part::Code, at + 1),
    }
}

fn follows_word(chars: &[char], at: usize) -> bool {
    // `br"…"` and `cr"…"` are raw strings too, so one letter before `r` may be part of the prefix.
    let before = |back: usize| at.checked_sub(back).map(|index| chars[index]);
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match before(1) {
        Some('b' | 'c') => word(before(2)),
        other => word(other),
    }
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |length| at + length)
}

fn block_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut index = at;
    while index + 1 < chars.len() {
        match (chars[index], chars[index + 1]) {
            ('/', '*') => (depth, index) = (depth + 1, index + 2),
            ('*', '/') => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
        if depth == 0 {
            return index;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut index = start;
    while index < chars.len() {
        match chars[index] {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    chars.len()
}

/// The number of hashes of a raw string that starts here, or `None` if no raw string does.
fn raw_hashes(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    (chars.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn raw_end(chars: &[char], at: usize, hashes: usize) -> usize {
    let body = at + 2 + hashes;
    let closes = |index: &usize| {
        chars[*index] == '"' && chars[index + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (body..chars.len()).find(closes).map_or(chars.len(), |index| index + 1 + hashes)
}

/// The end of a character literal, or `None` if the quote begins a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    if chars.get(at + 1)? == &'\\' {
        let length = chars[at + 3..].iter().position(|c| *c == '\'')?;
        return Some(at + 4 + length);
    }
    (chars.get(at + 2)? == &'\'').then_some(at + 3)
}

#[cfg(test)]
mod tests {
    use super::{Part, only};

    #[test]
    fn comments_and_literals_are_blank_and_positions_stay() {
        let table = [
            ("a // b\nc", "a     \nc"),
            ("a /* x /* y */ z */ b", "a                   b"),
            (r#"f("}{\"") + 1"#, "f(      ) + 1"),
            ("let c = '{'; let q = '\\''; let u = '\\u{7b}';", "let c =    ; let q =     ; let u =         ;"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("x = r#\"todo!(\"{\")\"#;", "x =                ;"),
            ("x = br\"{\";", "x = b    ;"),
            ("for r in 0..1 {}", "for r in 0..1 {}"),
            ("\"unfinished", "           "),
        ];
        for (text, expected) in table {
            assert_eq!(only(Part::Code, text), expected, "{text}");
        }
    }

    #[test]
    fn comments_and_strings_are_separated() {
        let text = "a // b\nc(\"d\", 'e')";
        assert_eq!(only(Part::Comment, text), "  // b\n           ");
        assert_eq!(only(Part::String, text), "      \n  \"d\"      ");
    }
}
