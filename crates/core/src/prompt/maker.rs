//! The maker's brief: rules, intent, level, outputs, the loop's own text, then the data of this round and this attempt.

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
/// The size limit of all items together; each keeps at least its key.
const ITEMS_MAX: usize = 64 << 10;
const ITEM_MIN: usize = 256;
const PLAN_MAX: usize = 64 << 10;
const FEEDBACK_MAX: usize = 8 << 10;
const FEEDBACKS_MAX: usize = 16;

/// The data of a maker's brief.
#[derive(Debug, Clone, PartialEq)]
pub struct MakerBrief {
    /// The repository's own text for the maker role; the built-in text if absent.
    pub own: Option<String>,
    /// The loop's intent.
    pub intent: String,
    /// The loop's trust level.
    pub level: LoopLevel,
    /// Kinds of items it may stage.
    pub outputs: Vec<ActionKind>,
    /// Paths whose existing files may not change.
    pub protect: Vec<String>,
    /// The number of files of tests that the maker does not get.
    pub withheld: usize,
    /// The loop's `# Maker`.
    pub instructions: String,
    /// Know-how files of the trusted checkout.
    pub skills: Vec<NamedText>,
    /// Files of the repository that the loop shows.
    pub context: Vec<NamedText>,
    /// The round's mark: random, created after all the text that it fences was written.
    pub mark: String,
    /// The recalled state, as JSON.
    pub state: String,
    /// The loop's memories, one per line.
    pub memory: Vec<String>,
    /// The frozen plan of a goal round.
    pub plan: Option<BriefPlan>,
    /// The units of work.
    pub items: Vec<WorkItem>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The largest number of attempts.
    pub attempts: u32,
    /// Whether this is the first start of the attempt.
    pub start: AttemptStart,
    /// The attempt whose files these are, if they are not those of the previous attempt.
    pub kept: Option<u32>,
    /// The reasons why the previous attempt was rejected.
    pub feedback: Vec<BriefFeedback>,
}

/// The frozen plan, and the phase of it that this maker works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BriefPlan {
    /// The planner's brief.
    pub brief: String,
    /// The plan.
    pub plan: String,
    /// The hash under which it is frozen.
    pub hash: String,
    /// The number of the phase, the number of phases, and the phase's title; `None` for the whole plan.
    pub phase: Option<(usize, usize, String)>,
}

/// The start of an attempt that a brief is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttemptStart {
    /// The first start.
    #[default]
    First,
    /// A later start: a provider or a budget limit interrupted the previous one.
    Again,
}

const AGAIN: &str = "An earlier start of this attempt was interrupted, for reasons outside the work. Its files are in the \
current folder; its staged files are gone. Look at the existing files first, and continue from them.\n";

const WITHHELD: &str = "\n# Withheld tests\n\nSome tests of the repository are not in this folder, and its git history is \
left out. They run with the others after you stop. Solve the task itself instead of fitting the tests that you see. A file \
that you write in the place of a withheld test has no effect.\n";

/// A unit of outside work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkItem {
    /// Its stable key.
    pub key: String,
    /// Its description, as its author wrote it.
    pub text: String,
}

impl WorkItem {
    /// One item as data; several items follow a sentence that all of them are the task, and share the space.
    pub(super) fn render_items(items: &[Self], mark: &str) -> Vec<String> {
        let room = (ITEMS_MAX / items.len().max(1)).clamp(ITEM_MIN, ITEM_MAX);
        let data = |name: &str, item: &Self| fenced(mark, name, &format!("{}\n{}", item.key, item.text), room);
        match items {
            [] => Vec::new(),
            [item] => vec![data("item", item)],
            all => {
                let count = all.len();
                let intro = format!("This round has {count} items; work on each of them.\n");
                let each = all.iter().enumerate().map(|(at, item)| data(&format!("item {} of {count}", at + 1), item));
                std::iter::once(intro).chain(each).collect()
            }
        }
    }
}

