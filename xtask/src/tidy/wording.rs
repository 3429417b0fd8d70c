//! Finds phrases that make readers stop, in comments, in text that users read, and in documents. The repository uses
//! plain engineering English (AGENTS.md, *Words*); `xtask/wording.tsv` lists the phrases with better words.

use super::source::SourceFile;
use regex::Regex;
use std::path::Path;

const LIST: &str = "xtask/wording.tsv";

/// A phrase, and the words to write instead.
struct Phrase {
    pattern: Regex,
    advice: String,
}

/// A line that holds a phrase.
pub(crate) struct WordingHit {
    path: String,
    /// From 1.
    line: usize,
    found: String,
    advice: String,
}

impl std::fmt::Display for WordingHit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: “{}”: {}", self.path, self.line, self.found.trim(), self.advice)
    }
}

/// The lines that contain phrases of the list.
#[derive(Default)]
pub(crate) struct WordingMeter {
    /// Comments, of tests too.
    pub(crate) comments: Vec<WordingHit>,
    /// Text that users read: string literals of shipping code, the help of the command line, and documents.
    pub(crate) visible: Vec<WordingHit>,
}

impl WordingMeter {
    pub(crate) fn read(root: &Path, sources: &[SourceFile]) -> Result<Self, String> {
        let phrases = phrases(root)?;
        let mut meter = Self::default();
        for source in sources {
            let comments = hits(&phrases, &source.path, &source.comments, |_| true);
            // The doc comments of the verbs are the text of `--help`.
            if is_help(&source.path) {
                meter.visible.extend(comments)
            } else {
                meter.comments.extend(comments)
            }
            if source.path.starts_with("crates/") && source.path.contains("/src/") {
                let texts: String = source.strings.lines().map(prose).collect();
                meter.visible.extend(hits(&phrases, &source.path, &texts, |line| !source.is_test(line)));
            }
        }
        for (path, text) in documents(root)? {
            meter.visible.extend(hits(&phrases, &path, &text, |_| true));
        }
        Ok(meter)
    }

    pub(crate) fn print(&self) {
        println!(
            "wording: {} lines of comments and {} that users read hold a phrase of {LIST}",
            self.comments.len(),
            self.visible.len()
        );
        self.visible.iter().take(20).for_each(|hit| println!("  {hit}"));
    }

    /// Every hit, for `tidy --wording`.
    pub(crate) fn print_all(&self) {
        self.comments.iter().chain(&self.visible).for_each(|hit| println!("{hit}"));
    }
}

fn is_help(path: &str) -> bool {
    path.starts_with("crates/cli/src/verbs/") || path == "crates/cli/src/args.rs"
}

fn phrases(root: &Path) -> Result<Vec<Phrase>, String> {
    let text = std::fs::read_to_string(root.join(LIST)).map_err(|error| format!("read `{LIST}`: {error}"))?;
    let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    rows.map(|(pattern, advice)| {
        let pattern = Regex::new(pattern).map_err(|error| format!("{LIST}: {error}"))?;
        Ok(Phrase { pattern, advice: advice.to_owned() })
    })
    .collect()
}

/// Every Markdown file for readers, in order of path. The changelog keeps its original words.
fn documents(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for folder in ["", "docs", "docs/design"] {
        let failed = |error: std::io::Error| format!("read `{folder}`: {error}");
        for entry in std::fs::read_dir(root.join(folder)).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if name.ends_with(".md") && name != "CHANGELOG.md" {
                found.push((name, without_fences(&std::fs::read_to_string(&path).map_err(failed)?)));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A line of string literals, without those that hold a single word: a name, a code or a path is not a sentence.
fn prose(line: &str) -> String {
    let pieces: Vec<&str> = line.split('"').filter(|piece| piece.trim().contains(' ')).collect();
    format!("{}\n", pieces.join(" "))
}

/// Code blocks contain commands and their output, which are checked in the code.
fn without_fences(text: &str) -> String {
    let mut inside = false;
    let keep = |line: &str| {
        inside ^= line.trim_start().starts_with("```");
        if inside { "\n".to_owned() } else { format!("{line}\n") }
    };
    text.lines().map(keep).collect()
}

/// The lines that contain a phrase; a line counts once.
fn hits(phrases: &[Phrase], path: &str, text: &str, is_judged: impl Fn(usize) -> bool) -> Vec<WordingHit> {
    let lines = text.lines().enumerate().filter(|(index, line)| !line.trim().is_empty() && is_judged(*index));
    let hit = |(index, line): (usize, &str)| {
        let (phrase, found) = phrases.iter().find_map(|phrase| Some((phrase, phrase.pattern.find(line)?)))?;
        let found = found.as_str().chars().take(40).collect();
        Some(WordingHit { path: path.to_owned(), line: index + 1, found, advice: phrase.advice.clone() })
    };
    lines.filter_map(hit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let phrases = phrases(&crate::command::root()).expect("the list is readable");
        hits(&phrases, "a.rs", text, |_| true).iter().map(|hit| hit.found.trim().to_owned()).collect()
    }

    #[test]
    fn phrases_are_found_as_whole_words() {
        assert_eq!(
            found("/// The person is told at start.\n/// untold riches\n// started by hand"),
            ["told", "by hand"]
        );
    }

    #[test]
    fn a_sentence_that_opens_without_its_subject_is_found() {
        assert_eq!(found("    /// Who begins a round.").len(), 1);
        assert_eq!(found("// It ends. Whoever asks is refused.").len(), 1);
        assert_eq!(found("/// The person who approved it.").len(), 0);
        assert_eq!(found("/// What is due next?").len(), 0);
    }

    #[test]
    fn code_blocks_of_documents_are_not_checked() {
        assert_eq!(without_fences("a\n```sh\nb\n```\nc\n"), "a\n\n\n```\nc\n");
    }
}
