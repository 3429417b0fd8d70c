//! Deliveries under faults and kills: many rounds send items of every kind to fake forges of every kind, on which every
//! kind of call fails at random, and to a webhook and a Slack that lose answers and cannot be asked. The program is killed
//! with -9 while it sends. Afterwards no effect is visible twice, no item that counts as sent is missing, none is refused,
//! and every item in doubt is in the inbox.
//!
//! The test sends a few items. `cargo xtask soak deliveries` sends a thousand of them.

#![allow(clippy::disallowed_methods, reason = "the soak prints how long it took")]

use super::receiver::LossyReceiver;
use super::stage::ShippingStage;
use loopwright_testkit::fake_forge::{ForgeFault, IssueDraft};
use loopwright_testkit::wait;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Items of one round.
const ITEMS: usize = 9;
/// Items that the test sends without further settings.
const SAMPLE: usize = 27;
/// The kinds of forges, which the worlds take in turn.
const KINDS: [&str; 3] = ["github", "gitlab", "gitea"];
/// For every this many rounds, another loop sends a commit. All of them come first: each one moves base, and the open pull
/// requests would follow it in rounds of their own.
const COMMIT_EVERY: usize = 4;
/// A kind of call that was made this often without a fault is a mistake of the soak: by chance it happens once in a
/// hundred thousand soaks.
const CALLS_WITHOUT_FAULT_MAX: usize = 200;
/// The share of requests that fail.
const PER_MILLE: u64 = 60;
/// A command that lasts longer is broken.
const PATIENCE: Duration = Duration::from_secs(600);
/// The kill comes after this many requests of a command at the latest; a round has about fifty.
const KILL_AFTER_MAX: u64 = 60;

/// The settings that `cargo xtask soak deliveries` passes.
#[expect(clippy::disallowed_methods, reason = "a development command sets the size of this test")]
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn faults() -> Vec<ForgeFault> {
    vec![
        ForgeFault::CutAfter,
        ForgeFault::LateAfterCut(2),
        ForgeFault::CutBefore,
        ForgeFault::TooManyRequests(1),
        ForgeFault::SecondaryLimit(1),
        ForgeFault::ServerError(500),
        ForgeFault::ServerErrorAfter(502),
        ForgeFault::Maintenance(1),
        ForgeFault::Slow(Duration::from_millis(50)),
        ForgeFault::HtmlPage(502),
    ]
}

/// SplitMix64, as the fake forge has it.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

/// The figures of a soak.
#[derive(Debug, Default)]
struct SoakTally {
    deliveries: usize,
    kills: usize,
    /// Items by their last state.
    states: BTreeMap<String, usize>,
    /// Calls and faults by the kind of call.
    calls: BTreeMap<String, CallCount>,
    /// Items that were not sent, with the reasons of their rounds.
    unsent: Vec<String>,
    /// Failures of the promises.
    broken: Vec<String>,
}

/// How often a kind of call was made, and how often it met a fault.
#[derive(Debug, Default, Clone, Copy)]
struct CallCount {
    made: usize,
    faults: usize,
}

impl SoakTally {
    fn add(&mut self, other: Self) {
        self.deliveries += other.deliveries;
        self.kills += other.kills;
        self.unsent.extend(other.unsent);
        self.broken.extend(other.broken);
        for (word, count) in other.states {
            *self.states.entry(word).or_default() += count;
        }
        for (call, count) in other.calls {
            let sum = self.calls.entry(call).or_default();
            *sum = CallCount { made: sum.made + count.made, faults: sum.faults + count.faults };
        }
    }
}

/// One repository whose loops send items of every kind without a person.
struct SoakWorld {
    stage: ShippingStage,
    receiver: LossyReceiver,
    slack: LossyReceiver,
    dice: Dice,
    issue: u64,
    /// A pull request of a person, for reviews.
    pull: u64,
    /// The tip of main before the soak.
    begun_at: String,
    tally: SoakTally,
}

const OUTPUT: &str = "output: [pull-request, { issue-comment: { max: 2 } }, issue-label, issue-create, pr-comment, \
                      pr-inline, pr-review, slack, { webhook: { targets: [hook] } }]\nallow: [pull-request, issue-comment, \
                      issue-label, issue-create, pr-comment, pr-inline, pr-review, slack, webhook]\nopen_max: \
                      1000\nattempts: 1\nbudget: { day: { usd: 100000 } }\n";

