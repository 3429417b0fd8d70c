//! GitLab's discussions: threads of notes, also on lines of a merge request.

use super::{GitLabCall, message, not_found, parse_number};
use crate::fake_forge::access::ForgeAccess;
use crate::fake_forge::git::patch_has_line;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakePlace, FakePull, NewComment, RepoState};
use serde_json::{Value, json};

impl GitLabCall<'_> {
    pub(super) fn route_discussions(&mut self, repo: &str, number: &str, rest: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), rest) {
            ("GET", []) => self.list_discussions(repo, number),
            ("POST", []) => self.create_discussion(repo, number),
            ("GET", [id]) => self.discussion_answer(repo, number, parse_id(id)?, 200),
            ("PUT", [id]) => self.resolve(repo, number, id),
            ("POST", [id, "notes"]) => self.reply(repo, number, id),
            _ => Err(not_found("")),
        }
    }

    fn discussion_json(&self, repo: &RepoState, thread: u64) -> Value {
        let notes: Vec<Value> = repo
            .comments
            .iter()
            .filter(|comment| comment.thread == thread)
            .map(|comment| self.note_json(repo, comment))
            .collect();
        let is_single = notes.len() == 1 && notes[0]["type"].is_null();
        json!({"id": format!("{thread:040x}"), "individual_note": is_single, "notes": notes})
    }

    fn list_discussions(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let item = Self::merge_request(found, number)?.0.number;
        let first = found.comments.iter().filter(|one| one.item == item && one.thread == one.id);
        Ok(self.api.page(first.map(|one| self.discussion_json(found, one.id)).collect()))
    }

    fn discussion_answer(&self, repo: &str, number: &str, thread: u64, status: u16) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let item = Self::merge_request(found, number)?.0.number;
        if !found.comments.iter().any(|one| one.item == item && one.thread == thread) {
            return Err(not_found("Discussion "));
        }
        Ok(ApiAnswer::new(status, self.discussion_json(found, thread)))
    }

    fn create_discussion(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Write)?;
        let (item, pull) = Self::merge_request(found, number)?;
        let body = self.required("body")?;
        let position = &self.api.body["position"];
        let place = if position.is_null() { None } else { Some(place(found, pull, position)?) };
        let (item, author) = (item.number, self.api.login().to_owned());
        let draft = NewComment { item, author, body, place, ..NewComment::default() };
        let id = self.state.add_comment(repo, draft);
        self.discussion_answer(repo, number, id, 201)
    }

    fn reply(&mut self, repo: &str, number: &str, id: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Write)?;
        let item = Self::merge_request(found, number)?.0.number;
        let thread = parse_id(id)?;
        let first = found.comments.iter().find(|one| one.id == thread && one.item == item);
        let place = first.ok_or_else(|| not_found("Discussion "))?.place.clone();
        let (body, author) = (self.required("body")?, self.api.login().to_owned());
        let draft = NewComment { item, author, body, place, review: None, thread: Some(thread) };
        let id = self.state.add_comment(repo, draft);
        self.note_answer(repo, id, 201)
    }

    fn resolve(&mut self, repo: &str, number: &str, id: &str) -> ApiResult {
        self.check_push(repo)?;
        let (thread, is_resolved) = (parse_id(id)?, self.required("resolved")? == "true");
        for comment in self.found_mut(repo).comments.iter_mut().filter(|one| one.thread == thread) {
            comment.resolved = is_resolved;
        }
        self.discussion_answer(repo, number, thread, 200)
    }
}

/// The number in the id of a discussion, which has 40 digits.
fn parse_id(text: &str) -> Result<u64, ApiAnswer> {
    u64::from_str_radix(text.trim_start_matches('0'), 16).or_else(|_| parse_number(text))
}

/// The line of a new discussion. GitLab requires the commits of the merge request's version and a line of the diff.
fn place(repo: &RepoState, pull: &FakePull, position: &Value) -> Result<FakePlace, ApiAnswer> {
    let text = |name: &str| position[name].as_str().unwrap_or_default();
    for name in ["base_sha", "start_sha", "head_sha", "position_type"] {
        if text(name).is_empty() {
            return Err(ApiAnswer::new(400, json!({"error": format!("position[{name}] is missing")})));
        }
    }
    let invalid = || {
        let text = "Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}";
        message(400, &format!("400 Bad request - {text}"))
    };
    let (new, old) = (position["new_line"].as_u64(), position["old_line"].as_u64());
    let (side, line) = match (new, old) {
        (Some(line), _) => ("RIGHT", line),
        (None, Some(line)) => ("LEFT", line),
        (None, None) => return Err(invalid()),
    };
    let path = if side == "RIGHT" { text("new_path") } else { text("old_path") };
    let commit = text("head_sha");
    let patch = repo.git.patch(&pull.base, commit, path);
    if !patch_has_line(&patch, side, line) {
        return Err(invalid());
    }
    let start_line = position["line_range"]["start"]["new_line"].as_u64();
    let (path, side, commit) = (path.to_owned(), side.to_owned(), commit.to_owned());
    Ok(FakePlace { path, line, start_line, side, commit })
}
