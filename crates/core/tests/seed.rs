//! The seed's library, name by name: its own snippet, its JSON, its gates and its budget arithmetic behave here as they
//! did there, so that code and files written for it continue to work.

use loopwright_core::budget::{BudgetLimit, BudgetState, TokenBudget, Tokens};
use loopwright_core::human_gate::{
    AllowlistGate, AlwaysEscalate, CallbackGate, GateDecision, HumanGate, ProposedAction, default_gate_for,
};
use loopwright_core::level::LoopLevel::{self, L1Report, L2Assisted, L3Unattended};
use loopwright_core::spec::{ActionKind, LoopSpec};
use loopwright_core::units::TimeSpan;
use serde_json::{Value, json};

#[test]
fn the_seeds_own_snippet_roundtrips_through_json() {
    let spec = LoopSpec::new("issue-triage", "label and route new issues", LoopLevel::L1Report)
        .with_cadence("every 2h")
        .with_action_kind("comment");
    let json = serde_json::to_string(&spec).unwrap();
    let back: LoopSpec = serde_json::from_str(&json).unwrap();
    assert_eq!(back.name, "issue-triage");
    assert_eq!(back.level, LoopLevel::L1Report);
    assert_eq!(back.cadence(), "every 2h");
    assert_eq!(back.action_kind(), "comment");
    assert_eq!(back, spec);
}

/// A spec as the seed writes it: every field, `null` for ceilings that are not set.
fn seed_json() -> Value {
    json!({
        "name": "ci-sweeper",
        "intent": "keep main green",
        "level": "l2-assisted",
        "cadence": "every 10m",
        "budget": {
            "max_input_tokens": null,
            "max_output_tokens": null,
            "max_total_tokens": 400_000,
            "max_iters_per_round": 20
        },
        "maker_prompt": "mend it",
        "checker_prompt": "run the tests",
        "action_kind": "apply-patch"
    })
}

fn read(json: &Value) -> LoopSpec {
    serde_json::from_value(json.clone()).expect("the seed's JSON is read")
}

fn with(key: &str, value: Value) -> LoopSpec {
    let mut json = seed_json();
    json[key] = value;
    read(&json)
}

#[test]
fn a_whole_spec_as_the_seed_writes_it_is_read_and_can_run() {
    let spec = read(&seed_json());
    assert_eq!((spec.name.as_str(), spec.intent.as_str()), ("ci-sweeper", "keep main green"));
    assert_eq!((spec.level, spec.cadence().as_str()), (L2Assisted, "every 10m"));
    assert_eq!(spec.on.every, [TimeSpan::secs(600)]);
    assert_eq!((spec.budget.round.tokens, spec.budget.round.turns), (Some(400_000), Some(20)));
    assert_eq!(spec.prompts.maker.as_deref(), Some("mend it"));
    assert_eq!(spec.prompts.checker.as_deref(), Some("run the tests"));
    assert!(spec.outputs(ActionKind::Commit));
    assert!(spec.clone().check().expect("a good spec").not_runnable().is_empty());
    let back: LoopSpec = serde_json::from_str(&serde_json::to_string(&spec).expect("JSON")).expect("canonical JSON");
    assert_eq!(back, spec);
}

#[test]
fn every_level_of_the_seeds_json_is_read() {
    for (word, level) in [("l1-report", L1Report), ("l2-assisted", L2Assisted), ("l3-unattended", L3Unattended)] {
        assert_eq!(with("level", word.into()).level, level, "{word}");
        assert_eq!(serde_json::from_value::<LoopLevel>(word.into()).ok(), Some(level), "{word}");
    }
    assert_eq!(
        [L1Report, L2Assisted, L3Unattended].map(LoopLevel::label),
        ["L1-report", "L2-assisted", "L3-unattended"]
    );
    assert_eq!([L1Report, L2Assisted, L3Unattended].map(LoopLevel::maker_may_write), [false, true, true]);
}

