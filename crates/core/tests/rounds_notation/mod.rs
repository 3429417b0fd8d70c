//! A short notation for events: a word and `key=value` pairs on each line. Test material only.

use loopwright_core::actor::Actor;
use loopwright_core::attack::{AttackFinding, AttackRole, FindingSeverity, FindingsReading, merge_findings};
use loopwright_core::budget::{BudgetLimit, Reservation, Spend, Tokens};
use loopwright_core::gate::{GateResult, GateStatus};
use loopwright_core::goal_plan::{PlanDraft, PlanPhase};
use loopwright_core::human_gate::GateDecision;
use loopwright_core::level::LoopLevel;
use loopwright_core::outbox::StagedItem;
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::round::{
    AgentEnd, AnswerWindow, AttackFinished, AttackerResult, BaselineFinished, Boundary, CandidateSealed,
    CeilingReached, ChangeFact, CheckerResult, DeliveryEnded, DeliveryResult, Event, Expired, GatesFinished,
    MakerResult, MemoryRecalled, PersonDecision, PersonSteer, PlannerResult, ProbeAnswer, ProbeItem, ProofArtefact,
    ProofFinished, ProofVerdict, QuestionHeld, ReproductionEnd, ReproductionResult, RoleEnded, RoleResult, RoleStarted,
    RoundPaused, RoundRecorded, RoundResumed, RoundStarted, RoundStopped, SealFindings, ShownChange, Stage,
    StageFailed, StagedBatch, StoppedBy, WorkspaceIsolated,
};
use loopwright_core::spec::{
    ActionKind, AgentSpec, AgentUse, AttackSpec, CheckMode, Gate, ItemsForm, LoopMode, LoopSpec, OutputSpec,
    PlateauSpec, ProbeSpec, ProverSpec, Role, RunGate,
};
use loopwright_core::units::Usd;
use loopwright_core::verdict::{Judgement, ScoredVerdict, VerdictWord};

/// Reads the notation. The first line that is not a comment describes the loop.
pub(crate) fn events(text: &str) -> Vec<Event> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut attempt = 0;
    let first = started(&Words::of(lines.next().expect("a loop line")));
    let mut events = vec![first];
    for line in lines {
        let words = Words::of(line);
        if words.first == "maker-started" && !words.has("again") && !words.has("next") {
            attempt += 1;
        }
        events.push(event(&words, attempt));
    }
    events
}

struct Words<'a> {
    first: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        Self { first: words.next().unwrap_or(""), rest: words.collect() }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.rest.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn list(&self, key: &str) -> Vec<String> {
        self.get(key).map(|text| text.split(',').map(str::to_owned).collect()).unwrap_or_default()
    }

    fn has(&self, word: &str) -> bool {
        self.rest.contains(&word)
    }
}

fn started(words: &Words<'_>) -> Event {
    let level = LoopLevel::parse(words.get("level").unwrap_or("L2")).expect("a level");
    let mut spec = LoopSpec::new("demo", "mend the sum", level);
    spec.attempts = words.get("attempts").map_or(3, |text| text.parse().expect("a number"));
    spec.gates = words.list("gates").into_iter().map(|name| gate(&name)).collect();
    let output = |kind: &String| OutputSpec::new(ActionKind::read(kind).expect("a kind"));
    spec.output = words.list("output").iter().map(output).collect();
    if spec.output.is_empty() {
        spec.output = vec![OutputSpec::new(ActionKind::PullRequest)];
    }
    add_agents(words, &mut spec);
    spec.approvers = words.list("approvers");
    spec.approvals.quorum = words.get("quorum").map_or(1, |text| text.parse().expect("a number"));
    spec.approvals.separate = words.has("separate");
    if words.has("goal") {
        spec.mode = LoopMode::GoalLoop;
    }
    if words.has("prover") {
        spec.prover = Some(ProverSpec { exercise: vec!["./exercise".into()], ..ProverSpec::default() });
    }
    let roles: Vec<_> = words.list("attack").into_iter().map(AttackRole::BuiltIn).collect();
    spec.attack = (!roles.is_empty()).then_some(AttackSpec { roles, timeout: None });
    spec.plateau = words.get("plateau").map(|text| PlateauSpec { window: text.parse().expect("a number") });
    if words.has("unchecked") {
        spec.check = CheckMode::None;
    }
    if words.has("probe") {
        spec.on.probe = Some(ProbeSpec::Run { run: vec!["./probe".into()], items: ItemsForm::Lines, batch: 1 });
    }
    Event::Started(Box::new(RoundStarted {
        round: "r1".into(),
        repo: "repo".into(),
        repo_path: "/repo".into(),
        trigger: "manual".into(),
        occurrence: "manual:r1".into(),
        spec_hash: "hash".into(),
        spec,
        actor: "tester".into(),
        item: words.get("item").map(|key| ProbeItem { key: key.into(), title: None, data: None, chain: 0 }),
        more: Vec::new(),
        chain: 0,
        dry_run: words.has("dry-run"),
        boundary: Boundary::default(),
        refusal: words.get("refusal").map(|text| text.replace('-', " ")),
        inputs: Vec::new(),
        provider_wait_ms: words.get("wait").map_or(0, |text| text.parse::<u64>().expect("seconds") * 1000),
        waits_first: !words.has("fallback-first"),
        retry_of: None,
        calibration: false,
        rebase: words.has("rebase").then(loopwright_core::round::RebaseOrigin::default),
        workflow: None,
        goal: None,
    }))
}

