//! The state of the fake forge: repositories with their items, accounts and tokens. It knows neither HTTP nor JSON.

use super::access::{FakeApp, FakeToken};
use super::faults::{FaultRule, RandomFaults};
use super::git::BareRepo;
use super::http::RawRequest;
use super::log::ForgeLogEntry;
pub(super) use super::rows::{
    FakeCheck, FakeCheckKind, FakeComment, FakeItem, FakeLabel, FakeLabelEvent, FakeMerge, FakePlace, FakePull,
    FakeReview, NewCheck, NewComment, NewItem, NewReview,
};
use std::collections::BTreeMap;

/// Everything that the forge stores.
#[derive(Debug, Default)]
pub(super) struct ForgeState {
    pub(super) tokens: BTreeMap<String, FakeToken>,
    pub(super) users: BTreeMap<String, u64>,
    pub(super) repos: BTreeMap<String, RepoState>,
    pub(super) apps: BTreeMap<u64, FakeApp>,
    pub(super) log: Vec<ForgeLogEntry>,
    pub(super) faults: Vec<FaultRule>,
    pub(super) random: Option<RandomFaults>,
    /// Requests that are performed later: after how many further requests, and the request.
    pub(super) late: Vec<(u64, RawRequest)>,
    /// The requests of each token since the start, for the headers of the rate limit.
    pub(super) used: BTreeMap<String, u64>,
    ids: u64,
    seconds: u64,
}

impl ForgeState {
    /// A number that nothing else on this forge has.
    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        1000 + self.ids
    }

    /// The forge's time, one second later at every call, so that a run is the same every time.
    pub(super) fn next_time(&mut self) -> String {
        self.seconds += 1;
        let (day, rest) = (self.seconds / 86_400, self.seconds % 86_400);
        format!("2026-01-{:02}T{:02}:{:02}:{:02}Z", day % 28 + 1, rest / 3600, rest / 60 % 60, rest % 60)
    }

    /// The number of an account, which is created if it does not exist.
    pub(super) fn user_id(&mut self, login: &str) -> u64 {
        if let Some(id) = self.users.get(login) {
            return *id;
        }
        let id = self.next_id();
        self.users.insert(login.to_owned(), id);
        id
    }

    /// The repository `owner/name`, ignoring case as forges do.
    pub(super) fn repo(&self, full_name: &str) -> Option<&RepoState> {
        self.repos.get(&full_name.to_lowercase())
    }

    pub(super) fn repo_mut(&mut self, full_name: &str) -> Option<&mut RepoState> {
        self.repos.get_mut(&full_name.to_lowercase())
    }

    /// Records the changes of labels since the last call as events of one account.
    pub(super) fn note_labels(&mut self, actor: Option<&str>) {
        let names: Vec<String> = self.repos.keys().cloned().collect();
        for name in names {
            let changes = self.repos.get(&name).map(RepoState::label_changes).unwrap_or_default();
            for (item, label, is_added) in changes {
                let (id, at) = (self.next_id(), self.next_time());
                actor.map(|actor| self.user_id(actor));
                let event = FakeLabelEvent { id, item, actor: actor.map(str::to_owned), label, is_added, at };
                if let Some(repo) = self.repos.get_mut(&name) {
                    repo.label_events.push(event);
                }
            }
            if let Some(repo) = self.repos.get_mut(&name) {
                repo.noted_labels = repo.items.iter().map(|(number, item)| (*number, item.labels.clone())).collect();
            }
        }
    }

    /// Adds an issue or a pull request and returns its number.
    pub(super) fn add_item(&mut self, repo: &str, draft: NewItem) -> u64 {
        let (id, now) = (self.next_id(), self.next_time());
        self.user_id(&draft.author);
        let target = self.repo_mut(repo).expect("the caller has checked the repository");
        target.numbers += 1;
        let number = target.numbers;
        for label in &draft.labels {
            target.add_label(label);
        }
        let item = FakeItem {
            number,
            id,
            title: draft.title,
            body: draft.body,
            author: draft.author,
            open: true,
            labels: draft.labels,
            assignees: draft.assignees,
            created: now.clone(),
            updated: now,
            closed: None,
            closed_by: None,
            pull: draft.pull,
        };
        target.items.insert(number, item);
        target.publish_heads();
        number
    }

    /// Adds a comment below an item and returns its id.
    pub(super) fn add_comment(&mut self, repo: &str, draft: NewComment) -> u64 {
        let (id, now) = (self.next_id(), self.next_time());
        self.user_id(&draft.author);
        let target = self.repo_mut(repo).expect("the caller has checked the repository");
        if let Some(item) = target.items.get_mut(&draft.item) {
            item.updated.clone_from(&now);
        }
        target.comments.push(FakeComment {
            id,
            item: draft.item,
            author: draft.author,
            body: draft.body,
            created: now.clone(),
            updated: now,
            place: draft.place,
            review: draft.review,
            thread: draft.thread.unwrap_or(id),
            resolved: false,
        });
        id
    }

    /// Adds a review and returns its id.
    pub(super) fn add_review(&mut self, repo: &str, item: u64, review: NewReview) -> u64 {
        let (id, now) = (self.next_id(), self.next_time());
        self.user_id(&review.author);
        let target = self.repo_mut(repo).expect("the caller has checked the repository");
        let NewReview { author, state, body, commit } = review;
        if let Some(pull) = target.items.get_mut(&item).and_then(|item| item.pull.as_mut()) {
            pull.reviewers.retain(|login| *login != author);
        }
        target.reviews.push(FakeReview { id, item, author, state, body, commit, submitted: now });
        id
    }

    /// Adds the result of a build server, or replaces the status with the same name.
    pub(super) fn add_check(&mut self, repo: &str, check: NewCheck) -> u64 {
        let (id, now) = (self.next_id(), self.next_time());
        let target = self.repo_mut(repo).expect("the caller has checked the repository");
        let NewCheck { name, head, kind, status, conclusion, title, text, url, author } = check;
        let row = FakeCheck {
            id,
            name,
            head,
            kind,
            status,
            conclusion,
            title,
            text,
            url,
            author,
            created: now.clone(),
            updated: now,
        };
        target.checks.push(row);
        id
    }
}

