//! Reads the local forge: its folder as a [`ReadForge`]. People edit these files, so a page that cannot be read is
//! skipped.

use super::closed_pages;
use super::front::PageFrontMatter;
use crate::git::{Git, GitCall, Oid};
use crate::probe::quick;
use loopwright_core::forge::{
    Answer, CheckQuery, CheckRun, CheckState, CommentKind, CommentsOf, ForgeComment, ForgeError, ForgeItem, ForgePage,
    Issue, ItemQuery, ItemState, PAGE_ROWS_MAX, PageToken, PullFile, PullRequest, ReadForge, split_diff,
};
use loopwright_core::spec::ActionKind;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// The most bytes read of a page.
const PAGE_MAX: u64 = 1 << 20;
/// The most issues read, open or closed.
const ISSUES_MAX: usize = 20_000;
/// The most bytes of a diff.
const DIFF_MAX: usize = 1 << 20;
/// The most bytes of a text in a row.
const TEXT_MAX: usize = 16 << 10;

/// A local forge's folder, for reading.
#[derive(Debug, Clone)]
pub(crate) struct LocalReader {
    pub(crate) folder: PathBuf,
    pub(crate) git: Git,
}

/// A file of the folder.
struct Page {
    front: PageFrontMatter,
    body: String,
}

impl Page {
    fn read(path: &Path) -> Option<Self> {
        let text = quick::read(path, PAGE_MAX)?;
        let (front, body) = PageFrontMatter::read(&text)?;
        Some(Self { front, body: body[..body.floor_char_boundary(TEXT_MAX)].to_owned() })
    }

    fn text(&self, key: &str) -> Option<String> {
        self.front.text(key).map(str::to_owned)
    }

    fn list(&self, key: &str) -> Vec<String> {
        let values = self.front.get(key).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The person who wrote it, or the loop.
    fn author(&self) -> Option<String> {
        self.text("author").or_else(|| self.text("loop"))
    }

    fn is(&self, kind: ActionKind) -> bool {
        self.front.text("kind") == Some(kind.word())
    }

    fn item(self, number: u64, labels: Vec<String>) -> ForgeItem {
        let state = match self.front.text("state") {
            Some("open") => ItemState::Open,
            Some("merged") => ItemState::Merged,
            _ => ItemState::Closed,
        };
        ForgeItem {
            number,
            title: self.text("title"),
            author: self.author(),
            loop_name: self.text("loop"),
            state,
            labels,
            assignees: self.list("assignees"),
            body: self.body,
        }
    }
}

impl LocalReader {
    fn pull(&self, number: u64, path: &Path) -> Option<PullRequest> {
        self.wanted_pull(number, path, &|_| true)
    }

    /// A pull request that a query wants. Only then its branch is read, which may have moved since the page was written.
    fn wanted_pull(&self, number: u64, path: &Path, wants: &dyn Fn(&PullRequest) -> bool) -> Option<PullRequest> {
        let version = closed_pages::version(path);
        let page = Page::read(path)?;
        let (branch, head) = (page.text("branch").unwrap_or_default(), page.text("head").unwrap_or_default());
        let (base_branch, labels) = (page.text("base").unwrap_or_default(), page.list("labels"));
        let draft = page.front.get("draft") == Some(&Value::Bool(true));
        let mut pull = PullRequest { draft, branch, head, base_branch, about: page.item(number, labels) };
        if pull.about.state != ItemState::Open {
            closed_pages::remember(path, version);
        }
        if !wants(&pull) {
            return None;
        }
        if let Some(tip) = quick::branch_in(&self.folder.join("repo.git"), &pull.branch) {
            pull.head = tip;
        }
        (!pull.head.is_empty()).then_some(pull)
    }

    /// The diff of a pull request, if both of its commits are in the forge's repository: people may write a page about a
    /// commit that is not there.
    async fn diff(&self, number: u64) -> Option<String> {
        let pull = self.pull(number, &self.folder.join(format!("pulls/{number}.md")))?;
        let repo = self.folder.join("repo.git");
        let (base, head) = (quick::branch_in(&repo, &pull.base_branch)?, pull.head.parse::<Oid>().ok()?);
        let call = GitCall::new("git.diff-tree").git_dir(&repo).args(["-r", "-p", "--merge-base", "--no-ext-diff"]);
        let call = call.args(["--no-textconv", "--no-color", "--no-renames", &base, head.as_str()]);
        let answer = self.git.run(call.truncate_at(DIFF_MAX)).await.ok()?;
        Some(String::from_utf8_lossy(&answer.stdout).into_owned())
    }

    /// An issue has the labels of all its pages, since a later page may only add labels.
    fn issue(number: u64, folder: &Path) -> io::Result<Option<Issue>> {
        let mut pages: Vec<Page> =
            numbered(folder, Some(".md"))?.iter().filter_map(|(_, path)| Page::read(path)).collect();
        let labels = pages.iter().flat_map(|page| page.list("labels")).collect();
        let first = pages.iter().position(|page| page.is(ActionKind::IssueCreate));
        Ok(first.map(|at| Issue { about: pages.swap_remove(at).item(number, labels) }))
    }

    fn check(&self, name: &str) -> Option<CheckRun> {
        let check = name.strip_suffix(".md")?;
        let page = Page::read(&self.folder.join("checks").join(name))?;
        let state = match page.front.text("state") {
            Some("failed") => CheckState::Failed,
            Some("passed") => CheckState::Passed,
            _ => CheckState::Pending,
        };
        let (head, branch, title) = (page.text("head")?, page.text("branch"), page.text("title"));
        Some(CheckRun { name: check.to_owned(), state, head, branch, title, body: page.body })
    }

