//! The rules of a valid spec beyond its types. The same rules apply to files and to specs built in code; each violation
//! has the path of the value, which leads to its position in a file.

mod gates;
mod goal;
pub(crate) mod outward;
mod paths;
mod roles;
mod triggers;
mod workflow;

use super::path::SpecPath;
use super::problem::{ProblemKind, quoted};
use super::{Ceilings, LoopSpec, UnreadText};
use crate::name::{LoopName, check_part_name};
pub(crate) use roles::agent_violations;

/// A violated rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RuleViolation {
    pub(crate) kind: ProblemKind,
    pub(crate) path: SpecPath,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

/// Collects violations.
#[derive(Default)]
struct Rules(Vec<RuleViolation>);

impl Rules {
    fn report(&mut self, path: SpecPath, what: impl Into<String>, hint: impl Into<Option<&'static str>>) {
        self.object_with(path, what, hint.into().map(str::to_owned));
    }

    fn object_with(&mut self, path: SpecPath, what: impl Into<String>, hint: Option<String>) {
        self.0.push(RuleViolation { kind: ProblemKind::Value, path, what: what.into(), hint });
    }

    fn missing(&mut self, path: SpecPath, what: &str, hint: &str) {
        let hint = Some(hint.to_owned());
        self.0.push(RuleViolation { kind: ProblemKind::Missing, path, what: what.to_owned(), hint });
    }

    /// Reports a value outside its range; a number that is not finite is outside every range.
    fn range<T: PartialOrd + std::fmt::Display>(&mut self, path: SpecPath, value: T, least: T, most: T) {
        if !(least <= value && value <= most) {
            let what = format!("`{path}` is {value}; it may be {least} to {most}");
            self.report(path, what, None);
        }
    }

    /// Reports an invalid name of a part.
    fn part_name(&mut self, path: SpecPath, name: &str) {
        if let Err(error) = check_part_name(name) {
            self.report(path, format!("{} is not a valid name: {error}", quoted(name)), None);
        }
    }

    /// Reports a command without words, or with an empty first word.
    fn command(&mut self, path: SpecPath, argv: &[String]) {
        if argv.first().is_none_or(|word| word.trim().is_empty()) {
            let what = format!("`{path}` has no command");
            self.report(path.clone(), what, "write a list of words, such as `[cargo, test]`");
        }
        if argv.iter().any(|word| word.contains('\0')) {
            self.report(path.clone(), format!("`{path}` has a NUL character"), None);
        }
    }
}

/// All violations of a spec, in no particular order.
pub(crate) fn violations(spec: &LoopSpec) -> Vec<RuleViolation> {
    let mut rules = Rules::default();
    identity(&mut rules, spec);
    unread(&mut rules, spec);
    triggers::check(&mut rules, &spec.on);
    roles::check(&mut rules, spec);
    budgets(&mut rules, spec);
    rubric(&mut rules, spec);
    gates::check(&mut rules, spec);
    goal::check(&mut rules, spec);
    workflow::check(&mut rules, spec);
    paths::check(&mut rules, spec);
    outward::check(&mut rules, spec);
    rules.0
}

/// Violations of globs outside a loop file.
pub(crate) fn glob_violations(path: &SpecPath, globs: &[String]) -> Vec<RuleViolation> {
    let mut rules = Rules::default();
    paths::globs(&mut rules, path, globs);
    rules.0
}

/// The path of the one prompt that every loop needs.
pub(crate) fn maker_prompt() -> SpecPath {
    SpecPath::root_key("prompts").key("maker")
}

const INTENT_MAX: usize = 400;