fn add_agents(words: &Words<'_>, spec: &mut LoopSpec) {
    for (role, key) in [(Role::Maker, "maker"), (Role::Checker, "checker")] {
        if let Some((first, rest)) = words.list(key).split_first() {
            let agent = AgentUse::ALL.into_iter().find(|agent| agent.word() == first).expect("an agent");
            spec.agents.insert(role, AgentSpec { fallback: rest.to_vec(), ..AgentSpec::new(agent) });
        }
    }
}

/// `name`, or `name!` for a gate that must be red before.
fn gate(name: &str) -> Gate {
    let mut gate = RunGate::new(name.trim_end_matches('!'), vec!["./check".into()]);
    gate.red_before = name.ends_with('!');
    Gate::Run(gate)
}

/// Long because it is the table of the notation's words.
fn event(words: &Words<'_>, attempt: u32) -> Event {
    match words.first {
        "recalled" => Event::Recalled(MemoryRecalled {
            day_micros: words.get("day").map_or(0, |text| text.parse().expect("a number")),
            ..MemoryRecalled::default()
        }),
        "probed" => Event::Probed(probed(words)),
        "isolated" => Event::Isolated(WorkspaceIsolated { base: "b0".into(), branch: Some("main".into()) }),
        "baselined" => Event::Baselined(BaselineFinished { results: results(words) }),
        "planner-started" => Event::RoleStarted(agent(words, Role::Planner, attempt)),
        "planned" => ended(words, attempt, RoleResult::Planner(planned(words))),
        "attacker-started" => Event::RoleStarted(attacker(words, attempt)),
        "attacked-by" => attacked_by(words, attempt),
        "proved" => Event::Proved(proved(words, attempt)),
        "attacked" => Event::Attacked(AttackFinished { attempt, reproductions: reproductions(words) }),
        "maker-started" => Event::RoleStarted(agent(words, Role::Maker, attempt)),
        "made" => ended(words, attempt, RoleResult::Maker(made(words))),
        "sealed" => Event::Sealed(Box::new(sealed(words, attempt))),
        "gated" => {
            Event::Gated(GatesFinished { attempt, results: results(words), inputs_edited: words.list("edited") })
        }
        "checker-started" => Event::RoleStarted(agent(words, Role::Checker, attempt)),
        "checked" => ended(words, attempt, RoleResult::Checker(checked(words))),
        "decided" => Event::Decided {
            decision: if words.has("auto") {
                GateDecision::AutoProceed
            } else {
                GateDecision::escalate("not on the list")
            },
        },
        "approved" => Event::Approved(said(words)),
        "denied" => Event::Denied(said(words)),
        "expired" => Event::Expired(Expired { at_ms: at_ms(words) }),
        "delivered" => Event::Delivered(delivered(words)),
        "recorded" => Event::Recorded(RoundRecorded {
            report: Some("/reports/r1.md".into()),
            network: Default::default(),
            window: words
                .get("until")
                .map(|text| AnswerWindow { from_ms: 0, until_ms: text.parse().expect("a number") }),
            debts: None,
        }),
        "ceiling" => Event::Ceiling(CeilingReached { limit: BudgetLimit::Day, text: "no room".into() }),
        "broke" => Event::Broke(StageFailed { stage: Stage::Isolate, code: "git".into(), text: "git broke".into() }),
        "stopped" => Event::Stopped(RoundStopped {
            by: if words.has("person") { StoppedBy::Person } else { StoppedBy::Signal },
            text: "stopped".into(),
        }),
        "recovered" => Event::Recovered,
        "waited" => Event::Waited,
        "resent" => Event::Resent,
        "steered" => Event::Steered(PersonSteer { actor: "ada".into(), text: "smaller".into() }),
        "question-held" => Event::QuestionHeld(QuestionHeld {
            actor: said(words).actor,
            candidate: String::new(),
            until_ms: words.get("until").expect("until=").parse().expect("a number"),
            why: None,
            at_ms: at_ms(words).expect("at="),
        }),
        "paused" => Event::Paused(RoundPaused { actor: "ada".into(), why: "lunch".into() }),
        "resumed" => Event::Resumed(RoundResumed {
            actor: "ada".into(),
            provider_wait_ms: words.get("wait").map_or(0, |text| text.parse::<u64>().expect("seconds") * 1000),
            raised: Reservation {
                tokens: words.get("tokens").map_or(0, |text| text.parse().expect("a number")),
                usd: Usd(0),
            },
        }),
        other => panic!("no event is written `{other}`"),
    }
}

