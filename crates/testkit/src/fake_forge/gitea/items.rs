//! Gitea's issues and pull requests with their comments and labels.

use super::{GiteaCall, error, not_found, parse_number};
use crate::fake_forge::access::{ForgeAccess, ForgeArea};
use crate::fake_forge::changes::is_draft_title;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeItem, NewComment, NewItem, RepoState};
use serde_json::Value;

impl GiteaCall<'_> {
    pub(super) fn route_items(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["issues"]) => self.list_issues(repo),
            ("POST", ["issues"]) => self.create_issue(repo),
            ("GET", ["issues", "comments"]) => self.list_comments(repo, None),
            (_, ["issues", "comments", id]) => self.one_comment(repo, id),
            ("GET", ["issues", number]) => self.get_item(repo, number, 200),
            ("PATCH", ["issues", number]) => self.update_item(repo, number, ForgeArea::Issues),
            ("GET", ["issues", number, "comments"]) => self.list_comments(repo, Some(number)),
            ("POST", ["issues", number, "comments"]) => self.create_comment(repo, number),
            ("GET", ["issues", number, "timeline"]) => self.list_timeline(repo, number),
            (_, ["issues", number, "labels", rest @ ..]) => self.item_labels(repo, number, rest),
            ("GET", ["pulls"]) => self.list_pulls(repo),
            ("POST", ["pulls"]) => self.create_pull(repo),
            ("GET", ["pulls", number]) if number.ends_with(".diff") => self.pull_diff(repo, number),
            ("GET", ["pulls", number]) => self.get_pull(repo, number, 200),
            ("PATCH", ["pulls", number]) => self.update_item(repo, number, ForgeArea::Pulls),
            (_, ["pulls", number, "merge"]) => self.merge(repo, number),
            ("GET", ["pulls", number, "files"]) => self.pull_files(repo, number),
            ("GET", ["pulls", number, "commits"]) => self.pull_commits(repo, number),
            ("GET", ["pulls", base, head]) => self.find_pull(repo, base, head),
            (_, ["labels", rest @ ..]) => self.repo_labels(repo, rest),
            _ => Err(not_found()),
        }
    }

    fn wants(&self, item: &FakeItem) -> bool {
        let text = |name: &str| self.api.parameter(name).filter(|value| !value.is_empty());
        let is_state = match text("state").unwrap_or("open") {
            "all" => true,
            "closed" => !item.open,
            _ => item.open,
        };
        let kind = match text("type") {
            Some("issues") => item.pull.is_none(),
            Some("pulls") => item.pull.is_some(),
            _ => true,
        };
        let mut labels = text("labels").unwrap_or_default().split(',').filter(|label| !label.is_empty());
        let body = item.body.as_deref().unwrap_or_default();
        let words = format!("{} {body}", item.title).to_lowercase();
        is_state
            && kind
            && labels.all(|label| item.labels.iter().any(|known| known == label))
            && text("created_by").is_none_or(|login| item.author == login)
            && text("poster").is_none_or(|login| item.author == login)
            && text("assigned_by").is_none_or(|login| item.assignees.iter().any(|known| known == login))
            && text("mentioned_by").is_none_or(|login| body.contains(&format!("@{login}")))
            && text("since").is_none_or(|time| item.updated.as_str() >= time)
            && text("q").is_none_or(|query| words.contains(&query.to_lowercase()))
    }

    fn list_issues(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
        let rows = sorted(found, self.api.parameter("sort")).into_iter().filter(|item| self.wants(item));
        Ok(self.api.page(rows.map(|item| self.issue_json(found, item)).collect()))
    }

    fn list_pulls(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let (base, head) = (self.api.parameter("base"), self.api.parameter("head"));
        let rows = sorted(found, self.api.parameter("sort")).into_iter().filter(|item| self.wants(item));
        let rows = rows.filter(|item| {
            item.pull.as_ref().is_some_and(|pull| {
                base.is_none_or(|base| pull.base_branch == base) && head.is_none_or(|head| pull.head_branch == head)
            })
        });
        Ok(self.api.page(rows.map(|item| self.pull_json(found, item)).collect()))
    }

    /// Labels by number, or by name where Gitea accepts names.
    fn label_names(&self, repo: &RepoState) -> Option<Vec<String>> {
        let rows = self.api.body["labels"].as_array()?;
        let name = |value: &Value| match value.as_u64() {
            Some(id) => repo.labels.iter().find(|label| label.id == id).map(|label| label.name.clone()),
            None => repo.label(value.as_str()?).map(|label| label.name.clone()),
        };
        Some(rows.iter().filter_map(name).collect())
    }

    fn create_issue(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Write)?;
        let labels = self.label_names(found).filter(|_| found.may_write(self.api.login())).unwrap_or_default();
        let (title, body) = (self.required("title")?, self.api.text("body").map(str::to_owned));
        let (author, assignees) = (self.api.login().to_owned(), self.api.texts("assignees").unwrap_or_default());
        let number = self.state.add_item(repo, NewItem { title, body, author, labels, assignees, pull: None });
        self.get_item(repo, &number.to_string(), 201)
    }

    fn create_pull(&mut self, repo: &str) -> ApiResult {
        let found = self.check_push(repo, ForgeArea::Pulls)?;
        let (title, head, base) = (self.required("title")?, self.required("head")?, self.required("base")?);
        let head = head.split_once(':').map_or(head.as_str(), |(_, branch)| branch).to_owned();
        let pull = found.new_pull(&head, &base, is_draft_title(&title)).ok_or_else(not_found)?;
        if let Some(other) = found.open_pull(&head, &base) {
            let id = found.id;
            let text = "pull request already exists for these targets";
            let text = format!(
                "{text} [id: {}, issue_id: {}, head_repo_id: {id}, base_repo_id: {id}, head_branch: {head}, base_branch: {base}]",
                other.id, other.id
            );
            return Err(error(409, &text));
        }
        let labels = self.label_names(found).unwrap_or_default();
        let (author, assignees) = (self.api.login().to_owned(), self.api.texts("assignees").unwrap_or_default());
        let body = self.api.text("body").map(str::to_owned);
        let item = NewItem { title, body, author, labels, assignees, pull: Some(pull) };
        let number = self.state.add_item(repo, item);
        self.get_pull(repo, &number.to_string(), 201)
    }

    fn get_item(&self, repo: &str, number: &str, status: u16) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
        Ok(ApiAnswer::new(status, self.issue_json(found, Self::item(found, number)?)))
    }

    fn get_pull(&self, repo: &str, number: &str, status: u16) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        Ok(ApiAnswer::new(status, self.pull_json(found, Self::pull(found, number)?)))
    }

    /// The newest pull request between two branches.
    fn find_pull(&self, repo: &str, base: &str, head: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let item =
            found.items.values().rev().find(|item| {
                item.pull.as_ref().is_some_and(|pull| pull.base_branch == base && pull.head_branch == head)
            });
        Ok(ApiAnswer::ok(self.pull_json(found, item.ok_or_else(not_found)?)))
    }

    fn update_item(&mut self, repo: &str, number: &str, area: ForgeArea) -> ApiResult {
        let found = self.check(repo, area, ForgeAccess::Write)?;
        let item = if area == ForgeArea::Pulls { Self::pull(found, number)? } else { Self::item(found, number)? };
        if !found.may_write(self.api.login()) && item.author != self.api.login() {
            return Err(error(403, "must be the poster or have write access"));
        }
        if item.pull.as_ref().is_some_and(|pull| pull.merged.is_some()) && self.api.text("state") == Some("open") {
            return Err(error(412, "cannot change the state of a merged pull request"));
        }
        let (number_value, labels) = (item.number, self.label_names(found).filter(|_| area == ForgeArea::Pulls));
        let (now, login, body) = (self.state.next_time(), self.api.login().to_owned(), self.api.body.clone());
        let assignees = self.api.texts("assignees");
        let item = self.found_mut(repo).items.get_mut(&number_value).ok_or_else(not_found)?;
        if let Some(title) = body["title"].as_str().filter(|title| !title.is_empty()) {
            item.set_title(title);
        }
        if let Some(text) = body["body"].as_str() {
            item.body = Some(text.to_owned());
        }
        match body["state"].as_str() {
            Some("closed") => item.close(&login, &now),
            Some("open") => item.reopen(),
            _ => {}
        }
        item.labels = labels.unwrap_or(std::mem::take(&mut item.labels));
        item.assignees = assignees.unwrap_or(std::mem::take(&mut item.assignees));
        item.updated = now;
        if area == ForgeArea::Pulls { self.get_pull(repo, number, 201) } else { self.get_item(repo, number, 201) }
    }

    fn merge(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let pull = Self::pull(found, number)?.pull.clone().ok_or_else(not_found)?;
        if self.api.method == "GET" {
            return if pull.merged.is_some() { Ok(ApiAnswer::empty()) } else { Err(not_found()) };
        }
        self.check_push(repo, ForgeArea::Pulls)?;
        let style = self.required("Do")?;
        if self.api.text("head_commit_id").is_some_and(|sha| sha != pull.head) {
            return Err(error(409, "head out of date"));
        }
        if pull.draft {
            return Err(error(405, "Work in progress PRs cannot be merged"));
        }
        let (now, login) = (self.state.next_time(), self.api.login().to_owned());
        let number = parse_number(number)?;
        let merged = self.found_mut(repo).merge_pull(number, style != "merge", &login, &now);
        merged.map_err(|_| error(405, "Please try again later"))?;
        Ok(ApiAnswer::new(200, Value::Null))
    }

    fn pull_diff(&mut self, repo: &str, name: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let pull = Self::pull(found, name.trim_end_matches(".diff"))?.pull.as_ref().ok_or_else(not_found)?;
        Ok(ApiAnswer::ok(found.git.diff(&pull.base, &pull.head).into()))
    }

    fn pull_files(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let pull = Self::pull(found, number)?.pull.as_ref().ok_or_else(not_found)?;
        let web = format!("{}/{}", self.api.web, found.full_name());
        let rows = found.git.changed_files(&pull.base, &pull.head).into_iter().map(|file| {
            let status = match file.status {
                'A' => "added",
                'D' => "deleted",
                _ => "changed",
            };
            let path = &file.path;
            serde_json::json!({
                "filename": path, "status": status, "additions": file.added, "deletions": file.removed,
                "changes": file.added + file.removed, "html_url": format!("{web}/src/commit/{}/{path}", pull.head),
                "contents_url": format!("{}/contents/{path}?ref={}", self.repo_url(found), pull.head),
                "raw_url": format!("{web}/raw/commit/{}/{path}", pull.head),
            })
        });
        Ok(self.api.page(rows.collect()))
    }

    fn pull_commits(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Pulls, ForgeAccess::Read)?;
        let pull = Self::pull(found, number)?.pull.as_ref().ok_or_else(not_found)?;
        let commits = found.git.commits(&format!("{}..{}", pull.base, pull.head), 250);
        Ok(self.api.page(commits.iter().map(|commit| self.commit_json(found, commit)).collect()))
    }

    /// Comments of an item, which Gitea does not split into pages, or of all items, which it does.
    fn list_comments(&mut self, repo: &str, number: Option<&str>) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
        let item = number.map(|number| Self::item(found, number)).transpose()?.map(|item| item.number);
        let since = self.api.parameter("since");
        let rows = found.comments.iter().filter(|one| one.place.is_none() && item.is_none_or(|item| one.item == item));
        let rows = rows.filter(|one| since.is_none_or(|time| one.updated.as_str() >= time));
        let rows: Vec<Value> = rows.map(|comment| self.comment_json(found, comment)).collect();
        Ok(if number.is_some() { ApiAnswer::ok(Value::Array(rows)) } else { self.api.page(rows) })
    }

    /// Comments are entries, too.
    fn list_timeline(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
        let item = Self::item(found, number)?.number;
        let comments = found.comments.iter().filter(|one| one.place.is_none() && one.item == item);
        let mut rows: Vec<Value> = comments.map(|comment| self.comment_json(found, comment)).collect();
        for row in rows.iter_mut().filter_map(Value::as_object_mut) {
            row.retain(|name, _| !matches!(name.as_str(), "assets" | "original_author" | "original_author_id"));
            row.insert("type".to_owned(), "comment".into());
        }
        let events = found.label_events.iter().filter(|event| event.item == item);
        rows.extend(events.map(|event| self.timeline_json(found, event)));
        Ok(self.api.page(rows))
    }

    fn create_comment(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Write)?;
        let item = Self::item(found, number)?.number;
        let (body, author) = (self.required("body")?, self.api.login().to_owned());
        let id = self.state.add_comment(repo, NewComment { item, author, body, ..NewComment::default() });
        let found = self.found(repo);
        let comment = found.comments.iter().find(|comment| comment.id == id).ok_or_else(not_found)?;
        Ok(ApiAnswer::created(self.comment_json(found, comment)))
    }

    fn one_comment(&mut self, repo: &str, id: &str) -> ApiResult {
        let access = if self.api.method == "GET" { ForgeAccess::Read } else { ForgeAccess::Write };
        let found = self.check(repo, ForgeArea::Issues, access)?;
        let id = parse_number(id)?;
        let comment = found.comments.iter().find(|one| one.id == id).ok_or_else(not_found)?;
        if access == ForgeAccess::Write && comment.author != self.api.login() && !found.may_write(self.api.login()) {
            return Err(error(403, "user should have a permission to write to a repo"));
        }
        if self.api.method == "DELETE" {
            self.found_mut(repo).comments.retain(|one| one.id != id);
            return Ok(ApiAnswer::empty());
        }
        if self.api.method == "PATCH" {
            let (body, now) = (self.required("body")?, self.state.next_time());
            let comment = self.found_mut(repo).comments.iter_mut().find(|one| one.id == id).ok_or_else(not_found)?;
            (comment.body, comment.updated) = (body, now);
        }
        let found = self.found(repo);
        let comment = found.comments.iter().find(|one| one.id == id).ok_or_else(not_found)?;
        Ok(ApiAnswer::ok(self.comment_json(found, comment)))
    }

    fn item_labels(&mut self, repo: &str, number: &str, rest: &[&str]) -> ApiResult {
        let method = self.api.method.clone();
        let found = if method == "GET" {
            self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?
        } else {
            self.check_push(repo, ForgeArea::Issues)?
        };
        let (number, names) = (Self::item(found, number)?.number, self.label_names(found).unwrap_or_default());
        let removed = match rest {
            [id] => {
                let id = parse_number(id)?;
                let label = found.labels.iter().find(|label| label.id == id).ok_or_else(not_found)?;
                Some(label.name.clone())
            }
            _ => None,
        };
        let item = self.found_mut(repo).items.get_mut(&number).ok_or_else(not_found)?;
        match (method.as_str(), removed) {
            ("DELETE", Some(name)) => item.labels.retain(|known| *known != name),
            ("PUT" | "DELETE", _) => item.labels.clear(),
            _ => {}
        }
        for name in &names {
            item.add_label(name);
        }
        if method == "DELETE" {
            return Ok(ApiAnswer::empty());
        }
        let found = self.found(repo);
        let item = found.items.get(&number).ok_or_else(not_found)?;
        Ok(ApiAnswer::ok(Value::Array(self.labels_json(found, item))))
    }

    fn repo_labels(&mut self, repo: &str, rest: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), rest) {
            ("GET", []) => {
                let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
                Ok(self.api.page(found.labels.iter().map(|label| self.label_json(found, label)).collect()))
            }
            ("POST", []) => {
                self.check_push(repo, ForgeArea::Issues)?;
                let (name, color) = (self.required("name")?, self.required("color")?);
                let text = self.api.text("description").map(str::to_owned);
                let label = self.found_mut(repo).add_label(&name);
                (label.color, label.text) = (color.trim_start_matches('#').to_owned(), text);
                let found = self.found(repo);
                let label = found.label(&name).ok_or_else(not_found)?;
                Ok(ApiAnswer::created(self.label_json(found, label)))
            }
            _ => Err(not_found()),
        }
    }
}

/// Items newest first, or as the query asks.
fn sorted<'r>(repo: &'r RepoState, sort: Option<&str>) -> Vec<&'r FakeItem> {
    let mut items: Vec<&FakeItem> = repo.items.values().rev().collect();
    match sort {
        Some("oldest") => items.reverse(),
        Some("recentupdate") => items.sort_by(|one, other| other.updated.cmp(&one.updated)),
        Some("leastupdate") => items.sort_by(|one, other| one.updated.cmp(&other.updated)),
        _ => {}
    }
    items
}