    fn read_pulls(&self, query: &ItemQuery, from: Option<&PageToken>) -> io::Result<ForgePage<PullRequest>> {
        // The token is the number of the last row, so that the next page does not read the files of this one again.
        let after = from.and_then(|token| token.0.parse::<u64>().ok()).unwrap_or(0);
        let is_open_only = query.state == Some(ItemState::Open);
        let mut rows: Vec<PullRequest> = Vec::new();
        for (number, path) in numbered(&self.folder.join("pulls"), Some(".md"))? {
            if number <= after || (is_open_only && closed_pages::has(&path)) {
                continue;
            }
            let Some(pull) = self.wanted_pull(number, &path, &|pull| query.wants_pull(pull)) else { continue };
            if let (Some(last), true) = (rows.last(), rows.len() == PAGE_ROWS_MAX) {
                let next = Some(PageToken(last.about.number.to_string()));
                return Ok(ForgePage { rows, next });
            }
            rows.push(pull);
        }
        Ok(ForgePage { rows, next: None })
    }

    fn all_pulls(&self, wants: &dyn Fn(&PullRequest) -> bool) -> io::Result<Vec<PullRequest>> {
        let numbered = numbered(&self.folder.join("pulls"), Some(".md"))?;
        Ok(numbered.into_iter().filter_map(|(number, path)| self.wanted_pull(number, &path, wants)).collect())
    }

    fn read_issues(&self, query: &ItemQuery, from: Option<&PageToken>) -> io::Result<ForgePage<Issue>> {
        let mut issues = Vec::new();
        for (number, folder) in numbered(&self.folder.join("issues"), None)?.into_iter().take(ISSUES_MAX) {
            issues.extend(Self::issue(number, &folder)?.filter(|issue| query.wants_issue(issue)));
        }
        Ok(ForgePage::cut(issues, from))
    }

    fn read_checks(&self, query: &CheckQuery, from: Option<&PageToken>) -> io::Result<ForgePage<CheckRun>> {
        let mut names = names(&self.folder.join("checks"))?;
        names.sort_unstable();
        let tip = query.branch.as_ref().and_then(|branch| quick::branch_in(&self.folder.join("repo.git"), branch));
        let checks = names.iter().filter_map(|name| self.check(name));
        Ok(ForgePage::cut(checks.filter(|check| query.wants(check, tip.as_deref())), from))
    }

    fn read_comments(&self, of: CommentsOf, from: Option<&PageToken>) -> io::Result<ForgePage<ForgeComment>> {
        let folder = self.folder.join(match of {
            CommentsOf::Pull(number) => format!("pulls/{number}"),
            CommentsOf::Issue(number) => format!("issues/{number}"),
        });
        let numbered = numbered(&folder, Some(".md"))?;
        let pages =
            numbered.into_iter().filter_map(|(_, path)| Some((path.file_name()?.to_owned(), Page::read(&path)?)));
        let comments = pages.filter(|(_, page)| !page.is(ActionKind::IssueCreate)).map(|(name, page)| ForgeComment {
            id: name.to_string_lossy().into_owned(),
            kind: comment_kind(&page),
            author: page.author(),
            // Any program of the user can write a page, so no page proves who wrote it.
            author_id: None,
            created_ms: 0,
            is_edited: false,
            loop_name: page.text("loop"),
            body: page.body,
        });
        Ok(ForgePage::cut(comments, from))
    }
}

fn comment_kind(page: &Page) -> CommentKind {
    let kinds = [
        (ActionKind::IssueLabel, CommentKind::Labels),
        (ActionKind::PrReview, CommentKind::Review),
        (ActionKind::PrInline, CommentKind::Inline),
    ];
    kinds.into_iter().find(|(action, _)| page.is(*action)).map_or(CommentKind::Plain, |(_, kind)| kind)
}

/// A local folder answers at once.
fn answer<'a, T: Send + 'a>(read: io::Result<T>) -> Answer<'a, T> {
    let read = read.map_err(|error| ForgeError::unavailable(format!("read the local forge: {error}")));
    Box::pin(std::future::ready(read))
}

impl ReadForge for LocalReader {
    fn pulls<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<PullRequest>> {
        answer(self.read_pulls(query, from))
    }

    fn branch_pulls<'a>(&'a self, branch: &'a str, base_branch: &'a str) -> Answer<'a, Vec<PullRequest>> {
        let of_branch = |pull: &PullRequest| pull.branch == branch && pull.base_branch == base_branch;
        answer(self.all_pulls(&of_branch))
    }

    fn issues<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<Issue>> {
        answer(self.read_issues(query, from))
    }

    fn checks<'a>(&'a self, query: &'a CheckQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<CheckRun>> {
        answer(self.read_checks(query, from))
    }

    fn changed_files(&self, pull: u64) -> Answer<'_, Vec<PullFile>> {
        Box::pin(async move { Ok(split_diff(&self.diff(pull).await.unwrap_or_default())) })
    }

    fn comments<'a>(&'a self, of: CommentsOf, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<ForgeComment>> {
        answer(self.read_comments(of, from))
    }
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()),
    }
}

/// Entries whose names begin with a number, in numeric order; with an extension, only those that have it.
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
