//! Parses staged files into items: the file grammar and its JSON equivalent. It checks form and size; `permit` checks
//! what the loop allows.

use super::name::{self, OutboxFileName};
use super::{
    BatchRefused, InlineComment, OutboxEntryKind, OutboxProblem, ReviewDecision, StagedFile, StagedItem, invisible,
    json, refuse_if_any, sanitise,
};
use crate::spec::ActionKind;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The largest number of files, and of items, in a batch.
pub const FILES_MAX: usize = 64;
/// The size limit of one text.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The size limit of a whole batch.
pub const BYTES_MAX: usize = 256 << 10;
/// The largest number of line comments in a batch.
pub const INLINE_COMMENTS_MAX: usize = 100;

/// Forges cut longer titles, which can change their meaning.
const TITLE_CHARS_MAX: usize = 256;
const LABEL_CHARS_MAX: usize = 50;
const LABELS_MAX: usize = 20;
const PATH_BYTES_MAX: usize = 4096;

const CANNOT: &str = "CANNOT.md";
const LIST: &str = "outbox.json";

/// The reason in `CANNOT.md`, if a maker staged one; the caller reads it before the batch.
#[must_use]
pub fn cannot_reason(files: &[StagedFile]) -> Option<String> {
    let file = files.iter().find(|file| file.name == CANNOT && file.entry == OutboxEntryKind::Regular)?;
    let bytes = file.bytes.get(..TEXT_BYTES_MAX).unwrap_or(&file.bytes);
    let (text, _) = invisible::strip(&String::from_utf8_lossy(bytes));
    let text = text.trim();
    Some(if text.is_empty() { "no reason given".to_owned() } else { text.to_owned() })
}

/// Parses everything staged, in order. One bad file refuses the batch, and all problems are reported together.
///
/// `CANNOT.md` is skipped: see [`cannot_reason`].
///
/// # Errors
/// The problems of all files.
pub fn parse_batch(files: &[StagedFile]) -> Result<Vec<StagedItem>, BatchRefused> {
    check_sizes(files)?;
    let read: Vec<_> = files
        .iter()
        .filter(|file| file.name != CANNOT || file.entry != OutboxEntryKind::Regular)
        .map(read_file)
        .collect();
    let mut problems = Vec::new();
    let mut items = Vec::new();
    for result in read {
        match result {
            Ok(found) => items.extend(found),
            Err(problem) => problems.push(problem),
        }
    }
    if files.len() > 1 && files.iter().any(|file| file.name == LIST && file.entry == OutboxEntryKind::Regular) {
        problems.extend(mixed(files));
    }
    // A stable sort, so that the items of one list keep their order. Files without a prefix come last, by name.
    items.sort_by(|(a, item_a), (b, item_b)| (a, &item_a.name).cmp(&(b, &item_b.name)));
    let mut items: Vec<StagedItem> = items.into_iter().map(|(_, item)| item).collect();
    for (position, item) in (1..).zip(&mut items) {
        item.position = position;
    }
    problems.extend(check_together(&items));
    refuse_if_any(items, problems)
}

fn check_sizes(files: &[StagedFile]) -> Result<(), BatchRefused> {
    let mut problems = Vec::new();
    if files.len() > FILES_MAX {
        problems.push(OutboxProblem::new("outbox", format!("{} files, at most {FILES_MAX}", files.len())));
    }
    let total: usize = files.iter().map(|file| file.bytes.len()).sum();
    if total > BYTES_MAX {
        problems.push(OutboxProblem::new("outbox", format!("over {BYTES_MAX} bytes in all")));
    }
    // The files of an oversized batch are not parsed.
    refuse_if_any((), problems)
}

/// The list and single files together would have two orders.
fn mixed(files: &[StagedFile]) -> Option<OutboxProblem> {
    let others = files.iter().any(|file| file.name != LIST && file.name != CANNOT);
    others.then(|| OutboxProblem::new(LIST, "cannot be combined with other outbox files"))
}

/// The sort key of an item: its prefix; items without one come last.
type Order = u32;

