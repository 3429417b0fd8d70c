//! GitLab's issues and merge requests: create, list, change, merge, approve.

use super::{GitLabCall, message, not_found};
use crate::fake_forge::access::ForgeAccess;
use crate::fake_forge::changes::is_draft_title;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeItem, NewItem, NewReview, RepoState};
use serde_json::{Value, json};

impl GitLabCall<'_> {
    pub(super) fn route_items(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", [kind]) => self.list_items(repo, kind),
            ("POST", ["issues"]) => self.create_issue(repo),
            ("POST", ["merge_requests"]) => self.create_merge_request(repo),
            ("GET", [kind, number]) => self.get_item(repo, kind, number, 200),
            ("PUT", [kind, number]) => self.update_item(repo, kind, number),
            ("PUT", ["merge_requests", number, "merge"]) => self.merge(repo, number),
            ("POST", ["merge_requests", number, verb @ ("approve" | "unapprove")]) => self.approve(repo, number, verb),
            ("GET", ["merge_requests", number, "approvals"]) => self.approvals(repo, number, 200),
            ("GET", ["merge_requests", number, "changes" | "diffs"]) => self.diffs(repo, number, words[2]),
            ("GET", ["merge_requests", number, "versions"]) => self.versions(repo, number),
            ("GET", ["merge_requests", number, "commits"]) => self.commits(repo, number),
            ("GET", ["merge_requests", number, "pipelines"]) => self.pipelines(repo, number),
            _ => Err(not_found("")),
        }
    }

    fn item_value(&self, repo: &RepoState, item: &FakeItem) -> Value {
        match &item.pull {
            Some(pull) => self.merge_request_json(repo, item, pull),
            None => self.issue_json(repo, item),
        }
    }

    fn get_item(&self, repo: &str, kind: &str, number: &str, status: u16) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        Ok(ApiAnswer::new(status, self.item_value(found, Self::item(found, kind, number)?)))
    }

    fn list_items(&mut self, repo: &str, kind: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let is_kind = |item: &&FakeItem| item.pull.is_some() == (kind == "merge_requests");
        let mut items: Vec<&FakeItem> = found.items.values().filter(is_kind).filter(|item| self.wants(item)).collect();
        if self.api.parameter("order_by") == Some("updated_at") {
            items.sort_by(|one, other| one.updated.cmp(&other.updated));
        }
        if self.api.parameter("sort").unwrap_or("desc") == "desc" {
            items.reverse();
        }
        Ok(self.api.page(items.into_iter().map(|item| self.item_value(found, item)).collect()))
    }

    fn wants(&self, item: &FakeItem) -> bool {
        let text = |name: &str| self.api.parameter(name).filter(|value| !value.is_empty());
        let is_merged = item.pull.as_ref().is_some_and(|pull| pull.merged.is_some());
        let is_state = match text("state").unwrap_or("all") {
            "opened" => item.open,
            "closed" => !item.open && !is_merged,
            "merged" => is_merged,
            _ => true,
        };
        let mut labels = text("labels").unwrap_or_default().split(',').filter(|label| !label.is_empty());
        let branch = |name: &str, wanted: &str| {
            let pull = item.pull.as_ref();
            pull.is_some_and(
                |pull| if name == "source" { pull.head_branch == wanted } else { pull.base_branch == wanted },
            )
        };
        let words = format!("{} {}", item.title, item.body.as_deref().unwrap_or_default()).to_lowercase();
        is_state
            && labels.all(|label| item.labels.iter().any(|known| known == label))
            && text("source_branch").is_none_or(|name| branch("source", name))
            && text("target_branch").is_none_or(|name| branch("target", name))
            && text("author_username").is_none_or(|login| item.author == login)
            && text("assignee_username").is_none_or(|login| item.assignees.iter().any(|known| known == login))
            && text("search").is_none_or(|query| words.contains(&query.to_lowercase()))
            && text("updated_after").is_none_or(|time| item.updated.as_str() > time)
            && text("wip").or(text("draft")).is_none_or(|value| {
                let wants = matches!(value, "yes" | "true");
                item.pull.as_ref().is_some_and(|pull| pull.draft) == wants
            })
    }

    fn create_issue(&mut self, repo: &str) -> ApiResult {
        self.check(repo, ForgeAccess::Write)?;
        let (title, body) = (self.required("title")?, self.value("description"));
        let (labels, assignees) = (self.list("labels").unwrap_or_default(), self.logins("assignee_ids"));
        let author = self.api.login().to_owned();
        let assignees = assignees.unwrap_or_default();
        let number = self.state.add_item(repo, NewItem { title, body, author, labels, assignees, pull: None });
        self.get_item(repo, "issues", &number.to_string(), 201)
    }

    fn create_merge_request(&mut self, repo: &str) -> ApiResult {
        let found = self.check_push(repo)?;
        let (source, target) = (self.required("source_branch")?, self.required("target_branch")?);
        let title = self.required("title")?;
        let missing = |name: &str| ApiAnswer::new(400, json!({"message": {name: ["does not exist"]}}));
        if !found.branches.contains_key(&target) {
            return Err(missing("target_branch"));
        }
        let pull = found.new_pull(&source, &target, is_draft_title(&title)).ok_or_else(|| missing("source_branch"))?;
        if let Some(other) = found.open_pull(&source, &target) {
            let text = format!("Another open merge request already exists for this source branch: !{}", other.number);
            return Err(ApiAnswer::new(409, json!({"message": [text]})));
        }
        let labels = self.list("labels").unwrap_or_default();
        let reviewers = self.logins("reviewer_ids").unwrap_or_default();
        let assignees = self.logins("assignee_ids").unwrap_or_default();
        let pull = crate::fake_forge::state::FakePull { reviewers, ..pull };
        let (author, body) = (self.api.login().to_owned(), self.value("description"));
        let item = NewItem { title, body, author, labels, assignees, pull: Some(pull) };
        let number = self.state.add_item(repo, item);
        self.get_item(repo, "merge_requests", &number.to_string(), 201)
    }

    fn update_item(&mut self, repo: &str, kind: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Write)?;
        let item = Self::item(found, kind, number)?;
        if !found.may_write(self.api.login()) && item.author != self.api.login() {
            return Err(message(403, "403 Forbidden"));
        }
        let key = item.number;
        let (title, body, event) = (self.value("title"), self.value("description"), self.value("state_event"));
        let (all, added, removed) = (self.list("labels"), self.list("add_labels"), self.list("remove_labels"));
        let (reviewers, assignees) = (self.logins("reviewer_ids"), self.logins("assignee_ids"));
        let (now, login) = (self.state.next_time(), self.api.login().to_owned());
        let found = self.found_mut(repo);
        for label in all.iter().chain(&added).flatten() {
            found.add_label(label);
        }
        let item = found.items.get_mut(&key).ok_or_else(|| not_found(""))?;
        if let Some(title) = title {
            item.set_title(&title);
        }
        item.body = body.or(item.body.take());
        match event.as_deref() {
            Some("close") => item.close(&login, &now),
            Some("reopen") => item.reopen(),
            _ => {}
        }
        item.labels = all.unwrap_or(std::mem::take(&mut item.labels));
        for label in added.iter().flatten() {
            item.add_label(label);
        }
        item.labels.retain(|label| !removed.iter().flatten().any(|gone| gone == label));
        item.assignees = assignees.unwrap_or(std::mem::take(&mut item.assignees));
        if let Some((pull, reviewers)) = item.pull.as_mut().zip(reviewers) {
            pull.reviewers = reviewers;
        }
        item.updated = now;
        self.get_item(repo, kind, number, 200)
    }

    fn merge(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_push(repo)?;
        let (item, pull) = Self::merge_request(found, number)?;
        if self.value("sha").is_some_and(|sha| sha != pull.head) {
            return Err(message(409, &format!("SHA does not match HEAD of source branch: {}", pull.head)));
        }
        if pull.draft || !item.open {
            return Err(message(405, "405 Method Not Allowed"));
        }
        let (key, squash) = (item.number, self.value("squash").as_deref() == Some("true"));
        let (now, login) = (self.state.next_time(), self.api.login().to_owned());
        let merged = self.found_mut(repo).merge_pull(key, squash, &login, &now);
        merged.map_err(|_| message(422, "Branch cannot be merged"))?;
        self.get_item(repo, "merge_requests", number, 200)
    }

    fn approve(&mut self, repo: &str, number: &str, verb: &str) -> ApiResult {
        let found = self.check_push(repo)?;
        let (item, pull) = Self::merge_request(found, number)?;
        if self.value("sha").is_some_and(|sha| sha != pull.head) {
            return Err(message(409, &format!("SHA does not match HEAD of source branch: {}", pull.head)));
        }
        let (key, author, commit) = (item.number, self.api.login().to_owned(), pull.head.clone());
        let has = found.reviews.iter().any(|one| one.item == key && one.author == author && one.state == "APPROVED");
        if verb == "unapprove" {
            let reviews = &mut self.found_mut(repo).reviews;
            reviews.retain(|one| one.item != key || one.author != author || one.state != "APPROVED");
        } else if has {
            return Err(message(401, "401 Unauthorized"));
        } else {
            let review = NewReview { author, state: "APPROVED".to_owned(), body: String::new(), commit };
            self.state.add_review(repo, key, review);
        }
        self.approvals(repo, number, 201)
    }

    fn approvals(&self, repo: &str, number: &str, status: u16) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let (item, _) = Self::merge_request(found, number)?;
        let mine = found.reviews.iter().filter(|one| one.item == item.number && one.state == "APPROVED");
        let rows: Vec<Value> = mine.map(|review| json!({"user": self.user_json(&review.author)})).collect();
        Ok(ApiAnswer::new(
            status,
            json!({
                "id": item.id, "iid": item.number, "project_id": found.id, "title": item.title,
                "approved": !rows.is_empty(), "approvals_required": 0, "approvals_left": 0, "approved_by": rows,
                "user_has_approved": found.reviews.iter().any(|one| one.item == item.number && one.author == self.api.login()),
            }),
        ))
    }

    fn diffs(&mut self, repo: &str, number: &str, what: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let (item, pull) = Self::merge_request(found, number)?;
        let files = found.git.changed_files(&pull.base, &pull.head);
        let rows = files.iter().map(|file| {
            json!({
                "old_path": file.path, "new_path": file.path, "a_mode": "100644", "b_mode": "100644",
                "new_file": file.status == 'A', "deleted_file": file.status == 'D', "renamed_file": false,
                "diff": found.git.patch(&pull.base, &pull.head, &file.path),
            })
        });
        let rows: Vec<Value> = rows.collect();
        if what == "diffs" {
            return Ok(self.api.page(rows));
        }
        let mut value = self.merge_request_json(found, item, pull);
        value["changes_count"] = json!(rows.len().to_string());
        value["changes"] = Value::Array(rows);
        Ok(ApiAnswer::ok(value))
    }

    fn versions(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let (item, pull) = Self::merge_request(found, number)?;
        let base = found.branches.get(&pull.base_branch).filter(|_| item.open).unwrap_or(&pull.base);
        let fork = found.git.merge_base(base, &pull.head).unwrap_or_default();
        Ok(self.api.page(vec![json!({
            "id": item.id, "head_commit_sha": pull.head, "base_commit_sha": fork, "start_commit_sha": base,
            "created_at": item.created, "merge_request_id": item.id, "state": "collected", "real_size": "1",
        })]))
    }

    fn commits(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let (_, pull) = Self::merge_request(found, number)?;
        let commits = found.git.commits(&format!("{}..{}", pull.base, pull.head), 250);
        Ok(self.api.page(commits.iter().map(|commit| self.commit_json(found, commit)).collect()))
    }

    fn pipelines(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeAccess::Read)?;
        let (_, pull) = Self::merge_request(found, number)?;
        let has = found.checks.iter().any(|check| check.head == pull.head);
        Ok(self.api.page(has.then(|| self.pipeline_json(found, &pull.head)).into_iter().collect()))
    }
}
