//! Due rounds: the rows recorded with their start, the items they take, and what a loop remembers from one to the next.

mod common;
#[path = "common/stepping_clock.rs"]
mod stepping_clock;

use common::*;
use loopwright::agents::{AgentInvocation, AgentOutcome};
use loopwright::forget::ForgetRequest;
use loopwright::gc::{GcMode, GcRetention};
use loopwright::proc::CancelToken;
use loopwright::round::{DeliveryOutlet, DueRecord, LoopBindings, RoleAgents, RunRequest, SignalNovelty};
use loopwright::spec::Role;
use loopwright::store::{
    AgedRows, MemoryRow, ReceiptRow, ReceiptsQuery, RowChange, ScheduleRow, SignalRow, StoreErrorKind,
};
use loopwright::{AlwaysEscalate, Engine, EngineError, EngineSettings, RoundOutcome, RoundReport};
use loopwright_core::dispatch::OccurrenceOutcome;
use std::sync::Arc;

const DAWN_MS: i64 = 1_800_000_000_000;
const DAY_MS: i64 = 86_400_000;
const LOOP: &str = "read-sum";

/// An engine with its repository, and the loop that reads and reports.
struct House {
    world: World,
    engine: Engine,
    repo: String,
}

impl House {
    async fn new() -> Self {
        Self::at(DAWN_MS, World::new()).await
    }

    async fn at(now_ms: i64, world: World) -> Self {
        let clock = Arc::new(stepping_clock::SteppingClock::new(now_ms, 1));
        let engine = Engine::open(EngineSettings { clock, ..world.settings() }).await.expect("the engine opens");
        let repo = engine.git().discover(world.repo.path()).await.expect("a repository").id;
        Self { world, engine, repo }
    }

    /// The same state directory at a later time.
    async fn later(self, now_ms: i64) -> Self {
        self.engine.close().await.expect("it closes");
        Self::at(now_ms, self.world).await
    }

    fn request(&self) -> RunRequest {
        RunRequest::manual(checked(), self.world.repo.path(), "test")
    }

    async fn run(&self, request: RunRequest, bind: &LoopBindings) -> Result<RoundReport, EngineError> {
        self.engine.run(request, bind, &CancelToken::new()).await
    }

    fn schedule(&self, mark_ms: i64) -> ScheduleRow {
        ScheduleRow {
            repo: self.repo.clone(),
            loop_name: LOOP.to_owned(),
            fingerprint: "daily 02:30".to_owned(),
            mark_ms,
            paused_ms: None,
            paused_by: None,
            paused_why: None,
            streak: 0,
            signature: None,
            wait_until_ms: None,
            wait_why: None,
        }
    }

    fn receipt(&self, occurrence: &str, word: &str) -> ReceiptRow {
        ReceiptRow {
            repo: self.repo.clone(),
            loop_name: LOOP.to_owned(),
            occurrence: occurrence.to_owned(),
            due_ms: DAWN_MS,
            trigger: "webhook".to_owned(),
            receipt: OccurrenceOutcome::parse(word).expect("a word of receipts"),
            reason: String::new(),
            round: None,
            count: 1,
            through_ms: None,
            at_ms: DAWN_MS,
        }
    }

    fn signal(&self, key: &str, item: &str) -> SignalRow {
        SignalRow {
            repo: self.repo.clone(),
            loop_name: LOOP.to_owned(),
            key: key.to_owned(),
            trigger: "webhook".to_owned(),
            at_ms: DAWN_MS,
            item: Some(item.to_owned()),
            title: Some("a pull request".to_owned()),
            data: Some("{\"number\":7}".to_owned()),
            taken_ms: None,
        }
    }

    /// The dispatcher's request for one signal.
    fn due(&self, key: &str, item: &str, mark_ms: i64) -> RunRequest {
        let due = DueRecord {
            receipt: self.receipt(key, "started"),
            schedule: self.schedule(mark_ms),
            signals: vec![key.to_owned()],
        };
        RunRequest { due: Some(due), items: vec![item.to_owned()], ..self.request() }
    }

    /// Stores a signal for an item and runs its round.
    async fn brought(&self, key: &str, item: &str, bind: &LoopBindings) -> RoundReport {
        assert_eq!(self.engine.store_signal(self.signal(key, item)).await.expect("kept"), SignalNovelty::First);
        self.run(self.due(key, item, DAWN_MS), bind).await.expect("a round")
    }