fn read_file(file: &StagedFile) -> Result<Vec<(Order, StagedItem)>, OutboxProblem> {
    let problem = |why: String| OutboxProblem::new(&file.name, why);
    match file.entry {
        OutboxEntryKind::Regular => {}
        OutboxEntryKind::Symlink => return Err(problem("is a symbolic link".to_owned())),
        OutboxEntryKind::Other => return Err(problem("is not a regular file".to_owned())),
    }
    if file.name == LIST {
        return read_list(&file.bytes).map_err(problem);
    }
    let named = name::read(&file.name).map_err(problem)?;
    let order = named.order.unwrap_or(Order::MAX);
    let text = utf8(&file.bytes).map_err(problem)?;
    let item = read_text(&file.name, named, text).map_err(problem)?;
    Ok(vec![(order, item)])
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    // Editors add a byte order mark; it is not content.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn read_text(name: &str, named: OutboxFileName, text: &str) -> Result<StagedItem, String> {
    let OutboxFileName { kind, target, review, order: _ } = named;
    let mut draft = Draft { kind, target, review, ..Draft::default_of(kind) };
    match kind {
        ActionKind::PullRequest | ActionKind::Commit | ActionKind::IssueCreate => {
            let (first, rest) = text.trim_start().split_once('\n').unwrap_or((text.trim(), ""));
            draft.title = Some(first.trim().trim_start_matches('#').trim().to_owned());
            draft.body = rest.trim_matches('\n').to_owned();
        }
        ActionKind::IssueLabel => {
            draft.labels = text.split(['\n', ',']).map(|label| label.trim().to_owned()).collect();
            draft.labels.retain(|label| !label.is_empty());
        }
        ActionKind::PrInline => draft.comments = read_comments(text)?,
        _ => draft.body = text.to_owned(),
    }
    draft.check(name)
}

fn read_comments(text: &str) -> Result<Vec<InlineComment>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| json::read_as(line).map_err(|why| format!("line {}: {why}", index + 1))).collect()
}

/// An element of `outbox.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    kind: String,
    target: Option<Target>,
    title: Option<String>,
    #[serde(default)]
    body: Option<serde_json::Value>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    comments: Vec<InlineComment>,
    review: Option<ReviewDecision>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Target {
    Number(u64),
    Word(String),
}

fn read_list(bytes: &[u8]) -> Result<Vec<(Order, StagedItem)>, String> {
    let listed: Vec<Listed> = json::read_as(utf8(bytes)?)?;
    if listed.len() > FILES_MAX {
        return Err(format!("{} items, at most {FILES_MAX}", listed.len()));
    }
    let read = |(index, listed): (usize, Listed)| {
        let item = listed.draft().and_then(|draft| {
            let item = draft.check(LIST)?;
            // Each item gets the name of its file form, so that a checker can read and cite it by a unique name.
            let file = name::write(item.kind, item.target.as_deref().unwrap_or_default(), item.review);
            Ok(StagedItem { name: format!("{:02}-{file}", index + 1), ..item })
        });
        item.map(|item| (0, item)).map_err(|why| format!("item {}: {why}", index + 1))
    };
    listed.into_iter().enumerate().map(read).collect()
}

impl Listed {
    fn draft(self) -> Result<Draft, String> {
        let target = self.target.map(|target| match target {
            Target::Number(number) => number.to_string(),
            Target::Word(word) => word,
        });
        let (kind, review, target) = kind_of(&self.kind, self.review, target)?;
        let body = match (kind, self.body) {
            (_, None | Some(serde_json::Value::Null)) => String::new(),
            (ActionKind::Webhook, Some(value)) => value.to_string(),
            (_, Some(serde_json::Value::String(text))) => text,
            (_, Some(_)) => return Err("`body` must be text".to_owned()),
        };
        Ok(Draft { kind, target, review, title: self.title, body, labels: self.labels, comments: self.comments })
    }
}

type KindAndTarget = (ActionKind, Option<ReviewDecision>, Option<String>);