/// A second loop, which commits to main.
const COMMIT_LOOP: &str = "---\nname: put\nintent: Note it.\nlevel: L3\nforge: work\noutput: [commit]\nallow: \
                           [commit]\nattempts: 1\nbudget: { day: { usd: 100000 } }\nagents: { maker: { use: scripted, \
                           script: put.script } }\ngates:\n  - { name: tests, run: [./ok.sh] }\n---\n# Maker\nNote it.\n";

impl SoakWorld {
    fn new(seed: u64, kind: &'static str) -> Self {
        let stage = ShippingStage::on(kind, "L3", OUTPUT);
        stage.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f answer\n");
        stage.repo.write(".loopwright/loops/put.md", COMMIT_LOOP).commit("a loop that commits");
        stage.remote().copy_branches_from(stage.repo.path());
        let issue =
            stage.remote().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
        stage.remote().push_file("topic", "topic.txt", "one\ntwo\n", "a topic");
        let pull = stage.remote().open_pull("ada", "topic", "A topic", "For a review.");
        let (receiver, slack) = (LossyReceiver::start(), LossyReceiver::start());
        let key = stage.write_secret("hook", "a-secret-of-many-bytes");
        let address = stage.write_secret("slack", &slack.url);
        stage.configure(&format!(
            "slack: {{ webhook_file: {address} }}\nwebhooks_out: {{ hook: {{ url: {}, secret_file: {key} }} }}\n",
            receiver.url
        ));
        let begun_at = stage.remote().branch("main").expect("a tip");
        Self { stage, receiver, slack, dice: Dice(seed), issue, pull, begun_at, tally: SoakTally::default() }
    }

    /// Sends the commit of one round. The next one starts from it, as in a clone that its owner keeps up to date.
    fn commit_round(&mut self, number: usize) {
        let script = format!(
            "@ maker\nwrite commits/{number} \"{number}\"\nstage commit.md \"note: soak {number}\"\n\n@ checker\nverdict \
             pass correctness=5@answer:1 scope=5@gate:tests tests=4@gate:tests\n"
        );
        self.stage.repo.write(".loopwright/put.script", script);
        self.under_faults("put");
        let (repo, remote) = (&self.stage.repo, self.stage.remote().path());
        repo.git(["fetch", "--quiet", &remote.to_string_lossy(), "main"]);
        repo.git(["merge", "--quiet", "--ff-only", "FETCH_HEAD"]);
    }

    /// Sends the items of one round under faults and kills, until no round is open.
    fn round(&mut self, number: usize) {
        let (issue, pull) = (self.issue, self.pull);
        let on_pull = format!(
            "stage 05-pr-comment-{pull}.md \"Beside {number}.\"\nstage 08-pr-request-changes-{pull}.md \"Review \
             {number}.\"\nstage 09-slack.md \"Round {number}.\"\nstage 07-pr-inline-{pull}.jsonl <<END\n{{\"path\": \
             \"topic.txt\", \"line\": 1, \"side\": \"right\", \"body\": \"Line {number}.\"}}\nEND\n"
        );
        let staged = format!(
            "stage 01-issue-comment-{issue}.md \"First {number}.\"\nstage 02-issue-comment-{issue}.md \"Second \
             {number}.\"\nstage 03-issue-create.md \"It breaks in {number}\\n\\nSteps.\"\nstage 04-issue-label-{issue}.txt \
             \"seen-{number}\"\nstage 06-webhook-hook.json \"{{}}\"\n{on_pull}"
        );
        self.stage.set_script(&number.to_string(), &staged);
        self.under_faults("fix");
    }

    /// Runs a loop under faults and kills, until no round is open.
    fn under_faults(&mut self, loop_name: &str) {
        self.stage.forge.clear_faults();
        self.stage.forge.fail_randomly(self.dice.roll(u64::MAX), PER_MILLE, &faults());
        // A garbled answer to a push makes git hang until the deadline of pushes, so only the interface has these.
        for fault in [ForgeFault::CutInside, ForgeFault::MalformedJson] {
            for paths in ["/repos/**", "/projects/**"] {
                self.stage.forge.fail("*", paths, 1 + self.dice.roll(KILL_AFTER_MAX), fault.clone());
            }
        }
        self.command(&["run", loop_name]);
        for _ in 0..20 {
            if !self.has_open_round() {
                break;
            }
            self.command(&["tick"]);
        }
        self.count_faults();
    }

    /// Runs a command, and kills it after some requests, two times out of three.
    fn command(&mut self, words: &[&str]) {
        self.count_faults();
        let mut child = self.start(words);
        let kill_at = (self.dice.roll(3) > 0).then(|| 1 + self.dice.roll(KILL_AFTER_MAX));
        let mut is_killed = false;
        wait::until("the command ends", PATIENCE, || {
            let seen = self.stage.forge.requests().len();
            if kill_at.is_some_and(|most| seen as u64 >= most) && !is_killed {
                is_killed = child.kill().is_ok();
            }
            child.try_wait().expect("a child").is_some()
        });
        self.tally.kills += usize::from(is_killed);
    }

