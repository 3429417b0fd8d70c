//! A large fleet: ten thousand loops, a hundred thousand rounds, and questions, written into the store by its own interface. Every page stays
//! small, and every list has pages.

use crate::server::{Server, token};
use crate::world::{LONG, World};
use loopwright::store::{
    InboxKind, InboxRisk, InboxRow, LoopRow, NewEvent, ProcessInfo, RoundRow, RowChange, Store, StoreBatch, StoreMode,
};
use loopwright_core::outcome::RoundOutcome;
use loopwright_testkit::wait;
use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Instant;

const LOOPS: usize = 10_000;
const ROUNDS: usize = 600;
/// Older rounds, of which only the rows exist: no page shows one.
const OLD_ROUNDS: usize = 100_000;
const QUESTIONS: usize = 120;

/// The most bytes of a page, before its style sheet.
const FIRST_PAINT_MAX: usize = 15 << 10;

fn loop_name(n: usize) -> String {
    format!("sweep-the-dependencies-{n:05}")
}

/// The counters of a loop; every fiftieth failed last.
fn counters(n: usize, like: &RoundRow) -> LoopRow {
    let failed = n.is_multiple_of(50);
    LoopRow {
        repo: like.repo.clone(),
        loop_name: loop_name(n),
        runs: 40,
        successes: 39,
        failures: 1,
        items: 12,
        duration_ms: 90_000,
        last_run_ms: Some(like.started_ms + n as i64),
        last_outcome: Some(if failed { RoundOutcome::Failed } else { RoundOutcome::Reported }),
        last_round: Some(like.id.clone()),
    }
}

fn question(n: usize, like: &RoundRow) -> InboxRow {
    InboxRow {
        id: format!("q-{n:04}"),
        round: String::new(),
        loop_name: loop_name(n),
        repo: like.repo.clone(),
        kind: InboxKind::LoopPaused,
        risk: if n.is_multiple_of(3) { InboxRisk::High } else { InboxRisk::Medium },
        candidate: None,
        summary: format!("it failed three times in a row in the same way, number {n}"),
        created_ms: like.started_ms,
        expires_ms: None,
        closed_ms: None,
    }
}