/// The words of the file names, and the seed's: the target (`pr-7`, `issue-7` or `7`) decides the kind of a `comment`.
fn kind_of(word: &str, review: Option<ReviewDecision>, target: Option<String>) -> Result<KindAndTarget, String> {
    match word {
        "pr-approve" => Ok((ActionKind::PrReview, Some(ReviewDecision::Approve), target)),
        "pr-request-changes" => Ok((ActionKind::PrReview, Some(ReviewDecision::RequestChanges), target)),
        "comment" => {
            let target = target.unwrap_or_default();
            match target.strip_prefix("pr-") {
                Some(number) => Ok((ActionKind::PrComment, review, Some(number.to_owned()))),
                None => {
                    let number = target.strip_prefix("issue-").unwrap_or(&target).to_owned();
                    Ok((ActionKind::IssueComment, review, Some(number)))
                }
            }
        }
        _ => match ActionKind::read(word) {
            Some(kind) => Ok((kind, review, target)),
            None => Err(format!("unknown kind `{}`", invisible::printable(word, 40))),
        },
    }
}

/// An item before its form is checked; both grammars produce it.
struct Draft {
    kind: ActionKind,
    target: Option<String>,
    review: Option<ReviewDecision>,
    title: Option<String>,
    body: String,
    labels: Vec<String>,
    comments: Vec<InlineComment>,
}

impl Draft {
    fn default_of(kind: ActionKind) -> Self {
        let (labels, comments) = (Vec::new(), Vec::new());
        Self { kind, target: None, review: None, title: None, body: String::new(), labels, comments }
    }

    fn check(mut self, name: &str) -> Result<StagedItem, String> {
        self.check_target()?;
        self.check_title()?;
        self.check_body()?;
        self.check_labels()?;
        self.check_comments()?;
        let Self { kind, target, review, title, body, labels, comments } = self;
        Ok(StagedItem { position: 0, name: name.to_owned(), kind, target, title, body, labels, comments, review })
    }

    fn check_target(&self) -> Result<(), String> {
        use ActionKind as Kind;
        let target = self.target.as_deref();
        match self.kind {
            Kind::IssueComment | Kind::IssueLabel | Kind::PrComment | Kind::PrInline | Kind::PrReview => {
                name::number(target.ok_or("`target` is missing")?)?;
            }
            Kind::Webhook => {
                name::webhook_name(target.ok_or("`target` is missing")?)?;
            }
            Kind::Report | Kind::PullRequest | Kind::Commit | Kind::IssueCreate | Kind::Slack => {
                none(target.is_some(), self.kind, "target")?;
            }
        }
        match self.kind {
            Kind::PrReview if self.review.is_none() => Err("`review` must be approve or request-changes".to_owned()),
            Kind::PrReview => Ok(()),
            _ => none(self.review.is_some(), self.kind, "review"),
        }
    }

    fn check_title(&mut self) -> Result<(), String> {
        let has_title = matches!(self.kind, ActionKind::PullRequest | ActionKind::Commit | ActionKind::IssueCreate);
        if !has_title {
            return none(self.title.is_some(), self.kind, "title");
        }
        let title = self.title.as_deref().unwrap_or_default();
        let seen = invisible::strip(title).0;
        match seen.trim().chars().count() {
            0 => Err("the title is empty".to_owned()),
            count if count > TITLE_CHARS_MAX => Err(format!("the title is over {TITLE_CHARS_MAX} characters")),
            _ => Ok(()),
        }
    }

    fn check_body(&mut self) -> Result<(), String> {
        if self.body.len() > TEXT_BYTES_MAX {
            return Err(format!("the text is over {TEXT_BYTES_MAX} bytes"));
        }
        match self.kind {
            ActionKind::IssueLabel | ActionKind::PrInline => none(!self.body.trim().is_empty(), self.kind, "body"),
            ActionKind::PullRequest | ActionKind::Commit | ActionKind::IssueCreate => Ok(()),
            ActionKind::PrReview if self.review == Some(ReviewDecision::Approve) => Ok(()),
            ActionKind::Webhook => {
                self.body = json::read(&self.body)?.to_string();
                Ok(())
            }
            _ if invisible::strip(&self.body).0.trim().is_empty() => Err("the text is empty".to_owned()),
            _ => Ok(()),
        }
    }

