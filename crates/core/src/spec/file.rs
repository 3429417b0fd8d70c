//! The entry point: turns the bytes of a loop file into a checked spec, or into all problems with their positions.
//! Opens no file itself.

use super::checked::CheckedSpec;
use super::markdown::LoopFrontMatter;
use super::problem::{ProblemKind, SpecProblem, SpecProblems};
use super::reader::value::{ProblemCollector, SpecValue};
use super::source::{SourceSpan, SourceText};
use super::tree::{self, BYTES_MAX, YamlEntry, YamlNode, YamlValue};
use super::{markdown, reader, rules};

/// The notation of a file, from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Markdown,
    Yaml,
    Json,
}

impl Form {
    fn of(file: &str) -> Self {
        match file.rsplit_once('.') {
            Some((_, "md")) => Self::Markdown,
            Some((_, "json")) => Self::Json,
            _ => Self::Yaml,
        }
    }
}

/// Reads a loop file: Markdown with front matter (`.md`), otherwise plain YAML or JSON. `file` is the name that
/// messages show.
///
/// # Errors
/// All problems of the file at once, in the order of their positions.
pub fn read_loop_file(file: &str, text: &[u8]) -> Result<CheckedSpec, SpecProblems> {
    let text = decode(file, text)?;
    let source = SourceText::new(file, text);
    let form = Form::of(file);
    let findings = ProblemCollector::new(&source);
    let (root, mut problems) = file_tree(file, &source, text, &findings)?;
    let spec = reader::read_spec(&SpecValue::root(&findings, &root));
    for mut violation in rules::violations(&spec) {
        if form == Form::Markdown && violation.path == rules::maker_prompt() {
            violation.hint = Some("add a `# Maker` section that says what to do".to_owned());
        }
        findings.add_violation(violation, &root);
    }
    problems.extend(findings.into_problems());
    if problems.is_empty() { Ok(CheckedSpec::seal(spec)) } else { Err(SpecProblems::new(problems)) }
}

/// The tree of a file in the notation of its name; the sections of a Markdown file are its `prompts`.
pub(crate) fn file_tree(
    file: &str,
    source: &SourceText<'_>,
    text: &str,
    findings: &ProblemCollector<'_>,
) -> Result<FileTree, SpecProblems> {
    match Form::of(file) {
        Form::Markdown => markdown_tree(source, text, findings),
        Form::Yaml => plain_tree(source, text),
        Form::Json => json_tree(source, text),
    }
}

/// The text of a file that is small enough and UTF-8, without its byte order mark.
pub(crate) fn decode<'t>(file: &str, bytes: &'t [u8]) -> Result<&'t str, SpecProblems> {
    if bytes.len() > BYTES_MAX {
        let what = format!("the file has {} bytes; the most is {BYTES_MAX}", bytes.len());
        let problem = SourceText::new(file, "").problem(ProblemKind::Limit, SourceSpan::default(), what, None);
        return Err(SpecProblems::new(vec![problem]));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (lossy, at) = (String::from_utf8_lossy(bytes), error.valid_up_to());
        let hint = "save the file as UTF-8";
        SpecProblems::new(vec![bad_character(file, &lossy, at, "this is not UTF-8 text".to_owned(), hint)])
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_bad = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    // A loop file needs no control characters, and a NUL would end it for the YAML scanner.
    let Some((at, character)) = text.char_indices().find(|(_, c)| is_bad(c)) else { return Ok(text) };
    let what = format!("control character U+{:04X}", u32::from(character));
    Err(SpecProblems::new(vec![bad_character(file, text, at, what, "remove it")]))
}

/// A problem with the character at a byte of the text.
fn bad_character(file: &str, text: &str, at: usize, what: String, hint: &str) -> SpecProblem {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let place = SourceSpan::new(line, column, 1);
    SourceText::new(file, text).problem(ProblemKind::Syntax, place, what, Some(hint.to_owned()))
}

/// A tree and its non-fatal problems.
pub(crate) type FileTree = (YamlNode, Vec<SpecProblem>);

fn markdown_tree(
    source: &SourceText<'_>,
    text: &str,
    findings: &ProblemCollector<'_>,
) -> Result<FileTree, SpecProblems> {
    let front = markdown::split(text).map_err(|(place, what, hint)| {
        SpecProblems::new(vec![source.problem(ProblemKind::Syntax, place, what.to_owned(), Some(hint.to_owned()))])
    })?;
    let parsed = tree::parse(source, front.yaml, front.first_line).map_err(SpecProblems::new)?;
    let mut root = as_mapping(parsed.root);
    root.place = SourceSpan::new(1, 1, 3);
    Ok((with_prompts(root, &front, findings), parsed.problems))
}

/// The front matter with the sections below it as its `prompts`.
fn with_prompts(mut root: YamlNode, front: &LoopFrontMatter<'_>, findings: &ProblemCollector<'_>) -> YamlNode {
    let prompts = markdown::prompts(front, findings);
    if let YamlValue::Map(entries) = &mut root.value {
        for key in ["prompts", "maker_prompt", "checker_prompt"] {
            if let Some(at) = entries.iter().position(|entry| entry.key == key) {
                let entry = entries.remove(at);
                let what = format!("`{key}` in the front matter of a Markdown loop file");
                let hint = Some("prompts are sections here: `# Maker`, `# Checker`".to_owned());
                findings.add(ProblemKind::Value, entry.place, what, hint);
            }
        }
        entries.push(YamlEntry { key: "prompts".to_owned(), place: prompts.place, value: prompts });
    }
    root
}

/// Empty front matter is a mapping without keys, so that the missing keys are reported.
fn as_mapping(root: YamlNode) -> YamlNode {
    match root.value {
        YamlValue::Null => YamlNode { value: YamlValue::Map(Vec::new()), place: root.place },
        _ => root,
    }
}

/// YAML has more notations than JSON; a file named as JSON must be JSON.
fn json_tree(source: &SourceText<'_>, text: &str) -> Result<FileTree, SpecProblems> {
    let tree = plain_tree(source, text)?;
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(tree),
        Err(error) => {
            let (place, what) = (SourceSpan::new(error.line().max(1), error.column().max(1), 1), error.to_string());
            let what = what.split(" at line ").next().unwrap_or_default();
            let hint = Some("rename the file to `.yaml` if YAML is meant".to_owned());
            let problem = source.problem(ProblemKind::Syntax, place, format!("this is not JSON: {what}"), hint);
            Err(SpecProblems::new(vec![problem]))
        }
    }
}

fn plain_tree(source: &SourceText<'_>, text: &str) -> Result<FileTree, SpecProblems> {
    let parsed = tree::parse(source, text, 1).map_err(SpecProblems::new)?;
    Ok((as_mapping(parsed.root), parsed.problems))
}