fn identity(rules: &mut Rules, spec: &LoopSpec) {
    if let Err(error) = LoopName::parse(&spec.name) {
        let what = format!("{} is not a valid name for a loop: {error}", quoted(&spec.name));
        rules.report(SpecPath::root_key("name"), what, None);
    }
    intent(rules, spec.intent.trim());
    if spec.prompts.maker.as_deref().is_none_or(|prompt| prompt.trim().is_empty()) {
        rules.missing(maker_prompt(), "the maker has no prompt", "write `prompts: { maker: … }`");
    }
    rules.range(SpecPath::root_key("attempts"), spec.attempts, 1, 10);
    rules.range(SpecPath::root_key("priority"), spec.priority, -1000, 1000);
}

fn intent(rules: &mut Rules, intent: &str) {
    let (path, count) = (SpecPath::root_key("intent"), intent.chars().count());
    if intent.is_empty() {
        rules.missing(path, "`intent` is empty", "say in one sentence what this loop is for");
    } else if intent.contains(['\n', '\r']) {
        rules.report(path, "`intent` has several lines", "one sentence; the details go into the prompts");
    } else if count > INTENT_MAX {
        let what = format!("`intent` has {count} characters; the most is {INTENT_MAX}");
        rules.report(path, what, "one sentence; the details go into the prompts");
    }
}

fn unread(rules: &mut Rules, spec: &LoopSpec) {
    for unread in &spec.unread {
        match unread {
            UnreadText::Cadence(text) => {
                let hint = Some(super::seed_cadence::cadence_hint(text));
                rules.object_with(SpecPath::root_key("on"), format!("{} is not a cadence", quoted(text)), hint);
            }
            UnreadText::ActionKind(text) => {
                let words = super::ActionKind::ALL.map(super::ActionKind::word);
                let hint = format!("one of {}", super::reader::value::listed(&words));
                let what = format!("{} is not an action kind", quoted(text));
                rules.object_with(SpecPath::root_key("output"), what, Some(hint));
            }
        }
    }
}

fn budgets(rules: &mut Rules, spec: &LoopSpec) {
    let budget = &spec.budget;
    for (scope, ceilings) in budget.scopes() {
        check_ceilings(rules, &SpecPath::root_key("budget").key(scope), ceilings);
    }
    if spec.on.batch() > 1 && !budget.item.allowance().is_none() {
        let what = "`budget.item` limits the cost of one item, and a round with several items cannot split its cost";
        let hint = "leave `budget.item` out and bound `budget.round`, or take one item a round: `batch: 1`";
        rules.report(SpecPath::root_key("budget").key("item"), what, hint);
    }
}

/// A ceiling of zero would stop every round before it starts; `pause` is the way to do that.
fn check_ceilings(rules: &mut Rules, path: &SpecPath, ceilings: &Ceilings) {
    let zero = [
        ("tokens", ceilings.tokens == Some(0)),
        ("usd", ceilings.usd.is_some_and(|usd| usd.0 == 0)),
        ("turns", ceilings.turns == Some(0)),
    ];
    for (key, _) in zero.into_iter().filter(|(_, zero)| *zero) {
        let what = format!("`{path}.{key}` is zero, so no round could start");
        rules.report(path.key(key), what, "give it a value, or leave the key out for the default");
    }
}

const DIMENSIONS_MAX: usize = 12;

fn rubric(rules: &mut Rules, spec: &LoopSpec) {
    let path = SpecPath::root_key("rubric");
    rules.range(path.key("threshold"), spec.rubric.threshold, 1.0, 5.0);
    rules.range(path.key("floor"), spec.rubric.floor, 1, 5);
    let dimensions = path.key("dimensions");
    if spec.rubric.dimensions.len() > DIMENSIONS_MAX {
        rules.report(dimensions.clone(), format!("`{dimensions}` has more than {DIMENSIONS_MAX} dimensions"), None);
    }
    for (name, meaning) in &spec.rubric.dimensions {
        rules.part_name(dimensions.key(name.clone()), name);
        if meaning.trim().is_empty() {
            let what = format!("dimension {} has no meaning", quoted(name));
            rules.report(dimensions.key(name.clone()), what, "say what is scored");
        }
    }
}
