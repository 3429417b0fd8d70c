//! What waits in a local forge's folder: open pull requests, open issues, failed checks. It only reads, and it leaves out what
//! the asking loop wrote itself, so that no loop is work for itself.

use super::built_in::DIGITS;
use super::command::ITEMS_MAX;
use super::quick;
use crate::outbox::FrontMatter;
use loopwright_core::hash;
use loopwright_core::round::Item;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a page that are read.
const PAGE_MAX: u64 = 1 << 20;
/// Bytes of a text that goes along with an item.
const TEXT_MAX: usize = 16 << 10;

/// A local forge's folder as one loop sees it.
pub(super) struct Reader<'a> {
    pub(super) folder: PathBuf,
    pub(super) loop_name: &'a str,
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

    fn item(self, key: String) -> Item {
        Item { key, title: self.front.text("title").map(str::to_owned), data: Some(self.body) }
    }
}

impl Reader<'_> {
    /// `pr-7@<head>`: a pull request counts anew when its branch moves.
    pub(super) fn open_pulls(&self) -> io::Result<Vec<Item>> {
        let numbered = numbered(&self.folder.join("pulls"), Some(".md"))?;
        let items = numbered.into_iter().filter_map(|(number, path)| {
            let page = Page::read(&path).filter(|page| page.is("state", "open") && !page.is("loop", self.loop_name))?;
            let now = page.front.text("branch").and_then(|name| quick::branch_in(&self.folder.join("repo.git"), name));
            let head = now.or_else(|| page.front.text("head").map(str::to_owned))?;
            Some(page.item(format!("pr-{number}@{head}")))
        });
        Ok(items.take(ITEMS_MAX).collect())
    }

    /// `issue-3@<hash>`: an issue counts anew when anybody but this loop says something.
    pub(super) fn open_issues(&self) -> io::Result<Vec<Item>> {
        let mut items = Vec::new();
        for (number, folder) in numbered(&self.folder.join("issues"), None)?.into_iter().take(ITEMS_MAX) {
            let mut pages: Vec<Page> =
                numbered(&folder, Some(".md"))?.iter().filter_map(|(_, path)| Page::read(path)).collect();
            pages.retain(|page| page.is("kind", "issue-create") || !page.is("loop", self.loop_name));
            let said: Vec<&[u8]> = pages.iter().map(|page| page.body.as_bytes()).collect();
            let revision = hash::of_fields(&said)[..DIGITS].to_owned();
            let first =
                pages.into_iter().next().filter(|page| page.is("kind", "issue-create") && page.is("state", "open"));
            items.extend(first.map(|page| page.item(format!("issue-{number}@{revision}"))));
        }
        Ok(items)
    }

    /// `ci-<name>@<head>`: what a build server or a script of the user's left in `checks/` with `state: failed`.
    pub(super) fn failing_checks(&self) -> io::Result<Vec<Item>> {
        let mut names: Vec<String> = names(&self.folder.join("checks"))?;
        names.retain(|name| name.ends_with(".md"));
        names.sort_unstable();
        let items = names.into_iter().filter_map(|name| {
            let page = Page::read(&self.folder.join("checks").join(&name)).filter(|page| page.is("state", "failed"))?;
            let head = page.front.text("head")?.to_owned();
            Some(page.item(format!("ci-{}@{head}", name.trim_end_matches(".md"))))
        });
        Ok(items.take(ITEMS_MAX).collect())
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
