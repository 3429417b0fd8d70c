//! The links between documents: every relative link leads to a file and to a heading of it, and the manual's list of
//! chapters has every page. Links to other hosts are not followed.

use regex::Regex;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// The list of chapters, which `cargo xtask docs` turns into the manual.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// A link of a document: the text in brackets and the target in parentheses.
pub(crate) fn link_pattern() -> Regex {
    Regex::new(r"\[([^\]\[]*)\]\(([^()\s]+)\)").expect("the pattern is constant")
}

/// The documents of the project, by their paths below the root.
pub(crate) fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("docs")];
    let mut add = |folder: &Path, into: Option<&mut Vec<PathBuf>>| -> Result<(), String> {
        let failed = |error| format!("read `{}`: {error}", folder.display());
        let mut below = Vec::new();
        for entry in std::fs::read_dir(root.join(folder)).map_err(failed)? {
            let path = folder.join(entry.map_err(failed)?.file_name());
            if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            } else if root.join(&path).is_dir() {
                below.push(path);
            }
        }
        if let Some(into) = into {
            into.append(&mut below);
        }
        Ok(())
    };
    add(Path::new(""), None)?;
    while let Some(folder) = folders.pop() {
        add(&folder, Some(&mut folders))?;
    }
    found.sort();
    Ok(found)
}

/// The file that a relative link means, below the root, and its heading. `None` for a link to another host.
pub(crate) fn destination<'l>(page: &Path, link: &'l str) -> Option<(PathBuf, &'l str)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let from = if file.is_empty() { page.to_owned() } else { page.parent().unwrap_or(Path::new("")).join(file) };
    let mut path = PathBuf::new();
    for part in from.components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    Some((path, heading))
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut texts = HashMap::new();
    for page in pages(root)? {
        let text = std::fs::read_to_string(root.join(&page)).map_err(|e| format!("read `{}`: {e}", page.display()))?;
        texts.insert(page, text);
    }
    let mut findings = Vec::new();
    for (page, text) in &texts {
        findings.extend(broken_links(root, page, text, &texts));
    }
    let chapters = texts.get(Path::new(SUMMARY)).map_or("", String::as_str);
    for page in texts.keys().filter(|page| page.starts_with("docs") && *page != Path::new(SUMMARY)) {
        let name = page.strip_prefix("docs").expect("it is below docs").display().to_string();
        if !chapters.contains(&format!("({name})")) {
            findings.push(format!("{SUMMARY}: `{name}` is missing"));
        }
    }
    findings.sort();
    Ok(findings)
}

fn broken_links(root: &Path, page: &Path, text: &str, texts: &HashMap<PathBuf, String>) -> Vec<String> {
    let (pattern, prose) = (link_pattern(), without_code(text));
    let mut findings = Vec::new();
    for link in pattern.captures_iter(&prose).map(|found| found[2].to_owned()) {
        let Some((file, heading)) = destination(page, &link) else { continue };
        let problem = match texts.get(&file) {
            Some(text) if !heading.is_empty() && !headings(text).iter().any(|one| one == heading) => "no such heading",
            None if !root.join(&file).exists() => "no such file",
            _ => continue,
        };
        findings.push(format!("{}: the link to `{link}`: {problem}", page.display()));
    }
    findings
}

/// The text without its blocks of code and its inline code.
fn without_code(text: &str) -> String {
    let inline = Regex::new("`[^`\n]*`").expect("the pattern is constant");
    let mut is_code = false;
    let kept = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    // A link's text may be code; only its brackets matter here.
    inline.replace_all(&kept.collect::<Vec<_>>().join("\n"), "code").into_owned()
}

/// The anchors of a page's headings, as forges derive them.
fn headings(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let Some(title) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor = kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>();
        let earlier = found.iter().filter(|one| **one == anchor).count();
        found.push(if earlier == 0 { anchor } else { format!("{anchor}-{earlier}") });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_means_a_file_below_the_root() {
        let of = |page: &str, link| destination(Path::new(page), link);
        assert_eq!(of("docs/a.md", "b.md#c"), Some((PathBuf::from("docs/b.md"), "c")));
        assert_eq!(of("docs/a.md", "#c"), Some((PathBuf::from("docs/a.md"), "c")));
        assert_eq!(of("docs/x/a.md", "../../README.md"), Some((PathBuf::from("README.md"), "")));
        assert_eq!(of("README.md", "docs/x/"), Some((PathBuf::from("docs/x/"), "")));
        assert_eq!(of("README.md", "https://example.org/a.md"), None);
    }

    #[test]
    fn a_link_without_a_file_or_a_heading_is_found() {
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(root.path().join("docs")).expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).expect("it can be written");
        write("README.md", "[a](docs/a.md#the-a-b) [b](docs/b.md) `[c](no.md)`\n```\n[d](no.md)\n# no\n```\n");
        write("docs/a.md", "# The `a` & b\n[up](../README.md) [x](#x)\n");
        write(SUMMARY, "[a](a.md)\n");
        let found = check(root.path()).expect("it can be read");
        assert_eq!(
            found,
            [
                "README.md: the link to `docs/a.md#the-a-b`: no such heading",
                "README.md: the link to `docs/b.md`: no such file",
                "docs/a.md: the link to `#x`: no such heading"
            ],
            "an ampersand leaves two dashes"
        );
        write("docs/b.md", "");
        assert!(check(root.path()).expect("again").contains(&format!("{SUMMARY}: `b.md` is missing")));
    }
}