fn probed(words: &Words<'_>) -> ProbeAnswer {
    if words.has("nothing") {
        return ProbeAnswer::Nothing;
    }
    if words.has("failed") {
        return ProbeAnswer::Failed { text: "exit 7".into() };
    }
    let items = words.list("items").into_iter().map(|key| ProbeItem { key, title: None, data: None, chain: 0 });
    ProbeAnswer::Work { items: items.collect() }
}

/// `with=codex place=1 left=0`: an agent of a chain.
fn agent(words: &Words<'_>, role: Role, attempt: u32) -> RoleStarted {
    let number = |key| words.get(key).map_or(0, |text| text.parse().expect("a number"));
    RoleStarted {
        role,
        attempt,
        part: None,
        agent: words.get("with").unwrap_or("scripted").into(),
        version: None,
        model: words.get("model").map(str::to_owned),
        cookie: "c".into(),
        reserved: Reservation { tokens: 100, usd: Usd(1_000_000) },
        day: None,
        loop_day: None,
        nonce: (role == Role::Checker).then(|| "n".to_owned()),
        place: number("place"),
        left: number("left"),
    }
}

/// `planned phases=parser,printer`, `planned missing`, `planned malformed`, `planned cannot`.
fn planned(words: &Words<'_>) -> PlannerResult {
    let phase = |title: String| PlanPhase { title, text: "text".into() };
    let phases: Vec<_> = words.list("phases").into_iter().map(phase).collect();
    let plan = if words.has("missing") {
        PlanDraft::Missing { file: "PLAN.md".into() }
    } else if words.has("malformed") {
        PlanDraft::Malformed { why: "PLAN.md is not UTF-8".into() }
    } else {
        let phases = if phases.is_empty() { vec![phase("all".into())] } else { phases };
        PlanDraft::Written { brief: "why".into(), plan: "how".into(), phases }
    };
    PlannerResult { plan, cannot: words.has("cannot").then(|| "the goal contradicts itself".to_owned()) }
}

/// `attacker-started security`.
fn attacker(words: &Words<'_>, attempt: u32) -> RoleStarted {
    let part = words.rest.first().map(|role| (*role).to_owned());
    RoleStarted {
        cookie: format!("c-{}", part.as_deref().unwrap_or_default()),
        part,
        ..agent(words, Role::Attacker, attempt)
    }
}

/// `attacked-by security high=empty-input,nan low=colour`; `bare` findings have no reproduction.
fn attacked_by(words: &Words<'_>, attempt: u32) -> Event {
    let finding = |severity, trigger: String| AttackFinding {
        severity,
        title: format!("breaks on {trigger}"),
        path: "sum.py".into(),
        line: Some(2),
        reproduction: (!words.has("bare")).then(|| format!("./sum.py {trigger}")),
        trigger,
    };
    let each = FindingSeverity::ALL.into_iter();
    let findings = each.flat_map(|one| words.list(one.word()).into_iter().map(move |trigger| finding(one, trigger)));
    let findings = match words.get("reading") {
        Some("missing") => FindingsReading::Missing,
        Some("malformed") => FindingsReading::Malformed { why: "not JSON".into() },
        Some("forged") => FindingsReading::Forged { why: "the nonce is not the one of this attack".into() },
        _ => FindingsReading::Findings { findings: findings.collect() },
    };
    let cookie = words.rest.first().map(|role| format!("c-{role}"));
    let Event::RoleEnded(end) = ended(words, attempt, RoleResult::Attacker(AttackerResult { findings })) else {
        unreachable!("an end is an end")
    };
    Event::RoleEnded(Box::new(RoleEnded { cookie, ..*end }))
}

