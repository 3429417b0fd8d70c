//! A repository's own prompts for roles: `.loopwright/prompts/maker.md` and `checker.md` of the working copy. The
//! engine reads them when it writes a brief; this module only lists and checks them.

use super::{FileProblem, list_repo_folder, read_repo_file};
use loopwright_core::prompt::{BriefText, OWN_MAX};
use std::path::Path;

/// The folder of a repository's prompts.
const FOLDER: &str = ".loopwright/prompts";
/// The most files of the folder that are checked.
const FILES_MAX: usize = 1000;

/// The texts that a repository may replace, each with its file.
pub(crate) fn replaceable_texts() -> impl Iterator<Item = (BriefText, String)> {
    let named = |text: BriefText| (text, format!("{FOLDER}/{}.md", text.name()));
    BriefText::ALL.into_iter().filter(|text| text.role().is_some()).map(named)
}

/// The file with which a repository replaces a text.
pub(crate) fn replacement_file(text: BriefText, work_tree: &Path) -> Option<String> {
    let file = replaceable_texts().find(|(known, _)| *known == text)?.1;
    work_tree.join(&file).symlink_metadata().is_ok().then_some(file)
}

/// Notes about replaced prompts, shown before a loop runs.
pub(super) fn prompt_notes(work_tree: &Path) -> Vec<String> {
    let own = replaceable_texts().filter_map(|(text, _)| Some((text.name(), replacement_file(text, work_tree)?)));
    own.map(|(role, file)| format!("the {role} gets the text of {file} instead of the built-in prompt")).collect()
}

/// The problems of a repository's own prompts.
pub(crate) fn check_prompts(work_tree: &Path) -> Vec<FileProblem> {
    let names = match list_repo_folder(work_tree, Path::new(FOLDER), FILES_MAX) {
        Ok(names) => names,
        Err(error) => return vec![FileProblem::unreadable(FOLDER, "list the prompts", &error)],
    };
    names.iter().filter_map(|name| check_prompt(&format!("{FOLDER}/{name}"), work_tree)).collect()
}

fn check_prompt(file: &str, work_tree: &Path) -> Option<FileProblem> {
    let known: Vec<String> = replaceable_texts().map(|(_, file)| file).collect();
    if !known.iter().any(|known| known == file) {
        let hint = format!("known are {}; `loopwright prompts` lists all texts", known.join(" and "));
        return Some(FileProblem::for_file(file, "no text of a brief has this name").with_hint(hint));
    }
    match read_repo_file(work_tree, file) {
        Err(error) => Some(FileProblem::unreadable(file, "read the prompt", &error)),
        Ok(bytes) if bytes.len() > OWN_MAX => {
            Some(FileProblem::for_file(file, format!("{} bytes, at most {OWN_MAX} are used", bytes.len())))
        }
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) if !text.trim().is_empty() => None,
            Ok(_) => Some(FileProblem::for_file(file, "it is empty").with_hint("remove it to use the built-in prompt")),
            Err(error) => Some(FileProblem::for_file(file, format!("not UTF-8: {error}"))),
        },
    }
}