    fn start(&self, words: &[&str]) -> Child {
        let mut command = self.stage.env.command(self.stage.repo.path());
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the binary starts")
    }

    fn has_open_round(&self) -> bool {
        self.rounds().iter().any(|round| round["outcome"].is_null())
    }

    /// The number of rounds with all kinds of items that have sent them, or have one in doubt.
    fn shipped(&self) -> usize {
        let is_ended = |round: &Value| round["outcome"] == "shipped" || round["outcome"] == "escalated";
        let is_done = |round: &&Value| round["loop"] == "fix" && is_ended(round);
        self.rounds().iter().filter(is_done).count()
    }

    fn rounds(&self) -> Vec<Value> {
        let rounds = self.stage.run(&["rounds", "--limit", "10000", "--json"]).success().json();
        rounds["rounds"].as_array().expect("rounds").clone()
    }

    fn count_faults(&mut self) {
        for request in self.stage.forge.requests() {
            let parts = request.path.split('/').map(|part| if is_name(part) { part } else { "*" });
            let call = format!("{} {}", request.method, parts.collect::<Vec<_>>().join("/"));
            let count = self.tally.calls.entry(call).or_default();
            count.made += 1;
            count.faults += usize::from(request.fault.is_some());
        }
        self.stage.forge.clear_requests();
    }

    /// Ends everything without faults and compares the record with the forge.
    fn settle(mut self) -> SoakTally {
        self.stage.forge.clear_faults();
        for _ in 0..3 {
            let _ = self.stage.run(&["tick"]);
        }
        let ids: Vec<String> = self.rounds().iter().map(|round| text(&round["round"])).collect();
        for id in &ids {
            // Items that their receiver blocked are sent again; the others refuse it.
            if outbox(&self.show(id)).iter().any(|item| item["state"] == "waiting") {
                let _ = self.stage.run(&["retry", id]);
            }
        }
        let _ = self.stage.run(&["verify"]).success();
        let inbox = self.stage.run(&["inbox", "--json"]).success().stdout();
        let texts = self.visible_texts();
        for id in &ids {
            let shown = self.show(id);
            for item in outbox(&shown) {
                self.check(id, &item, &texts, &inbox);
                if matches!(text(&item["state"]).as_str(), "refused" | "quarantined" | "in-doubt") {
                    let (kind, state) = (text(&item["kind"]), text(&item["state"]));
                    self.tally.unsent.push(format!("{kind} of {id} is {state}: {}", shown["reasons"]));
                }
            }
        }
        self.check_labels_and_commits(&ids);
        self.tally
    }

    /// Labels and commits have no marker: each round has a label and a commit of its own, so they can be counted.
    fn check_labels_and_commits(&mut self, ids: &[String]) {
        let items: Vec<Value> = ids.iter().flat_map(|id| outbox(&self.show(id))).collect();
        let count = |kind: &str, state: &str| {
            items.iter().filter(|item| item["kind"] == kind && item["state"] == state).count()
        };
        let labels = self.stage.remote().item(self.issue).labels;
        let range = format!("{}..main", self.begun_at);
        let log = loopwright_testkit::repo::git(&self.stage.remote().path(), ["log", "--format=%s", &range]);
        let subjects: Vec<&str> = log.lines().collect();
        let found = [("issue-label", labels.len()), ("commit", subjects.len())];
        for (kind, visible) in found {
            let (sent, doubted) = (count(kind, "sent"), count(kind, "in-doubt"));
            if !(sent..=sent + doubted).contains(&visible) {
                self.tally.broken.push(format!("{visible} of {kind} are visible; {sent} are sent, {doubted} in doubt"));
            }
        }
        let different: std::collections::BTreeSet<_> = subjects.iter().collect();
        if different.len() != subjects.len() {
            self.tally.broken.push(format!("a commit is there twice: {subjects:?}"));
        }
    }

    fn show(&self, round: &str) -> Value {
        self.stage.run(&["show", round, "--json"]).success().json()
    }

    /// All texts on the forge that can have a marker.
    fn visible_texts(&self) -> Vec<String> {
        let remote = self.stage.remote();
        let mut texts = Vec::new();
        for item in remote.issues().into_iter().chain(remote.pulls()) {
            texts.extend(remote.comments(item.number).into_iter().map(|comment| comment.body));
            texts.extend(remote.reviews(item.number).into_iter().map(|review| review.body));
            texts.extend(item.body);
        }
        texts
    }