#[test]
fn every_cadence_of_the_seed_is_read_and_written_back() {
    for cadence in ["every 15m", "every 2h", "every 30s", "every 1d", "daily 08:00", "weekly mon 09:30"] {
        let spec = with("cadence", cadence.into());
        assert_eq!(spec.cadence(), cadence);
        assert!(spec.check().is_ok(), "{cadence}");
    }
    let loose =
        [("daily 9:05", "daily 09:05"), ("weekly Monday 9:30", "weekly mon 09:30"), ("every 15 m", "every 15m")];
    for (cadence, strict) in loose {
        let spec = with("cadence", cadence.into());
        assert_eq!(spec.cadence(), strict);
        assert!(spec.check().is_ok(), "{cadence}");
    }
}

/// Cadences that made the seed fire at every tick, or panic, are reported as problems.
#[test]
fn cadences_that_broke_the_seed_are_refused_without_a_panic() {
    for cadence in ["every 0s", "every -5m", "every 5分", "every 99999999999999999d", "15m", "", "every", "daily 25:00"]
    {
        let mut json = seed_json();
        json["cadence"] = cadence.into();
        let refused = serde_json::from_value::<LoopSpec>(json).map_or(true, |spec| spec.check().is_err());
        assert!(refused, "`{cadence}` was taken");
    }
}

#[test]
fn every_action_kind_of_the_seed_has_a_kind_here() {
    let kinds = [
        ("report", ActionKind::Report),
        ("draft", ActionKind::Report),
        ("open-pr", ActionKind::PullRequest),
        ("comment", ActionKind::IssueComment),
        ("apply-patch", ActionKind::Commit),
        ("commit", ActionKind::Commit),
    ];
    for (word, kind) in kinds {
        let spec = with("action_kind", word.into());
        assert_eq!(spec.output.iter().map(|output| output.kind).collect::<Vec<_>>(), [kind], "{word}");
    }
}

#[test]
fn every_ceiling_of_the_seeds_budget_bounds_the_round() {
    let tokens = |budget: Value| with("budget", budget).budget.round.tokens;
    assert_eq!(tokens(json!({"max_input_tokens": 10, "max_iters_per_round": 1})), Some(10));
    assert_eq!(tokens(json!({"max_output_tokens": 20, "max_iters_per_round": 1})), Some(20));
    assert_eq!(tokens(json!({"max_input_tokens": 10, "max_output_tokens": 20, "max_iters_per_round": 1})), Some(30));
    let all =
        json!({"max_input_tokens": 10, "max_output_tokens": 20, "max_total_tokens": 25, "max_iters_per_round": 7});
    assert_eq!(tokens(all.clone()), Some(25));
    assert_eq!(with("budget", all).budget.round.turns, Some(7));
    assert_eq!(tokens(json!({"max_iters_per_round": 12})), Some(400_000), "without a ceiling ours holds, never none");
}

#[test]
fn empty_prompts_of_the_seed_mean_none() {
    assert_eq!(with("checker_prompt", "".into()).prompts.checker, None);
    let problems = with("maker_prompt", "".into()).check().expect_err("a loop without a task");
    assert!(problems.to_string().contains("the maker has no prompt"), "{problems}");
}

fn action(kind: &str, verified: bool) -> ProposedAction {
    ProposedAction::new(kind, "say hello", verified)
}

#[test]
fn always_escalate_and_the_default_gate_approve_nothing() {
    for level in [L1Report, L2Assisted, L3Unattended] {
        assert!(!AlwaysEscalate.decide(level, &action("report", true)).is_auto());
        assert!(!default_gate_for(level).decide(level, &action("report", true)).is_auto());
    }
}

#[test]
fn allowlist_gate_proceeds_only_at_l3_verified_and_for_an_exact_kind() {
    let gate = AllowlistGate::new(["comment"]);
    assert_eq!(gate.decide(L3Unattended, &action("comment", true)), GateDecision::AutoProceed);
    for (level, action) in [
        (L1Report, action("comment", true)),
        (L2Assisted, action("comment", true)),
        (L3Unattended, action("comment", false)),
        (L3Unattended, action("commen", true)),
        (L3Unattended, action("comments", true)),
        (L3Unattended, action("Comment", true)),
        (L3Unattended, action(" comment", true)),
    ] {
        assert!(!gate.decide(level, &action).is_auto(), "{level:?} {action:?}");
    }
    let nothing = AllowlistGate::new(Vec::<String>::new());
    assert!(!nothing.decide(L3Unattended, &action("comment", true)).is_auto());
}