/// A repository.
#[derive(Debug)]
pub(super) struct RepoState {
    pub(super) id: u64,
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) private: bool,
    pub(super) archived: bool,
    pub(super) default_branch: String,
    pub(super) git: BareRepo,
    /// Branches without `refs/heads/`, as they were after the last push.
    pub(super) branches: BTreeMap<String, String>,
    pub(super) protected: Vec<String>,
    /// Accounts with write access; the others only read.
    pub(super) writers: Vec<String>,
    pub(super) items: BTreeMap<u64, FakeItem>,
    pub(super) comments: Vec<FakeComment>,
    pub(super) reviews: Vec<FakeReview>,
    pub(super) checks: Vec<FakeCheck>,
    pub(super) labels: Vec<FakeLabel>,
    pub(super) label_events: Vec<FakeLabelEvent>,
    /// The labels of each item when its last event was recorded.
    noted_labels: BTreeMap<u64, Vec<String>>,
    pub(super) created: String,
    numbers: u64,
    label_ids: u64,
}

impl RepoState {
    /// A repository without items.
    pub(super) fn new(id: u64, full_name: &str, git: BareRepo, created: String) -> Self {
        let (owner, name) = full_name.split_once('/').expect("a repository is named `owner/name`");
        let mut repo = Self {
            id,
            owner: owner.to_owned(),
            name: name.to_owned(),
            private: false,
            archived: false,
            default_branch: "main".to_owned(),
            git,
            branches: BTreeMap::new(),
            protected: Vec::new(),
            writers: vec![owner.to_owned()],
            items: BTreeMap::new(),
            comments: Vec::new(),
            reviews: Vec::new(),
            checks: Vec::new(),
            labels: Vec::new(),
            label_events: Vec::new(),
            noted_labels: BTreeMap::new(),
            created,
            numbers: 0,
            label_ids: 0,
        };
        repo.refresh();
        repo
    }

