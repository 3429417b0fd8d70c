//! GitHub's reviews and their comments on lines. A comment must be on a line that the diff shows.

use super::json::node_id;
use super::{GitHubCall, error, invalid, not_found, parse_number};
use crate::fake_forge::access::{ForgeAccess, ForgeArea};
use crate::fake_forge::git::patch_has_line;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeComment, FakePlace, FakePull, FakeReview, NewComment, NewReview, RepoState};
use serde_json::{Value, json};

impl GitHubCall<'_> {
    /// Routes below `/repos/{owner}/{repo}/pulls/{number}` for reviews and comments.
    pub(super) fn route_reviews(&mut self, repo: &str, number: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["reviews"]) => self.list_reviews(repo, number),
            ("POST", ["reviews"]) => self.create_review(repo, number),
            ("GET", ["reviews", id]) => self.get_review(repo, number, id),
            ("GET", ["reviews", id, "comments"]) => self.list_review_comments(repo, number, Some(id)),
            ("PUT", ["reviews", id, "dismissals"]) => self.dismiss_review(repo, number, id),
            ("GET", ["comments"]) => self.list_review_comments(repo, number, None),
            ("POST", ["comments"]) => self.create_review_comment(repo, number),
            ("POST", ["comments", id, "replies"]) => self.reply(repo, number, id),
            _ => Err(not_found()),
        }
    }

    fn list_reviews(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let item = Self::pull(found, number)?.0.number;
        let mine = found.reviews.iter().filter(|review| review.item == item);
        Ok(self.api.page(mine.map(|review| self.review_json(found, review)).collect()))
    }

    fn get_review(&mut self, repo: &str, number: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let (item, id) = (Self::pull(found, number)?.0.number, parse_number(id)?);
        let review = found.reviews.iter().find(|review| review.item == item && review.id == id);
        Ok(ApiAnswer::ok(self.review_json(found, review.ok_or_else(not_found)?)))
    }

    fn create_review(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Write)?;
        let (item, pull) = Self::pull(found, number)?;
        let author = self.api.login().to_owned();
        let body = self.api.text("body").unwrap_or_default().to_owned();
        let comments = self.api.body["comments"].as_array().cloned().unwrap_or_default();
        let state = match self.api.text("event") {
            Some("APPROVE") => "APPROVED",
            Some("REQUEST_CHANGES") => "CHANGES_REQUESTED",
            Some("COMMENT") => "COMMENTED",
            None => "PENDING",
            Some(_) => return Err(invalid("PullRequestReview", "event", "invalid", None)),
        };
        if author == item.author && matches!(state, "APPROVED" | "CHANGES_REQUESTED") {
            let verb = if state == "APPROVED" { "approve" } else { "request changes on" };
            return Err(unprocessable(&format!("Can not {verb} your own pull request")));
        }
        if body.is_empty() && comments.is_empty() && state != "APPROVED" {
            return Err(unprocessable("Could not submit review: body can't be blank"));
        }
        let commit = self.api.text("commit_id").unwrap_or(&pull.head).to_owned();
        check_commit(found, pull, &commit)?;
        let places: Vec<(FakePlace, String)> =
            comments.iter().map(|row| place(found, pull, row, &commit)).collect::<Result<_, _>>()?;
        let item = item.number;
        let review = NewReview { author: author.clone(), state: state.to_owned(), body, commit };
        let id = self.state.add_review(repo, item, review);
        for (place, body) in places {
            let author = author.clone();
            let draft = NewComment { item, author, body, place: Some(place), review: Some(id), thread: None };
            self.state.add_comment(repo, draft);
        }
        let answer = self.get_review(repo, number, &id.to_string())?;
        Ok(answer)
    }

    fn dismiss_review(&mut self, repo: &str, number: &str, id: &str) -> ApiResult {
        self.check_push(repo, ForgeArea::Pulls)?;
        let id_number = parse_number(id)?;
        let review = self.found_mut(repo).reviews.iter_mut().find(|review| review.id == id_number);
        review.ok_or_else(not_found)?.state = "DISMISSED".to_owned();
        self.get_review(repo, number, id)
    }

    fn list_review_comments(&mut self, repo: &str, number: &str, review: Option<&str>) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let item = Self::pull(found, number)?.0.number;
        let review = review.map(parse_number).transpose()?;
        let mine = found.comments.iter().filter(|one| one.item == item && one.place.is_some());
        let mine = mine.filter(|one| review.is_none() || one.review == review);
        Ok(self.api.page(mine.map(|comment| self.inline_json(found, comment)).collect()))
    }

    fn create_review_comment(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Write)?;
        let (item, pull) = Self::pull(found, number)?;
        let commit = self.api.text("commit_id").ok_or_else(|| unprocessable("commit_id is required"))?;
        check_commit(found, pull, commit)?;
        let (place, body) = place(found, pull, &self.api.body, commit)?;
        let (item, commit, author) = (item.number, commit.to_owned(), self.api.login().to_owned());
        let review = NewReview { author: author.clone(), state: "COMMENTED".to_owned(), body: String::new(), commit };
        let review = self.state.add_review(repo, item, review);
        let draft = NewComment { item, author, body, place: Some(place), review: Some(review), thread: None };
        let id = self.state.add_comment(repo, draft);
        self.created_comment(repo, id)
    }

    fn reply(&mut self, repo: &str, number: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Write)?;
        let (item, id) = (Self::pull(found, number)?.0.number, parse_number(id)?);
        let first = found.comments.iter().find(|one| one.id == id && one.place.is_some()).ok_or_else(not_found)?;
        let (place, review, thread) = (first.place.clone(), first.review, Some(first.thread));
        let body = self.body_text("PullRequestReviewComment", "body")?;
        let author = self.api.login().to_owned();
        let id = self.state.add_comment(repo, NewComment { item, author, body, place, review, thread });
        self.created_comment(repo, id)
    }

    fn created_comment(&self, repo: &str, id: u64) -> ApiResult {
        let found = self.found(repo);
        let comment = found.comments.iter().find(|comment| comment.id == id).ok_or_else(not_found)?;
        Ok(ApiAnswer::created(self.inline_json(found, comment)))
    }

    /// A comment on a line by its id.
    pub(super) fn review_comment(&mut self, repo: &str, id: &str) -> ApiResult {
        let access = if self.api.method == "GET" { ForgeAccess::Read } else { ForgeAccess::Write };
        let found = self.check(repo, ForgeArea::Pulls, access)?;
        let id = parse_number(id)?;
        let comment = found.comments.iter().find(|one| one.id == id && one.place.is_some()).ok_or_else(not_found)?;
        match self.api.method.as_str() {
            "GET" => Ok(ApiAnswer::ok(self.inline_json(found, comment))),
            "DELETE" => {
                self.found_mut(repo).comments.retain(|one| one.id != id);
                Ok(ApiAnswer::empty())
            }
            _ => Err(not_found()),
        }
    }

    fn review_json(&self, repo: &RepoState, review: &FakeReview) -> Value {
        let pull = format!("{}/pulls/{}", self.repo_url(repo), review.item);
        let html = format!("{}/{}/pull/{}", self.api.web, repo.full_name(), review.item);
        let html = format!("{html}#pullrequestreview-{}", review.id);
        let mut value = json!({
            "id": review.id, "node_id": node_id("PRR", review.id), "user": self.user_json(&review.author),
            "body": review.body, "state": review.state, "html_url": html, "pull_request_url": pull,
            "author_association": Self::association_json(repo, &review.author), "commit_id": review.commit,
            "_links": {"html": {"href": html}, "pull_request": {"href": pull}},
        });
        if review.state != "PENDING" {
            value["submitted_at"] = json!(review.submitted);
        }
        value
    }

    fn inline_json(&self, repo: &RepoState, comment: &FakeComment) -> Value {
        let base = self.repo_url(repo);
        let (url, pull) = (format!("{base}/pulls/comments/{}", comment.id), format!("{base}/pulls/{}", comment.item));
        let html = format!("{}/{}/pull/{}", self.api.web, repo.full_name(), comment.item);
        let html = format!("{html}#discussion_r{}", comment.id);
        let place = comment.place.clone().expect("an inline comment has a place");
        let patch = repo.items.get(&comment.item).and_then(|item| item.pull.as_ref()).map(|pull| {
            let text = repo.git.patch(&pull.base, &place.commit, &place.path);
            text.lines().take(10).collect::<Vec<_>>().join("\n")
        });
        let mut value = json!({
            "id": comment.id, "node_id": node_id("PRRC", comment.id), "url": url, "html_url": html,
            "pull_request_url": pull, "pull_request_review_id": comment.review, "diff_hunk": patch.unwrap_or_default(),
            "path": place.path, "position": place.line, "original_position": place.line, "line": place.line,
            "original_line": place.line, "start_line": place.start_line, "original_start_line": place.start_line,
            "side": place.side, "start_side": place.start_line.map(|_| &place.side), "commit_id": place.commit,
            "original_commit_id": place.commit, "user": self.user_json(&comment.author), "body": comment.body,
            "created_at": comment.created, "updated_at": comment.updated, "subject_type": "line",
            "author_association": Self::association_json(repo, &comment.author),
            "_links": {"self": {"href": url}, "html": {"href": html}, "pull_request": {"href": pull}},
        });
        if comment.thread != comment.id {
            value["in_reply_to_id"] = json!(comment.thread);
        }
        value
    }
}

