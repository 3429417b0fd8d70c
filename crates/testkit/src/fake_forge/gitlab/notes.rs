//! GitLab's notes: comments below issues and merge requests, also those of discussions.

use super::{GitLabCall, message, not_found, parse_number};
use crate::fake_forge::access::ForgeAccess;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::NewComment;

impl GitLabCall<'_> {
    pub(super) fn route_notes(&mut self, repo: &str, kind: &str, number: &str, rest: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), rest) {
            ("GET", []) => self.list_notes(repo, kind, number),
            ("POST", []) => self.create_note(repo, kind, number),
            (_, [id]) => self.one_note(repo, kind, number, id),
            _ => Err(not_found("")),
        }
    }

    fn list_notes(&mut self, repo: &str, kind: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let item = Self::item(found, kind, number)?.number;
        let mut rows: Vec<_> = found.comments.iter().filter(|comment| comment.item == item).collect();
        if self.api.parameter("sort").unwrap_or("desc") == "desc" {
            rows.reverse();
        }
        Ok(self.api.page(rows.into_iter().map(|comment| self.note_json(found, comment)).collect()))
    }

    pub(super) fn list_label_events(&mut self, repo: &str, kind: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let item = Self::item(found, kind, number)?.number;
        let events = found.label_events.iter().filter(|event| event.item == item);
        Ok(self.api.page(events.map(|event| self.label_event_json(found, event)).collect()))
    }

    fn create_note(&mut self, repo: &str, kind: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Write)?;
        let item = Self::item(found, kind, number)?.number;
        let (body, author) = (self.required("body")?, self.api.login().to_owned());
        if body.len() > 1_000_000 {
            return Err(message(400, "400 Bad request - Note is too long (maximum is 1000000 characters)"));
        }
        let id = self.state.add_comment(repo, NewComment { item, author, body, ..NewComment::default() });
        self.note_answer(repo, id, 201)
    }

    pub(super) fn note_answer(&self, repo: &str, id: u64, status: u16) -> ApiResult {
        let found = self.found(repo);
        let comment = found.comments.iter().find(|comment| comment.id == id).ok_or_else(|| not_found("Note "))?;
        Ok(ApiAnswer::new(status, self.note_json(found, comment)))
    }

    fn one_note(&mut self, repo: &str, kind: &str, number: &str, id: &str) -> ApiResult {
        let access = if self.api.method == "GET" { ForgeAccess::Read } else { ForgeAccess::Write };
        let found = self.check(repo, access)?;
        let (item, id) = (Self::item(found, kind, number)?.number, parse_number(id)?);
        let comment = found.comments.iter().find(|one| one.id == id && one.item == item);
        let comment = comment.ok_or_else(|| not_found("Note "))?;
        if access == ForgeAccess::Write && comment.author != self.api.login() {
            return Err(message(403, "403 Forbidden"));
        }
        match self.api.method.as_str() {
            "DELETE" => {
                self.found_mut(repo).comments.retain(|one| one.id != id);
                return Ok(ApiAnswer::empty());
            }
            "PUT" => {
                let (body, now) = (self.required("body")?, self.state.next_time());
                let comments = &mut self.found_mut(repo).comments;
                let comment = comments.iter_mut().find(|one| one.id == id).ok_or_else(|| not_found("Note "))?;
                (comment.body, comment.updated) = (body, now);
            }
            _ => {}
        }
        self.note_answer(repo, id, 200)
    }
}