    /// The labels that were added to or removed from items since the last event.
    fn label_changes(&self) -> Vec<(u64, String, bool)> {
        let none = Vec::new();
        let mut changes = Vec::new();
        for (number, item) in &self.items {
            let before = self.noted_labels.get(number).unwrap_or(&none);
            let added = item.labels.iter().filter(|label| !before.contains(label));
            changes.extend(added.map(|label| (*number, label.clone(), true)));
            let removed = before.iter().filter(|label| !item.labels.contains(label));
            changes.extend(removed.map(|label| (*number, label.clone(), false)));
        }
        changes
    }

    /// `owner/name`.
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Reads the branches again. Open pull requests follow their branches; they close with them, and they are merged
    /// when their commits arrive in the base branch.
    pub(super) fn refresh(&mut self) {
        let before = std::mem::replace(&mut self.branches, self.git.branches());
        for item in self.items.values_mut().filter(|item| item.open) {
            let (author, time) = (item.author.clone(), item.updated.clone());
            let Some(pull) = item.pull.as_mut() else { continue };
            let base = self.branches.get(&pull.base_branch);
            let has_moved = base.is_some() && base != before.get(&pull.base_branch);
            match self.branches.get(&pull.head_branch) {
                Some(head) => pull.head.clone_from(head),
                None => item.close(&author, &time),
            }
            let Some((pull, base)) = item.pull.as_mut().zip(base.filter(|_| has_moved)) else { continue };
            if pull.head != pull.base && self.git.merge_base(base, &pull.head).as_ref() == Some(&pull.head) {
                pull.merged = Some(FakeMerge { at: time.clone(), by: author.clone(), commit: base.clone() });
                item.close(&author, &time);
            }
        }
        self.publish_heads();
    }

    /// Keeps `refs/pull/N/head` at the head of each pull request, also after its branch is deleted.
    fn publish_heads(&self) {
        let heads = self.items.values().filter_map(|item| Some((item.number, item.pull.as_ref()?)));
        let rows: Vec<(String, String)> =
            heads.map(|(number, pull)| (format!("refs/pull/{number}/head"), pull.head.clone())).collect();
        self.git.set_refs(&rows);
    }

    /// The open pull request of a branch into another.
    pub(super) fn open_pull(&self, head: &str, base: &str) -> Option<&FakeItem> {
        self.items
            .values()
            .filter(|item| item.open)
            .find(|item| item.pull.as_ref().is_some_and(|pull| pull.head_branch == head && pull.base_branch == base))
    }

    /// Creates a label unless it exists.
    pub(super) fn add_label(&mut self, name: &str) -> &mut FakeLabel {
        if let Some(at) = self.labels.iter().position(|label| label.name.eq_ignore_ascii_case(name)) {
            return &mut self.labels[at];
        }
        self.label_ids += 1;
        let id = self.id * 1000 + self.label_ids;
        self.labels.push(FakeLabel { id, name: name.to_owned(), color: "ededed".to_owned(), text: None });
        self.labels.last_mut().expect("a label was just added")
    }

    pub(super) fn label(&self, name: &str) -> Option<&FakeLabel> {
        self.labels.iter().find(|label| label.name.eq_ignore_ascii_case(name))
    }

    /// The commit of a branch, a tag, a pull request's ref or a full hash.
    pub(super) fn resolve(&self, name: &str) -> Option<String> {
        let short = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("heads/")).unwrap_or(name);
        self.branches.get(short).cloned().or_else(|| self.git.resolve(name))
    }

    pub(super) fn may_write(&self, login: &str) -> bool {
        self.writers.iter().any(|writer| writer == login)
    }
}