/// `proved works`, `proved broken`, `proved unverifiable`, `proved works bare` without an artefact.
fn proved(words: &Words<'_>, attempt: u32) -> ProofFinished {
    let verdict = words.rest.first().and_then(|word| ProofVerdict::parse(word)).expect("a verdict");
    let artefact = ProofArtefact { name: "exercise.log".into(), hash: "h".into(), bytes: 3 };
    let artefacts = if words.has("bare") { Vec::new() } else { vec![artefact] };
    let text = format!("the exercise says {verdict}");
    ProofFinished { attempt, verdict, text, excerpt: "output".into(), artefacts, duration_ms: 5 }
}

/// `attacked empty-input=reproduced nan=not-there x=inconclusive`: the results by trigger.
fn reproductions(words: &Words<'_>) -> Vec<ReproductionResult> {
    let result = |word: &&str| {
        let (trigger, end) = word.split_once('=')?;
        let end = match end {
            "reproduced" => ReproductionEnd::Reproduced,
            "not-there" => ReproductionEnd::NotThere,
            _ => ReproductionEnd::Inconclusive { why: "timeout".into() },
        };
        Some(ReproductionResult { key: finding_key(trigger), end, excerpt: String::new(), script: 0 })
    };
    words.rest.iter().filter_map(result).collect()
}

fn finding_key(trigger: &str) -> String {
    let finding = AttackFinding {
        severity: FindingSeverity::High,
        title: String::new(),
        path: "sum.py".into(),
        line: None,
        trigger: trigger.into(),
        reproduction: None,
    };
    merge_findings([("x", [finding].as_slice())]).remove(0).key
}

/// The time at which histories begin, in seconds since 1970.
const DAWN: i64 = 1_800_000_000;

/// `trouble=rate-limited at=60 retry=3600`: seconds since that time.
fn trouble(words: &Words<'_>, kind: &str) -> AgentEnd {
    let kind = TroubleKind::ALL.into_iter().find(|known| known.word() == kind).expect("a kind");
    let ms = |text: &str| (DAWN + text.parse::<i64>().expect("seconds")) * 1000;
    let retry_at_ms = words.get("retry").map(ms);
    let trouble = ProviderTrouble { kind, status: None, retry_at_ms, text: "says the provider".into() };
    AgentEnd::Provider { trouble, at_ms: words.get("at").map_or(0, ms) }
}

fn spend(words: &Words<'_>) -> Spend {
    let input = words.get("tokens").map_or(10, |text| text.parse().expect("a number"));
    Spend { tokens: Tokens { input, ..Tokens::default() }, ..Spend::default() }
}

fn end(words: &Words<'_>) -> AgentEnd {
    if let Some(code) = words.get("exit") {
        return AgentEnd::Exited { code: code.parse().expect("a number") };
    }
    if let Some(signal) = words.get("signal") {
        return AgentEnd::Signaled { signal: signal.parse().expect("a number") };
    }
    if let Some(kind) = words.get("trouble") {
        return trouble(words, kind);
    }
    if words.has("idle") {
        return AgentEnd::Limit { limit: BudgetLimit::Idle, text: "no output".into() };
    }
    if words.has("unusable") {
        return AgentEnd::Unusable { text: "script exhausted".into() };
    }
    AgentEnd::Exited { code: 0 }
}

fn ended(words: &Words<'_>, attempt: u32, result: RoleResult) -> Event {
    Event::RoleEnded(Box::new(RoleEnded {
        attempt,
        cookie: None,
        end: end(words),
        spend: spend(words),
        models: Vec::new(),
        counted: Default::default(),
        refused_calls: 0,
        transcript: None,
        result,
    }))
}

fn at_ms(words: &Words<'_>) -> Option<i64> {
    words.get("at").map(|text| text.parse().expect("a number"))
}

fn made(words: &Words<'_>) -> MakerResult {
    let staged = if words.has("bad-outbox") {
        StagedBatch::Refused { problems: vec!["evil.sh: unknown name".into()] }
    } else {
        StagedBatch::Items { items: Vec::new() }
    };
    MakerResult {
        text: "done".into(),
        cannot: words.has("cannot").then(|| "the task contradicts a gate".to_owned()),
        staged,
        secrets: Vec::new(),
        survivors: u32::from(words.has("survivor")),
        notes: Default::default(),
    }
}

