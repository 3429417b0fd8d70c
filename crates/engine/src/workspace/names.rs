//! The names that may enter a sealed tree, and the names that may become folders and branches. Pure text rules; it
//! never reads the file system.

use super::WorkspaceError;
use loopwright_core::outbox::is_invisible;

/// Longer paths cannot be checked out everywhere (PATH_MAX on Linux).
const PATH_MAX: usize = 4096;
const COMPONENT_MAX: usize = 255;
const PLAIN_MAX: usize = 128;

/// A problem with a path's spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// Not UTF-8, so it cannot be shown or quoted faithfully.
    #[error("the name is not UTF-8")]
    NotUtf8,
    /// A line break, escape or other control character.
    #[error("the name has a control character")]
    Control,
    /// A character that people do not see, or that changes the order of others: the name reads as another one.
    #[error("the name has an invisible or bidirectional character")]
    Hidden,
    /// `.git`, or a name that another file system treats as `.git`.
    #[error("the name is `.git` or looks like it to another file system")]
    DotGit,
    /// Too long for common systems.
    #[error("the name is too long")]
    TooLong,
    /// Equal to another path of the tree on a case-insensitive file system.
    #[error("the name differs from another one only by case")]
    CaseCollision,
}

/// Checks one path, in the form of git and the kernel: bytes with `/` between components.
pub(super) fn check_path(path: &[u8]) -> Result<&str, NameProblem> {
    let text = std::str::from_utf8(path).map_err(|_| NameProblem::NotUtf8)?;
    if text.chars().any(char::is_control) {
        return Err(NameProblem::Control);
    }
    // A backslash separates components on Windows.
    if text.split(['/', '\\']).any(is_dot_git) {
        return Err(NameProblem::DotGit);
    }
    if text.chars().any(|c| is_invisible(c) && !is_picture_part(c)) {
        return Err(NameProblem::Hidden);
    }
    if text.len() > PATH_MAX || text.split('/').any(|part| part.len() > COMPONENT_MAX) {
        return Err(NameProblem::TooLong);
    }
    Ok(text)
}

/// A selector between the text and the picture form of a character.
fn is_picture_part(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// The form in which two paths collide on a case-insensitive file system.
pub(super) fn folded(path: &str) -> String {
    path.to_lowercase()
}

/// `.git` as HFS+ (ignorable code points, case) and NTFS (short name, trailing dots and blanks,
/// streams) would read it.
fn is_dot_git(component: &str) -> bool {
    let visible: String = component.chars().filter(|c| !is_ignorable(*c)).collect();
    let lower = visible.to_lowercase();
    let stem = lower.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    matches!(stem, ".git" | "git~1")
}

fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// A symlink's target must stay inside the tree by its spelling alone: relative, `..` only at the start and never above
/// the root, and not into a `.git`. With `..` only at the start, following further symlinks of the same kind cannot
/// lead out of the tree either.
pub(super) fn target_is_inside(link: &str, target: &str) -> bool {
    let depth = link.split('/').count() - 1;
    let parts: Vec<&str> = target.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let ups = parts.iter().take_while(|part| **part == "..").count();
    let rest = &parts[ups..];
    !target.is_empty()
        && !target.starts_with('/')
        && !target.chars().any(char::is_control)
        && ups <= depth
        && !rest.iter().any(|part| *part == ".." || is_dot_git(part))
}

/// Checks that a round or loop name is valid as one folder name and as one part of a ref.
pub(super) fn check_plain(name: &str) -> Result<(), WorkspaceError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edges = name.starts_with(['-', '.']) || name.ends_with(['.', '-']) || name.ends_with(".lock");
    if name.is_empty() || name.len() > PLAIN_MAX || edges || name.contains("..") || !name.bytes().all(allowed) {
        return Err(WorkspaceError::BadName(name.chars().take(PLAIN_MAX).collect()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_another_file_system_takes_for_dot_git_are_refused() {
        let like =
            [".git", ".GIT", "a/.git/config", ".git.", ".git ", ".git. .", "git~1", "GIT~1", ".git::$INDEX_ALLOCATION"];
        for path in like.into_iter().chain([".g\u{200c}it", "a\\.git\\x", ".git\u{feff}"]) {
            assert_eq!(check_path(path.as_bytes()), Err(NameProblem::DotGit), "{path}");
        }
        for path in [".gitignore", ".github/x", "git", "a.git", "x/git~2", "-rf", "weird name", "ünï"] {
            assert_eq!(check_path(path.as_bytes()), Ok(path));
        }
    }

    #[test]
    fn names_that_cannot_be_shown_are_refused() {
        assert_eq!(check_path(b"a\nb"), Err(NameProblem::Control));
        assert_eq!(check_path(b"a\x1b[31m"), Err(NameProblem::Control));
        assert_eq!(check_path("a\u{85}".as_bytes()), Err(NameProblem::Control));
        assert_eq!(check_path(b"a\xff"), Err(NameProblem::NotUtf8));
        for hidden in ["README\u{202e}txt.sh", "a/b\u{200b}c", "x\u{2066}y", "e\u{e0041}"] {
            assert_eq!(check_path(hidden.as_bytes()), Err(NameProblem::Hidden), "{hidden:?}");
        }
        assert_eq!(check_path("heart \u{2764}\u{fe0f}".as_bytes()), Ok("heart \u{2764}\u{fe0f}"));
        assert_eq!(check_path("a/".repeat(2500).as_bytes()), Err(NameProblem::TooLong));
        assert_eq!(check_path("a".repeat(256).as_bytes()), Err(NameProblem::TooLong));
    }

    #[test]
    fn symlink_targets_stay_inside_the_tree() {
        for (link, target) in [("a", "b"), ("d/a", "../b"), ("d/a", "./x/y"), ("d/e/a", "../../c"), ("a", "d/")] {
            assert!(target_is_inside(link, target), "{link} -> {target}");
        }
        let out =
            [("a", "/etc/passwd"), ("a", ".."), ("a", "../x"), ("d/a", "../../x"), ("a", ""), ("a", ".git/config")];
        for (link, target) in out.into_iter().chain([("d/e/a", "l/../../w"), ("d/a", "../.GIT"), ("a", "x\ny")]) {
            assert!(!target_is_inside(link, target), "{link} -> {target}");
        }
    }

    #[test]
    fn round_names_are_single_folder_names() {
        for good in ["r1", "20260101-abc", "a.b", "A_b"] {
            assert!(check_plain(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "-rf", ".half-x", "a..b", "x.lock", "a b", "a\0", "ü", &"a".repeat(129)] {
            assert!(check_plain(bad).is_err(), "{bad}");
        }
    }
}
