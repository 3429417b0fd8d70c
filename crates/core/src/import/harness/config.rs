//! `config.yaml` of loop-harness: repositories with their loops, names of variables, limits, and defaults of
//! definitions. Its settings of the user become a part of the user's own configuration, which a person adds.

use crate::import::{ImportNotes, place, read_tree};
use crate::spec::SpecProblems;
use crate::spec::problem::ProblemKind;
use crate::spec::reader::value::SpecValue;
use crate::spec::source::SourceSpan;
use crate::spec::tree::{YamlEntry, YamlValue};
use crate::spec::write::yaml_word;

/// A repository with the loops that run in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarnessRepo {
    /// Its path; `~/` is the user's home.
    pub path: String,
    /// The names of its loops, each with its line.
    pub loops: Vec<(String, u32)>,
}

/// Values of definitions that do not set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HarnessDefaults {
    /// Whether a loop works in a worktree.
    pub worktree: bool,
    /// Whether a second agent verifies.
    pub verify: bool,
    /// How often an item is tried again.
    pub max_retries: u32,
    /// The time of one session.
    pub timeout_minutes: u32,
}

impl Default for HarnessDefaults {
    fn default() -> Self {
        Self { worktree: true, verify: true, max_retries: 2, timeout_minutes: 15 }
    }
}

/// The configuration of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarnessConfig {
    /// The repositories.
    pub repos: Vec<HarnessRepo>,
    /// The defaults of definitions.
    pub defaults: HarnessDefaults,
    /// How many sessions run at once.
    pub concurrency: Option<u32>,
    /// How many days logs are kept.
    pub log_retention_days: Option<u32>,
    /// The variable with the address of the Slack webhook.
    pub slack_webhook_env: String,
    /// The variable with the token for GitHub.
    pub github_token_env: String,
    /// The agent's program.
    pub claude_bin: String,
}

impl Default for HarnessConfig {
    fn default() -> Self {
        Self {
            repos: Vec::new(),
            defaults: HarnessDefaults::default(),
            concurrency: None,
            log_retention_days: None,
            slack_webhook_env: "LOOP_SLACK_WEBHOOK".to_owned(),
            github_token_env: "GITHUB_TOKEN".to_owned(),
            claude_bin: "claude".to_owned(),
        }
    }
}

impl HarnessConfig {
    /// Reads the file; each key gets a note.
    ///
    /// # Errors
    /// Every problem of the file at once.
    pub fn read(file: &str, bytes: &[u8], notes: &mut ImportNotes) -> Result<Self, SpecProblems> {
        read_tree(file, bytes, |root| {
            let mut config = Self::default();
            for (entry, at) in root.entries("a mapping with keys such as `repos`, `defaults`, `claude_bin`")? {
                config.set(entry, &at, &place(file, at.node), notes);
            }
            Some(config)
        })
    }

    fn set(&mut self, entry: &YamlEntry, at: &SpecValue<'_>, source: &str, notes: &mut ImportNotes) {
        let key = entry.key.as_str();
        match key {
            "repos" => self.repos = repos(at).unwrap_or_default(),
            "defaults" => defaults(&mut self.defaults, at, source, notes),
            "concurrency" => {
                self.concurrency = at.whole(1..=1000);
                notes.carried(source, key, "`concurrency` of your own configuration");
            }
            "log_retention_days" => {
                self.log_retention_days = at.whole(1..=36_500);
                notes.carried(source, key, "`log_retention_days` of your own configuration");
            }
            "scheduler_tick_seconds" => {
                let _: Option<u32> = at.whole(1..=86_400);
                let text = "the daemon does not poll: it wakes up when a loop is due";
                notes.changed(source, key, text);
            }
            "slack_webhook_env" => {
                variable(&mut self.slack_webhook_env, at);
                notes.carried(source, key, "`slack: { webhook_env }` of your own configuration");
            }
            "github_token_env" => {
                variable(&mut self.github_token_env, at);
                notes.changed(source, key, "`forges: { github: { token_env } }` of your own configuration; only the executor has the token, and no agent does");
            }
            "claude_bin" => {
                self.claude_bin = at.text().unwrap_or_else(|| "claude".to_owned());
                claude_bin(&self.claude_bin, source, notes);
            }
            key => notes.not_carried(source, key, "loop-harness documents no such key"),
        }
    }

