//! The smaller blocks of a loop file: agents, budget, rubric, outputs, prompts, prover and attack.

use super::value::{SpecFields, SpecValue};
use crate::attack::AttackRole;
use crate::spec::agents::agent_words;
use crate::spec::tree::YamlValue;
use crate::spec::{
    ActionKind, AgentSpec, AgentUse, ApprovalRule, Argv, AskPlace, AttackSpec, BudgetSpec, Ceilings, ItemJoin,
    LoopMode, OutputSpec, PlateauSpec, ProblemKind, ProofRequest, ProverSpec, Role, RolePrompts, Rubric, WorkflowSpec,
};
use std::collections::BTreeMap;

/// The agents of the roles.
pub(crate) fn agents(at: &SpecValue<'_>) -> Option<BTreeMap<Role, AgentSpec>> {
    let fields = at.fields(&Role::ALL.map(Role::word).join(" "))?;
    let read = |role: Role| Some((role, fields.option(role.word(), agent)?));
    Some(Role::ALL.into_iter().filter_map(read).collect())
}

fn agent(at: &SpecValue<'_>) -> Option<AgentSpec> {
    let words: Vec<(&str, &str)> = agent_words().into_iter().map(|word| (word, word)).collect();
    if let YamlValue::Text(_) = at.node.value {
        return at.word(&words).and_then(AgentSpec::named);
    }
    let fields = at.fields("use model provider tools mcp_servers run script fallback cost budget")?;
    let agent = fields.required("use", "claude", |at| at.word(&words));
    let mut spec = agent.and_then(AgentSpec::named).unwrap_or_else(|| AgentSpec::new(AgentUse::Claude));
    spec.model = fields.option("model", SpecValue::text);
    spec.provider = fields.option("provider", SpecValue::text);
    fields.set("tools", &mut spec.tools, SpecValue::texts);
    fields.set("mcp_servers", &mut spec.mcp_servers, SpecValue::texts);
    fields.set("run", &mut spec.run, SpecValue::argv);
    spec.script = fields.option("script", SpecValue::text);
    fields.set("fallback", &mut spec.fallback, SpecValue::texts);
    spec.cost = fields.option("cost", SpecValue::usd);
    if let Some(at) = fields.get("budget") {
        ceilings(&at, &mut spec.budget);
    }
    agent.map(|_| spec)
}

/// Ceilings; a scope that is not named keeps its default, and `none` lifts it.
pub(super) fn budget(at: &SpecValue<'_>) -> Option<BudgetSpec> {
    const SEED: [&str; 4] = ["max_input_tokens", "max_output_tokens", "max_total_tokens", "max_iters_per_round"];
    let fields = at.fields(&format!("round item day role attempt {}", SEED.join(" ")))?;
    let mut budget = BudgetSpec::default();
    let scopes = [
        ("role", &mut budget.role),
        ("attempt", &mut budget.attempt),
        ("round", &mut budget.round),
        ("item", &mut budget.item),
        ("day", &mut budget.day),
    ];
    for (key, scope) in scopes {
        if let Some(at) = fields.get(key) {
            ceilings(&at, scope);
        }
    }
    let [input, output, total, _] = SEED.map(|key| fields.get(key).and_then(|at| number_or_null(&at)));
    if let Some(tokens) = crate::spec::seed::total_tokens(input, output, total) {
        budget.round.tokens = Some(tokens);
    }
    fields.set(SEED[3], &mut budget.round.turns, |at| at.whole(1..=100_000).map(Some));
    Some(budget)
}

/// The seed writes absent ceilings as `null`.
fn number_or_null(at: &SpecValue<'_>) -> Option<u64> {
    if at.node.value == YamlValue::Null { None } else { at.tokens() }
}

fn ceilings(at: &SpecValue<'_>, scope: &mut Ceilings) {
    let Some(fields) = at.fields("tokens usd wall turns idle") else { return };
    ceiling(&fields, "tokens", &mut scope.tokens, SpecValue::tokens);
    ceiling(&fields, "usd", &mut scope.usd, SpecValue::usd);
    ceiling(&fields, "wall", &mut scope.wall, SpecValue::span);
    ceiling(&fields, "turns", &mut scope.turns, |at| at.whole(1..=100_000));
    ceiling(&fields, "idle", &mut scope.idle, SpecValue::span);
}

