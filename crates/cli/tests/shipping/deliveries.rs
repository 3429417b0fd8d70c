//! Deliveries hold under stops, losses and kills: the real binary against a fake GitHub.

use super::stage::{NAME, PULL, PULLS, ShippingStage, UNATTENDED, reasons};
use loopwright_testkit::fake_forge::{ForgeFault, IssueDraft};
use loopwright_testkit::repo::git;
use loopwright_testkit::wait;
use serde_json::Value;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn start(stage: &ShippingStage, words: &[&str]) -> Child {
    let mut command = stage.env.command(stage.repo.path());
    let started = command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.expect("the binary starts")
}

fn show(stage: &ShippingStage, round: &str) -> Value {
    stage.run(&["show", round, "--json"]).success().json()
}

fn state(shown: &Value) -> &str {
    shown["outbox"][0]["state"].as_str().expect("a state")
}

fn secret(stage: &ShippingStage, name: &str, text: &str) -> String {
    let path = stage.env.root().join(name);
    std::fs::write(&path, text).expect("a secret");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    path.display().to_string()
}

/// A receiver that reads requests and never answers. It closes a connection only on request.
struct SilentReceiver {
    url: String,
    /// The paths of the requests.
    seen: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterRequest {
    Hold,
    Close,
}

impl SilentReceiver {
    fn start(after: AfterRequest) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let path = request_path(&mut stream);
                noted.lock().expect("no thread panicked").push(path);
                if after == AfterRequest::Hold {
                    held.push(stream);
                }
            }
        });
        Self { url, seen }
    }

    fn count(&self) -> usize {
        self.seen.lock().expect("no thread panicked").len()
    }
}

/// Reads one request and returns its path.
fn request_path(stream: &mut TcpStream) -> String {
    let (mut text, mut part) = (String::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part).unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&part[..count]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(count > 0, "half a request: {text}");
            continue;
        };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if count == 0 || body.len() >= length.unwrap_or(0_usize) {
            return text.split(' ').nth(1).unwrap_or_default().to_owned();
        }
    }
}

/// A round with a webhook to each of these names, all at one receiver.
fn stage_with_hooks(receiver: &SilentReceiver, names: &[&str]) -> ShippingStage {
    let output = format!("output: [pull-request, {{ webhook: {{ targets: [{}], max: 5 }} }}]\n", names.join(", "));
    let stage = ShippingStage::new("L2", &output);
    let key = secret(&stage, "hook", "a-secret-of-many-bytes");
    let hooks = names.iter().map(|name| format!("{name}: {{ url: {}/{name}, secret_file: {key} }}", receiver.url));
    stage.configure(&format!("webhooks_out: {{ {} }}\n", hooks.collect::<Vec<_>>().join(", ")));
    let staged = names.iter().map(|name| format!("stage webhook-{name}.json \"{{}}\"\n"));
    stage.set_script("one", &staged.collect::<String>());
    stage
}

#[test]
fn stop_after_the_push_prevents_the_pull_request() {
    let stage = ShippingStage::new("L2", PULL);
    let round = stage.escalate();
    stage.stop_at_push();
    let kept = stage.approve(&round, 10);
    assert!(stage.remote().branch(&format!("loop/fix/{round}")).is_some(), "the push arrived: {kept}");
    assert!(reasons(&kept).contains("everything is stopped"), "{kept}");
    assert!(!reasons(&kept).contains("may have been sent"), "no create began: {kept}");
    assert!(stage.forge.requests_to("POST", PULLS).is_empty(), "a stop after the push prevents the create");
    stage.end_stop();
    stage.approve(&round, 0);
    assert_eq!(stage.remote().pulls().len(), 1);
}

#[test]
fn commit_whose_push_moved_the_branch_may_have_been_sent_when_a_stop_follows() {
    let stage = ShippingStage::new("L2", "output: [commit]\n");
    stage.repo.write(
        ".loopwright/fix.script",
        "@ maker\nreplace answer \"41\" \"42\"\nstage commit.md \"fix: the answer\"\n\n@ checker\nverdict pass \
         correctness=5@answer:1 scope=5@gate:tests tests=4@gate:tests\n",
    );
    let round = stage.escalate();
    stage.stop_at_push();
    let (before, kept) = (stage.remote().branch("main"), stage.approve(&round, 10));
    assert_ne!(stage.remote().branch("main"), before, "the push moved the branch: {kept}");
    assert!(reasons(&kept).contains("everything is stopped"), "{kept}");
    assert!(reasons(&kept).contains("the item may have been sent"), "{kept}");
    stage.end_stop();
    let pushed = stage.remote().branch("main");
    let sent = stage.approve(&round, 0);
    assert_eq!((state(&sent), stage.remote().branch("main")), ("sent", pushed), "{sent}");
}

