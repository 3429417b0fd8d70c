//! Gitea's reviews, their comments on lines, and requested reviewers.

use super::{GiteaCall, error, not_found, parse_number};
use crate::fake_forge::access::{ForgeAccess, ForgeArea};
use crate::fake_forge::git::patch_has_line;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakePlace, FakePull, FakeReview, NewComment, NewReview, RepoState};
use serde_json::Value;

impl GiteaCall<'_> {
    pub(super) fn route_reviews(&mut self, repo: &str, number: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["reviews"]) => self.list_reviews(repo, number),
            ("POST", ["reviews"]) => self.create_review(repo, number),
            ("GET", ["reviews", id]) => self.get_review(repo, number, id),
            ("GET", ["reviews", id, "comments"]) => self.list_inline(repo, number, id),
            ("POST" | "DELETE", ["requested_reviewers"]) => self.request_reviewers(repo, number),
            _ => Err(not_found()),
        }
    }

    fn list_reviews(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let item = Self::pull(found, number)?.number;
        let mine = found.reviews.iter().filter(|review| review.item == item);
        Ok(self.api.page(mine.map(|review| self.review_json(found, review)).collect()))
    }

    fn get_review(&self, repo: &str, number: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let (item, id) = (Self::pull(found, number)?.number, parse_number(id)?);
        let review = found.reviews.iter().find(|review| review.item == item && review.id == id);
        Ok(ApiAnswer::ok(self.review_json(found, review.ok_or_else(not_found)?)))
    }

    fn list_inline(&mut self, repo: &str, number: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let item = Self::pull(found, number)?;
        let pull = item.pull.as_ref().ok_or_else(not_found)?;
        let id = parse_number(id)?;
        let mine = found.comments.iter().filter(|one| one.review == Some(id) && one.place.is_some());
        Ok(ApiAnswer::ok(mine.map(|comment| self.inline_json(found, comment, pull)).collect()))
    }

    fn create_review(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Write)?;
        let item = Self::pull(found, number)?;
        let pull = item.pull.as_ref().ok_or_else(not_found)?;
        let author = self.api.login().to_owned();
        let body = self.api.text("body").unwrap_or_default().to_owned();
        let rows = self.api.body["comments"].as_array().cloned().unwrap_or_default();
        let state = match self.api.text("event").unwrap_or("PENDING") {
            "APPROVED" => "APPROVED",
            "REQUEST_CHANGES" => "CHANGES_REQUESTED",
            "COMMENT" => "COMMENTED",
            "PENDING" => "PENDING",
            other => return Err(error(422, &format!("unknown event `{other}`"))),
        };
        if author == item.author && matches!(state, "APPROVED" | "CHANGES_REQUESTED") {
            let word = if state == "APPROVED" { "approve" } else { "reject" };
            return Err(error(422, &format!("{word} your own pull is not allowed")));
        }
        if body.trim().is_empty() && rows.is_empty() && state != "APPROVED" {
            return Err(error(422, "review event COMMENT requires a body or a comment"));
        }
        let commit = self.api.text("commit_id").filter(|sha| !sha.is_empty()).unwrap_or(&pull.head).to_owned();
        found.git.resolve(&commit).ok_or_else(|| error(404, "the commit does not exist"))?;
        let places: Vec<(FakePlace, String)> =
            rows.iter().map(|row| place(found, pull, row, &commit)).collect::<Result<_, _>>()?;
        let item = item.number;
        let review = NewReview { author: author.clone(), state: state.to_owned(), body, commit };
        let id = self.state.add_review(repo, item, review);
        for (place, body) in places {
            let author = author.clone();
            let draft = NewComment { item, author, body, place: Some(place), review: Some(id), thread: None };
            self.state.add_comment(repo, draft);
        }
        self.get_review(repo, number, &id.to_string())
    }

    fn request_reviewers(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Pulls)?;
        let item = Self::pull(found, number)?;
        let (author, number) = (item.author.clone(), item.number);
        let names = self.api.texts("reviewers").unwrap_or_default();
        for name in &names {
            if !self.state.users.contains_key(name) {
                return Err(error(404, &format!("user does not exist [uid: 0, name: {name}]")));
            }
            if *name == author || !found.may_write(name) {
                return Err(error(422, "reviewer is not valid: the poster and users without access cannot review"));
            }
        }
        let adds = self.api.method == "POST";
        let now = self.state.next_time();
        let item = self.found_mut(repo).items.get_mut(&number).ok_or_else(not_found)?;
        let pull = item.pull.as_mut().ok_or_else(not_found)?;
        pull.reviewers.retain(|known| !names.contains(known));
        if !adds {
            return Ok(ApiAnswer::empty());
        }
        pull.reviewers.extend(names.iter().cloned());
        let commit = pull.head.clone();
        let found = self.found(repo);
        let rows = names.into_iter().enumerate().map(|(row, author)| {
            let state = "REQUEST_REVIEW".to_owned();
            let (commit, submitted) = (commit.clone(), now.clone());
            let id = found.id * 100_000 + row as u64;
            let review = FakeReview { id, item: number, author, state, body: String::new(), commit, submitted };
            self.review_json(found, &review)
        });
        Ok(ApiAnswer::created(rows.collect()))
    }
}

/// The line and the text of a new comment. Gitea accepts lines outside of the diff, but not files outside of it.
fn place(repo: &RepoState, pull: &FakePull, row: &Value, commit: &str) -> Result<(FakePlace, String), ApiAnswer> {
    let path = row["path"].as_str().unwrap_or_default();
    let body = row["body"].as_str().unwrap_or_default();
    let (new, old) = (row["new_position"].as_u64().unwrap_or(0), row["old_position"].as_u64().unwrap_or(0));
    let (side, line) = if new > 0 { ("RIGHT", new) } else { ("LEFT", old) };
    let patch = repo.git.patch(&pull.base, commit, path);
    if patch.is_empty() || body.is_empty() || line == 0 {
        return Err(error(422, "a comment needs a path of the change, a line and a text"));
    }
    // The fake is stricter than Gitea here, so that a wrong line is found in a test.
    if !patch_has_line(&patch, side, line) {
        return Err(error(422, "the line is not part of the diff"));
    }
    let (path, side, commit) = (path.to_owned(), side.to_owned(), commit.to_owned());
    Ok((FakePlace { path, line, start_line: None, side, commit }, body.to_owned()))
}