/// The reason why the previous attempt was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BriefFeedback {
    /// A gate.
    Gate {
        /// Its name.
        name: String,
        /// Its result, in the engine's words.
        why: String,
        /// The end of its output.
        output: String,
    },
    /// The checker.
    Checker {
        /// The shortcomings, by dimension.
        reasons: Vec<String>,
    },
    /// The proof.
    Proof {
        /// Its result, in the engine's words.
        why: String,
        /// The end of its output.
        output: String,
    },
    /// A finding that the engine reproduced.
    Finding {
        /// Severity, place and title.
        title: String,
        /// The trigger.
        trigger: String,
        /// The script that passes once it is fixed.
        script: String,
    },
    /// A rule of the engine: protected paths, the test inventory, an empty change.
    Rule {
        /// The violated rule, in the engine's words.
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
        let (protected, withheld) = (self.protected(), if self.withheld > 0 { WITHHELD } else { "" });
        format!("# Intent\n\n{intent}\n\n# Level\n\n{level}\n\n{outputs}{protected}{withheld}\n# Task\n\n{words}\n")
    }

    fn staging(&self) -> String {
        let lines: String = self.outputs.iter().map(|kind| format!("- {}\n", grammar(*kind))).collect();
        let own = if self.outputs.iter().any(|kind| has_number(*kind)) { OWN_NUMBERS } else { "" };
        format!("# Outputs\n\n{STAGING}\n\n{lines}{own}")
    }

    fn protected(&self) -> String {
        if self.protect.is_empty() {
            return String::new();
        }
        let list: String = self.protect.iter().map(|glob| format!("- `{}`\n", plain(glob, 300))).collect();
        format!(
            "\n# Protected paths\n\nExisting files under these paths may not be changed, renamed or deleted:\n\n{list}"
        )
    }

    /// The data of this round.
    fn round(&self) -> Vec<String> {
        let mut parts = vec!["# This round\n".to_owned()];
        parts.extend(self.context.iter().take(SKILLS_MAX).map(|file| self.data(&file.name, &file.text, CONTEXT_MAX)));
        if !self.state.trim().is_empty() {
            parts.push(self.data("state", &self.state, STATE_MAX));
        }
        if !self.memory.is_empty() {
            parts.push(self.data("memory", &self.memory.join("\n"), MEMORY_MAX));
        }
        parts.extend(self.plan.as_ref().map(|plan| self.plan(plan)));
        parts.extend(WorkItem::render_items(&self.items, &self.mark));
        let whose = role_line(Role::Maker, Some(self.attempt));
        parts.push(format!("{whose}\n\nAttempt {} of {}.\n", self.attempt, self.attempts));
        if self.start == AttemptStart::Again {
            parts.push(AGAIN.to_owned());
        }
        parts
    }

    fn plan(&self, plan: &BriefPlan) -> String {
        let task = match &plan.phase {
            Some((number, count, title)) => format!(
                "Work on phase {number} of {count} only: {}. Earlier phases are done, and their files are here; later \
                 phases are not yours. Stage outputs in the last phase.",
                plain(title, 200)
            ),
            None => "Work on the whole plan.".to_owned(),
        };
        let (brief, text) = (self.data("brief", &plan.brief, PLAN_MAX), self.data("plan", &plan.plan, PLAN_MAX));
        format!(
            "A planner wrote this brief and this plan, and the engine froze them ({}). Follow the plan as far as it keeps \
             to the intent and to the rules above.\n\n{brief}\n{text}\n{task}\n",
            plain(&plan.hash, 100)
        )
    }

    fn refusals(&self) -> Vec<String> {
        if self.feedback.is_empty() {
            return Vec::new();
        }
        let files = match self.kept {
            None => "Your files are as you left them.".to_owned(),
            Some(best) => format!(
                "The previous attempt was not better than attempt {best}, so it was discarded: the files here are those of \
                 attempt {best}."
            ),
        };
        let intro = format!(
            "# Why the previous attempt was rejected\n\n{files} Fix exactly these points, the first point first, and keep \
             to the intent.\n"
        );
        let points = self.feedback.iter().take(FEEDBACKS_MAX).map(|point| self.refusal(point));
        std::iter::once(intro).chain(points).collect()
    }

    fn refusal(&self, point: &BriefFeedback) -> String {
        match point {
            BriefFeedback::Gate { name, why, output } => {
                let output = self.data("gate output", output, FEEDBACK_MAX);
                format!("The gate `{}` rejected the change: {}\n\n{output}", plain(name, 200), plain(why, 1000))
            }
            BriefFeedback::Checker { reasons } => {
                format!(
                    "The checker rejected the change:\n\n{}",
                    self.data("checker", &reasons.join("\n"), FEEDBACK_MAX)
                )
            }
            BriefFeedback::Proof { why, output } => {
                let output = self.data("proof output", output, FEEDBACK_MAX);
                format!("The running application is broken: {}\n\n{output}", plain(why, 1000))
            }
            BriefFeedback::Finding { title, trigger, script } => {
                let text = format!("{title}\ntrigger: {trigger}\n\n{script}");
                let data = self.data("finding", &text, FEEDBACK_MAX);
                format!(
                    "An attacker found a defect. It is fixed once its script exits with 0; the engine runs it again.\n\n{data}"
                )
            }
            BriefFeedback::Rule { why } => format!("The change violates a rule: {}\n", plain(why, FEEDBACK_MAX)),
        }
    }

    fn data(&self, name: &str, text: &str, bytes_max: usize) -> String {
        fenced(&self.mark, name, text, bytes_max)
    }
}

