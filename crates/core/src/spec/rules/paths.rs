//! Rules of paths, globs, patterns, branches and hosts.

use super::Rules;
use crate::network::{NetworkPolicy, NetworkRule, NetworkRuleError, RULES_MAX};
use crate::spec::LoopSpec;
use crate::spec::path::SpecPath;
use crate::spec::problem::quoted;

/// The longest glob, path or pattern.
const TEXT_MAX: usize = 1000;

/// The paths and globs of a whole loop.
pub(super) fn check(rules: &mut Rules, spec: &LoopSpec) {
    let lists = [("paths", &spec.paths), ("protect", &spec.protect), ("allow_paths", &spec.allow_paths)];
    for (key, list) in lists {
        globs(rules, &SpecPath::root_key(key), list);
    }
    for (key, list) in [("skills", &spec.skills), ("context", &spec.context)] {
        for (at, file) in list.iter().enumerate() {
            relative(rules, SpecPath::root_key(key).index(at), file);
        }
    }
    for (key, list) in [("caches", &spec.caches), ("toolchains", &spec.toolchains)] {
        for (at, path) in list.iter().enumerate().filter(|(_, path)| path.trim().is_empty() || path.contains('\0')) {
            rules.report(SpecPath::root_key(key).index(at), format!("{} is not a path", quoted(path)), None);
        }
    }
    if let Some(base) = &spec.base {
        branch(rules, SpecPath::root_key("base"), base);
    }
    hosts(rules, &SpecPath::root_key("network"), &spec.network);
}

/// A list of globs.
pub(super) fn globs(rules: &mut Rules, path: &SpecPath, globs: &[String]) {
    for (at, glob) in globs.iter().enumerate() {
        if relative(rules, path.index(at), glob)
            && let Err(error) = globset::GlobBuilder::new(glob).literal_separator(true).build()
        {
            rules.report(path.index(at), format!("{} is not a glob: {}", quoted(glob), error.kind()), None);
        }
    }
}

/// A path inside the repository, or inside `.loopwright/`. Reports paths that leave the folder they start from.
pub(super) fn relative(rules: &mut Rules, path: SpecPath, text: &str) -> bool {
    let drive = text.as_bytes().get(1) == Some(&b':') && text.starts_with(|c: char| c.is_ascii_alphabetic());
    let (what, hint) = if text.trim().is_empty() {
        ("is empty", None)
    } else if text.len() > TEXT_MAX {
        ("is too long", None)
    } else if text.starts_with(['/', '\\', '~']) || drive {
        ("is absolute", Some("write it relative to the repository"))
    } else if text.split(['/', '\\']).any(|part| part == "..") {
        ("has `..` in it", Some("write it relative to the repository"))
    } else if text.chars().any(char::is_control) {
        ("has a control character", None)
    } else {
        return true;
    };
    let shown = if text.is_empty() { String::new() } else { format!(": {}", quoted(text)) };
    let what = format!("`{path}` {what}{shown}");
    rules.report(path, what, hint);
    false
}

/// Whether a pattern needs a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternGroups {
    /// Any number of them.
    Any,
    /// The first group is read.
    One,
}

/// A regular expression, small enough to be compiled.
pub(super) fn pattern(rules: &mut Rules, path: SpecPath, pattern: &str, groups: PatternGroups) {
    if pattern.is_empty() || pattern.len() > TEXT_MAX {
        let what = format!("`{path}` is empty or longer than {TEXT_MAX} bytes");
        return rules.report(path, what, None);
    }
    match regex::RegexBuilder::new(pattern).size_limit(1 << 20).build() {
        Ok(regex) if groups == PatternGroups::One && regex.captures_len() < 2 => {
            let what = format!("`{path}` has no group for the number");
            rules.report(path, what, "put the number in a group: `ops=(\\d+)`");
        }
        Ok(_) => {}
        Err(regex::Error::CompiledTooBig(_)) => {
            let what = format!("`{path}` is too large a pattern");
            rules.report(path, what, None);
        }
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let what = format!("`{path}` is not a pattern: {reason}");
            rules.report(path, what, None);
        }
    }
}

/// A branch or commit that git accepts and that is not an option.
pub(super) fn branch(rules: &mut Rules, path: SpecPath, text: &str) {
    let bad = text.is_empty()
        || text.len() > 250
        || text.starts_with(['-', '/'])
        || text.contains("..")
        || text.contains("@{")
        || text.chars().any(|c| c.is_whitespace() || c.is_control() || ":\\".contains(c));
    if bad {
        rules.report(path, format!("{} is not a branch or commit", quoted(text)), None);
    }
}

/// The reachable hosts, each entry with its position.
pub(super) fn hosts(rules: &mut Rules, path: &SpecPath, entries: &[String]) {
    let mut wrong = |at: usize, error: NetworkRuleError| rules.object_with(path.index(at), error.what, error.hint);
    if entries.len() > RULES_MAX {
        return wrong(RULES_MAX, NetworkRuleError::too_many());
    }
    let read: Vec<_> = entries.iter().map(|entry| NetworkRule::read(entry)).collect();
    let whole = read.iter().all(Result::is_ok);
    for (at, error) in read.into_iter().enumerate().filter_map(|(at, read)| Some((at, read.err()?))) {
        wrong(at, error);
    }
    if whole && let Err((at, error)) = NetworkPolicy::read(entries) {
        wrong(at, error);
    }
}
