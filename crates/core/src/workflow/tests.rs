//! Decisions of workflows: budget, concurrency, ends, the planner's list, and the loops of parts.

use super::*;
use crate::goal::{GoalContract, read_goal_file};
use crate::level::LoopLevel;
use crate::spec::{ActionKind, AttackSpec, Ceilings, Gate, LoopMode, LoopSpec, OutputSpec, RunGate};

fn tokens(count: u64) -> Reservation {
    Reservation { tokens: count, usd: Usd(0) }
}

fn queued() -> PartProgress {
    let (reserved, spent) = (Reservation::default(), Reservation::default());
    PartProgress { state: PartState::Queued, reserved, spent, outcome: None }
}

fn ended(state: PartState, outcome: RoundOutcome) -> PartProgress {
    PartProgress { state, outcome: Some(outcome), ..queued() }
}

fn budget(whole: u64, item: Option<u64>) -> BudgetSpec {
    let ceiling = |tokens| Ceilings { tokens, ..Ceilings::default() };
    BudgetSpec { round: ceiling(Some(whole)), item: ceiling(item), ..BudgetSpec::default() }
}

fn workflow(join: ItemJoin) -> WorkflowSpec {
    WorkflowSpec { join, at_once: 3, ..WorkflowSpec::default() }
}

fn progress(items: Vec<PartProgress>) -> WorkflowProgress {
    WorkflowProgress { items, overhead: Reservation::default(), is_late: false }
}

fn starts(moves: &[WorkflowMove]) -> Vec<usize> {
    let start = |one: &WorkflowMove| match one {
        WorkflowMove::Start { position, .. } => Some(*position),
        WorkflowMove::Wait | WorkflowMove::Merge { .. } | WorkflowMove::End { .. } => None,
    };
    moves.iter().filter_map(start).collect()
}

#[test]
fn items_start_in_order_and_never_more_than_at_once() {
    let mut items = vec![queued(); 5];
    let spec = workflow(ItemJoin::Barrier);
    assert_eq!(starts(&next_moves(&spec, &budget(600, None), &progress(items.clone()))), [0, 1, 2]);
    items[0].state = PartState::Done;
    for item in &mut items[1..3] {
        (item.state, item.reserved) = (PartState::Running, tokens(100));
    }
    assert_eq!(starts(&next_moves(&spec, &budget(600, None), &progress(items.clone()))), [3]);
    items[3].state = PartState::Running;
    assert_eq!(next_moves(&spec, &budget(600, None), &progress(items)), [WorkflowMove::Wait]);
}

/// A walk over every kind of budget with items that spend all of their share, some of it, or none.
#[test]
fn the_shares_of_a_workflow_never_pass_its_ceiling() {
    for (whole, item, count) in
        [(600, None, 5), (600, Some(250), 5), (10, Some(900), 3), (7, None, 20), (1000, Some(1), 40)]
    {
        for join in ItemJoin::ALL {
            for spends in [1, 2, 1_000_000] {
                walk(whole, item, count, join, spends);
            }
        }
    }
}

fn walk(whole: u64, item: Option<u64>, count: usize, join: ItemJoin, spends: u64) {
    let (spec, budget) = (workflow(join), budget(whole, item));
    let mut state = progress(vec![queued(); count]);
    for _ in 0..10 * count {
        for one in next_moves(&spec, &budget, &state) {
            match one {
                WorkflowMove::Start { position, share } => {
                    let part = &mut state.items[position];
                    (part.state, part.reserved) = (PartState::Running, reserved_for(share));
                    assert!(item.is_none_or(|most| share.tokens <= Some(most)), "{share:?}");
                }
                WorkflowMove::Wait => {
                    let part = state.items.iter_mut().find(|part| part.state == PartState::Running).expect("one runs");
                    (part.state, part.outcome) = (PartState::Done, Some(RoundOutcome::Reported));
                    part.spent = tokens(part.reserved.tokens / spends);
                }
                WorkflowMove::Merge { share } => {
                    assert!(share.tokens.is_some_and(|share| share > 0), "nothing is left for the merge");
                    return;
                }
                WorkflowMove::End { .. } => return,
            }
            let held = state.items.iter().map(|part| match part.state {
                PartState::Running => part.spent.plus(part.reserved).tokens,
                _ => part.spent.tokens,
            });
            let held: u64 = held.sum();
            assert!(held <= whole, "{held} of {whole} with {item:?} for each of {count}");
        }
    }
    panic!("the workflow of {count} items does not end");
}

