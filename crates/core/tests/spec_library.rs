//! The spec as embedders use it: the seed's builder, checking without a file, JSON without loss for any spec.

use loopwright_core::attack::AttackRole;
use loopwright_core::budget::TokenBudget;
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::*;
use loopwright_core::units::{TimeSpan, Usd};
use proptest::prelude::*;

fn spec() -> LoopSpec {
    LoopSpec::new("issue-triage", "label and route new issues", LoopLevel::L1Report).with_maker_prompt("Read them.")
}

#[test]
fn the_seeds_snippet_goes_through_json() {
    let spec = LoopSpec::new("issue-triage", "label and route new issues", LoopLevel::L1Report)
        .with_cadence("every 2h")
        .with_action_kind("comment");
    let json = serde_json::to_string(&spec).expect("JSON");
    let back: LoopSpec = serde_json::from_str(&json).expect("the same");
    assert_eq!(back, spec);
    assert_eq!((back.name.as_str(), back.level), ("issue-triage", LoopLevel::L1Report));
    assert_eq!((back.cadence().as_str(), back.action_kind().as_str()), ("every 2h", "comment"));
}

#[test]
fn text_that_a_builder_could_not_parse_is_reported_by_check() {
    let problems = spec().with_cadence("15m").with_action_kind("tweet").check().expect_err("two problems");
    let problems_text = problems.to_string();
    assert!(
        problems_text.contains("`15m` is not a cadence") && problems_text.contains("write `every 15m`"),
        "{problems_text}"
    );
    assert!(problems_text.contains("`tweet` is not an action kind"), "{problems_text}");
    assert_eq!(problems.len(), 2);
    assert!(spec().with_cadence("15m").with_cadence("every 15m").check().is_ok());
}

#[test]
fn the_seeds_budget_bounds_tokens_and_turns() {
    let budget = TokenBudget::iters(7).with_max_input_tokens(100).with_max_output_tokens(20);
    let round = spec().with_budget(budget).budget.round;
    assert_eq!((round.tokens, round.turns), (Some(120), Some(7)));
    assert_eq!(round.usd, BudgetSpec::default().round.usd);
}

#[test]
fn a_checked_spec_has_a_name_a_hash_and_notes() {
    let checked = spec().with_cadence("daily 08:00").check().expect("a good spec");
    assert_eq!(checked.name().as_str(), "issue-triage");
    assert_eq!(checked.hash().len(), 64);
    assert_ne!(checked.hash(), spec().check().expect("a good spec").hash());
    assert!(checked.notes().is_empty(), "{:?}", checked.notes());
    assert!(checked.not_runnable().is_empty());
}

#[test]
fn a_workflow_is_more_than_one_round() {
    let mut spec = spec();
    spec.mode = LoopMode::DynamicWorkflow;
    spec.workflow = Some(WorkflowSpec { items: vec!["one".to_owned()], ..WorkflowSpec::default() });
    assert_eq!(spec.clone().check().expect("a workflow").not_runnable().len(), 1);
    spec.workflow = None;
    spec.mode = LoopMode::GoalLoop;
    spec.prompts.planner = Some("plan".to_owned());
    assert!(spec.check().expect("a goal loop").not_runnable().is_empty());
}

#[test]
fn time_of_an_item_has_an_effect_only_in_a_workflow() {
    let mut spec = spec();
    spec.budget.item.wall = Some(TimeSpan::secs(60));
    let single = spec.clone().check().expect("a good spec");
    assert!(single.notes().iter().any(|note| note.contains("`budget.item`")), "{:?}", single.notes());
    spec.mode = LoopMode::DynamicWorkflow;
    spec.workflow = Some(WorkflowSpec { items: vec!["one".to_owned()], ..WorkflowSpec::default() });
    let workflow = spec.check().expect("a workflow");
    assert!(workflow.notes().is_empty(), "{:?}", workflow.notes());
}

