//! The maker's brief: rules, intent, level, outputs, the loop's own words, then what this round and this attempt bring.

use super::clean::{fenced, plain};
use super::texts::{BriefText, part};
use super::{NamedText, role_line};
use crate::level::LoopLevel;
use crate::spec::{ActionKind, Role};

const INTENT_MAX: usize = 4 << 10;
const LOOP_MAX: usize = 64 << 10;
const SKILL_MAX: usize = 32 << 10;
const SKILLS_MAX: usize = 16;
const CONTEXT_MAX: usize = 32 << 10;
const STATE_MAX: usize = 16 << 10;
const MEMORY_MAX: usize = 24 << 10;
const ITEM_MAX: usize = 16 << 10;
/// Of several items, all together, and each at the least: its key.
const ITEMS_MAX: usize = 64 << 10;
const ITEM_MIN: usize = 256;
const FEEDBACK_MAX: usize = 8 << 10;
const FEEDBACKS_MAX: usize = 16;

/// What a maker is told.
#[derive(Debug, Clone, PartialEq)]
pub struct MakerBrief {
    /// The repository's own words about a maker's part; the built-in ones when absent.
    pub own: Option<String>,
    /// The loop's intent.
    pub intent: String,
    /// How far the loop is trusted.
    pub level: LoopLevel,
    /// Kinds it may stage.
    pub outputs: Vec<ActionKind>,
    /// Paths whose existing files may not change.
    pub protect: Vec<String>,
    /// The loop's `# Maker`.
    pub instructions: String,
    /// Know-how files of the trusted checkout.
    pub skills: Vec<NamedText>,
    /// Files of the repository the loop wants shown.
    pub context: Vec<NamedText>,
    /// The round's mark: unguessable, made after everything that is fenced with it was written.
    pub mark: String,
    /// What was recalled, as JSON.
    pub state: String,
    /// What the loop remembers, a line each.
    pub memory: Vec<String>,
    /// The units of work.
    pub items: Vec<WorkItem>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub attempts: u32,
    /// Whether it is the first start of this attempt.
    pub start: AttemptStart,
    /// Why the attempt before was not good enough.
    pub feedback: Vec<BriefFeedback>,
}

/// Which start of an attempt a brief is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttemptStart {
    /// The first.
    #[default]
    First,
    /// A later one: a provider or a ceiling cut the one before short.
    Again,
}

const AGAIN: &str = "An earlier start of this attempt was cut short, for reasons outside the work. What it left is in the \
current folder, and what it staged is gone: look at what is there first, and go on from it.\n";

/// A unit of outside work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkItem {
    /// Its stable key.
    pub key: String,
    /// What it is about, as its author wrote it.
    pub text: String,
}

impl WorkItem {
    /// One item as data; several after a word that all of them are the task, each with its share of the room.
    pub(super) fn render_items(items: &[Self], mark: &str) -> Vec<String> {
        let room = (ITEMS_MAX / items.len().max(1)).clamp(ITEM_MIN, ITEM_MAX);
        let data = |name: &str, item: &Self| fenced(mark, name, &format!("{}\n{}", item.key, item.text), room);
        match items {
            [] => Vec::new(),
            [item] => vec![data("item", item)],
            all => {
                let count = all.len();
                let intro = format!("This round is about {count} items; each of them is to be dealt with.\n");
                let each = all.iter().enumerate().map(|(at, item)| data(&format!("item {} of {count}", at + 1), item));
                std::iter::once(intro).chain(each).collect()
            }
        }
    }
}

/// What said no to the attempt before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BriefFeedback {
    /// A gate.
    Gate {
        /// Its name.
        name: String,
        /// How it ended, in our words.
        why: String,
        /// The end of its output.
        output: String,
    },
    /// The checker.
    Checker {
        /// What fell short, by dimension.
        reasons: Vec<String>,
    },
    /// A rule of the engine: protected paths, the test inventory, an empty change.
    Rule {
        /// What was broken, in our words.
        why: String,
    },
}