fn sealed(words: &Words<'_>, attempt: u32) -> CandidateSealed {
    let change = |path: String| ChangeFact { path, status: "modified".into(), added: 1, removed: 1 };
    let kinds = words.list("items");
    let item = |(at, kind): (u32, String)| {
        let kind = ActionKind::read(&kind).expect("a kind");
        StagedItem::new(at, format!("{kind}.md"), kind, "body")
    };
    let tree = words.get("tree").unwrap_or("t0").to_owned();
    CandidateSealed {
        attempt,
        commit: format!("commit-{tree}"),
        candidate: format!("candidate-{tree}"),
        tree,
        changes: words.list("changed").into_iter().map(change).collect(),
        items: (1..).zip(kinds).map(item).collect(),
        findings: SealFindings {
            refused_paths: words.list("refused"),
            secrets: words.list("secrets"),
            protected: words.list("protected"),
            missing_tests: words.list("missing"),
            outside: words.list("outside"),
            sensitive: words.list("sensitive"),
            proposed_before: words.list("proposed").pop(),
            ..SealFindings::default()
        },
        destination: None,
    }
}

/// `name=passed`, `name=rejected`, `name=failed`.
fn results(words: &Words<'_>) -> Vec<GateResult> {
    let statuses = [("passed", GateStatus::Passed), ("rejected", GateStatus::Rejected), ("failed", GateStatus::Failed)];
    let result = |word: &&str| {
        let (name, status) = word.split_once('=')?;
        let (_, status) = statuses.into_iter().find(|(word, _)| *word == status)?;
        let name = match name.strip_prefix("regression-") {
            Some(trigger) => format!("regression-{}", finding_key(trigger)),
            None => name.to_owned(),
        };
        let mut result = GateResult::new(name, status);
        result.reason = (status != GateStatus::Passed).then(|| words.get("why").unwrap_or("exit").to_owned());
        result.excerpt = words.get("why").unwrap_or("exit").to_owned();
        Some(result)
    };
    words.rest.iter().filter_map(result).collect()
}

fn checked(words: &Words<'_>) -> CheckerResult {
    let scored =
        |verdict| ScoredVerdict { verdict, said: verdict, mean: Some(4.0), summary: "seen".into(), scores: Vec::new() };
    let judgement = match words.rest.first().copied() {
        Some("pass") => Judgement::Pass { scored: scored(VerdictWord::Pass) },
        Some("fail") => Judgement::Fail {
            reasons: vec![words.get("why").unwrap_or("scope 2").into()],
            scored: scored(VerdictWord::Fail),
        },
        Some("escalate") => {
            Judgement::Escalate { reasons: vec!["unsure".into()], scored: scored(VerdictWord::Escalate) }
        }
        Some("malformed") => Judgement::Malformed { why: "not JSON".into() },
        Some("forged") => Judgement::Forged { why: "the nonce is not this round's".into() },
        Some(_) | None => Judgement::Missing,
    };
    let shown = if words.has("cut") { ShownChange::Part } else { ShownChange::Whole };
    CheckerResult { judgement, shown }
}

fn said(words: &Words<'_>) -> PersonDecision {
    PersonDecision {
        actor: actor(words.get("by").unwrap_or("ada")),
        candidate: words.get("candidate").unwrap_or("candidate-t1").into(),
        why: words.get("why").map(str::to_owned),
        at_ms: at_ms(words),
        position: words.get("item").and_then(|text| text.parse().ok()),
        same_as: None,
    }
}

/// `name`, `name/uid` for a user of the operating system, or `name@place` for an account elsewhere.
fn actor(text: &str) -> Actor {
    if let Some((name, place)) = text.split_once('@') {
        return Actor::account(name, place, "7");
    }
    match text.split_once('/') {
        Some((name, uid)) => Actor::user(name, uid.parse().expect("a number")),
        None => Actor::embedder(text),
    }
}

fn delivered(words: &Words<'_>) -> DeliveryEnded {
    let position = words.rest.first().and_then(|text| text.parse().ok()).expect("a position");
    let result = match words.rest.get(1).copied() {
        Some("sent") => DeliveryResult::Sent { place: "pulls/1.md".into(), note: None },
        Some("in-doubt") => DeliveryResult::InDoubt { text: "the answer was lost".into() },
        Some("refused") => DeliveryResult::Refused { text: "foreign commits on the branch".into() },
        Some("blocked") => DeliveryResult::Blocked { text: "the token is not valid".into(), maybe_sent: false },
        Some("stopped") => DeliveryResult::Blocked { text: "stopped while it was sent".into(), maybe_sent: true },
        _ => DeliveryResult::Quarantined { text: "three tries failed".into() },
    };
    DeliveryEnded { position, result }
}