#[test]
fn goal_loops_declare_only_what_has_an_effect() {
    let goal = || LoopSpec { mode: LoopMode::GoalLoop, attempts: 4, ..spec() };
    let exercise = || ProverSpec { exercise: vec!["./x".to_owned()], ..ProverSpec::default() };
    let request = |url: &str| ProofRequest { url: url.to_owned(), status: None, contains: None };
    let attack = |roles: &[&str]| {
        let roles = roles.iter().map(|name| AttackRole::BuiltIn((*name).to_owned())).collect();
        Some(AttackSpec { roles, timeout: None })
    };
    let cases: [(&str, LoopSpec); 13] = [
        ("only a goal loop has a planner", {
            let mut one = spec();
            one.prompts.planner = Some("plan".to_owned());
            one
        }),
        ("`mode: time-loop` without a trigger", LoopSpec { mode: LoopMode::TimeLoop, ..spec() }),
        ("neither `exercise` nor `http`", LoopSpec { prover: Some(ProverSpec::default()), ..goal() }),
        ("both `exercise` and `http`", {
            let http = Some(request("http://127.0.0.1:{port}/"));
            LoopSpec { prover: Some(ProverSpec { http, ..exercise() }), ..goal() }
        }),
        ("is not an address of the application", {
            let http = Some(request("http://example.org/"));
            LoopSpec { prover: Some(ProverSpec { http, ..ProverSpec::default() }), ..goal() }
        }),
        ("`prover.start` without `ready`", {
            LoopSpec { prover: Some(ProverSpec { start: vec!["./app".to_owned()], ..exercise() }), ..goal() }
        }),
        ("`ready` without `start`", {
            LoopSpec { prover: Some(ProverSpec { ready: Some("up".to_owned()), ..exercise() }), ..goal() }
        }),
        ("`attack` without roles", LoopSpec { attack: attack(&[]), ..goal() }),
        ("is no built-in attacker", LoopSpec { attack: attack(&["burglar"]), ..goal() }),
        ("is there already", LoopSpec { attack: attack(&["security", "security"]), ..goal() }),
        ("could not save an attempt", LoopSpec { plateau: Some(PlateauSpec { window: 3 }), ..goal() }),
        ("an attacker without `attack`", {
            let mut one = goal();
            one.prompts.attacker = Some("break it".to_owned());
            one
        }),
        ("it has no agent", {
            let mut one = goal();
            one.prompts.prover = Some("prove it".to_owned());
            one
        }),
    ];
    for (expected, spec) in cases {
        let problems = spec.check().expect_err(expected).to_string();
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    let good = LoopSpec {
        prover: Some(exercise()),
        attack: attack(&["security"]),
        plateau: Some(PlateauSpec { window: 2 }),
        ..goal()
    };
    assert!(good.check().is_ok());
}

#[test]
fn held_out_checks_have_names_and_files_of_their_own() {
    let check = |name: &str, files: &[&str]| HeldoutSpec {
        name: name.to_owned(),
        run: vec!["./x".to_owned()],
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        cases: "~/cases.jsonl".to_owned(),
    };
    let mut spec = spec();
    spec.level = LoopLevel::L3Unattended;
    spec.heldout = vec![check("h", &["~/a/data", "../b/more"])];
    assert!(spec.clone().check().expect("a check can fail, as L3 asks").not_runnable().is_empty());
    spec.gates = vec![Gate::Run(RunGate::new("Tests", vec!["./t".to_owned()]))];
    spec.heldout = vec![check("tests", &[]), check("h", &["~/a/data", "../data/", ".."])];
    let problems = spec.check().expect_err("a gate's name, a name twice, and no name").to_string();
    for text in ["taken by the gate `Tests`", "would be `/heldout/data`", "`..` names no file"] {
        assert!(problems.contains(text), "{problems}");
    }
}

#[test]
fn rules_hold_for_specs_built_in_code() {
    let mut spec = spec();
    spec.level = LoopLevel::L3Unattended;
    spec.check = CheckMode::None;
    spec.attempts = 0;
    spec.protect = vec!["/etc/**".to_owned()];
    spec.rubric.threshold = f64::NAN;
    let problems = spec.check().expect_err("five problems");
    assert_eq!(problems.len(), 5, "{problems}");
    assert!(problems.iter().all(|problem| problem.line == 0));
}

#[test]
fn unknown_keys_of_json_are_refused_too() {
    let error = serde_json::from_str::<LoopSpec>(r#"{"name":"x","intent":"y","budjet":1}"#).expect_err("a typo");
    assert!(error.to_string().contains("did you mean `budget`?"), "{error}");
}

fn text() -> impl Strategy<Value = String> {
    "[a-z][a-zA-Z0-9 :#{}äß\"'\\\\\n$-]{0,12}"
}

fn span() -> impl Strategy<Value = TimeSpan> {
    (1_u64..100_000).prop_map(TimeSpan::secs)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

fn ceilings() -> impl Strategy<Value = Ceilings> {
    let usd = prop::option::of((1_u64..1_000_000_000_000).prop_map(Usd));
    let (tokens, turns) = (prop::option::of(1_u64..=u64::MAX), prop::option::of(1_u32..=100_000));
    (tokens, usd, prop::option::of(span()), turns, prop::option::of(span()))
        .prop_map(|(tokens, usd, wall, turns, idle)| Ceilings { tokens, usd, wall, turns, idle })
}

fn output() -> impl Strategy<Value = OutputSpec> {
    let limit = || prop::option::of(1_u32..=1000);
    let kinds = prop::sample::select(ActionKind::ALL.to_vec());
    (kinds, 1_u32..=50, (limit(), limit()), any::<bool>(), texts(), texts()).prop_map(
        |(kind, max, (day_max, target_max), draft, labels, targets)| OutputSpec {
            kind,
            max,
            day_max,
            target_max,
            draft,
            labels,
            targets,
        },
    )
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1000_i32..1000).prop_map(|quarters| (f64::from(quarters) / 4.0).into()),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            prop::collection::btree_map(text(), inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn floor() -> impl Strategy<Value = CountFloor> {
    prop_oneof![
        Just(CountFloor::Base(BaseWord::Base)),
        (1_u32..1000).prop_map(|number| CountFloor::Number(number.into()))
    ]
}

fn run_gate() -> impl Strategy<Value = Gate> {
    let rule = (text(), json(), prop::option::of(0_i32..=255)).prop_map(|(path, equals, exit)| ExpectRule {
        exit,
        stdout: Some(path.clone()),
        stderr: None,
        json: Some(JsonRule { path, equals: Some(equals), at_least: Some(0.25), at_most: None }),
    });
    let evidence = (prop::option::of(text()), prop::option::of(floor()), texts())
        .prop_map(|(junit, tests_at_least, files)| EvidenceRule { junit, tests_at_least, files });
    let score = (text(), floor()).prop_map(|(pattern, at_least)| ScoreRule {
        pattern,
        better: ScoreDirection::Lower,
        at_least: Some(at_least),
    });
    let rules = (prop::option::of(rule), prop::option::of(evidence), prop::option::of(score));
    (text(), texts(), prop::option::of(texts()), any::<bool>(), prop::option::of(span()), 0_u32..=5, rules).prop_map(
        |(name, run, inputs, red_before, timeout, retries, (expect, evidence, score))| {
            Gate::Run(RunGate {
                inputs,
                red_before,
                timeout,
                retries,
                expect,
                evidence,
                score,
                ..RunGate::new(name, run)
            })
        },
    )
}

fn gate() -> impl Strategy<Value = Gate> {
    prop_oneof![
        run_gate(),
        (text(), prop::option::of(0_u64..1000), texts()).prop_map(|(name, files_max, only)| Gate::Diff(DiffGate {
            name,
            diff: DiffRule { files_max, lines_max: None, only, no_deletes: Vec::new() },
        })),
        (text(), texts()).prop_map(|(name, parse)| Gate::Parse(ParseGate { name, parse })),
        text().prop_map(|name| Gate::Markers(MarkersGate {
            name,
            markers: vec![LeftoverMarker::Todo, LeftoverMarker::Stub]
        })),
        (text(), text())
            .prop_map(|(name, file)| Gate::Length(LengthGate { name, length: LengthRule { file, max: 9 } })),
        text().prop_map(|name| Gate::Secrets(SecretsGate { name, secrets: OnOff::On })),
    ]
}

fn triggers() -> impl Strategy<Value = Triggers> {
    let probe = prop_oneof![
        text().prop_map(ProbeSpec::Named),
        (text(), texts(), prop::option::of(text()), 1_u32..=1000).prop_map(|(name, words, text, batch)| {
            let (labels, packages, branch) = (words.clone(), words, text.clone());
            ProbeSpec::Ask(Box::new(Ask { labels, packages, text, branch, batch, ..Ask::new(&name) }))
        }),
        (texts(), 1_u32..=1000).prop_map(|(run, batch)| ProbeSpec::Run { run, items: ItemsForm::Json, batch }),
    ];
    let catch_up = prop_oneof![Just(CatchUp::Skip), Just(CatchUp::Once), (1_u32..=1000).prop_map(CatchUp::All)];
    (prop::collection::vec(span(), 0..3), texts(), texts(), prop::option::of(probe), catch_up, prop::option::of(text()))
        .prop_map(|(every, cron, push, probe, catch_up, quiet)| Triggers {
            every,
            cron,
            push,
            probe,
            catch_up,
            quiet,
            ..Triggers::default()
        })
}

fn agents() -> impl Strategy<Value = std::collections::BTreeMap<Role, AgentSpec>> {
    let agent = (prop::sample::select(AgentUse::ALL.to_vec()), prop::option::of(text()), texts(), texts())
        .prop_map(|(agent, model, tools, run)| AgentSpec { model, tools, run, ..AgentSpec::new(agent) });
    prop::collection::btree_map(prop::sample::select(Role::ALL.to_vec()), agent, 0..3)
}

fn any_spec() -> impl Strategy<Value = LoopSpec> {
    let words = (text(), text(), prop::option::of(text()), prop::option::of(text()));
    let work = (triggers(), agents(), ceilings(), ceilings(), ceilings(), 1_u32..=10);
    let proof = (prop::collection::vec(gate(), 0..4), 4_u8..=20, 1_u8..=5, prop::collection::vec(output(), 0..3));
    let rest = (prop::collection::vec(texts(), 0..3), texts(), -1000_i32..=1000, prop::option::of(span()));
    (words, work, proof, rest).prop_map(|(words, work, proof, rest)| {
        let mut spec = LoopSpec::new(words.0, words.1, LoopLevel::L2Assisted);
        (spec.prompts.maker, spec.base) = (words.2, words.3);
        (spec.on, spec.agents, spec.attempts) = (work.0, work.1, work.5);
        spec.budget = BudgetSpec { round: work.2, item: work.3, day: work.4, ..BudgetSpec::default() };
        (spec.gates, spec.rubric.floor, spec.output) = (proof.0, proof.2, proof.3);
        spec.rubric.threshold = f64::from(proof.1) / 4.0;
        (spec.setup, spec.protect, spec.priority, spec.timeout) = rest;
        // A command without words cannot be distinguished from no command at all, and no rule accepts one.
        spec.setup.retain(|command| !command.is_empty());
        spec
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_spec_goes_through_json_without_loss(spec in any_spec()) {
        let json = serde_json::to_string(&spec).expect("JSON");
        let back: LoopSpec = serde_json::from_str(&json).map_err(|error| TestCaseError::fail(format!("{json}\n{error}")))?;
        prop_assert_eq!(back, spec);
    }
}