#[test]
fn commit_has_the_message_that_was_approved_and_the_trailers_of_the_engine() {
    let stage = ShippingStage::new("L2", "output: [commit]\n");
    stage.repo.write(
        ".loopwright/fix.script",
        "@ maker\nreplace answer \"41\" \"42\"\nstage commit.md \"fix: the answer\\n\\nIt was wrong. [skip ci] Fixes \
         #1.\\nLoopwright-Round: r-other\"\n\n@ checker\nverdict pass correctness=5@answer:1 scope=5@gate:tests \
         tests=4@gate:tests\n",
    );
    let round = stage.escalate();
    stage.approve(&round, 0);
    let message = git(&stage.remote().path(), ["log", "-1", "--format=%B", "main"]);
    let expected = format!(
        "fix: the answer\n\nIt was wrong. (skip ci) Fixes # 1.\n\nLoopwright-Loop: fix\nLoopwright-Round: \
         {round}\nLoopwright-Attempt: 1"
    );
    assert_eq!(message.trim(), expected);
}

#[test]
fn forge_that_hangs_ends_the_attempt_at_the_wall_time_and_the_item_is_found_later() {
    let stage = ShippingStage::new("L2", &format!("{PULL}budget: {{ round: {{ wall: 3s }} }}\n"));
    let round = stage.escalate();
    stage.forge.fail("POST", PULLS, 1, ForgeFault::Stall);
    let kept = stage.approve(&round, 10);
    assert_eq!(state(&kept), "waiting", "{kept}");
    assert!(reasons(&kept).contains("wall time; the item may have been sent"), "{kept}");
    let asked = stage.run(&["inbox"]).success().stdout();
    assert!(asked.contains("may have been sent"), "{asked}");
    let shipped = stage.approve(&round, 0);
    assert_eq!(state(&shipped), "sent", "{shipped}");
    assert_eq!((stage.remote().pulls().len(), stage.forge.requests_to("POST", PULLS).len()), (1, 1));
}

