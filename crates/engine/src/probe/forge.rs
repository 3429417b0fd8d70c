//! What waits in a local forge's folder: open pull requests, open issues, failed checks. It only reads, and it leaves out what
//! the asking loop wrote itself, so that no loop is work for itself.

use super::built_in::DIGITS;
use super::command::ITEMS_MAX;
use super::quick;
use crate::outbox::FrontMatter;
use loopwright_core::hash;
use loopwright_core::paths::Globs;
use loopwright_core::round::Item;
use loopwright_core::spec::Ask;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a page that are read.
const PAGE_MAX: u64 = 1 << 20;
/// Issues that are looked at, open or not.
const ISSUES_MAX: usize = 20_000;
/// Bytes of a text that goes along with an item.
const TEXT_MAX: usize = 16 << 10;

/// A local forge's folder as one loop sees it.
pub(super) struct Reader<'a> {
    pub(super) folder: PathBuf,
    pub(super) loop_name: &'a str,
    /// What is asked of it.
    pub(super) ask: &'a Ask,
}

struct Page {
    front: FrontMatter,
    body: String,
}

impl Page {
    fn read(path: &Path) -> Option<Self> {
        let text = quick::read(path, PAGE_MAX)?;
        let (front, body) = FrontMatter::read(&text)?;
        Some(Self { front, body: body[..body.floor_char_boundary(TEXT_MAX)].to_owned() })
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.front.text(key) == Some(value)
    }

    fn labels(&self) -> impl Iterator<Item = &str> {
        self.front.get("labels").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Who wrote it: a person, or a loop by its name.
    fn author(&self) -> Option<&str> {
        self.front.text("author").or_else(|| self.front.text("loop"))
    }

    fn has(&self, text: &str) -> bool {
        let title = self.front.text("title").unwrap_or_default();
        [title, &self.body].into_iter().any(|part| part.to_lowercase().contains(text))
    }

    fn item(self, key: String) -> Item {
        Item { key, title: self.front.text("title").map(str::to_owned), data: Some(self.body) }
    }
}

impl Reader<'_> {
    /// Whether a page with some labels is asked for.
    fn wants(&self, page: &Page, labels: &BTreeSet<&str>) -> bool {
        let Ask { labels: all, not_labels: none, author, text, .. } = self.ask;
        all.iter().all(|label| labels.contains(label.as_str()))
            && !none.iter().any(|label| labels.contains(label.as_str()))
            && (author.is_empty() || page.author().is_some_and(|name| author.iter().any(|wanted| wanted == name)))
            && text.as_ref().is_none_or(|text| page.has(&text.to_lowercase()))
    }

    /// Whether a pull request goes to the branch that is asked for.
    fn goes_there(&self, page: &Page) -> bool {
        self.ask.branch.as_ref().is_none_or(|branch| page.is("base", branch))
    }

    /// `pr-7@<head>`: a pull request counts anew when its branch moves.
    pub(super) fn open_pulls(&self) -> io::Result<Vec<Item>> {
        let numbered = numbered(&self.folder.join("pulls"), Some(".md"))?;
        let items = numbered.into_iter().filter_map(|(number, path)| {
            let page = Page::read(&path).filter(|page| page.is("state", "open") && !page.is("loop", self.loop_name))?;
            if !self.goes_there(&page) || !self.wants(&page, &page.labels().collect()) {
                return None;
            }
            let now = page.front.text("branch").and_then(|name| quick::branch_in(&self.folder.join("repo.git"), name));
            let head = now.or_else(|| page.front.text("head").map(str::to_owned))?;
            Some(page.item(format!("pr-{number}@{head}")))
        });
        Ok(items.take(ITEMS_MAX).collect())
    }

    /// `issue-3@<hash>`: an issue counts anew when anybody but this loop says something.
    pub(super) fn open_issues(&self) -> io::Result<Vec<Item>> {
        let mut items = Vec::new();
        for (number, folder) in numbered(&self.folder.join("issues"), None)?.into_iter().take(ISSUES_MAX) {
            if items.len() >= ITEMS_MAX {
                break;
            }
            let mut pages: Vec<Page> =
                numbered(&folder, Some(".md"))?.iter().filter_map(|(_, path)| Page::read(path)).collect();
            // What any loop put on it, also this one, is on it.
            let labels: Vec<String> = pages.iter().flat_map(Page::labels).map(str::to_owned).collect();
            let labels: BTreeSet<&str> = labels.iter().map(String::as_str).collect();
            pages.retain(|page| page.is("kind", "issue-create") || !page.is("loop", self.loop_name));
            let said: Vec<&[u8]> = pages.iter().map(|page| page.body.as_bytes()).collect();
            let revision = hash::of_fields(&said)[..DIGITS].to_owned();
            let first =
                pages.into_iter().next().filter(|page| page.is("kind", "issue-create") && page.is("state", "open"));
            let first = first.filter(|page| self.wants(page, &labels));
            items.extend(first.map(|page| page.item(format!("issue-{number}@{revision}"))));
        }
        Ok(items)
    }

    /// `ci-<name>@<head>`: what a build server or a script of the user's left in `checks/` with `state: failed`. Where a
    /// branch is asked for, `tip` is where the user's clone has it.
    pub(super) fn failing_checks(&self, tip: Option<quick::At>) -> io::Result<Vec<Item>> {
        let mut names: Vec<String> = names(&self.folder.join("checks"))?;
        names.sort_unstable();
        let wanted = Globs::new(&self.ask.checks).unwrap_or_default();
        let tips = self.tips(tip);
        let items = names.into_iter().filter_map(|name| {
            let check = name.strip_suffix(".md").filter(|check| wanted.is_empty() || wanted.matches(check))?;
            let page = Page::read(&self.folder.join("checks").join(&name)).filter(|page| page.is("state", "failed"))?;
            let head = page.front.text("head")?.to_owned();
            let is_there =
                self.ask.branch.as_ref().is_none_or(|branch| page.is("branch", branch) || tips.contains(&head));
            is_there.then(|| page.item(format!("ci-{check}@{head}")))
        });
        Ok(items.take(ITEMS_MAX).collect())
    }

    /// Where the branch that is asked for is, in the user's clone and in the forge.
    fn tips(&self, tip: Option<quick::At>) -> Vec<String> {
        let branch = self.ask.branch.as_ref();
        let forge = branch.and_then(|branch| quick::branch_in(&self.folder.join("repo.git"), branch));
        tip.map(|at| at.oid).into_iter().chain(forge).collect()
    }
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()),
    }
}

/// Entries whose names begin with a number, in its order; with an ending, only those that have it.
fn numbered(folder: &Path, ending: Option<&str>) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut all: Vec<(u64, PathBuf)> = names(folder)?
        .into_iter()
        .filter(|name| ending.is_none_or(|ending| name.ends_with(ending)))
        .filter_map(|name| {
            let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
            Some((digits.parse().ok()?, folder.join(name)))
        })
        .collect();
    all.sort_unstable();
    Ok(all)
}