impl MakerBrief {
    /// The brief as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut parts = part(BriefText::Maker, self.own.as_deref());
        parts.push(self.task());
        parts.extend(self.skills.iter().take(SKILLS_MAX).map(skill));
        parts.extend(self.round());
        parts.extend(self.refusals());
        parts.join("\n")
    }

    fn task(&self) -> String {
        let intent = plain(&self.intent, INTENT_MAX);
        let words = plain(&self.instructions, LOOP_MAX);
        let (level, outputs) = (level(self.level), self.staging());
        format!("# Intent\n\n{intent}\n\n# Level\n\n{level}\n\n{outputs}{}\n# Task\n\n{words}\n", self.protected())
    }

    fn staging(&self) -> String {
        let lines: String = self.outputs.iter().map(|kind| format!("- {}\n", grammar(*kind))).collect();
        format!("# Outputs\n\n{STAGING}\n\n{lines}")
    }

    fn protected(&self) -> String {
        if self.protect.is_empty() {
            return String::new();
        }
        let list: String = self.protect.iter().map(|glob| format!("- `{}`\n", plain(glob, 300))).collect();
        format!("\n# Protected paths\n\nWhat exists there may not be changed, renamed or deleted:\n\n{list}")
    }

    /// What this round brings, all of it data.
    fn round(&self) -> Vec<String> {
        let mut parts = vec!["# This round\n".to_owned()];
        parts.extend(self.context.iter().take(SKILLS_MAX).map(|file| self.data(&file.name, &file.text, CONTEXT_MAX)));
        if !self.state.trim().is_empty() {
            parts.push(self.data("state", &self.state, STATE_MAX));
        }
        if !self.memory.is_empty() {
            parts.push(self.data("memory", &self.memory.join("\n"), MEMORY_MAX));
        }
        parts.extend(WorkItem::render_items(&self.items, &self.mark));
        let whose = role_line(Role::Maker, Some(self.attempt));
        parts.push(format!("{whose}\n\nAttempt {} of {}.\n", self.attempt, self.attempts));
        if self.start == AttemptStart::Again {
            parts.push(AGAIN.to_owned());
        }
        parts
    }

    fn refusals(&self) -> Vec<String> {
        if self.feedback.is_empty() {
            return Vec::new();
        }
        let intro = "# Why the attempt before was not good enough\n\nYour files are as you left them. Mend exactly this, \
            the first point first, and keep to the intent.\n";
        let points = self.feedback.iter().take(FEEDBACKS_MAX).map(|point| self.refusal(point));
        std::iter::once(intro.to_owned()).chain(points).collect()
    }

    fn refusal(&self, point: &BriefFeedback) -> String {
        match point {
            BriefFeedback::Gate { name, why, output } => {
                let output = self.data("gate output", output, FEEDBACK_MAX);
                format!("The gate `{}` said no: {}\n\n{output}", plain(name, 200), plain(why, 1000))
            }
            BriefFeedback::Checker { reasons } => {
                format!("The checker said no:\n\n{}", self.data("checker", &reasons.join("\n"), FEEDBACK_MAX))
            }
            BriefFeedback::Rule { why } => format!("A rule was broken: {}\n", plain(why, FEEDBACK_MAX)),
        }
    }

    fn data(&self, name: &str, text: &str, bytes_max: usize) -> String {
        fenced(&self.mark, name, text, bytes_max)
    }
}

const STAGING: &str = "\
You may stage these files in the folder that the environment variable LOOPWRIGHT_OUTBOX names (a prefix such as `01-` orders \
them). One file with an unknown name makes the whole batch refused. When you cannot do the task, write why into CANNOT.md there. \
What later rounds of this loop should know may go into memory.jsonl there, a JSON object a line with `kind` (fact, decision, \
failure or note), `key` (a short name; the same one replaces) and `text` (at most 1000 bytes): it is kept if this round is \
accepted, and shown to them as data.";

fn skill(skill: &NamedText) -> String {
    format!("# Skill: {}\n\n{}\n", plain(&skill.name, 200), plain(&skill.text, SKILL_MAX))
}

fn level(level: LoopLevel) -> &'static str {
    match level {
        LoopLevel::L1Report => {
            "L1, report: read, think and report. Change no file of the repository: a changed one makes the round refused. \
            Stage your report, or end with it as your last words."
        }
        LoopLevel::L2Assisted => {
            "L2, assisted: do the whole work here; a human decides about everything that would leave."
        }
        LoopLevel::L3Unattended => {
            "L3, unattended: what the loop's allowlist names may leave once it is verified; a human decides about the rest."
        }
    }
}

fn grammar(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Report => "`report.md`: the report",
        ActionKind::PullRequest => {
            "`pull-request.md`: first line the title, then the text; your changed files go with it"
        }
        ActionKind::Commit => "`commit.md`: the message of a commit of your changed files",
        ActionKind::IssueComment => "`issue-comment-<number>.md`: a comment on an issue",
        ActionKind::IssueLabel => "`issue-label-<number>.txt`: labels, one a line",
        ActionKind::IssueCreate => "`issue-create.md`: first line the title, then the text",
        ActionKind::PrComment => "`pr-comment-<number>.md`: a comment on a pull request",
        ActionKind::PrInline => "`pr-inline-<number>.jsonl`: one `{\"path\", \"line\", \"body\"}` a line",
        ActionKind::PrReview => "`pr-approve-<number>.md` or `pr-request-changes-<number>.md`: a review with its text",
        ActionKind::Slack => "`slack.md`: a chat message",
        ActionKind::Webhook => "`webhook-<name>.json`: the body of a call",
    }
}
