//! Offered rounds and the workers that take them.

use loopwright::store::{
    FlagRow, LeaseHolder, OfferPlace, OfferRow, RowChange, Store, StoreBatch, StoreError, StoreErrorKind, WorkerRow,
    WorkerState,
};
use loopwright_core::dispatch::PlacementNeeds;
use std::sync::Arc;
use std::time::Duration;

use super::place::Place;
use super::rows::{batch, lease_of, with};

fn place_of(label: &str) -> OfferPlace {
    let needs = PlacementNeeds { labels: vec![label.to_owned()], agents: vec!["claude".to_owned()] };
    OfferPlace { repo: "repo-1".to_owned(), is_isolated: true, needs }
}

/// The first batch of a round of the loop with its name, which offers it.
pub(crate) fn offered(round: &str, label: &str, priority: i64) -> StoreBatch {
    let place = place_of(label).to_text();
    let offer = OfferRow { round: round.into(), place, priority, offered_ms: 5, worker: None, tries: 0 };
    with(batch(round, 0, "started"), [lease_of(round, round, &["path:src/"]), RowChange::Offer(offer)])
}

fn worker(store: &Store, name: &str, slots: i64) -> RowChange {
    let list = || "[]".to_owned();
    RowChange::Worker(WorkerRow {
        name: name.to_owned(),
        instance: store.instance_name().to_owned(),
        host: "alpha".to_owned(),
        labels: list(),
        agents: list(),
        repos: list(),
        boundary: "kernel".to_owned(),
        slots,
        state: WorkerState::Active,
        version: "1.2.3".to_owned(),
        offset_ms: 7,
        since_ms: 9,
    })
}

async fn write(store: &Store, changes: Vec<RowChange>) {
    store.append(StoreBatch::of_rows(1, changes)).await.expect("rows");
}

/// A store with a connected worker.
async fn worker_store(place: &Place, name: &str, slots: i64) -> Store {
    let store = place.own().await;
    write(&store, vec![worker(&store, name, slots)]).await;
    store
}

async fn claim(store: &Store, name: &str, labels: &[&str]) -> Option<String> {
    let places: Vec<_> = labels.iter().map(|label| place_of(label)).collect();
    store.claim(name, &places).await.expect("claim").map(|claimed| claimed.round)
}

fn kind<T>(result: Result<T, StoreError>) -> StoreErrorKind {
    result.err().expect("it is refused").kind
}

pub(crate) async fn offered_round_is_taken_by_one_of_many_workers(place: Place) {
    let scheduler = place.own().await;
    scheduler.append(offered("r1", "gpu", 0)).await.expect("recorded and offered");
    let mut claims = tokio::task::JoinSet::new();
    for number in 0..8 {
        let name = format!("w{number}");
        let store = Arc::new(worker_store(&place, &name, 1).await);
        claims.spawn(async move {
            let taken = store.claim(&name, &[place_of("gpu")]).await.expect("claim");
            (name, store, taken)
        });
    }
    let taken: Vec<_> = claims.join_all().await;
    let (with, without): (Vec<_>, Vec<_>) = taken.into_iter().partition(|(_, _, taken)| taken.is_some());
    let [(name, winner, Some(claimed))] = &with[..] else { panic!("{} workers took it", with.len()) };
    assert_eq!((claimed.round.as_str(), claimed.fence), ("r1", 2));
    winner.append(batch("r1", 1, "made")).await.expect("it is the worker's");
    let fenced = |ours| StoreErrorKind::Fenced { name: "r1".into(), ours, found: 2 };
    assert_eq!(kind(without[0].1.append(batch("r1", 2, "more")).await), fenced(0));
    assert_eq!(kind(scheduler.append(batch("r1", 2, "more")).await), fenced(0));
    let offer = scheduler.offer("r1").await.expect("a read").expect("its offer");
    assert_eq!((offer.worker.as_ref(), offer.tries), (Some(name), 1));
    let known = scheduler.workers().await.expect("workers");
    let busy: Vec<_> = known.iter().filter(|worker| !worker.rounds.is_empty()).map(|worker| &worker.row.name).collect();
    assert_eq!((known.len(), busy), (8, vec![name]));
    assert!(known.iter().all(|worker| worker.is_connected() && worker.can_isolate()));
}

pub(crate) async fn offered_round_keeps_its_loop_and_locks_and_no_process_takes_it_over(place: Place) {
    let (scheduler, other) = (place.own().await, place.own().await);
    scheduler.append(offered("r1", "gpu", 0)).await.expect("offered");
    let leases = other.leases().await.expect("leases");
    assert_eq!(leases.iter().map(|lease| lease.holder).collect::<Vec<_>>(), [LeaseHolder::Offered]);
    for store in [&scheduler, &other] {
        let taken = StoreBatch::of_rows(1, vec![lease_of("r1", "r1", &[])]);
        assert!(matches!(kind(store.append(taken).await), StoreErrorKind::Held(_)), "it is no abandoned round");
        for (round, name, lock) in [("r2", "r1", "issue:1"), ("r3", "docs", "path:src/a.rs")] {
            let start = with(batch(round, 0, "started"), [lease_of(round, name, &[lock])]);
            let StoreErrorKind::Occupied(why) = kind(store.append(start).await) else { panic!("{round} started") };
            assert!(why.contains("the queue of the workers"), "{why}");
        }
    }
    assert_eq!(
        kind(scheduler.append(batch("r1", 1, "made")).await),
        StoreErrorKind::Fenced { name: "r1".into(), ours: 0, found: 1 }
    );
}