fn ceiling<'n, T>(
    fields: &SpecFields<'n>,
    key: &'static str,
    slot: &mut Option<T>,
    read: impl Fn(&SpecValue<'n>) -> Option<T>,
) {
    fields.set(key, slot, |at| match &at.node.value {
        YamlValue::Text(text) if text == "none" => Some(None),
        _ => read(at).map(Some),
    });
}

/// The checker's rubric.
pub(super) fn rubric(at: &SpecValue<'_>) -> Option<Rubric> {
    let fields = at.fields("threshold floor dimensions")?;
    let mut rubric = Rubric::default();
    fields.set("threshold", &mut rubric.threshold, SpecValue::number);
    fields.set("floor", &mut rubric.floor, |at| at.whole(1..=5));
    fields.set("dimensions", &mut rubric.dimensions, |at| {
        at.map_of("a mapping of dimension to its meaning", SpecValue::text)
    });
    Some(rubric)
}

/// The required approvals.
pub(super) fn approvals(at: &SpecValue<'_>) -> Option<ApprovalRule> {
    let fields = at.fields("quorum separate ask")?;
    let mut rule = ApprovalRule::default();
    fields.set("quorum", &mut rule.quorum, |at| at.whole(1..=100));
    fields.set("separate", &mut rule.separate, SpecValue::flag);
    fields.set("ask", &mut rule.ask, |at| {
        let places = AskPlace::ALL.map(|place| (place.word(), place));
        at.one_or_many("`slack`, `forge` or both", || AskPlace::Slack, |at| at.word(&places))
    });
    Some(rule)
}

/// One kind of outward action, also in the seed's words.
pub(super) fn kind(at: &SpecValue<'_>) -> Option<ActionKind> {
    if let YamlValue::Text(text) = &at.node.value
        && let Some(kind) = ActionKind::read(text)
    {
        return Some(kind);
    }
    at.word(&ActionKind::ALL.map(|kind| (kind.word(), kind)))
}

/// Kinds that may proceed at L3.
pub(super) fn kinds(at: &SpecValue<'_>) -> Option<Vec<ActionKind>> {
    at.one_or_many("an action kind or a list of them", || ActionKind::Report, kind)
}

/// `report`, or a list of kinds with or without their limits.
pub(super) fn output(at: &SpecValue<'_>) -> Option<Vec<OutputSpec>> {
    let blank = || OutputSpec::new(ActionKind::Report);
    at.one_or_many("an action kind or a list of them", blank, output_entry)
}

fn output_entry(at: &SpecValue<'_>) -> Option<OutputSpec> {
    if let YamlValue::Text(_) = at.node.value {
        return kind(at).map(OutputSpec::new);
    }
    let entries = at.entries("an action kind such as `report`, or `pull-request: { draft: true }`")?;
    let [(entry, limits)] = &entries[..] else {
        let hint = Some("write each kind as an item of its own".to_owned());
        at.add_problem(ProblemKind::Value, format!("`{}` must have one kind as its only key", at.path), hint);
        return None;
    };
    let Some(kind) = ActionKind::read(&entry.key) else {
        unknown_kind(at, entry);
        return None;
    };
    output_limits(limits, kind)
}

fn unknown_kind(at: &SpecValue<'_>, entry: &crate::spec::tree::YamlEntry) {
    let words = ActionKind::ALL.map(ActionKind::word);
    let hint = match super::value::nearest(&entry.key, words.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("one of {}", super::value::listed(&words)),
    };
    at.findings.mark_faulty(at.path.clone());
    let what = format!("unknown action kind {}", crate::spec::problem::quoted(&entry.key));
    at.findings.add(ProblemKind::Value, entry.place, what, Some(hint));
}

fn output_limits(at: &SpecValue<'_>, kind: ActionKind) -> Option<OutputSpec> {
    let mut output = OutputSpec::new(kind);
    if at.node.value == YamlValue::Null {
        return Some(output);
    }
    let fields = at.fields("draft labels targets max day_max target_max")?;
    fields.set("draft", &mut output.draft, SpecValue::flag);
    fields.set("labels", &mut output.labels, SpecValue::texts);
    fields.set("targets", &mut output.targets, |at| at.one_or_many("targets", String::new, target));
    fields.set("max", &mut output.max, |at| at.whole(1..=50));
    output.day_max = fields.option("day_max", |at| at.whole(1..=1000));
    output.target_max = fields.option("target_max", |at| at.whole(1..=1000));
    Some(output)
}

/// Targets are numbers or names; both are stored as text.
fn target(at: &SpecValue<'_>) -> Option<String> {
    match &at.node.value {
        YamlValue::Int(number) => Some(number.to_string()),
        _ => at.text(),
    }
}