/// The open store, and the round to copy: the only one of `look`.
async fn open(world: &World) -> (Store, RoundRow, NewEvent) {
    let place = world.env.state().join("store.db");
    let store = Store::open_sqlite(&place, StoreMode::Write(ProcessInfo::current(0))).await.expect("the store opens");
    let id = world.json("rounds look")["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let like = store.round(&id).await.expect("it reads").expect("the round");
    let first = store.events(&id).await.expect("it reads").remove(0);
    (store, like, NewEvent { kind: first.kind, body: first.body })
}

/// Writes a round with its first event.
async fn add_round(store: &Store, row: RoundRow, event: &NewEvent) {
    let row = RoundRow { occurrence: format!("manual:{}", row.id), ..row };
    let (round, at_ms, events) = (row.id.clone(), row.started_ms, vec![event.clone()]);
    let batch = StoreBatch { round, expect_index: 0, at_ms, events, changes: vec![RowChange::Round(row)] };
    store.append(batch).await.expect("a round");
}

fn old_round(n: usize, like: &RoundRow) -> RoundRow {
    let id = format!("rold{n:06}");
    let (occurrence, started_ms) = (format!("manual:{id}"), like.started_ms - 90 * 86_400_000 - n as i64);
    RoundRow { id, occurrence, started_ms, loop_name: loop_name(3 + n % (LOOPS - 3)), ..like.clone() }
}

/// Writes the fleet: its counters, its questions, and the rounds of three loops.
async fn fill(world: &World) {
    let (store, like, event) = open(world).await;
    let mut changes: Vec<RowChange> = (0..LOOPS).map(|n| RowChange::Stats(counters(n, &like))).collect();
    changes.extend((0..QUESTIONS).map(|n| RowChange::Inbox(question(n, &like))));
    changes.extend((0..OLD_ROUNDS).map(|n| RowChange::Round(old_round(n, &like))));
    while !changes.is_empty() {
        let some: Vec<RowChange> = changes.split_off(changes.len().saturating_sub(500));
        store.append(StoreBatch::of_rows(like.started_ms, some)).await.expect("rows");
    }
    for n in 0..ROUNDS {
        let (id, loop_name, started_ms) = (format!("rscale{n:05}"), loop_name(n % 3), like.started_ms - n as i64);
        add_round(&store, RoundRow { id, loop_name, started_ms, ..like.clone() }, &event).await;
    }
    store.close().await.expect("it closes");
}

/// Asks for a page as a browser does, and asserts that it is small.
#[track_caller]
#[expect(clippy::print_stdout, reason = "a developer reads the times; they depend on the machine")]
fn small_page(server: &Server, token: &str, path: &str) {
    let bearer = format!("Bearer {token}");
    let asked = Instant::now();
    let answer = server.send("GET", path, &[("Authorization", &bearer), ("Accept-Encoding", "gzip, deflate, br")], "");
    let took = asked.elapsed();
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    assert!(answer.head.contains("content-encoding: gzip"), "{path}: {}", answer.head);
    // The time is of a build without optimisation beside other tests, so it is only printed.
    println!("{path}: {} bytes, {took:?}", answer.size);
    assert!(answer.size <= FIRST_PAINT_MAX, "{path} has {} bytes", answer.size);
}

#[tokio::test]
async fn ten_thousand_loops_have_small_pages_and_every_list_has_a_next_one() {
    let world = World::new();
    let _ = world.run("run look").success();
    fill(&world).await;
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let one = format!("/loops/{}", loop_name(0));
    for path in ["/", "/loops", "/inbox", "/spend", "/calendar", "/health", &one] {
        small_page(&server, &view, path);
    }
    small_page(&server, &view, "/loops?page=201&sort=last");
    let body = |path: &str| server.get(path, &view).body;
    let has = |path: &str, words: &[&str]| {
        let body = body(path);
        words.iter().for_each(|word| assert!(body.contains(word), "{path} lacks {word}: {body}"));
    };
    // `fix` and `look` have files and are first by name.
    has("/loops", &["10002 of 10002 loops", "page 1 of 201", "/loops?page=2#loops", ">Next<"]);
    has("/loops?page=201", &[&loop_name(LOOPS - 1), "page 201 of 201", ">Previous<"]);
    has("/loops?q=00042&sort=spend", &["1 of 10002 loops", &loop_name(42)]);
    has("/", &[">10002<", ">200<", "all problems: 200 failed", "Open the inbox (120)"]);
    has("/inbox", &["Inbox (120)", "page 1 of 12", "/inbox?page=2#keys"]);
    has("/inbox?page=12", &["page 12 of 12", "number 119"]);
    has(&one, &["page 1 of 10", "?page=2#history"]);
    has(&format!("{one}?page=10"), &["rscale00597"]);
    let api = |path: &str| server.get(&format!("/api/v1/{path}"), &view).json();
    let last = api("loops?limit=3&offset=10000");
    assert_eq!((&last["page"]["total"], last["loops"].as_array().map(Vec::len)), (&10_002.into(), Some(2)), "{last}");
    assert_eq!(last["counts"]["idle"], 10_002);
    assert_eq!(
        (&last["problems"][0]["status"], &last["problems"][0]["page"]["total"]),
        (&"failed".into(), &200.into())
    );
    let digest = world.json("digest");
    let text = digest["markdown"].as_str().expect("a text");
    assert!(digest["has_more"] == true && text.contains("`loopwright rounds --offset 200`"), "{text}");
    let rounds = api("rounds?limit=1&offset=600");
    assert_eq!(
        (&rounds["page"]["total"], rounds["rounds"].as_array().map(Vec::len)),
        (&(OLD_ROUNDS + 601).into(), Some(1))
    );
}

#[tokio::test]
async fn an_old_round_that_still_runs_is_shown_with_its_spend_and_ceiling() {
    let world = World::new();
    let go = world.env.root().join("go");
    let script = format!("@ maker\nsleep-until {}\nstage report.md \"All is well.\"\n", go.display());
    world.add("slow", "sandbox: off\ncheck: none\n", &script);
    world.repo.commit("a slow loop");
    let _ = world.run("run look").success();
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let _ = world.run("run slow --detach").success();
    let running = || world.json("rounds --all --running");
    wait::until("the round runs", LONG, || running()["page"]["total"] == 1);
    let id = running()["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let (store, like, event) = open(&world).await;
    for n in 0..60 {
        let (id, started_ms) = (format!("rnewer{n:02}"), like.started_ms + 3_600_000 + n);
        add_round(&store, RoundRow { id, started_ms, ..like.clone() }, &event).await;
    }
    store.close().await.expect("it closes");
    let page = server.get("/", &view).body;
    let part = page.split("id=\"running\"").nth(1).and_then(|rest| rest.split("</section>").next()).expect("the part");
    assert!(part.contains(&format!("/rounds/{id}")) && part.contains("of $5.00, 0 of 400k tokens"), "{part}");
    let round = server.get(&format!("/rounds/{id}"), &view).body;
    assert!(round.contains("of $5.00, 0 of 400k tokens"), "{round}");
    std::fs::write(&go, "").expect("written");
    wait::until("the round ends", LONG, || running()["page"]["total"] == 0);
}

#[tokio::test]
async fn a_long_backlog_arrives_in_one_stream() {
    let world = World::new();
    let _ = world.run("run look").success();
    let (store, like, event) = open(&world).await;
    for n in 0..ROUNDS {
        add_round(&store, RoundRow { id: format!("rlong{n:05}"), ..like.clone() }, &event).await;
    }
    let count = usize::try_from(store.last_seq().await.expect("it reads")).expect("a count");
    store.close().await.expect("it closes");
    let server = Server::start(&world);
    let view = token(&world, "viewer", "view");
    let mut stream = server.connect();
    let head = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {view}\r\nLast-Event-ID: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it can be sent");
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let seen = lines.filter(|line| line == "event: journal").take(count).count();
    assert!(count > ROUNDS && seen == count, "{seen} of {count} events in one stream");
}
