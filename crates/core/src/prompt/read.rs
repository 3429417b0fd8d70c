//! Parses a brief: its role, the binding of a verdict, and the text at a line of a shown diff. Only programs that
//! replace a model in tests need this. A brief is written for models, and the engine never parses one.

use crate::spec::Role;

/// The start of the line that names the role of a brief.
pub const ROLE_LINE: &str = "Role: ";

/// The line that names the role of a brief, for people who read logs and for programs that replace a model.
#[must_use]
pub fn role_line(role: Role, attempt: Option<u32>) -> String {
    match attempt {
        Some(attempt) => format!("{ROLE_LINE}{} · attempt {attempt}", role.word()),
        None => format!("{ROLE_LINE}{}", role.word()),
    }
}

/// The role and the attempt in a text's last role line. An agent may have added its own text around the brief.
#[must_use]
pub fn read_role(text: &str) -> Option<(Role, Option<u32>)> {
    text.lines().rev().find_map(|line| {
        let mut words = line.trim().strip_prefix(ROLE_LINE)?.split(" · ");
        let word = words.next()?;
        let role = Role::ALL.into_iter().find(|role| role.word() == word)?;
        Some((role, words.next().and_then(|word| word.strip_prefix("attempt ")?.parse().ok())))
    })
}

/// The values that a verdict must repeat from its brief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictBinding {
    /// The secret of the check.
    pub nonce: String,
    /// The sealed tree.
    pub tree: String,
    /// The candidate.
    pub candidate: String,
}

/// The binding of the verdict in a checker's brief.
#[must_use]
pub fn read_binding(text: &str) -> Option<VerdictBinding> {
    let value = |key: &str| text.lines().rev().find_map(|line| line.trim().strip_prefix(key)).map(str::to_owned);
    Some(VerdictBinding { nonce: value("nonce: ")?, tree: value("tree: ")?, candidate: value("candidate: ")? })
}

/// The text of a line of a file after the change, counted from 1, if the shown diff contains it.
#[must_use]
pub fn read_diff_line(text: &str, path: &str, line: u32) -> Option<String> {
    let mut at = None;
    for shown in fence(text, &format!("diff of {path}"))? {
        if let Some(hunk) = shown.strip_prefix("@@ ") {
            at = start_of(hunk);
            continue;
        }
        let Some(number) = at.as_mut() else { continue };
        match shown.split_at_checked(1) {
            Some(("+" | " ", kept)) if *number == line => return Some(kept.to_owned()),
            Some(("+" | " ", _)) => *number += 1,
            // Some agents trim the ends of lines, which removes an empty context line completely.
            None if *number == line => return Some(String::new()),
            None => *number += 1,
            Some(_) => {}
        }
    }
    None
}

/// The text of a line of a staged item, counted from 1, if the brief shows it.
#[must_use]
pub fn read_item_line(text: &str, item: &str, line: u32) -> Option<String> {
    let index = usize::try_from(line.checked_sub(1)?).ok()?;
    fence(text, &format!("staged item {item}"))?.nth(index).map(str::to_owned)
}

/// The lines between `[data NAME MARK` and `MARK]`.
fn fence<'t>(text: &'t str, name: &str) -> Option<impl Iterator<Item = &'t str>> {
    let opening = format!("[data {name} ");
    let mut lines = text.lines();
    let mark = lines.find_map(|line| line.trim().strip_prefix(opening.as_str()).filter(|mark| !mark.contains(' ')))?;
    let closing = format!("{mark}]");
    Some(lines.take_while(move |line| line.trim() != closing))
}

/// The first line number of the new side: `-1,3 +7,4 @@ …`.
fn start_of(hunk: &str) -> Option<u32> {
    let new = hunk.split(' ').find_map(|word| word.strip_prefix('+'))?;
    new.split(',').next()?.parse().ok()
}