    async fn remembered(&self) -> Vec<MemoryRow> {
        self.engine.store().memory(&self.repo, LOOP).await.expect("memory")
    }
}

fn checked() -> loopwright::spec::CheckedSpec {
    reporting().check().unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn bound(maker: impl Fn(&AgentInvocation) -> AgentOutcome + Send + Sync + 'static) -> (LoopBindings, Calls) {
    let maker = puppet(maker);
    let calls = maker.calls();
    let bind = LoopBindings {
        agents: RoleAgents::default()
            .with(Role::Maker, Arc::new(maker))
            .with(Role::Checker, Arc::new(judge_report("pass", 5))),
        gate: Arc::new(AlwaysEscalate),
        outlet: DeliveryOutlet::LocalForge,
    };
    (bind, calls)
}

fn reports(invocation: &AgentInvocation) -> AgentOutcome {
    stage(invocation, "report.md", "sum.sh subtracts\n");
    said("done")
}

/// A maker that reports, and notes something for later rounds.
fn notes(lines: &'static str) -> (LoopBindings, Calls) {
    bound(move |invocation| {
        stage(invocation, "memory.jsonl", lines);
        reports(invocation)
    })
}

fn fails(_: &AgentInvocation) -> AgentOutcome {
    ended(3, "no", 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn round_starts_with_its_receipt_its_mark_and_the_signals_it_takes() {
    let house = House::new().await;
    let (bind, calls) = bound(reports);
    let report = house.brought("webhook:gh:1", "pr-7@abc", &bind).await;
    assert_eq!(report.outcome, Some(RoundOutcome::Reported));
    let store = house.engine.store();
    let receipt = store.receipt(&house.repo, LOOP, "webhook:gh:1").await.expect("read").expect("a receipt");
    assert_eq!((receipt.receipt.word(), receipt.round.as_deref()), ("started", Some(report.round.as_str())));
    let row = store.round(&report.round).await.expect("read").expect("a round");
    assert_eq!((row.occurrence.as_str(), row.trigger.as_str()), ("webhook:gh:1", "webhook"));
    let standing = store.schedule(&house.repo, LOOP).await.expect("read").expect("a schedule");
    assert_eq!(standing.mark_ms, DAWN_MS);
    assert_eq!(store.pending_signals(9).await.expect("read"), []);
    assert_eq!(
        house.engine.store_signal(house.signal("webhook:gh:1", "pr-7@abc")).await.expect("kept"),
        SignalNovelty::Repeated
    );
    let brief = &calls.all()[0].prompt;
    assert!(brief.contains("a pull request\n{\"number\":7}"), "the signal's data is shown: {brief}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_stored_before_the_start_is_recorded_stays_after_it() {
    let house = House::new().await;
    let (bind, _) = bound(reports);
    house.engine.write_rows(vec![RowChange::Schedule(house.schedule(DAWN_MS - 9))]).await.expect("kept");
    // The start was decided, and then a person paused the loop.
    let start = RunRequest { items: Vec::new(), ..house.due("due:x", "", DAWN_MS) };
    let start = RunRequest { due: start.due.map(|due| DueRecord { signals: Vec::new(), ..due }), ..start };
    let (paused_ms, paused_by) = (Some(DAWN_MS), Some("ann".to_owned()));
    let paused = ScheduleRow { paused_ms, paused_by, ..house.schedule(DAWN_MS - 9) };
    house.engine.write_rows(vec![RowChange::Schedule(paused.clone())]).await.expect("kept");
    house.run(start, &bind).await.expect("a round");
    let stands = house.engine.store().schedule(&house.repo, LOOP).await.expect("read");
    assert_eq!(stands, Some(ScheduleRow { mark_ms: DAWN_MS, ..paused }));
}

#[tokio::test(flavor = "multi_thread")]
async fn occurrence_with_a_receipt_starts_no_round_and_moves_no_mark() {
    let house = House::new().await;
    let (bind, calls) = bound(reports);
    house.brought("webhook:gh:1", "pr-7@abc", &bind).await;
    // The same occurrence again, as after a restart that lost track of it.
    house.engine.store_signal(house.signal("webhook:gh:2", "pr-8@abc")).await.expect("kept");
    let again = RunRequest { items: Vec::new(), ..house.due("webhook:gh:1", "pr-7@abc", DAWN_MS + 9) };
    let Err(EngineError::Store(error)) = house.run(again, &bind).await else { panic!("it ran twice") };
    assert!(matches!(error.kind, StoreErrorKind::Occurrence { .. }), "{error}");
    // A skipped occurrence is resolved too, and so is one whose signal no longer exists.
    house.engine.write_rows(vec![RowChange::Receipt(house.receipt("due:x", "quiet"))]).await.expect("kept");
    let mut skipped = house.due("due:x", "pr-8@abc", DAWN_MS + 9);
    if let Some(due) = &mut skipped.due {
        due.signals = vec!["webhook:gh:2".to_owned()];
    }
    let taken = house.due("webhook:gh:1", "pr-7@abc", DAWN_MS + 9);
    let taken = RunRequest {
        due: taken.due.map(|due| DueRecord { receipt: house.receipt("due:y", "started"), ..due }),
        ..house.request()
    };
    for request in [skipped, taken] {
        let Err(EngineError::Store(error)) = house.run(request, &bind).await else { panic!("it ran") };
        assert!(matches!(error.kind, StoreErrorKind::Conflict(_)), "{error}");
    }
    let store = house.engine.store();
    assert_eq!(store.schedule(&house.repo, LOOP).await.expect("read").map(|row| row.mark_ms), Some(DAWN_MS));
    assert_eq!(store.pending_signals(9).await.expect("read").len(), 1);
    assert_eq!(store.receipt(&house.repo, LOOP, "due:y").await.expect("read"), None);
    assert_eq!(calls.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn item_that_is_done_is_not_taken_again_but_its_next_revision_is() {
    let house = House::new().await;
    let (bind, calls) = bound(reports);
    house.brought("webhook:gh:1", "pr-7@abc", &bind).await;
    let again = house.brought("webhook:gh:2", "pr-7@abc", &bind).await;
    assert_eq!(again.outcome, Some(RoundOutcome::NothingToDo));
    assert_eq!(again.reasons[0].code, "item-settled");
    assert_eq!(calls.count(), 1, "no agent was started for it");
    let row = house.engine.store().item(&house.repo, LOOP, "pr-7@abc").await.expect("read").expect("an item");
    assert_eq!((row.state.word(), row.failures), ("processed", 0), "and it is no failure of the item's");
    let revised = house.brought("webhook:gh:3", "pr-7@def", &bind).await;
    assert_eq!(revised.outcome, Some(RoundOutcome::Reported));
    let by_hand = RunRequest { items: vec!["pr-7@abc".to_owned()], ..house.request() };
    assert_eq!(house.run(by_hand, &bind).await.expect("a round").outcome, Some(RoundOutcome::Reported));
}

#[tokio::test(flavor = "multi_thread")]
async fn round_that_takes_several_signals_works_on_the_items_that_are_not_done() {
    let house = House::new().await;
    let (bind, calls) = bound(reports);
    house.brought("w:1", "pr-7@abc", &bind).await;
    for (key, item) in [("w:2", "pr-7@abc"), ("w:3", "pr-8@abc"), ("w:4", "pr-9@abc")] {
        house.engine.store_signal(house.signal(key, item)).await.expect("kept");
    }
    let mut both = house.due("w:2", "pr-7@abc", DAWN_MS);
    both.items.extend(["pr-8@abc", "pr-9@abc"].map(str::to_owned));
    both.due.as_mut().expect("due").signals.extend(["w:3", "w:4"].map(str::to_owned));
    let report = house.run(both, &bind).await.expect("a round");
    assert_eq!(
        (report.outcome, report.items),
        (Some(RoundOutcome::Reported), vec!["pr-8@abc".into(), "pr-9@abc".into()])
    );
    let brief = &calls.all()[1].prompt;
    assert!(brief.contains("This round has 2 items") && brief.contains("pr-9@abc\na pull request"), "{brief}");
    assert!(!brief.contains("pr-7@abc"), "a processed item is not shown again: {brief}");
    let store = house.engine.store();
    for item in ["pr-8@abc", "pr-9@abc"] {
        let row = store.item(&house.repo, LOOP, item).await.expect("read").expect("an item");
        assert_eq!((row.state.word(), row.round.as_str()), ("processed", report.round.as_str()));
    }
    assert_eq!(store.pending_signals(9).await.expect("read"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn item_that_failed_three_times_waits_until_a_recorded_forget() {
    let house = House::new().await;
    let (bad, calls) = bound(fails);
    for n in 0..3 {
        assert_eq!(house.brought(&format!("w:{n}"), "pr-7@abc", &bad).await.outcome, Some(RoundOutcome::Failed));
    }
    assert_eq!(house.brought("w:3", "pr-7@abc", &bad).await.outcome, Some(RoundOutcome::NothingToDo));
    assert_eq!(calls.count(), 3);
    let store = house.engine.store();
    let open = store.inbox(9).await.expect("inbox");
    assert_eq!(open.iter().map(|row| row.kind.word()).collect::<Vec<_>>(), ["item-failed"]);
    let failure: Vec<_> = house.remembered().await.into_iter().map(|row| (row.key, row.kind, row.role)).collect();
    let expected = ["engine:failure:pr-7@abc", "failure", "engine"].map(str::to_owned);
    assert_eq!(failure, [(expected[0].clone(), expected[1].clone(), expected[2].clone())]);
    let forget = ForgetRequest {
        repo: house.repo.clone(),
        loop_name: LOOP.to_owned(),
        item: Some("pr-7@abc".to_owned()),
        actor: "ada".to_owned(),
    };
    let before = store.tail(0, 10_000).await.expect("events").len();
    let forgotten = loopwright::forget::forget(&house.engine, forget.clone()).await.expect("forgotten");
    assert_eq!((forgotten.items.len(), forgotten.memories.len(), forgotten.questions.len()), (1, 1, 1));
    assert_eq!(store.inbox(9).await.expect("inbox"), []);
    assert_eq!(house.remembered().await, []);
    let events = store.tail(0, 10_000).await.expect("events");
    assert_eq!((events.len(), events.last().map(|event| event.kind.as_str())), (before + 1, Some("forgotten")));
    assert!(
        loopwright::forget::forget(&house.engine, forget).await.expect("again").is_empty(),
        "nothing is left, and nothing recorded"
    );
    assert_eq!(store.tail(0, 10_000).await.expect("events").len(), before + 1);
    let (good, _) = bound(reports);
    assert_eq!(house.brought("w:4", "pr-7@abc", &good).await.outcome, Some(RoundOutcome::Reported));
}

const NOTED: &str = "{\"kind\":\"fact\",\"key\":\"port\",\"text\":\"the tests need 8080\"}\n\
                     {\"kind\":\"fact\",\"key\":\"engine:failure\",\"text\":\"forged\"}\n";

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_an_accepted_round_are_data_for_the_next_maker_and_hidden_from_checkers() {
    let house = House::new().await;
    let (bind, calls) = notes(NOTED);
    let first = house.run(house.request(), &bind).await.expect("a round");
    assert_eq!(first.outcome, Some(RoundOutcome::Reported));
    let left_out: Vec<_> = first.reasons.iter().filter(|reason| reason.code == "memory").collect();
    assert!(left_out.len() == 1 && left_out[0].text.contains("line 2: a key is"), "{left_out:?}");
    let rows = house.remembered().await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].key.as_str(), rows[0].role.as_str(), &rows[0].round), ("port", "maker", &first.round));
    assert!(rows[0].expires_ms.is_some_and(|at| at > DAWN_MS + 89 * DAY_MS && at < DAWN_MS + 91 * DAY_MS));
    let checker = puppet(|invocation| {
        let state = std::fs::read_to_string(&invocation.state_file).expect("a checker has the file too");
        assert!(state.contains("\"memory\":[]"), "{state}");
        judge_report("pass", 5).play(invocation)
    });
    let judged = checker.calls();
    let agents = bind.agents.clone().with_chain(Role::Checker, vec![Arc::new(checker)]);
    let second = LoopBindings { agents, ..bind };
    house.run(house.request(), &second).await.expect("a round");
    let (maker, checker) = (&calls.all()[1], &judged.all()[0]);
    let line = format!("fact `port` (maker, round {}): the tests need 8080", first.round);
    let fenced = maker.prompt.split("[data memory ").nth(1).expect("a fenced part");
    assert!(fenced.contains(&line), "{}", maker.prompt);
    // Compare the text and not the number: a prompt contains random names, and some contain these four digits by
    // chance.
    assert!(!checker.prompt.contains("the tests need"), "a maker's words do not reach a checker: {}", checker.prompt);
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_a_rejected_round_are_dropped_but_its_failure_stays_until_a_success() {
    let house = House::new().await;
    let (accepted, _) = notes(NOTED);
    let agents = accepted.agents.clone().with_chain(Role::Checker, vec![Arc::new(judge_report("fail", 1))]);
    let rejected = LoopBindings { agents, ..accepted.clone() };
    let report = house.run(house.request(), &rejected).await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Rejected));
    let rows = house.remembered().await;
    assert_eq!(rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), ["engine:failure"]);
    assert!(rows[0].text.starts_with("rejected: "), "{}", rows[0].text);
    let dry = RunRequest { dry_run: true, ..house.request() };
    house.run(dry, &accepted).await.expect("a round");
    assert_eq!(house.remembered().await, rows, "a dry run leaves nothing");
    house.run(house.request(), &accepted).await.expect("a round");
    let keys: Vec<_> = house.remembered().await.into_iter().map(|row| row.key).collect();
    assert_eq!(keys, ["port"], "a success clears the failure");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_expires_and_never_stores_secrets() {
    let house = House::new().await;
    let (bind, calls) = notes("{\"kind\":\"note\",\"key\":\"soon\",\"text\":\"gone in a day\",\"days\":1}\n");
    house.run(house.request(), &bind).await.expect("a round");
    let house = house.later(DAWN_MS + 2 * DAY_MS).await;
    house.run(house.request(), &bind).await.expect("a round");
    assert!(!calls.all()[1].prompt.contains("gone in a day"), "it had expired");
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).split_at(36).0);
    let maker_secret = secret.clone();
    let (leaking, _) = bound(move |invocation| {
        let line = format!("{{\"kind\":\"fact\",\"key\":\"token\",\"text\":\"it is {maker_secret}\"}}\n");
        stage(invocation, "memory.jsonl", &line);
        reports(invocation)
    });
    let report = house.run(house.request(), &leaking).await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Refused), "{:?}", report.reasons);
    assert!(house.remembered().await.iter().all(|row| !row.text.contains(&secret)), "kept nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn gc_removes_old_receipts_and_taken_signals_and_keeps_waiting_ones() {
    let house = House::new().await;
    let (bind, _) = bound(reports);
    house.brought("webhook:gh:1", "pr-7@abc", &bind).await;
    house.engine.store_signal(house.signal("webhook:gh:2", "pr-8@abc")).await.expect("kept");
    let house = house.later(DAWN_MS + 6 * DAY_MS).await;
    let all = GcRetention { rounds_before_ms: i64::MAX, logs_before_ms: i64::MAX };
    let listed = loopwright::gc::collect(&house.engine, all, GcMode::List).await.expect("listed");
    assert_eq!(
        listed.rows,
        AgedRows { receipts: 1, signals: 0, memories: 0 },
        "a signal is remembered for a week at least"
    );
    let house = house.later(DAWN_MS + 8 * DAY_MS).await;
    let month = GcRetention { rounds_before_ms: DAWN_MS, logs_before_ms: DAWN_MS };
    assert!(
        loopwright::gc::collect(&house.engine, month, GcMode::Remove).await.expect("removed").rows.is_empty(),
        "nothing is that old"
    );
    let gone = loopwright::gc::collect(&house.engine, all, GcMode::Remove).await.expect("removed");
    assert_eq!(gone.rows, AgedRows { receipts: 1, signals: 1, memories: 0 });
    let store = house.engine.store();
    let query = ReceiptsQuery { repo: house.repo.clone(), loop_name: LOOP.to_owned(), before: None, limit: 9 };
    assert_eq!(store.receipts(query).await.expect("receipts"), []);
    assert_eq!(store.pending_signals(9).await.expect("pending").len(), 1);
    assert!(loopwright::gc::collect(&house.engine, all, GcMode::Remove).await.expect("removed").rows.is_empty());
}