fn unprocessable(message: &str) -> ApiAnswer {
    let mut answer = error(422, "Unprocessable Entity");
    answer.body["errors"] = json!([message]);
    answer
}

fn check_commit(repo: &RepoState, pull: &FakePull, commit: &str) -> Result<(), ApiAnswer> {
    let is_part = commit == pull.head || repo.git.merge_base(commit, &pull.head).as_deref() == Some(commit);
    if is_part { Ok(()) } else { Err(unprocessable("commit_id is not part of the pull request")) }
}

/// The line and the text of a new comment.
fn place(repo: &RepoState, pull: &FakePull, row: &Value, commit: &str) -> Result<(FakePlace, String), ApiAnswer> {
    let text = |name: &str| row[name].as_str().filter(|text| !text.is_empty());
    let path = text("path").ok_or_else(|| unprocessable("path is required"))?;
    let body = text("body").ok_or_else(|| unprocessable("body can't be blank"))?;
    let side = text("side").unwrap_or("RIGHT");
    let line = row["line"].as_u64().or_else(|| row["position"].as_u64());
    let line = line.ok_or_else(|| unprocessable("pull_request_review_thread.line is required"))?;
    let patch = repo.git.patch(&pull.base, commit, path);
    if patch.is_empty() {
        return Err(unprocessable("pull_request_review_thread.path is not part of the diff"));
    }
    if !patch_has_line(&patch, side, line) {
        return Err(unprocessable("pull_request_review_thread.line must be part of the diff"));
    }
    let start_line = row["start_line"].as_u64();
    if start_line.is_some_and(|start| start >= line || !patch_has_line(&patch, side, start)) {
        return Err(unprocessable("pull_request_review_thread.start_line must be part of the same hunk as the line."));
    }
    let place = FakePlace { path: path.to_owned(), line, start_line, side: side.to_owned(), commit: commit.to_owned() };
    Ok((place, body.to_owned()))
}