pub(crate) async fn worker_that_is_drained_full_replaced_or_stopped_takes_nothing(place: Place) {
    let scheduler = place.own().await;
    let store = worker_store(&place, "w", 1).await;
    let (low, high) = (offered("r1", "gpu", 0), offered("r2", "big", 5));
    scheduler.append(low).await.expect("offered");
    assert_eq!(claim(&store, "w", &["cpu"]).await, None, "another place");
    assert_eq!(claim(&store, "w", &[]).await, None, "no place");
    assert_eq!(claim(&store, "nobody", &["gpu"]).await, None, "an unknown worker");
    let state = |state| vec![RowChange::WorkerState { name: "w".into(), state }];
    write(&scheduler, state(WorkerState::Draining)).await;
    assert_eq!(claim(&store, "w", &["gpu"]).await, None, "it is drained");
    write(&store, vec![worker(&store, "w", 1)]).await;
    assert_eq!(claim(&store, "w", &["gpu"]).await, None, "it stays drained when it connects again");
    let gone = RowChange::WorkerGone { name: "w".into(), instance: store.instance_name().to_owned() };
    write(&store, vec![gone]).await;
    assert_eq!(scheduler.workers().await.expect("workers").len(), 1, "and when it disconnects");
    write(&scheduler, state(WorkerState::Active)).await;
    let stop = FlagRow { name: "stop".into(), at_ms: 1, actor: "ada".into(), why: "fire".into() };
    write(&scheduler, vec![RowChange::Flag(stop)]).await;
    assert_eq!(claim(&store, "w", &["gpu"]).await, None, "everything is stopped");
    write(&scheduler, vec![RowChange::FlagGone { name: "stop".into() }]).await;
    // The locks of the second round are taken by the first one.
    let free = with(high, []);
    assert!(matches!(kind(scheduler.append(free).await), StoreErrorKind::Occupied(_)));
    assert_eq!(claim(&store, "w", &["big", "gpu"]).await.as_deref(), Some("r1"));
    write(&scheduler, vec![worker(&scheduler, "w", 9)]).await;
    assert_eq!(claim(&store, "w", &["gpu"]).await, None, "another process serves a worker of this name");
    let unknown = StoreBatch::of_rows(1, vec![RowChange::WorkerState { name: "x".into(), state: WorkerState::Active }]);
    assert!(matches!(kind(scheduler.append(unknown).await), StoreErrorKind::Conflict(_)));
}

pub(crate) async fn offers_go_out_by_priority_and_only_to_free_slots(place: Place) {
    let scheduler = place.own().await;
    let store = worker_store(&place, "w", 2).await;
    for (round, priority) in [("r1", 0), ("r2", 9), ("r3", 0)] {
        let mut offer = offered(round, "gpu", priority);
        offer.changes[0] = lease_of(round, round, &[]);
        scheduler.append(offer).await.expect("offered");
    }
    assert_eq!(scheduler.open_places().await.expect("places"), [place_of("gpu")]);
    assert_eq!(claim(&store, "w", &["gpu"]).await.as_deref(), Some("r2"));
    assert_eq!(claim(&store, "w", &["gpu"]).await.as_deref(), Some("r1"));
    assert_eq!(claim(&store, "w", &["gpu"]).await, None, "both slots are taken");
    store.append(with(batch("r2", 1, "ended"), [RowChange::LeaseEnd])).await.expect("it comes to rest");
    assert_eq!(claim(&store, "w", &["gpu"]).await.as_deref(), Some("r3"));
    assert!(store.verify().await.expect("verify").is_ok());
}

pub(crate) async fn offer_is_withdrawn_or_made_again_only_by_the_one_that_is_first(place: Place) {
    let scheduler = place.own().await;
    let store = worker_store(&place, "w", 1).await;
    scheduler.append(offered("r1", "gpu", 0)).await.expect("offered");
    assert_eq!(claim(&store, "w", &["gpu"]).await.as_deref(), Some("r1"));
    assert!(!scheduler.withdraw_offer("r1").await.expect("a try"), "the worker was faster");
    assert!(!scheduler.offer_again("r1", "somebody").await.expect("a try"), "another one has it");
    assert!(scheduler.offer_again("r1", store.instance_name()).await.expect("a try"), "its worker is gone");
    let fenced = StoreErrorKind::Fenced { name: "r1".into(), ours: 2, found: 3 };
    assert_eq!(kind(store.append(batch("r1", 1, "made")).await), fenced, "it comes back too late");
    assert_eq!(scheduler.offer("r1").await.expect("a read").map(|offer| (offer.worker, offer.tries)), Some((None, 1)));
    assert!(scheduler.withdraw_offer("r1").await.expect("a try"), "nobody was faster");
    scheduler.append(batch("r1", 1, "stopped")).await.expect("it is the scheduler's");
    assert_eq!(claim(&store, "w", &["gpu"]).await, None);
    assert_eq!(scheduler.offers().await.expect("offers"), []);
    assert!(!scheduler.offer_again("r1", scheduler.instance_name()).await.expect("a try"), "it has no offer any more");
}

pub(crate) async fn worker_whose_process_is_gone_is_not_connected(place: Place) {
    let gone = place.try_own(Duration::ZERO).await.expect("own");
    write(&gone, vec![worker(&gone, "w", 1)]).await;
    gone.close().await.expect("close");
    let known = place.own().await.workers().await.expect("workers");
    assert_eq!(known.iter().map(|worker| worker.is_connected()).collect::<Vec<_>>(), [false]);
    let member = known[0].member();
    assert_eq!((member.name.as_str(), member.slots, member.is_draining), ("w", 1, false));
}