    fn check_labels(&mut self) -> Result<(), String> {
        match self.kind {
            ActionKind::IssueLabel if self.labels.is_empty() => return Err("no label".to_owned()),
            ActionKind::IssueLabel | ActionKind::IssueCreate | ActionKind::PullRequest => {}
            _ => none(!self.labels.is_empty(), self.kind, "labels")?,
        }
        let mut seen = BTreeSet::new();
        self.labels.retain(|label| seen.insert(label.clone()));
        if self.labels.len() > LABELS_MAX {
            return Err(format!("over {LABELS_MAX} labels"));
        }
        self.labels.iter().try_for_each(|label| check_label(label))
    }

    fn check_comments(&self) -> Result<(), String> {
        match self.kind {
            ActionKind::PrInline if self.comments.is_empty() => Err("no comment".to_owned()),
            ActionKind::PrInline => self.comments.iter().try_for_each(check_comment),
            _ => none(!self.comments.is_empty(), self.kind, "comments"),
        }
    }
}

fn none(present: bool, kind: ActionKind, field: &str) -> Result<(), String> {
    if present { Err(format!("{kind} has no `{field}`")) } else { Ok(()) }
}

fn check_label(label: &str) -> Result<(), String> {
    let fits = !label.trim().is_empty() && label.chars().count() <= LABEL_CHARS_MAX;
    if fits && label.trim() == label && !label.contains(',') && invisible::is_clean_line(label) {
        return Ok(());
    }
    Err(format!("bad label `{}`", invisible::printable(label, LABEL_CHARS_MAX)))
}

fn check_comment(comment: &InlineComment) -> Result<(), String> {
    let path = &comment.path;
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if path.len() > PATH_BYTES_MAX || !invisible::is_clean_line(path) || path.contains('\\') || path.split('/').any(odd)
    {
        return Err(format!("bad path `{}`", invisible::printable(path, 80)));
    }
    if comment.line == 0 || comment.start_line.is_some_and(|start| start == 0 || start > comment.line) {
        return Err(format!("bad line range in a comment on `{path}`"));
    }
    if comment.body.len() > TEXT_BYTES_MAX {
        return Err(format!("the text is over {TEXT_BYTES_MAX} bytes"));
    }
    if invisible::strip(&comment.body).0.trim().is_empty() {
        return Err("the text is empty".to_owned());
    }
    Ok(())
}

/// Problems that only the whole batch shows.
fn check_together(items: &[StagedItem]) -> Vec<OutboxProblem> {
    let mut problems = Vec::new();
    let comments: usize = items.iter().map(|item| item.comments.len()).sum();
    if comments > INLINE_COMMENTS_MAX {
        problems.push(OutboxProblem::new("outbox", format!("{comments} line comments, at most {INLINE_COMMENTS_MAX}")));
    }
    for (index, item) in items.iter().enumerate() {
        let earlier = &items[..index];
        if let Some(twin) = earlier.iter().find(|other| senseless(other, item)) {
            problems.push(OutboxProblem::new(&item.name, format!("duplicates or contradicts `{}`", twin.name)));
        }
    }
    problems
}

/// Whether two items conflict: a second report, a second review of one target, the same text twice.
fn senseless(a: &StagedItem, b: &StagedItem) -> bool {
    use ActionKind as Kind;
    if (a.kind, &a.target) != (b.kind, &b.target) {
        return false;
    }
    match a.kind {
        Kind::Report | Kind::PullRequest | Kind::Commit | Kind::IssueLabel | Kind::PrInline | Kind::PrReview => true,
        Kind::IssueComment | Kind::IssueCreate | Kind::PrComment | Kind::Slack | Kind::Webhook => {
            (&a.title, sanitise::visible_text(&a.body)) == (&b.title, sanitise::visible_text(&b.body))
        }
    }
}