/// More than the seed: the gate also sees the paths that the candidate touches.
#[test]
fn allowlist_gate_keeps_sensitive_paths_for_a_person() {
    let sensitive = vec![".github/workflows/ci.yml".to_owned()];
    let action = ProposedAction { sensitive, ..action("comment", true) };
    assert!(!AllowlistGate::new(["comment"]).decide(L3Unattended, &action).is_auto());
}

#[test]
fn callback_gate_receives_level_and_action() {
    let gate = CallbackGate(|level: LoopLevel, action: &ProposedAction| {
        GateDecision::escalate(format!("{} {} {}", level.label(), action.kind, action.verified))
    });
    let decision = gate.decide(L2Assisted, &action("open-pr", true));
    assert_eq!(decision, GateDecision::Escalate { reason: "L2-assisted open-pr true".to_owned() });
    assert!(!decision.is_auto());
    assert!(GateDecision::AutoProceed.is_auto());
}

fn used(input: u64, output: u64) -> Tokens {
    Tokens { input, output, ..Tokens::default() }
}

#[test]
fn a_budget_starts_without_ceilings_and_with_twelve_turns() {
    let budget = TokenBudget::default();
    assert_eq!((budget.max_input_tokens, budget.max_output_tokens, budget.max_total_tokens), (None, None, None));
    assert_eq!(BudgetState::new(budget).max_iters(), 12);
    assert_eq!(BudgetState::new(TokenBudget::iters(20)).max_iters(), 20);
    let mut state = BudgetState::new(budget);
    state.add(used(u64::MAX, u64::MAX));
    assert_eq!((state.exceeded(), state.total_tokens()), (None, u64::MAX));
}

#[test]
fn a_ceiling_is_exceeded_past_it_and_not_at_it() {
    for (budget, limit) in [
        (TokenBudget::default().with_max_input_tokens(10), BudgetLimit::Input),
        (TokenBudget::default().with_max_output_tokens(10), BudgetLimit::Output),
        (TokenBudget::default().with_max_total_tokens(20), BudgetLimit::Total),
    ] {
        let mut state = BudgetState::new(budget);
        state.add(used(10, 10));
        assert_eq!(state.exceeded(), None, "{limit:?} at the ceiling");
        state.add(used(1, 1));
        assert_eq!(state.exceeded(), Some(limit), "{limit:?} past the ceiling");
    }
}

#[test]
fn input_is_named_before_output_and_output_before_the_total() {
    let budget = TokenBudget::default().with_max_input_tokens(5).with_max_output_tokens(5).with_max_total_tokens(5);
    let exceeded = |input, output| {
        let mut state = BudgetState::new(budget);
        state.add(used(input, output));
        state.exceeded()
    };
    assert_eq!(exceeded(6, 6), Some(BudgetLimit::Input));
    assert_eq!(exceeded(5, 6), Some(BudgetLimit::Output));
    assert_eq!(exceeded(5, 5), Some(BudgetLimit::Total));
    assert_eq!(exceeded(5, 0), None);
}

#[test]
fn usage_adds_up_and_cached_tokens_are_not_lost() {
    let mut state = BudgetState::new(TokenBudget::default());
    state.add(used(3, 4));
    state.add(Tokens { input: 1, output: 1, cache_read: 10, cache_write: 100 });
    assert_eq!((state.input_tokens, state.output_tokens, state.total_tokens()), (114, 5, 119));
}

#[test]
fn a_budget_of_the_seed_roundtrips_through_its_own_json() {
    let budget = TokenBudget::iters(8).with_max_total_tokens(300_000);
    let json = serde_json::to_value(budget).expect("JSON");
    assert_eq!(json["max_total_tokens"], 300_000);
    assert_eq!(json["max_input_tokens"], Value::Null);
    assert_eq!(serde_json::from_value::<TokenBudget>(json).ok(), Some(budget));
}