/// The prompts of the roles.
pub(super) fn prompts(at: &SpecValue<'_>) -> Option<RolePrompts> {
    let fields = at.fields(&Role::ALL.map(Role::word).join(" "))?;
    let read = |role: Role| fields.option(role.word(), SpecValue::text);
    Some(RolePrompts {
        planner: read(Role::Planner),
        maker: read(Role::Maker),
        prover: read(Role::Prover),
        attacker: read(Role::Attacker),
        checker: read(Role::Checker),
    })
}

/// How the application is exercised.
pub(super) fn prover(at: &SpecValue<'_>) -> Option<ProverSpec> {
    let fields = at.fields("start ready exercise http timeout keep")?;
    Some(ProverSpec {
        start: fields.option("start", SpecValue::argv).unwrap_or_default(),
        ready: fields.option("ready", SpecValue::text),
        exercise: fields.option("exercise", SpecValue::argv).unwrap_or_default(),
        http: fields.option("http", proof_request),
        timeout: fields.option("timeout", SpecValue::span),
        keep: fields.option("keep", SpecValue::flag).unwrap_or_default(),
    })
}

fn proof_request(at: &SpecValue<'_>) -> Option<ProofRequest> {
    let fields = at.fields("url status contains")?;
    Some(ProofRequest {
        url: fields.required("url", "http://127.0.0.1:{port}/", SpecValue::text)?,
        status: fields.option("status", |at| at.whole(100..=599)),
        contains: fields.option("contains", SpecValue::text),
    })
}

/// Which attackers run.
pub(super) fn attack(at: &SpecValue<'_>) -> Option<AttackSpec> {
    let fields = at.fields("roles timeout")?;
    let roles = |at: &SpecValue<'_>| at.list("a list of roles", || AttackRole::BuiltIn(String::new()), attack_role);
    Some(AttackSpec {
        roles: fields.required("roles", "[hostile-user]", roles)?,
        timeout: fields.option("timeout", SpecValue::span),
    })
}

/// The name of a built-in role, or a role of the loop.
fn attack_role(at: &SpecValue<'_>) -> Option<AttackRole> {
    if matches!(at.node.value, YamlValue::Map(_)) {
        let fields = at.fields("name look_for")?;
        return Some(AttackRole::Own {
            name: fields.required("name", "impatient-admin", SpecValue::text)?,
            look_for: fields.required("look_for", "what it looks for", SpecValue::text)?,
        });
    }
    at.text().map(AttackRole::BuiltIn)
}

/// When a round has reached a plateau.
pub(super) fn plateau(at: &SpecValue<'_>) -> Option<PlateauSpec> {
    let fields = at.fields("window")?;
    Some(PlateauSpec { window: fields.required("window", "1", |at| at.whole(1..=10))? })
}

/// The items of a workflow.
pub(super) fn workflow(at: &SpecValue<'_>) -> Option<WorkflowSpec> {
    let fields = at.fields("items files goals plan at_once join each tries may_fail summary")?;
    let mut workflow = WorkflowSpec::default();
    fields.set("items", &mut workflow.items, SpecValue::texts);
    fields.set("files", &mut workflow.files, SpecValue::texts);
    fields.set("goals", &mut workflow.goals, SpecValue::texts);
    fields.set("plan", &mut workflow.plan, super::switch);
    fields.set("at_once", &mut workflow.at_once, |at| at.whole(1..=64));
    fields.set("join", &mut workflow.join, |at| at.word(&ItemJoin::ALL.map(|join| (join.word(), join))));
    let modes = [("single-run", LoopMode::SingleRun), ("goal-loop", LoopMode::GoalLoop)];
    fields.set("each", &mut workflow.each, |at| at.word(&modes));
    fields.set("tries", &mut workflow.tries, |at| at.whole(1..=5));
    fields.set("may_fail", &mut workflow.may_fail, |at| at.whole(0..=5000));
    workflow.summary = fields.option("summary", SpecValue::text);
    Some(workflow)
}

/// One command, or a list of commands.
pub(super) fn commands(at: &SpecValue<'_>) -> Option<Vec<Argv>> {
    match &at.node.value {
        YamlValue::List(items) if items.iter().any(|item| matches!(item.value, YamlValue::List(_))) => {
            at.list("a list of commands", Vec::new, SpecValue::argv)
        }
        YamlValue::List(items) if items.is_empty() => Some(Vec::new()),
        _ => at.argv().map(|command| vec![command]),
    }
}