/// The cost of an interrupted agent is unknown, so its round has cost its whole share.
#[test]
fn an_interrupted_item_gets_what_the_others_leave_and_never_more() {
    let spec = workflow(ItemJoin::Barrier);
    let mut items = vec![ended(PartState::Done, RoundOutcome::Reported); 2];
    items[1] = PartProgress { spent: tokens(200), ..queued() };
    let next = |items: &[PartProgress], budget: &BudgetSpec| next_moves(&spec, budget, &progress(items.to_vec()));
    let share = |tokens| SpendAllowance { usd: None, tokens: Some(tokens) };
    // The merge keeps its own 200.
    assert_eq!(next(&items, &budget(600, None)), [WorkflowMove::Start { position: 1, share: share(200) }]);
    items[0].spent = tokens(150);
    assert_eq!(next(&items, &budget(600, None)), [WorkflowMove::Start { position: 1, share: share(50) }]);
    let over =
        |moves: Vec<WorkflowMove>| matches!(moves[..], [WorkflowMove::End { outcome: RoundOutcome::OverBudget, .. }]);
    items[0].spent = tokens(200);
    assert!(over(next(&items, &budget(600, None))), "nothing is left");
    items[0].spent = tokens(0);
    assert!(over(next(&items, &budget(600, Some(200)))), "the ceiling of one item holds");
    assert!(may_try_again(&budget(600, None), tokens(200)) && may_try_again(&budget(600, Some(201)), tokens(200)));
    assert!(!may_try_again(&budget(600, Some(200)), tokens(200)));
}

#[test]
fn all_tries_of_the_planner_have_one_share() {
    let share = |spent| plan_share(&budget(600, None), tokens(spent)).and_then(|share| share.tokens);
    assert_eq!([share(0), share(120), share(300), share(400)], [Some(300), Some(180), None, None]);
}

#[test]
fn a_workflow_ends_by_its_items() {
    use PartState::{Done, Failed};
    let done = |outcome| ended(Done, outcome);
    let failed = ended(Failed, RoundOutcome::Rejected);
    let end = |join, items: Vec<PartProgress>| match next_moves(&workflow(join), &budget(600, None), &progress(items))[..]
    {
        [WorkflowMove::End { outcome, .. }] => Some(outcome),
        [WorkflowMove::Merge { .. }] => None,
        ref other => panic!("{other:?}"),
    };
    let (barrier, pipeline) = (ItemJoin::Barrier, ItemJoin::Pipeline);
    assert_eq!(end(barrier, vec![]), Some(RoundOutcome::NothingToDo));
    assert_eq!(end(barrier, vec![done(RoundOutcome::Reported); 2]), None, "the merge follows");
    assert_eq!(end(barrier, vec![done(RoundOutcome::Reported), failed]), Some(RoundOutcome::Rejected));
    assert_eq!(
        end(pipeline, vec![done(RoundOutcome::Shipped), done(RoundOutcome::Escalated)]),
        Some(RoundOutcome::Escalated)
    );
    assert_eq!(end(pipeline, vec![done(RoundOutcome::Shipped)]), Some(RoundOutcome::Shipped));
    let lenient = WorkflowSpec { may_fail: 1, ..workflow(barrier) };
    let one_failed = progress(vec![done(RoundOutcome::Reported), failed]);
    assert!(matches!(next_moves(&lenient, &budget(600, None), &one_failed)[..], [WorkflowMove::Merge { .. }]));
    let all_failed = progress(vec![failed]);
    let moves = next_moves(&lenient, &budget(600, None), &all_failed);
    assert!(matches!(moves[..], [WorkflowMove::End { outcome: RoundOutcome::Rejected, .. }]), "{moves:?}");
}

#[test]
fn no_item_starts_after_one_too_many_failed_or_the_time_is_used_up() {
    let spec = workflow(ItemJoin::Barrier);
    let items = vec![ended(PartState::Failed, RoundOutcome::Rejected), queued()];
    let lost = next_moves(&spec, &budget(600, None), &progress(items));
    assert!(matches!(lost[..], [WorkflowMove::End { outcome: RoundOutcome::Rejected, .. }]), "{lost:?}");
    let late = WorkflowProgress { is_late: true, ..progress(vec![queued()]) };
    let late = next_moves(&spec, &budget(600, None), &late);
    assert!(matches!(late[..], [WorkflowMove::End { outcome: RoundOutcome::OverBudget, .. }]), "{late:?}");
}