    /// The part of the user's own configuration that has the same effect, for a person to add.
    #[must_use]
    pub fn user_settings(&self, repo: &HarnessRepo) -> String {
        let mut text = format!(
            "forges:\n  github: {{ token_env: {} }}\nslack: {{ webhook_env: {} }}\n",
            self.github_token_env, self.slack_webhook_env
        );
        for (key, number) in [("concurrency", self.concurrency), ("log_retention_days", self.log_retention_days)] {
            text.extend(number.map(|number| format!("{key}: {number}\n")));
        }
        let loops: Vec<String> = repo.loops.iter().map(|(name, _)| yaml_word(name)).collect();
        let loops = if loops.is_empty() { String::new() } else { format!(", loops: [{}]", loops.join(", ")) };
        text + &format!("repos:\n  - {{ path: {}{loops} }}\n", yaml_word(&repo.path))
    }
}

fn claude_bin(program: &str, source: &str, notes: &mut ImportNotes) {
    if program == "claude" {
        notes.carried(source, "claude_bin", "`agents.maker.use: claude`");
    } else {
        let text = format!(
            "loops use the `claude` that is first in PATH; put the folder of {program:?} first, or set `agents` in a loop file"
        );
        notes.changed(source, "claude_bin", text);
    }
}

fn repos(at: &SpecValue<'_>) -> Option<Vec<HarnessRepo>> {
    let blank = || HarnessRepo { path: String::new(), loops: Vec::new() };
    at.list("a list of `path` with `loops`", blank, |at| {
        let fields = at.fields("path loops")?;
        let path = fields.required("path", "~/projects/my-app", SpecValue::text);
        let loops = fields.option("loops", |at| match &at.node.value {
            YamlValue::List(items) => {
                let lines = items.iter().map(|item| item.place.line);
                Some(at.text_list()?.into_iter().zip(lines).collect())
            }
            _ => at.text().map(|name| vec![(name, at.node.place.line)]),
        });
        Some(HarnessRepo { path: path?, loops: loops.unwrap_or_default() })
    })
}

fn defaults(defaults: &mut HarnessDefaults, at: &SpecValue<'_>, source: &str, notes: &mut ImportNotes) {
    for (entry, at) in at.entries("a mapping with keys such as `verify`").unwrap_or_default() {
        let key = format!("defaults.{}", entry.key);
        match entry.key.as_str() {
            "worktree" => defaults.worktree = at.flag().unwrap_or(true),
            "verify" => defaults.verify = at.flag().unwrap_or(true),
            "max_retries" => defaults.max_retries = at.whole(0..=100).unwrap_or(2),
            "timeout_minutes" => defaults.timeout_minutes = at.whole(1..=1440).unwrap_or(15),
            _ => {
                notes.not_carried(source, &key, "loop-harness documents no such key");
                continue;
            }
        }
        notes.carried(source, &key, "used for every definition that does not set it");
    }
}

/// The name of a variable. A value that is not a name may be the secret itself, so the message does not show it.
fn variable(slot: &mut String, at: &SpecValue<'_>) {
    let Some(text) = at.text() else { return };
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.len() <= 100
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name {
        *slot = text;
        return;
    }
    let what = format!("`{}` on line {} is not the name of a variable", at.path, at.node.place.line);
    let hint = Some("name the variable that has the secret, never the secret itself".to_owned());
    at.findings.add(ProblemKind::Value, SourceSpan::default(), what, hint);
}
