//! The planner's brief: the rules of planning, the goal, the gates and the rubric that the work will be judged by.

use super::clean::{fenced, plain};
use super::maker::WorkItem;
use super::texts::{BriefText, VerdictChannel, part};
use super::{NamedText, role_line};
use crate::spec::Role;

const INTENT_MAX: usize = 4 << 10;
const LOOP_MAX: usize = 64 << 10;
const CONTEXT_MAX: usize = 32 << 10;
const CONTEXT_COUNT_MAX: usize = 16;

/// The data of a planner's brief.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannerBrief {
    /// The repository's own text for the planner role; the built-in text if absent.
    pub own: Option<String>,
    /// How the plan is returned.
    pub answer: VerdictChannel,
    /// The loop's intent.
    pub intent: String,
    /// The loop's `# Maker`: the task of the makers.
    pub task: String,
    /// The loop's `# Planner`.
    pub instructions: Option<String>,
    /// The gates, in one line each.
    pub gates: Vec<String>,
    /// Dimensions with their meanings.
    pub dimensions: Vec<(String, String)>,
    /// Paths whose existing files may not change.
    pub protect: Vec<String>,
    /// Files of the repository that the loop shows.
    pub context: Vec<NamedText>,
    /// The round's mark: random, created after all the text that it fences was written.
    pub mark: String,
    /// The units of work.
    pub items: Vec<WorkItem>,
    /// Why the last plan could not be used, if this is the second start.
    pub trouble: Option<String>,
}

impl PlannerBrief {
    /// The brief as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut parts = part(BriefText::Planner, self.own.as_deref());
        parts.extend([self.answer().to_owned(), self.goal(), self.judged_by()]);
        parts.push(format!("# This round\n\n{}\n", role_line(Role::Planner, None)));
        let context = self.context.iter().take(CONTEXT_COUNT_MAX);
        parts.extend(context.map(|file| fenced(&self.mark, &file.name, &file.text, CONTEXT_MAX)));
        parts.extend(WorkItem::render_items(&self.items, &self.mark));
        if let Some(trouble) = &self.trouble {
            parts.push(format!("Your last plan could not be used: {}\n", plain(trouble, 1000)));
        }
        parts.join("\n")
    }

    fn answer(&self) -> &'static str {
        match self.answer {
            VerdictChannel::File => {
                "# How to answer\n\nWrite `BRIEF.md` and `PLAN.md` into the folder that the environment variable \
                 LOOPWRIGHT_PLAN names.\n"
            }
            VerdictChannel::Message => {
                "# How to answer\n\nAnswer with one last message: a line `# BRIEF` and the brief below it, then a line \
                 `# PLAN` and the plan below it.\n"
            }
        }
    }

    fn goal(&self) -> String {
        let (intent, task) = (plain(&self.intent, INTENT_MAX), plain(&self.task, LOOP_MAX));
        let own = self
            .instructions
            .as_deref()
            .map_or(String::new(), |own| format!("\n# How to plan\n\n{}\n", plain(own, LOOP_MAX)));
        format!("# Intent\n\n{intent}\n\n# The makers' task\n\n{task}\n{own}")
    }

    fn judged_by(&self) -> String {
        let gates: String = self.gates.iter().map(|gate| format!("- {}\n", plain(gate, 500))).collect();
        let line = |(name, meaning): &(String, String)| format!("- `{}`: {}\n", plain(name, 200), plain(meaning, 2000));
        let rubric: String = self.dimensions.iter().map(line).collect();
        let protect: String = self.protect.iter().map(|glob| format!("- `{}`\n", plain(glob, 300))).collect();
        let block = |title: &str, lines: String| {
            if lines.is_empty() { String::new() } else { format!("# {title}\n\n{lines}\n") }
        };
        format!("{}{}{}", block("Gates", gates), block("Rubric", rubric), block("Protected paths", protect))
    }
}