#[test]
fn only_a_result_that_counts_makes_an_item_done() {
    use ItemJoin::{Barrier, Pipeline};
    use WorkflowPart::Item;
    assert_eq!(judge_part(RoundOutcome::Reported, Barrier, Item), PartVerdict::Done);
    assert_eq!(judge_part(RoundOutcome::Escalated, Pipeline, Item), PartVerdict::Done);
    assert_eq!(judge_part(RoundOutcome::Escalated, Barrier, Item), PartVerdict::Failed, "no person has answered");
    assert_eq!(judge_part(RoundOutcome::Interrupted, Barrier, Item), PartVerdict::Interrupted);
    assert_eq!(judge_part(RoundOutcome::Rejected, Barrier, Item), PartVerdict::Missed);
    assert_eq!(judge_part(RoundOutcome::Cannot, Barrier, Item), PartVerdict::Failed);
}

#[test]
fn a_planners_list_is_read_strictly() {
    let keys =
        |text: &str| read_item_list(text).map(|items| items.into_iter().map(|item| item.key).collect::<Vec<_>>());
    assert_eq!(keys("[\"a\", {\"key\": \"b\", \"data\": \"x\"}, \"a\"]"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(keys("Here it is:\n```json\n[\"a\"]\n```\n"), Ok(vec!["a".to_owned()]));
    assert_eq!(keys("[]"), Ok(vec![]));
    for bad in [
        "",
        "a, b",
        "{\"key\": \"a\"}",
        "[1]",
        "[\"\"]",
        "[{\"key\": \"a\", \"run\": \"x\"}]",
        "[\"a\\nb\"]",
        "```\n[]\n```\n```\n[]\n```",
    ] {
        assert!(keys(bad).is_err(), "{bad:?} was read as a list");
    }
}

fn loop_spec() -> LoopSpec {
    let mut spec = LoopSpec::new("sweep", "Sweep the files.", LoopLevel::L2Assisted);
    spec.mode = LoopMode::DynamicWorkflow;
    spec.workflow = Some(WorkflowSpec { items: vec!["a".to_owned()], ..WorkflowSpec::default() });
    spec.prompts.maker = Some("Do it.".to_owned());
    spec.output = vec![OutputSpec::new(ActionKind::PullRequest)];
    let roles = vec![crate::attack::AttackRole::BuiltIn("security".to_owned())];
    spec.attack = Some(AttackSpec { roles, timeout: None });
    spec
}

#[test]
fn the_loops_of_parts_have_no_more_than_the_workflow() {
    let spec = loop_spec();
    let share = SpendAllowance { usd: Some(Usd(7)), tokens: Some(9) };
    let item = item_spec(&spec, share, "c0ffee").expect("an item's loop");
    assert_eq!((item.mode, item.level, item.base.as_deref()), (LoopMode::SingleRun, spec.level, Some("c0ffee")));
    assert_eq!(item.budget.round.allowance(), share);
    assert!(item.attack.is_none(), "the merged result is attacked");
    let merge = merge_spec(&spec, share).expect("the merge's loop");
    assert!(merge.attack.is_some() && merge.base.is_none() && merge.budget.round.allowance() == share);
    let plan = plan_spec(&spec, share).expect("the planner's loop");
    assert_eq!((plan.level, plan.attempts), (LoopLevel::L1Report, 1));
    assert!(!plan.outputs(ActionKind::PullRequest));
}

#[test]
fn a_workflow_says_where_its_items_come_from_and_what_it_may_cost() {
    let wrong = |change: &dyn Fn(&mut LoopSpec, &mut WorkflowSpec)| {
        let mut spec = loop_spec();
        let mut workflow = spec.workflow.take().expect("a workflow");
        change(&mut spec, &mut workflow);
        spec.workflow = Some(workflow);
        spec.check().expect_err("a violated rule").to_string()
    };
    loop_spec().check().expect("a good workflow");
    assert!(wrong(&|_, workflow| workflow.items.clear()).contains("exactly one of"));
    assert!(wrong(&|_, workflow| workflow.files.push("*.rs".to_owned())).contains("exactly one of"));
    assert!(wrong(&|spec, _| spec.on.push.push("main".to_owned())).contains("starts with `loopwright run`"));
    assert!(wrong(&|spec, _| spec.budget.round = Ceilings::default()).contains("without a ceiling"));
    assert!(wrong(&|spec, _| spec.output = vec![OutputSpec::new(ActionKind::Report)]).contains("one pull request"));
    assert!(wrong(&|_, workflow| workflow.items.push("a".to_owned())).contains("there already"));
    assert!(wrong(&|spec, _| spec.mode = LoopMode::SingleRun).contains("without `mode: dynamic-workflow`"));
    assert!(wrong(&|_, workflow| workflow.summary = Some("x".to_owned())).contains("is for reports"));
}

fn trial(count: usize, outcome: RoundOutcome) -> LandingTrial {
    LandingTrial { count, outcome, is_rejected_by_gates: outcome == RoundOutcome::Rejected }
}

/// For every size and every culprit: it is found, with at most one trial for each halving.
#[test]
fn the_search_finds_the_first_item_that_breaks_the_landing() {
    for count in 1..=65_usize {
        for culprit in 0..count {
            let mut trials = Vec::new();
            let found = loop {
                match next_search(count, &trials) {
                    SearchMove::Try { count: size } => {
                        assert!(size < count, "a trial of {size} of {count} shows nothing");
                        assert!(size > 0 || culprit == 0, "base is tried only before the first item is blamed");
                        let outcome = if size == 0 {
                            RoundOutcome::NothingToDo
                        } else if size > culprit {
                            RoundOutcome::Rejected
                        } else {
                            RoundOutcome::Reported
                        };
                        trials.push(trial(size, outcome));
                    }
                    SearchMove::SetAside { position } => break position,
                    SearchMove::GiveUp { .. } | SearchMove::BaseFails => panic!("every trial had an answer"),
                }
            };
            assert_eq!(found, culprit, "of {count}");
            assert!(trials.len() <= 1 + count.next_power_of_two().ilog2() as usize, "{} trials", trials.len());
        }
    }
}

#[test]
fn the_search_blames_no_item_for_a_checker_or_for_a_trial_without_an_answer() {
    let refused_by_checker = LandingTrial { is_rejected_by_gates: false, ..trial(2, RoundOutcome::Rejected) };
    assert_eq!(next_search(4, &[refused_by_checker]), SearchMove::Try { count: 3 }, "its gates passed");
    assert_eq!(next_search(4, &[trial(2, RoundOutcome::OverBudget)]), SearchMove::GiveUp { count: 2 });
    assert_eq!(next_search(4, &[trial(2, RoundOutcome::Failed)]), SearchMove::GiveUp { count: 2 });
    let contradicting = [trial(2, RoundOutcome::Rejected), trial(3, RoundOutcome::Reported)];
    assert!(matches!(next_search(4, &contradicting), SearchMove::SetAside { position: 1 }), "it still ends");
}

#[test]
fn the_search_blames_no_item_for_a_base_that_is_red_by_itself() {
    let rejected = [trial(2, RoundOutcome::Rejected), trial(1, RoundOutcome::Rejected)];
    assert_eq!(next_search(4, &rejected), SearchMove::Try { count: 0 });
    let with = |outcome| next_search(4, &[rejected[0], rejected[1], trial(0, outcome)]);
    assert_eq!(with(RoundOutcome::Empty), SearchMove::BaseFails);
    assert_eq!(with(RoundOutcome::NothingToDo), SearchMove::SetAside { position: 0 });
    assert_eq!(with(RoundOutcome::Cancelled), SearchMove::GiveUp { count: 0 });
    let mut landing = loop_spec();
    landing.gates = ["old", "proof"].map(|name| Gate::Run(RunGate::new(name, vec!["true".to_owned()]))).to_vec();
    let tried = base_trial_spec(&landing, &["proof"]).expect("one gate is left");
    assert!(matches!(tried.gates.as_slice(), [Gate::Run(gate)] if gate.name == "old" && gate.red_before));
    assert_eq!(base_trial_spec(&landing, &["old", "proof"]), None);
}

#[test]
fn a_merge_without_money_does_not_start() {
    let mut state = progress(vec![ended(PartState::Done, RoundOutcome::Reported)]);
    state.overhead = tokens(600);
    let moves = next_moves(&workflow(ItemJoin::Barrier), &budget(600, None), &state);
    assert!(matches!(moves[..], [WorkflowMove::End { outcome: RoundOutcome::OverBudget, .. }]), "{moves:?}");
}

fn contract(name: &str, rest: &str) -> (String, GoalContract) {
    let text = format!(
        "name: {name}\noutcome: {name} works.\ncriteria: [{{ text: it works, gate: {name} }}]\nlevel: L2\n\
         agents: {{ maker: {{ use: command, run: [make] }} }}\nprotect: [\"{name}/tests/**\"]\n\
         gates: [{{ name: {name}, run: [./{name}.sh] }}, {{ name: sane, run: [./sane.sh] }}]\noutput: [pull-request]\n{rest}"
    );
    let file = format!("{name}.yaml");
    let goal = read_goal_file(&file, text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    (file, goal)
}

#[test]
fn goals_land_together_with_all_their_gates_and_keep_what_is_their_own() {
    let goals = [contract("fast", "attempts: 2\n"), contract("small", "budget: { round: { tokens: 1000 } }\n")];
    let group = goal_group(&goals, 2).expect("a group");
    assert_eq!(group.name, goal_group(&goals, 4).expect("a group").name, "the same goals continue the same group");
    group.clone().check().expect("a good workflow");
    let written = serde_json::to_string(&group).expect("JSON");
    assert_eq!(serde_json::from_str::<LoopSpec>(&written).expect("a spec"), group, "the record has all of it");
    let share = SpendAllowance { usd: Some(Usd(7)), tokens: Some(5000) };
    let item = goal_item_spec(&group, &goals[1].1.spec, share, "c0ffee").expect("an item's loop");
    assert_eq!((item.name.as_str(), item.mode, item.base.as_deref()), ("small", LoopMode::GoalLoop, Some("c0ffee")));
    assert_eq!((item.budget.round.usd, item.budget.round.tokens), (Some(Usd(7)), Some(1000)), "the smaller ceilings");
    let names = |spec: &LoopSpec| spec.gates.iter().map(|gate| gate.name().to_owned()).collect::<Vec<_>>();
    let all: Vec<&LoopSpec> = goals.iter().map(|(_, goal)| goal.spec.spec()).collect();
    let landing = landing_spec(&group, &all, share).expect("a landing's loop").check().expect("a good loop");
    assert_eq!(names(landing.spec()), ["fast", "sane", "small"]);
    assert_eq!(landing.protect, ["fast/tests/**", "small/tests/**"]);
    assert_eq!(names(&landing_spec(&group, &all[..1], share).expect("of one")), ["fast", "sane"]);
}

#[test]
fn a_goal_that_may_change_what_another_protects_is_no_part_of_its_group() {
    let with = |allowed: &str| {
        goal_group(&[contract("one", ""), contract("two", &format!("allow_paths: [\"{allowed}\"]\n"))], 2)
    };
    for allowed in
        ["one/tests/**", "one", "one/*/x.rs", "**", "*/tests/a", "one/{tests,src}/**", "one/[t]ests/a", "./one/"]
    {
        let error = with(allowed).expect_err(allowed).to_string();
        assert_eq!(error, format!("`two` may change `{allowed}`, and `one` protects `one/tests/**`"));
    }
    for allowed in ["two/**", "one/src/**", "on/tests/**", "onetests/x", "two/{a,b}/**"] {
        with(allowed).unwrap_or_else(|error| panic!("{allowed}: {error}"));
    }
}

#[test]
fn a_landing_whose_checks_cannot_be_joined_is_an_error() {
    let goals = [contract("fast", ""), contract("small", "")];
    let group = goal_group(&goals, 2).expect("a group");
    let first = goals[0].1.spec.spec().clone();
    let mut other = goals[1].1.spec.spec().clone();
    other.gates = vec![Gate::Run(RunGate::new("sane", vec!["./weaker.sh".to_owned()]))];
    let share = SpendAllowance { usd: Some(Usd(7)), tokens: Some(5000) };
    let error = landing_spec(&group, &[&first, &other], share).expect_err("not with fewer gates");
    assert_eq!(error.to_string(), "two goals have a different gate `sane`");
}

#[test]
fn goals_that_do_not_send_the_same_way_are_no_group() {
    let no =
        |rest: &str| goal_group(&[contract("one", ""), contract("two", rest)], 2).expect_err("no group").to_string();
    assert_eq!(no("forge: work\n"), "`two` differs from the group in `forge`");
    assert_eq!(no("network: [docs.example.org]\n"), "`two` differs from the group in `network`");
    assert_eq!(no("mode: dynamic-workflow\nworkflow: { items: [a] }\n"), "`two` is not one round");
    let other = contract("two", "");
    let gates = other.1.spec.gates.iter().map(|gate| match gate {
        Gate::Run(gate) if gate.name == "sane" => Gate::Run(RunGate::new("sane", vec!["./other.sh".to_owned()])),
        other => other.clone(),
    });
    let spec = LoopSpec { gates: gates.collect(), ..other.1.spec.spec().clone() }.check().expect("a good goal");
    let error =
        goal_group(&[contract("one", ""), (other.0, GoalContract { spec, ..other.1 })], 2).expect_err("no group");
    assert_eq!(error.to_string(), "two goals have a different gate `sane`");
}
