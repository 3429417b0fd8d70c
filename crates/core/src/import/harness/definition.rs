//! `definitions/<loop>.yaml` of loop-harness, as written. [`super::HarnessLoop`] interprets it.

use crate::import::{check_name, place, read_tree};
use crate::spec::problem::{ProblemKind, quoted};
use crate::spec::reader::value::SpecValue;
use crate::spec::seed_cadence::{add_cadence, cadence_hint};
use crate::spec::tree::{YamlEntry, YamlValue};
use crate::spec::{SpecProblems, Triggers};
use crate::words::worded;
use std::collections::BTreeMap;

worded! {
    /// The output of a loop.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum HarnessOutput {
        /// A branch with a pull request.
        Pr = "pr",
        /// Files in the outbox about issues and pull requests.
        IssueComment = "issue-comment",
        /// A message.
        SlackMessage = "slack-message",
        /// A push to the default branch.
        Commit = "commit",
        /// Nothing external.
        LogOnly = "log-only",
    }
}

/// A definition with the keys that its file sets.
#[derive(Debug, Clone, PartialEq)]
pub struct HarnessDefinition {
    /// Its file.
    pub file: String,
    /// The name of the loop.
    pub name: String,
    /// The cadence as written; `None` if there is none.
    pub cadence: Option<String>,
    /// The trigger as written.
    pub trigger: Option<String>,
    /// The name of the skill file.
    pub skill: String,
    /// Whether it works in a worktree.
    pub worktree: Option<bool>,
    /// The output; `None` if the file does not set it.
    pub output: Option<HarnessOutput>,
    /// The path of the state file.
    pub state_file: Option<String>,
    /// Whether a second agent verifies.
    pub verify: Option<bool>,
    /// The time of one session.
    pub timeout_minutes: Option<u32>,
    /// How often an item is tried again.
    pub max_retries: Option<u32>,
    /// The tools of the agent, as written.
    pub allowed_tools: Vec<String>,
    /// Whether the orchestrator reports its runs to Slack.
    pub notify_slack: bool,
    /// Keys that loop-harness does not document.
    pub unknown: Vec<String>,
    places: BTreeMap<String, String>,
}

impl HarnessDefinition {
    /// Reads a definition. `stem` is the name of its file without the ending, which is also the default name of the
    /// loop and of its skill.
    ///
    /// # Errors
    /// Every problem of the file at once.
    pub fn read(file: &str, stem: &str, bytes: &[u8]) -> Result<Self, SpecProblems> {
        read_tree(file, bytes, |root| {
            let mut found = Self::new(file, stem);
            for (entry, at) in root.entries("a mapping with keys such as `name`, `cadence`, `skill`")? {
                found.places.insert(entry.key.clone(), place(file, at.node));
                found.set(entry, &at);
            }
            if !found.places.contains_key("name") {
                check_name(root, &found.name);
            }
            Some(found)
        })
    }

    fn new(file: &str, stem: &str) -> Self {
        Self {
            file: file.to_owned(),
            name: stem.to_owned(),
            cadence: None,
            trigger: None,
            skill: format!("{stem}.md"),
            worktree: None,
            output: None,
            state_file: None,
            verify: None,
            timeout_minutes: None,
            max_retries: None,
            allowed_tools: Vec::new(),
            notify_slack: false,
            unknown: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// The file and the line of a key; the file alone if the definition does not set it.
    #[must_use]
    pub fn place(&self, key: &str) -> &str {
        self.places.get(key).unwrap_or(&self.file)
    }

    /// Whether the file sets a key.
    #[must_use]
    pub fn sets(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    fn set(&mut self, entry: &YamlEntry, at: &SpecValue<'_>) {
        match entry.key.as_str() {
            "name" => {
                if let Some(name) = at.text() {
                    check_name(at, &name);
                    self.name = name;
                }
            }
            "cadence" => self.cadence = cadence(at),
            "trigger" => self.trigger = at.text(),
            "skill" => self.skill = skill(at).unwrap_or_default(),
            "worktree" => self.worktree = at.flag(),
            "output" => self.output = at.word(&HarnessOutput::ALL.map(|output| (output.word(), output))),
            "state_file" => self.state_file = at.text(),
            "verify" => self.verify = at.flag(),
            "timeout_minutes" => self.timeout_minutes = at.whole(1..=1440),
            "max_retries" => self.max_retries = at.whole(0..=100),
            "allowed_tools" => self.allowed_tools = tools(at).unwrap_or_default(),
            "notify_slack" => self.notify_slack = at.flag().unwrap_or_default(),
            key => self.unknown.push(key.to_owned()),
        }
    }
}

fn cadence(at: &SpecValue<'_>) -> Option<String> {
    let text = at.text()?;
    if add_cadence(&mut Triggers::default(), &text).is_none() {
        let what = format!("{} is not a cadence", quoted(&text));
        at.add_problem(ProblemKind::Value, what, Some(cadence_hint(&text)));
    }
    Some(text)
}

/// The name of a file in `skills/`: a path elsewhere would copy a file that is not a skill into the repository.
fn skill(at: &SpecValue<'_>) -> Option<String> {
    let text = at.text()?;
    let name = text.strip_prefix("skills/").unwrap_or(&text);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = name.ends_with(".md") && !name.starts_with(['.', '-']) && name.chars().all(is_plain);
    if is_name && name.len() <= 100 {
        return Some(name.to_owned());
    }
    let what = format!("{} is not the name of a skill file", quoted(&text));
    let hint = "the name of a file in skills/, of letters, digits, `-`, `_` and `.`, such as `my-loop.md`".to_owned();
    at.add_problem(ProblemKind::Value, what, Some(hint));
    None
}

/// `"Bash,Read"`, or a list. A comma inside parentheses belongs to the tool.
fn tools(at: &SpecValue<'_>) -> Option<Vec<String>> {
    if let YamlValue::List(_) = at.node.value {
        return at.text_list();
    }
    let (mut depth, mut tools) = (0_usize, vec![String::new()]);
    for c in at.text()?.chars() {
        match c {
            ',' if depth == 0 => tools.push(String::new()),
            c => {
                depth = match c {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                tools.last_mut().expect("the list starts with one").push(c);
            }
        }
    }
    Some(tools.iter().map(|tool| tool.trim().to_owned()).filter(|tool| !tool.is_empty()).collect())
}