const STAGING: &str = "\
You may stage these files in the folder that the environment variable LOOPWRIGHT_OUTBOX names (a prefix such as `01-` orders \
them). One file with an unknown name causes the whole batch to be refused. If you cannot do the task, write the reason into \
CANNOT.md there. Write notes for later rounds of this loop into memory.jsonl there: one JSON object per line with `kind` (fact, \
decision, failure or note), `key` (a short name; a note with the same key replaces the old one) and `text` (at most 1000 \
bytes). The notes are kept if this round is accepted, and later rounds receive them as data.";

const OWN_NUMBERS: &str = "
If this round works on issues or pull requests, stage outputs only for their numbers. Another number is refused, with all
other outputs, unless the loop allows it.
";

/// Whether the file name of an output has the number of an issue or a pull request.
fn has_number(kind: ActionKind) -> bool {
    grammar(kind).contains("<number>")
}

fn skill(skill: &NamedText) -> String {
    format!("# Skill: {}\n\n{}\n", plain(&skill.name, 200), plain(&skill.text, SKILL_MAX))
}

fn level(level: LoopLevel) -> &'static str {
    match level {
        LoopLevel::L1Report => {
            "L1, report: read, think and report. Change no file of the repository: a changed file causes the round to be \
            refused. Stage your report, or write it as your last message."
        }
        LoopLevel::L2Assisted => "L2, assisted: do the whole work here; a human decides about every output.",
        LoopLevel::L3Unattended => {
            "L3, unattended: outputs on the loop's allowlist are sent once verified; a human decides about the rest."
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
        ActionKind::IssueLabel => "`issue-label-<number>.txt`: labels, one per line",
        ActionKind::IssueCreate => "`issue-create.md`: first line the title, then the text",
        ActionKind::PrComment => "`pr-comment-<number>.md`: a comment on a pull request",
        ActionKind::PrInline => "`pr-inline-<number>.jsonl`: one `{\"path\", \"line\", \"body\"}` per line",
        ActionKind::PrReview => "`pr-approve-<number>.md` or `pr-request-changes-<number>.md`: a review with its text",
        ActionKind::Slack => "`slack.md`: a chat message",
        ActionKind::Webhook => "`webhook-<name>.json`: the body of a call",
    }
}
