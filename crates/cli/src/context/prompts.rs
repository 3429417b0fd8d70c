//! A repository's own words for roles: `.loopwright/prompts/maker.md` and `checker.md` of the working copy. The engine reads
//! them when it writes a brief; here is only said which there are and whether they can be used.

use super::{Finding, read_bytes};
use loopwright_core::prompt::{OWN_MAX, Text};
use std::path::Path;

/// Where a repository keeps them.
const FOLDER: &str = ".loopwright/prompts";

/// The texts that a repository may replace, each with its file.
pub(crate) fn replaceable() -> impl Iterator<Item = (Text, String)> {
    let named = |text: Text| (text, format!("{FOLDER}/{}.md", text.name()));
    Text::ALL.into_iter().filter(|text| text.role().is_some()).map(named)
}

/// The file with which a repository replaces a text.
pub(crate) fn replaced_by(text: Text, work_tree: &Path) -> Option<String> {
    let file = replaceable().find(|(known, _)| *known == text)?.1;
    work_tree.join(&file).is_file().then_some(file)
}

/// What loops are told of before they run.
pub(super) fn notes(work_tree: &Path) -> Vec<String> {
    let own = replaceable().filter_map(|(text, _)| Some((text.name(), replaced_by(text, work_tree)?)));
    own.map(|(role, file)| format!("the {role} is told what {file} says, instead of the built-in words")).collect()
}

/// What is wrong with a repository's own words.
pub(crate) fn objections(work_tree: &Path) -> Vec<Finding> {
    let entries = std::fs::read_dir(work_tree.join(FOLDER)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.iter().filter_map(|name| objection(&format!("{FOLDER}/{name}"), work_tree)).collect()
}

fn objection(file: &str, work_tree: &Path) -> Option<Finding> {
    let known: Vec<String> = replaceable().map(|(_, file)| file).collect();
    if !known.iter().any(|known| known == file) {
        let hint = format!("known are {}; `loopwright prompts` lists all texts", known.join(" and "));
        return Some(Finding::of_file(file, "no text of a brief has this name").with_hint(hint));
    }
    match read_bytes(&work_tree.join(file)) {
        Err(error) => Some(Finding::of_file(file, format!("read the prompt: {error}"))),
        Ok(bytes) if bytes.len() > OWN_MAX => {
            Some(Finding::of_file(file, format!("{} bytes, at most {OWN_MAX} are used", bytes.len())))
        }
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) if !text.trim().is_empty() => None,
            Ok(_) => {
                Some(Finding::of_file(file, "it says nothing").with_hint("remove it: the built-in words are then used"))
            }
            Err(error) => Some(Finding::of_file(file, format!("not UTF-8: {error}"))),
        },
    }
}
