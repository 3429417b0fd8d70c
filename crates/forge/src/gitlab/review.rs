//! Reviews on GitLab, which has no review with all its comments as one item: an approval is a call of its own, each line
//! comment is a discussion, and a note ends the review. Each part has a number, so that a review that was interrupted is
//! completed and no part appears twice.

use super::{GitLab, rows};
use crate::api::{ApiError, ApiErrorKind, CallResult, RemoteComment, RemotePull, ReviewDraft};
use loopwright_core::forge::{CommentKind, CommentsOf};
use loopwright_core::outbox::{DiffSide, InlineComment, ReviewDecision};
use serde_json::{Value, json};

const PART_PREFIX: &str = "<!-- loopwright-part: ";
const HEAD_PREFIX: &str = "Reviewed commit: ";
/// The most pages of notes.
const NOTE_PAGES_MAX: usize = 100;

/// The notes of a review that exist.
pub(super) struct ReviewNotes(Vec<RemoteComment>);

impl ReviewNotes {
    fn part(&self, number: usize) -> Option<&RemoteComment> {
        let part = part_mark(number);
        self.0.iter().find(|note| note.row.body.contains(&part))
    }

    /// The note that ends the review, if all parts exist.
    pub(super) fn complete(self, new: &ReviewDraft<'_>) -> Option<RemoteComment> {
        let has_all = (1..=new.comments.len()).all(|number| self.part(number).is_some());
        let last = self.part(0)?.clone();
        let head = last.row.body.split(HEAD_PREFIX).nth(1).and_then(|rest| rest.split_whitespace().next());
        let head = head.map(str::to_owned);
        has_all.then_some(RemoteComment { head, ..last })
    }
}

fn part_mark(number: usize) -> String {
    format!("{PART_PREFIX}{number} -->")
}

impl GitLab {
    /// The notes of this review.
    pub(super) async fn review_notes(&self, pull: u64, new: &ReviewDraft<'_>) -> CallResult<ReviewNotes> {
        let of = CommentsOf::Pull(pull);
        let (mut notes, mut from) = (Vec::new(), None);
        for _ in 0..NOTE_PAGES_MAX {
            let page = self.read_notes(of, from.as_ref()).await?;
            notes.extend(page.rows.into_iter().filter(|note| note.row.body.contains(new.marker)));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        Ok(ReviewNotes(notes))
    }

    pub(super) async fn write_review(&self, pull: &RemotePull, new: &ReviewDraft<'_>) -> CallResult<RemoteComment> {
        let number = pull.row.about.number;
        let of = CommentsOf::Pull(number);
        let there = self.review_notes(number, new).await?;
        let refs = self.diff_refs(of, new).await?;
        // A review that is refused in the middle has visible parts.
        let mut is_begun = !there.0.is_empty();
        for (at, comment) in new.comments.iter().enumerate() {
            if there.part(at + 1).is_none() {
                let marks = format!("{}\n{}", new.marker, part_mark(at + 1));
                let written = self.write_line(of, comment, refs.as_ref(), &marks).await;
                written.map_err(|error| error.after(is_begun))?;
                is_begun = true;
            }
        }
        let decided = match new.decision {
            Some(ReviewDecision::Approve) => self.approve(of, &pull.row.head).await,
            Some(ReviewDecision::RequestChanges) => self.take_approval_back(of).await,
            None => Ok(()),
        };
        decided.map_err(|error| error.after(is_begun))?;
        let title = match new.decision {
            Some(ReviewDecision::Approve) => "**Approved.** ",
            Some(ReviewDecision::RequestChanges) => "**Changes requested.** ",
            None => "",
        };
        let head = &pull.row.head;
        let body = format!("{title}{HEAD_PREFIX}{head}\n\n{}{}\n", new.body, part_mark(0));
        let note = self.write_note(of, &body).await.map_err(|error| error.after(is_begun || new.decision.is_some()))?;
        Ok(RemoteComment { head: Some(head.clone()), row: review_row(note.row), ..note })
    }

    /// GitLab refuses the approval if the head has moved.
    async fn approve(&self, of: CommentsOf, head: &str) -> CallResult<()> {
        if self.has_approved(of).await? {
            return Ok(());
        }
        let path = format!("{}/approve", self.item_path(of));
        let approved = self.client.post::<Value>(&path, &json!({ "sha": head })).await;
        approved.map(drop).map_err(|error| match error.kind {
            // GitLab answers 401 to an account that may not approve, although its token is valid.
            ApiErrorKind::Access => {
                let text = format!("GitLab does not let this account approve the merge request: {}", error.text);
                ApiError { kind: ApiErrorKind::Rejected, text, ..error }
            }
            _ => error,
        })
    }

    async fn take_approval_back(&self, of: CommentsOf) -> CallResult<()> {
        if !self.has_approved(of).await? {
            return Ok(());
        }
        let path = format!("{}/unapprove", self.item_path(of));
        self.client.post::<Value>(&path, &json!({})).await.map(drop)
    }

    async fn has_approved(&self, of: CommentsOf) -> CallResult<bool> {
        let approvals: rows::GitLabApprovals =
            self.client.get(&format!("{}/approvals", self.item_path(of)), "").await?;
        Ok(approvals.user_has_approved)
    }

    /// The commits that positions name; `None` without line comments.
    async fn diff_refs(&self, of: CommentsOf, new: &ReviewDraft<'_>) -> CallResult<Option<rows::GitLabDiffRefs>> {
        if new.comments.is_empty() {
            return Ok(None);
        }
        let one: rows::GitLabMergeRequest = self.client.get(&self.item_path(of), "").await?;
        Ok(one.diff_refs)
    }

    /// A discussion on a line. GitLab knows only lines of the diff; a comment on another line becomes a plain one.
    async fn write_line(
        &self,
        of: CommentsOf,
        comment: &InlineComment,
        refs: Option<&rows::GitLabDiffRefs>,
        marks: &str,
    ) -> CallResult<()> {
        let path = format!("{}/discussions", self.item_path(of));
        let text = text(comment);
        if let Some(refs) = refs {
            let body = json!({ "body": format!("{text}\n\n{marks}\n"), "position": position(comment, refs) });
            match self.client.post::<Value>(&path, &body).await {
                Err(ApiError { kind: ApiErrorKind::Rejected, .. }) => {}
                other => return other.map(drop),
            }
        }
        // A backtick would end the code, and the rest of the path would act.
        let place = format!("`{}`, line {}", comment.path.replace('`', "'"), comment.line);
        let body = format!("{place}: {text}\n\n{marks}\n");
        self.client.post::<Value>(&path, &json!({ "body": body })).await.map(drop)
    }
}

fn review_row(row: loopwright_core::forge::ForgeComment) -> loopwright_core::forge::ForgeComment {
    loopwright_core::forge::ForgeComment { kind: CommentKind::Review, ..row }
}

/// A range needs line codes that only GitLab computes, so the text names it.
fn text(comment: &InlineComment) -> String {
    match comment.start_line.filter(|start| *start < comment.line) {
        Some(start) => format!("Lines {start} to {}:\n\n{}", comment.line, comment.body),
        None => comment.body.clone(),
    }
}

fn position(comment: &InlineComment, refs: &rows::GitLabDiffRefs) -> Value {
    let line = if comment.side == DiffSide::Left { "old_line" } else { "new_line" };
    let mut position = json!({
        "position_type": "text",
        "base_sha": refs.base_sha,
        "head_sha": refs.head_sha,
        "start_sha": refs.start_sha,
        "old_path": comment.path,
        "new_path": comment.path,
    });
    position[line] = json!(comment.line);
    position
}
