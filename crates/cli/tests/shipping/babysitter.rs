//! The shipped babysitter through the daemon: a webhook about a failed check on our own pull request makes the loop due, and
//! its round has that check as its item.

use super::stage::{NAME, ShippingStage, UNATTENDED};
use loopwright_testkit::fake_slack::hmac_hex;
use loopwright_testkit::wait;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "a-secret-of-some-length";

/// A daemon that listens; it is killed when the value is dropped.
struct ListeningDaemon {
    child: Child,
    address: String,
}

impl ListeningDaemon {
    fn start(stage: &ShippingStage) -> Self {
        let mut command = stage.env.command(stage.repo.path());
        command.args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("listening at http://")).expect("it listens");
        // The rest is read, so that the daemon never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        Self { child, address: address.to_owned() }
    }

    /// Delivers an event as GitHub does; returns the first line of the answer.
    fn deliver(&self, event: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let request = format!(
            "POST /hooks/github HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
             application/json\r\nx-github-event: {event}\r\nx-github-delivery: d-1\r\nx-hub-signature-256: \
             sha256={}\r\ncontent-length: {}\r\n\r\n{body}",
            hmac_hex(SECRET, body),
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for ListeningDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Adds the shipped loop. It has a scripted agent and the forge of the stage, and only a webhook makes it due.
fn add_babysitter(stage: &ShippingStage) {
    let _ = stage.run(&["new", "pr-babysitter"]).success();
    let path = stage.repo.path().join(".loopwright/loops/pr-babysitter.md");
    let text = std::fs::read_to_string(path).expect("the shipped loop");
    assert!(text.contains("\n  every: 10m\n") && text.contains("follow_own: true"), "{text}");
    let text = text
        .replace("\n  every: 10m\n", "\n  webhook: [github.check_run.failure]\n")
        .replace("\non:\n", "\nforge: work\nagents: { maker: { use: scripted, script: sit.script } }\non:\n");
    stage.repo.write(".loopwright/loops/pr-babysitter.md", text);
    stage.repo.write(
        ".loopwright/sit.script",
        "@ maker\nstage report.md \"PR 1: the build failed.\"\n\n@ checker\nverdict pass accuracy=5@answer:1 \
         action=5@answer:1\n",
    );
    stage.repo.commit("a babysitter");
    stage.remote().copy_branches_from(stage.repo.path());
}

fn rounds_of(stage: &ShippingStage, name: &str) -> Vec<Value> {
    let rounds = stage.run(&["rounds", name, "--json"]).success().json();
    rounds["rounds"].as_array().expect("rounds").clone()
}

#[test]
fn webhook_of_a_failed_check_on_our_own_pull_request_wakes_the_shipped_babysitter_with_that_item() {
    let stage = ShippingStage::new("L3", UNATTENDED);
    let secret = stage.write_secret("hook", SECRET);
    stage.configure(&format!("webhooks: {{ secrets: {{ github: {{ file: {secret} }} }} }}\n"));
    add_babysitter(&stage);
    let _ = stage.run(&["run", "fix"]).success();
    let pull = stage.remote().item(1).pull.expect("a pull request");
    stage.remote().fail_check("build", &pull.head);

    let daemon = ListeningDaemon::start(&stage);
    let url = stage.remote().clone_url();
    let event = json!({
        "action": "completed", "sender": { "login": "ci" },
        "repository": { "full_name": NAME, "html_url": url.trim_end_matches(".git"), "clone_url": url,
            "default_branch": "main" },
        "check_run": { "id": 1, "name": "build", "head_sha": pull.head, "conclusion": "failure",
            "check_suite": { "head_branch": pull.head_branch } },
    });
    assert_eq!(daemon.deliver("check_run", &event.to_string()), "HTTP/1.1 202 Accepted");
    let ended = || rounds_of(&stage, "pr-babysitter").first().is_some_and(|round| !round["outcome"].is_null());
    wait::until("the round of the babysitter ends", PATIENCE, ended);
    let rounds = rounds_of(&stage, "pr-babysitter");
    let [round] = rounds.as_slice() else { panic!("one round: {rounds:#?}") };
    assert_eq!(round["outcome"], "reported", "{round:#}");
    assert!(round["trigger"].to_string().contains("webhook"), "{round:#}");
    let item = round["item"].as_str().expect("an item");
    assert_eq!(item, format!("pr-1:check-build@{}", pull.head));
}
