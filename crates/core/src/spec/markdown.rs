//! A loop file in Markdown: front matter between `---` lines, then one top-level heading for each role with a prompt.
//! Deeper headings and `#` inside code blocks are content.

use super::problem::{ProblemKind, quoted};
use super::reader::value::{ProblemCollector, nearest};
use super::source::SourceSpan;
use super::tree::{YamlEntry, YamlNode, YamlValue};
use super::{Role, path::SpecPath};

/// The position of the front matter in the file.
pub(crate) struct LoopFrontMatter<'t> {
    /// The YAML between the fences.
    pub(crate) yaml: &'t str,
    /// The number of its first line.
    pub(crate) first_line: usize,
    /// The text after the closing fence, and the number of its first line.
    body: (&'t str, usize),
}

/// Splits a file at its fences; `Err` has the position, the problem and a hint.
pub(crate) fn split(text: &str) -> Result<LoopFrontMatter<'_>, (SourceSpan, &'static str, &'static str)> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        let hint = "the first line is `---`, then YAML, then `---` again, then `# Maker`";
        return Err((
            SourceSpan::new(1, 1, first.trim_end().chars().count().clamp(1, 80)),
            "a loop file starts with front matter",
            hint,
        ));
    }
    let start = first.len();
    let (mut offset, mut count) = (start, 1);
    for line in lines {
        count += 1;
        if line.trim_end() == "---" {
            let body = &text[offset + line.len()..];
            return Ok(LoopFrontMatter { yaml: &text[start..offset], first_line: 2, body: (body, count + 1) });
        }
        offset += line.len();
    }
    Err((SourceSpan::new(1, 1, 3), "the front matter is not closed", "end it with a line `---`"))
}

/// A top-level heading with the text below it.
struct Section<'t> {
    title: &'t str,
    place: SourceSpan,
    lines: Vec<&'t str>,
}

/// Reads the headings as the value of `prompts:`, so that the reader and the rules need not know the source of prompts.
pub(crate) fn prompts(front: &LoopFrontMatter<'_>, findings: &ProblemCollector<'_>) -> YamlNode {
    let mut entries: Vec<YamlEntry> = Vec::new();
    for section in sections(front, findings) {
        let Some(role) = Role::ALL.into_iter().find(|role| heading(*role) == section.title) else {
            unknown_heading(&section, findings);
            continue;
        };
        if let Some(first) = entries.iter().find(|entry| entry.key == role.word()) {
            let what = format!("heading `# {}` is given twice", heading(role));
            let hint = Some(format!("it is first given at line {}", first.place.line));
            findings.add(ProblemKind::Duplicate, section.place, what, hint);
            continue;
        }
        let text = section.lines.join("\n").trim_matches(['\n', '\r', ' ', '\t']).to_owned();
        let value = YamlNode { value: YamlValue::Text(text), place: section.place };
        entries.push(YamlEntry { key: role.word().to_owned(), place: section.place, value });
    }
    YamlNode { value: YamlValue::Map(entries), place: SourceSpan::new(front.body.1.saturating_sub(1), 1, 3) }
}

/// The heading of a role: its word with a capital letter.
fn heading(role: Role) -> String {
    let (first, rest) = role.word().split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

fn unknown_heading(section: &Section<'_>, findings: &ProblemCollector<'_>) {
    if findings.is_full() {
        return;
    }
    let lower = section.title.to_lowercase();
    let near = nearest(&lower, Role::ALL.map(Role::word).into_iter()).and_then(Role::parse).map(heading);
    let hint = match &near {
        Some(near) => format!("did you mean `# {near}`?"),
        None => "top-level headings are `# Planner`, `# Maker`, `# Prover`, `# Attacker`, `# Checker`; use `##` inside a section".to_owned(),
    };
    if let Some(near) = near {
        findings.mark_faulty(SpecPath::root_key("prompts").key(near.to_lowercase()));
    }
    findings.add(
        ProblemKind::UnknownKey,
        section.place,
        format!("unknown heading {}", quoted(section.title)),
        Some(hint),
    );
}

/// Splits the body at its top-level headings. Text before the first one and unclosed code blocks are problems.
fn sections<'t>(front: &LoopFrontMatter<'t>, findings: &ProblemCollector<'_>) -> Vec<Section<'t>> {
    let (body, first_line) = front.body;
    let mut sections: Vec<Section<'t>> = Vec::new();
    let (mut fence, mut stray): (Option<(Fence, SourceSpan)>, bool) = (None, false);
    for (at, line) in body.lines().enumerate() {
        let place = SourceSpan::new(first_line + at, 1, line.chars().count().clamp(1, 80));
        match (&fence, Fence::opening(line)) {
            (Some((open, _)), _) if open.closed_by(line) => fence = None,
            (Some(_), _) => {}
            (None, Some(open)) => fence = Some((open, place)),
            (None, None) => {
                if let Some(title) = top_heading(line) {
                    sections.push(Section { title, place, lines: Vec::new() });
                    continue;
                }
            }
        }
        match sections.last_mut() {
            Some(section) => section.lines.push(line),
            None if !line.trim().is_empty() && !stray => {
                stray = true;
                let hint = Some("put it under `# Maker`".to_owned());
                findings.add(ProblemKind::Syntax, place, "text before the first heading".to_owned(), hint);
            }
            None => {}
        }
    }
    if let Some((_, place)) = fence {
        let hint = Some("headings inside a code block are content; close it".to_owned());
        findings.add(ProblemKind::Syntax, place, "this code block is not closed".to_owned(), hint);
    }
    sections
}

fn indent(line: &str) -> Option<&str> {
    let content = line.trim_start_matches(' ');
    (line.len() - content.len() <= 3).then_some(content)
}

fn top_heading(line: &str) -> Option<&str> {
    let title = indent(line)?.strip_prefix('#')?;
    let heading = title.is_empty() || title.starts_with([' ', '\t']);
    heading.then(|| title.trim().trim_end_matches('#').trim_end())
}

/// The fence of a code block.
struct Fence {
    mark: char,
    len: usize,
}

impl Fence {
    fn opening(line: &str) -> Option<Self> {
        let content = indent(line)?;
        let mark = content.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let len = content.chars().take_while(|c| *c == mark).count();
        let inline = mark == '`' && content[len..].contains('`');
        (len >= 3 && !inline).then_some(Self { mark, len })
    }

    fn closed_by(&self, line: &str) -> bool {
        let Some(content) = indent(line) else { return false };
        let len = content.chars().take_while(|c| *c == self.mark).count();
        len >= self.len && content[len..].trim().is_empty()
    }
}
