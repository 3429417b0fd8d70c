//! GitHub's issues with their comments and labels. A pull request is also an issue here, as on GitHub.

use super::pulls::change_item;
use super::{GitHubCall, check_length, error, invalid, not_found, parse_number};
use crate::fake_forge::access::{ForgeAccess, ForgeArea};
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use crate::fake_forge::state::{FakeItem, NewComment, NewItem, RepoState};
use serde_json::{Value, json};

impl GitHubCall<'_> {
    /// Routes below `/repos/{owner}/{repo}` for issues, labels and assignees.
    pub(super) fn route_issues(&mut self, repo: &str, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["issues"]) => self.list_issues(repo),
            ("POST", ["issues"]) => self.create_issue(repo),
            ("GET", ["issues", "comments"]) => self.list_all_comments(repo),
            (_, ["issues", "comments", id]) => self.one_comment(repo, id),
            ("GET", ["issues", number]) => self.get_issue(repo, number),
            ("PATCH", ["issues", number]) => self.update_issue(repo, number),
            ("GET", ["issues", number, "comments"]) => self.list_comments(repo, number),
            ("POST", ["issues", number, "comments"]) => self.create_comment(repo, number),
            ("GET", ["issues", number, "events"]) => self.list_events(repo, number),
            (_, ["issues", number, "labels", rest @ ..]) => self.item_labels(repo, number, rest),
            (_, ["issues", number, "assignees"]) => self.item_assignees(repo, number),
            (_, ["labels", rest @ ..]) => self.repo_labels(repo, rest),
            ("GET", ["assignees"]) => self.list_assignees(repo),
            _ => Err(not_found()),
        }
    }

    fn item<'r>(repo: &'r RepoState, number: &str) -> Result<&'r FakeItem, ApiAnswer> {
        repo.items.get(&parse_number(number)?).ok_or_else(not_found)
    }

    /// The right for an item: a pull request's comments and labels need the right to issues or to pull requests.
    fn check_item(&self, repo: &str, number: &str, access: ForgeAccess) -> Result<&RepoState, ApiAnswer> {
        let is_pull =
            self.state.repo(repo).and_then(|repo| Self::item(repo, number).ok()).is_some_and(|i| i.pull.is_some());
        let checked = self.check(repo, ForgeArea::Issues, access);
        if is_pull && checked.is_err() { self.check(repo, ForgeArea::Pulls, access) } else { checked }
    }

    fn list_issues(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
        let mut items: Vec<&FakeItem> = found.items.values().filter(|item| self.wants(item)).collect();
        if self.api.parameter("sort") == Some("updated") {
            items.sort_by(|one, other| one.updated.cmp(&other.updated));
        }
        if self.api.parameter("direction").unwrap_or("desc") == "desc" {
            items.reverse();
        }
        Ok(self.api.page(items.into_iter().map(|item| self.issue_json(found, item)).collect()))
    }

    /// The filters of the list.
    fn wants(&self, item: &FakeItem) -> bool {
        let text = |name: &str| self.api.parameter(name);
        let state = match text("state").unwrap_or("open") {
            "all" => true,
            "closed" => !item.open,
            _ => item.open,
        };
        let mut labels = text("labels").unwrap_or_default().split(',').filter(|label| !label.is_empty());
        let assignee = match text("assignee") {
            None | Some("*") => true,
            Some("none") => item.assignees.is_empty(),
            Some(login) => item.assignees.iter().any(|known| known == login),
        };
        let body = item.body.as_deref().unwrap_or_default();
        state
            && assignee
            && labels.all(|label| item.labels.iter().any(|known| known.eq_ignore_ascii_case(label)))
            && text("creator").is_none_or(|login| item.author == login)
            && text("mentioned").is_none_or(|login| body.contains(&format!("@{login}")))
            && text("since").is_none_or(|time| item.updated.as_str() >= time)
    }

    fn create_issue(&mut self, repo: &str) -> ApiResult {
        let may_push = self.check(repo, ForgeArea::Issues, ForgeAccess::Write)?.may_write(self.api.login());
        let title = self.body_text("Issue", "title")?;
        let body = self.api.text("body").map(str::to_owned);
        check_length("Issue", "body", body.as_deref().unwrap_or_default())?;
        // GitHub drops these silently when the account may not push.
        let list = |name: &str| self.api.texts(name).filter(|_| may_push).unwrap_or_default();
        let (labels, assignees) = (list("labels"), list("assignees"));
        let author = self.api.login().to_owned();
        let number = self.state.add_item(repo, NewItem { title, body, author, labels, assignees, pull: None });
        let found = self.found(repo);
        let item = Self::item(found, &number.to_string())?;
        Ok(ApiAnswer::created(self.issue_json(found, item)))
    }

    fn get_issue(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_item(repo, number, ForgeAccess::Read)?;
        Ok(ApiAnswer::ok(self.issue_json(found, Self::item(found, number)?)))
    }

    fn update_issue(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_item(repo, number, ForgeAccess::Write)?;
        let item = Self::item(found, number)?;
        if !found.may_write(self.api.login()) && item.author != self.api.login() {
            return Err(error(403, "Must have admin rights to Repository."));
        }
        let number = item.number;
        check_length("Issue", "body", self.api.text("body").unwrap_or_default())?;
        let (now, login, body) = (self.state.next_time(), self.api.login().to_owned(), self.api.body.clone());
        let (labels, assignees) = (self.api.texts("labels"), self.api.texts("assignees"));
        let found = self.found_mut(repo);
        for label in labels.iter().flatten() {
            found.add_label(label);
        }
        let item = found.items.get_mut(&number).ok_or_else(not_found)?;
        change_item(item, &body, &login, &now);
        item.labels = labels.unwrap_or(std::mem::take(&mut item.labels));
        item.assignees = assignees.unwrap_or(std::mem::take(&mut item.assignees));
        self.get_issue(repo, &number.to_string())
    }

    fn list_comments(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_item(repo, number, ForgeAccess::Read)?;
        let item = Self::item(found, number)?.number;
        let since = self.api.parameter("since");
        let mine = found.comments.iter().filter(|one| one.item == item && one.place.is_none());
        let mine = mine.filter(|one| since.is_none_or(|time| one.updated.as_str() >= time));
        Ok(self.api.page(mine.map(|comment| self.comment_json(found, comment)).collect()))
    }

    fn list_all_comments(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
        let since = self.api.parameter("since");
        let all = found.comments.iter().filter(|one| one.place.is_none());
        let all = all.filter(|one| since.is_none_or(|time| one.updated.as_str() >= time));
        Ok(self.api.page(all.map(|comment| self.comment_json(found, comment)).collect()))
    }

    fn list_events(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_item(repo, number, ForgeAccess::Read)?;
        let item = Self::item(found, number)?.number;
        let events = found.label_events.iter().filter(|event| event.item == item);
        Ok(self.api.page(events.map(|event| self.event_json(found, event)).collect()))
    }

    fn create_comment(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_item(repo, number, ForgeAccess::Write)?;
        let item = Self::item(found, number)?.number;
        let body = self.body_text("IssueComment", "body")?;
        let author = self.api.login().to_owned();
        let id = self.state.add_comment(repo, NewComment { item, author, body, ..NewComment::default() });
        let found = self.found(repo);
        let comment = found.comments.iter().find(|comment| comment.id == id).ok_or_else(not_found)?;
        Ok(ApiAnswer::created(self.comment_json(found, comment)))
    }

    fn one_comment(&mut self, repo: &str, id: &str) -> ApiResult {
        let access = if self.api.method == "GET" { ForgeAccess::Read } else { ForgeAccess::Write };
        let id = parse_number(id)?;
        let item =
            self.state.repo(repo).and_then(|repo| repo.comments.iter().find(|one| one.id == id)).map(|one| one.item);
        let found = self.check_item(repo, &item.unwrap_or_default().to_string(), access)?;
        let comment = found.comments.iter().find(|one| one.id == id && one.place.is_none()).ok_or_else(not_found)?;
        if access == ForgeAccess::Write && comment.author != self.api.login() && !found.may_write(self.api.login()) {
            return Err(error(403, "Must have admin rights to Repository."));
        }
        match self.api.method.as_str() {
            "GET" => return Ok(ApiAnswer::ok(self.comment_json(found, comment))),
            "DELETE" => {
                self.found_mut(repo).comments.retain(|one| one.id != id);
                return Ok(ApiAnswer::empty());
            }
            "PATCH" => {}
            _ => return Err(not_found()),
        }
        let (body, now) = (self.body_text("IssueComment", "body")?, self.state.next_time());
        let comment = self.found_mut(repo).comments.iter_mut().find(|one| one.id == id).ok_or_else(not_found)?;
        (comment.body, comment.updated) = (body, now);
        let found = self.found(repo);
        let comment = found.comments.iter().find(|one| one.id == id).ok_or_else(not_found)?;
        Ok(ApiAnswer::ok(self.comment_json(found, comment)))
    }

    /// Labels of an item. GitHub creates a label that the repository does not have.
    fn item_labels(&mut self, repo: &str, number: &str, rest: &[&str]) -> ApiResult {
        let access = if self.api.method == "GET" { ForgeAccess::Read } else { ForgeAccess::Write };
        let found = self.check_item(repo, number, access)?;
        let item = Self::item(found, number)?;
        if access == ForgeAccess::Write && !found.may_write(self.api.login()) {
            return Err(error(403, "Must have triage access to repository"));
        }
        let number = item.number;
        // The body is an object with a list, or the list itself.
        let list =
            self.api.body.as_array().map(|rows| rows.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        let names: Vec<String> = self.api.texts("labels").or(list).unwrap_or_default();
        let has = |name: &str| item.labels.iter().any(|known| known.eq_ignore_ascii_case(name));
        match (self.api.method.as_str(), rest) {
            ("DELETE", [name]) if !has(name) => return Err(error(404, "Label does not exist")),
            ("GET" | "POST" | "PUT" | "DELETE", []) | ("DELETE", [_]) => {}
            _ => return Err(not_found()),
        }
        let method = self.api.method.clone();
        let found = self.found_mut(repo);
        for name in &names {
            found.add_label(name);
        }
        let item = found.items.get_mut(&number).ok_or_else(not_found)?;
        match (method.as_str(), rest) {
            ("DELETE", [name]) => item.labels.retain(|known| !known.eq_ignore_ascii_case(name)),
            ("PUT" | "DELETE", _) => item.labels.clear(),
            _ => {}
        }
        for name in &names {
            item.add_label(name);
        }
        let found = self.found(repo);
        let labels = self.labels_json(found, Self::item(found, &number.to_string())?);
        match (method.as_str(), rest) {
            ("GET", _) => Ok(self.api.page(labels)),
            ("DELETE", []) => Ok(ApiAnswer::empty()),
            _ => Ok(ApiAnswer::ok(Value::Array(labels))),
        }
    }

    fn item_assignees(&mut self, repo: &str, number: &str) -> ApiResult {
        let found = self.check_item(repo, number, ForgeAccess::Write)?;
        let number = Self::item(found, number)?.number;
        let names = self.api.texts("assignees").unwrap_or_default();
        let (adds, found) = (self.api.method == "POST", self.found_mut(repo));
        // GitHub ignores accounts without access silently.
        let names: Vec<String> = names.into_iter().filter(|name| !adds || found.may_write(name)).collect();
        let item = found.items.get_mut(&number).ok_or_else(not_found)?;
        item.assignees.retain(|known| !names.contains(known));
        if adds {
            item.assignees.extend(names);
        }
        let answer = self.get_issue(repo, &number.to_string())?;
        Ok(ApiAnswer { status: if adds { 201 } else { 200 }, ..answer })
    }

    fn repo_labels(&mut self, repo: &str, rest: &[&str]) -> ApiResult {
        let reads = self.api.method == "GET";
        let found = if reads {
            self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?
        } else {
            self.check_push(repo, ForgeArea::Issues)?
        };
        match (self.api.method.as_str(), rest) {
            ("GET", []) => Ok(self.api.page(found.labels.iter().map(|label| self.label_json(found, label)).collect())),
            ("GET", [name]) => {
                let label = found.label(name).ok_or_else(not_found)?;
                Ok(ApiAnswer::ok(self.label_json(found, label)))
            }
            ("POST", []) => {
                let name = self.body_text("Label", "name")?;
                if found.label(&name).is_some() {
                    return Err(invalid("Label", "name", "already_exists", None));
                }
                let (color, text) = (self.api.text("color").map(str::to_owned), self.api.text("description"));
                let text = text.map(str::to_owned);
                let label = self.found_mut(repo).add_label(&name);
                (label.color, label.text) = (color.unwrap_or("ededed".to_owned()), text);
                let found = self.found(repo);
                let label = found.label(&name).ok_or_else(not_found)?;
                Ok(ApiAnswer::created(self.label_json(found, label)))
            }
            _ => Err(not_found()),
        }
    }

    fn list_assignees(&mut self, repo: &str) -> ApiResult {
        let found = self.check(repo, ForgeArea::Issues, ForgeAccess::Read)?;
        Ok(self.api.page(found.writers.iter().map(|login| self.user_json(login)).collect()))
    }

    /// A small part of GitHub's search: `repo:`, `is:`, `author:`, `label:`, and words of the title or the text.
    pub(super) fn search_issues(&mut self) -> ApiResult {
        let query = self.api.parameter("q").unwrap_or_default().to_owned();
        let terms: Vec<String> = split_terms(&query);
        let repo = terms.iter().find_map(|term| term.strip_prefix("repo:")).map(str::to_owned);
        let repo = repo.ok_or_else(|| invalid("Search", "q", "missing", None))?;
        let found = self.check(&repo, ForgeArea::Issues, ForgeAccess::Read)?;
        let items = found.items.values().filter(|item| terms.iter().all(|term| fits(item, term)));
        let rows = items.map(|item| {
            let mut row = self.issue_json(found, item);
            row["score"] = json!(1.0);
            row
        });
        let mut answer = self.api.page_in("items", rows.collect());
        answer.body["incomplete_results"] = json!(false);
        Ok(answer)
    }
}

/// Words of a search; quotation marks keep several together.
fn split_terms(query: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut is_quoted = false;
    for c in query.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => terms.push(String::new()),
            _ => terms.last_mut().expect("there is always a term").push(c),
        }
    }
    terms.retain(|term| !term.is_empty());
    terms
}

fn fits(item: &FakeItem, term: &str) -> bool {
    match term.split_once(':') {
        Some(("repo" | "in" | "sort", _)) => true,
        Some(("is" | "type" | "state", "pr")) => item.pull.is_some(),
        Some(("is" | "type", "issue")) => item.pull.is_none(),
        Some(("is" | "state", "open")) => item.open,
        Some(("is" | "state", "closed")) => !item.open,
        Some(("is", "merged")) => item.pull.as_ref().is_some_and(|pull| pull.merged.is_some()),
        Some(("author", login)) => item.author == login,
        Some(("label", name)) => item.labels.iter().any(|label| label == name),
        Some(("head", branch)) => item.pull.as_ref().is_some_and(|pull| pull.head_branch == branch),
        _ => {
            let text = format!("{} {}", item.title, item.body.as_deref().unwrap_or_default());
            text.to_lowercase().contains(&term.to_lowercase())
        }
    }
}