#[test]
fn signal_ends_an_attempt_that_hangs() {
    let stage = ShippingStage::new("L3", UNATTENDED);
    stage.forge.fail("POST", PULLS, 1, ForgeFault::Stall);
    let mut child = start(&stage, &["run", "fix"]);
    wait::until("the pull request is created", PATIENCE, || !stage.remote().pulls().is_empty());
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    child.wait().expect("it ended");
    let rounds = stage.run(&["rounds", "--json"]).success().json();
    let round = rounds["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let shown = show(&stage, &round);
    assert_eq!(state(&shown), "waiting", "{shown}");
    assert!(reasons(&shown).contains("stopped during the attempt; the item may have been sent"), "{shown}");
    let _ = stage.run(&["retry", &round]).success();
    assert_eq!(state(&show(&stage, &round)), "sent");
    assert_eq!((stage.remote().pulls().len(), stage.forge.requests_to("POST", PULLS).len()), (1, 1));
}

#[test]
fn message_that_may_have_been_sent_is_not_repeated_after_a_stop() {
    let receiver = SilentReceiver::start(AfterRequest::Hold);
    let stage = stage_with_hooks(&receiver, &["deploy"]);
    let round = stage.escalate();
    let mut child = start(&stage, &["approve", &round]);
    wait::until("the message arrives", PATIENCE, || receiver.count() == 1);
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    // The round is recovered under a stop, so that its item goes back to waiting.
    let _ = stage.run(&["stop", "--all"]).success();
    let _ = stage.run(&["tick"]);
    let _ = stage.run(&["thaw"]).success();
    let kept = show(&stage, &round);
    assert_eq!(kept["outbox"][1]["state"], "waiting", "{kept}");
    let doubtful = stage.approve(&round, 10);
    assert_eq!(doubtful["outbox"][1]["state"], "in-doubt", "{doubtful}");
    assert_eq!(receiver.count(), 1, "the message was sent twice");
}

#[test]
fn answer_settles_the_item_that_it_names() {
    let receiver = SilentReceiver::start(AfterRequest::Close);
    let stage = stage_with_hooks(&receiver, &["deploy", "notify"]);
    let round = stage.escalate();
    let doubtful = stage.approve(&round, 10);
    let ids: Vec<String> =
        (1..3).map(|at| format!("d-{}", doubtful["outbox"][at]["id"].as_str().expect("an id"))).collect();
    assert_eq!(doubtful["outbox"][2]["state"], "in-doubt", "{doubtful}");

    let asked = stage.run(&["approve", &round]).code(2).stderr();
    assert!(ids.iter().all(|id| asked.contains(id)) && asked.contains("--whole-round"), "{asked}");
    let one = stage.approve(&ids[0], 10);
    assert_eq!((&one["outbox"][1]["state"], &one["outbox"][2]["state"]), (&"sent".into(), &"in-doubt".into()), "{one}");
    let inbox = stage.run(&["inbox", "--json"]).success().stdout();
    assert!(!inbox.contains(&ids[0]) && inbox.contains(&ids[1]), "{inbox}");
    let _ = stage.run(&["deny", &ids[1], "--why", "it is not there"]).success();
    let shown = show(&stage, &round);
    assert_eq!((&shown["outbox"][2]["state"], &shown["outcome"]), (&"refused".into(), &"refused".into()), "{shown}");

    let again = stage_with_hooks(&receiver, &["deploy", "notify"]);
    let round = again.escalate();
    again.approve(&round, 10);
    let all = again.run(&["approve", &round, "--whole-round", "--json"]).success().json();
    assert_eq!(all["outcome"], "shipped", "{all}");
}

/// A round whose pull request is in doubt: the answer to its creation was lost, and the forge rejects the second one.
/// A comment of the round refers to it.
fn round_with_a_doubted_pull() -> (ShippingStage, u64, String) {
    let stage = ShippingStage::new("L2", "output: [pull-request, issue-comment]\n");
    let issue = stage.remote().open_issue(&IssueDraft::default());
    stage.set_script("one", &format!("stage issue-comment-{issue}.md \"See my pull request.\"\n"));
    let round = stage.escalate();
    stage.forge.fail("POST", PULLS, 1, ForgeFault::CutBefore);
    stage.forge.fail("POST", PULLS, 2, ForgeFault::Status(422));
    let doubtful = stage.approve(&round, 10);
    assert_eq!(states(&doubtful), [("issue-comment", "staged"), ("pull-request", "in-doubt")], "{doubtful}");
    assert!(stage.remote().comments(issue).is_empty(), "it waits for the answer");
    (stage, issue, round)
}

/// Kind and state of each item, in the order of the kinds.
fn states(shown: &Value) -> Vec<(&str, &str)> {
    let items = shown["outbox"].as_array().expect("items").iter();
    let mut all: Vec<_> =
        items.map(|item| (item["kind"].as_str().expect("a kind"), item["state"].as_str().expect("a state"))).collect();
    all.sort_unstable();
    all
}

#[test]
fn comment_waits_for_the_answer_about_its_pull_request_and_follows_it() {
    let (stage, issue, round) = round_with_a_doubted_pull();
    let shipped = stage.approve(&round, 0);
    assert_eq!(states(&shipped), [("issue-comment", "sent"), ("pull-request", "sent")], "{shipped}");
    assert_eq!((&shipped["outcome"], stage.remote().comments(issue).len()), (&"shipped".into(), 1), "{shipped}");
}

#[test]
fn comment_is_not_sent_if_a_person_does_not_find_its_pull_request() {
    let (stage, issue, round) = round_with_a_doubted_pull();
    let _ = stage.run(&["deny", &round, "--why", "it is not there"]);
    let shown = show(&stage, &round);
    assert_eq!(states(&shown), [("issue-comment", "refused"), ("pull-request", "refused")], "{shown}");
    assert_eq!((&shown["outcome"], stage.remote().comments(issue).len()), (&"refused".into(), 0), "{shown}");
}

#[test]
fn change_whose_round_did_not_ship_as_a_whole_is_not_proposed_again() {
    let stage = ShippingStage::new("L2", "output: [pull-request, issue-comment]\n");
    stage.set_script("one", "stage 01-issue-comment-99.md \"See my pull request.\"\n");
    let round = stage.escalate();
    let refused = stage.approve(&round, 15);
    assert_eq!((stage.remote().pulls().len(), &refused["outcome"]), (1, &"refused".into()), "{refused}");
    // Pull requests of other branches are not read.
    stage.forge.clear_requests();
    let again = stage.run(&["run", "fix", "--json"]).success().json();
    assert!(reasons(&again).contains("already-proposed"), "{again}");
    let listed = stage.forge.requests_to("GET", PULLS);
    let of_branch = |query: &str| query.contains("head=");
    assert!(listed.iter().any(|request| of_branch(&request.query)), "{listed:?}");
    let wide = listed.iter().filter(|request| !of_branch(&request.query) && !request.query.contains("state=open"));
    assert_eq!(wide.count(), 0, "{listed:?}");
}

#[test]
fn item_whose_pull_request_is_out_is_not_worked_on_again() {
    let output = "output: [pull-request, { issue-comment: { targets: [99] } }]\nallow: [pull-request, issue-comment]\n";
    let stage = ShippingStage::new("L3", &format!("on: {{ probe: open-issues }}\n{output}"));
    stage.remote().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
    stage.set_script("one", "stage 01-issue-comment-99.md \"See my pull request.\"\n");
    let refused = stage.run(&["run", "fix", "--json"]).code(15).json();
    assert_eq!((&refused["outcome"], stage.remote().pulls().len()), (&"refused".into(), 1), "{refused}");
    stage.set_script("two", "");
    let again = stage.run(&["run", "fix", "--json"]).success().json();
    assert_eq!((&again["outcome"], stage.remote().pulls().len()), (&"nothing-to-do".into(), 1), "{again}");
}

#[test]
fn pull_request_beyond_open_max_waits_until_there_is_room() {
    let stage = ShippingStage::new("L2", &format!("{PULL}open_max: 1\n"));
    let first = stage.escalate();
    let refused = stage.set_script("two", "").run(&["run", "fix"]).code(15);
    assert!(refused.stderr().contains("`open_max`"), "a waiting proposal counts: {}", refused.stderr());
    stage.approve(&first, 0);
    stage.remote().close_item(1);
    let second = stage.set_script("two", "").escalate();
    stage.remote().reopen_item(1);
    let kept = stage.approve(&second, 10);
    assert!(reasons(&kept).contains("its `open_max` is 1"), "{kept}");
    assert_eq!((state(&kept), stage.remote().pulls().len()), ("waiting", 1), "{kept}");
    assert!(stage.remote().branch(&format!("loop/fix/{second}")).is_none(), "nothing was pushed");
    stage.remote().close_item(1);
    let _ = stage.run(&["retry", &second]).success();
    assert_eq!((stage.open_pulls().len(), stage.remote().pulls().len()), (1, 2));
}

#[test]
fn approval_does_not_hold_for_another_repository() {
    let stage = ShippingStage::new("L2", PULL);
    stage.forge.create_repo("acme/other").add_writer("bot").copy_branches_from(stage.repo.path());
    let round = stage.escalate();
    stage.set_token("ghp_wrong");
    stage.approve(&round, 10);
    stage.set_token(&stage.forge.token("bot"));
    let config = stage.env.root().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(&config, text.replace("kind: github", "kind: github\n    repository: acme/other"))
        .expect("a change");
    let refused = stage.approve(&round, 15);
    let told = reasons(&refused);
    assert!(
        told.contains("the approval is stale") && told.contains("acme/app") && told.contains("acme/other"),
        "{told}"
    );
    assert!(stage.remote().pulls().is_empty() && stage.forge.repo("acme/other").pulls().is_empty());
    assert!(stage.forge.repo("acme/other").branches().iter().all(|branch| !branch.starts_with("loop/")));
    assert_eq!(NAME, stage.remote().full_name());
}

#[test]
fn comment_and_issue_of_a_stopped_round_are_sent_once() {
    let stage = ShippingStage::new("L2", "output: [pull-request, issue-comment]\n");
    let issue = stage.remote().open_issue(&IssueDraft::default());
    stage.set_script("one", &format!("stage 01-issue-comment-{issue}.md \"Fixed.\"\n"));
    let round = stage.escalate();
    stage.forge.fail("POST", "/repos/*/*/issues/*/comments", 1, ForgeFault::Stall);
    let mut child = start(&stage, &["approve", &round]);
    wait::until("the comment is there", PATIENCE, || !stage.remote().comments(issue).is_empty());
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    stage.set_token("ghp_wrong");
    let _ = stage.run(&["tick"]);
    let kept = show(&stage, &round);
    assert!(reasons(&kept).contains("the item may have been sent"), "{kept}");
    let denied = stage.run(&["deny", &round, "--why", "no", "--json"]).json();
    assert_eq!(denied["outcome"], "escalated", "a person has to look first: {denied}");
    stage.set_token(&stage.forge.token("bot"));
    assert_eq!(stage.remote().comments(issue).len(), 1);
}

#[test]
fn stop_of_a_round_that_is_sending_says_what_happened() {
    let stage = ShippingStage::new("L3", &format!("{UNATTENDED}on: {{ every: 1s }}\n"));
    stage.forge.fail("POST", PULLS, 1, ForgeFault::Stall);
    let mut daemon = start(&stage, &["up"]);
    wait::until("the pull request is created", PATIENCE, || !stage.remote().pulls().is_empty());
    let rounds = stage.run(&["rounds", "--json"]).success().json();
    let round = rounds["rounds"][0]["round"].as_str().expect("a round").to_owned();
    let stopped = stage.run(&["stop", &round, "--json"]).success().json();
    assert_eq!((&stopped["cancelled"], &stopped["outcome"]), (&false.into(), &"escalated".into()), "{stopped}");
    let shown = show(&stage, &round);
    assert!(reasons(&shown).contains("the item may have been sent"), "{shown}");
    let _ = stage.run(&["stop", "--now"]).success();
    daemon.wait().expect("it ended");
}