    fn check(&mut self, round: &str, item: &Value, texts: &[String], inbox: &str) {
        let (kind, state, id) = (text(&item["kind"]), text(&item["state"]), text(&item["id"]));
        if kind == "report" {
            return;
        }
        self.tally.deliveries += 1;
        *self.tally.states.entry(state.clone()).or_default() += 1;
        // An item that was never approved has no marker.
        let mark = format!("id={id} ");
        let visible = match kind.as_str() {
            "webhook" => self.receiver.arrivals(&id),
            "slack" => self.slack.arrivals_with(round),
            _ => visible_times(texts, &mark),
        };
        let name = format!("{kind} {id} of {round} is {state}, and {visible} are visible");
        let has_marker = !matches!(kind.as_str(), "issue-label" | "commit");
        let is_right = match state.as_str() {
            "sent" => !has_marker || visible == 1,
            // The person who looks finds one or none.
            "in-doubt" => visible <= 1 && inbox.contains(&format!("d-{id}")),
            "quarantined" => visible == 0,
            // Every fault passes, so a refused item is a lost one.
            _ => false,
        };
        if !is_right {
            self.tally.broken.push(name);
        }
    }
}

/// How often an item is visible. A review on GitLab is several texts, each with the number of its part: none of them may
/// be there twice.
fn visible_times(texts: &[String], mark: &str) -> usize {
    let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts.iter().filter(|text| text.contains(mark)) {
        let number = text.split_once("<!-- loopwright-part: ").and_then(|(_, rest)| rest.split(' ').next());
        *parts.entry(number.unwrap_or_default()).or_default() += 1;
    }
    parts.into_values().max().unwrap_or_default()
}

fn outbox(shown: &Value) -> Vec<Value> {
    shown["outbox"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether a part of a path is a name of the interface and not a number, a commit or a branch.
fn is_name(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.')) && part.len() < 24
}

#[test]
fn soak_of_deliveries_with_faults_and_kills_shows_each_effect_once() {
    let deliveries = usize::try_from(setting("LOOPWRIGHT_SOAK_DELIVERIES", SAMPLE as u64)).expect("a number");
    let seed = setting("LOOPWRIGHT_SOAK_SEED", 7);
    let worlds = usize::try_from(setting("LOOPWRIGHT_SOAK_WORLDS", 3)).expect("a number").max(1);
    let (begun, rounds) = (Instant::now(), deliveries.div_ceil(ITEMS).div_ceil(worlds));
    let threads: Vec<_> = (0..worlds as u64)
        .map(|number| {
            std::thread::spawn(move || {
                let kind = KINDS[usize::try_from(number).unwrap_or_default() % KINDS.len()];
                let mut world = SoakWorld::new(seed.wrapping_mul(1_000_003).wrapping_add(number), kind);
                for commit in 0..rounds.div_ceil(COMMIT_EVERY) {
                    world.commit_round(commit);
                }
                // A kill may come before a round has sent anything.
                for round in 0..rounds * 5 {
                    world.round(round);
                    if world.shipped() >= rounds {
                        break;
                    }
                }
                world.settle()
            })
        })
        .collect();
    let mut tally = SoakTally::default();
    threads.into_iter().for_each(|thread| tally.add(thread.join().expect("a world")));
    let faults: usize = tally.calls.values().map(|count| count.faults).sum();
    eprintln!(
        "soak of deliveries: seed {seed}, {} items in {} rounds, {} kills, {faults} faults, {:?}; {:.0} s",
        tally.deliveries,
        rounds * worlds,
        tally.kills,
        tally.states,
        begun.elapsed().as_secs_f64()
    );
    tally.unsent.iter().for_each(|one| eprintln!("  not sent: {one}"));
    tally.calls.iter().for_each(|(call, count)| eprintln!("  {:5} of {:6} {call}", count.faults, count.made));
    let spared = |count: &CallCount| count.faults == 0 && count.made >= CALLS_WITHOUT_FAULT_MAX;
    let spared: Vec<_> = tally.calls.iter().filter(|(_, count)| spared(count)).collect();
    assert!(spared.is_empty(), "calls that met no fault: {spared:?}");
    assert!(tally.broken.is_empty(), "{:#?}", tally.broken);
    assert!(tally.deliveries >= rounds * worlds, "{tally:?}");
    // The receiver cuts its first answer, and cannot be asked.
    assert!(tally.states.contains_key("in-doubt"), "{tally:?}");
}
