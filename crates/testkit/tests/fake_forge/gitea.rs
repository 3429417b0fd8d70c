//! Gitea's API of the fake forge by plain requests.

use crate::client::Caller;
use loopwright_testkit::fake_forge::{FakeForge, FakeToken, IssueDraft};
use serde_json::json;

fn forge() -> FakeForge {
    let forge = FakeForge::start();
    forge.create_repo("acme/app").add_writer("bot").add_writer("ada");
    forge
}

fn caller(forge: &FakeForge, token: &str) -> Caller {
    Caller::new(&forge.gitea_url(), format!("authorization: token {token}"))
}

const REPO: &str = "/repos/acme/app";

fn open_pull(forge: &FakeForge, bot: &Caller) {
    forge.repo("acme/app").push_file("loop/a", "a.txt", "one\ntwo\n", "a change");
    let body = json!({"title": "WIP: Fix it", "head": "loop/a", "base": "main", "body": "why"});
    let made = bot.post(&format!("{REPO}/pulls"), &body);
    assert_eq!((made.status, made.json()["draft"].clone()), (201, json!(true)), "{made:?}");
}

#[test]
fn title_marks_a_draft_and_a_second_pull_request_is_refused() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    open_pull(&forge, &bot);
    let again = bot.post(&format!("{REPO}/pulls"), &json!({"title": "x", "head": "loop/a", "base": "main"}));
    assert_eq!(again.status, 409);
    assert!(again.text.contains("already exists"), "{again:?}");
    let ready = bot.send("PATCH", &format!("{REPO}/pulls/1"), &json!({"title": "Fix it"}));
    assert_eq!((ready.status, ready.json()["draft"].clone()), (201, json!(false)));
    let closed = bot.send("PATCH", &format!("{REPO}/pulls/1"), &json!({"state": "closed"})).json();
    assert_eq!((&closed["state"], &closed["body"]), (&json!("closed"), &json!("why")));
    assert_eq!(bot.get(&format!("{REPO}/pulls?state=open")).json(), json!([]));
}

#[test]
fn pages_have_at_most_fifty_rows() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    for _ in 0..60 {
        forge.repo("acme/app").open_issue(&IssueDraft { author: "ada", title: "t", ..IssueDraft::default() });
    }
    let first = bot.get(&format!("{REPO}/issues?type=issues&limit=100"));
    assert_eq!((first.json().as_array().map(Vec::len), first.header("x-total-count")), (Some(50), Some("60")));
    assert!(first.header("link").is_some_and(|link| link.contains("rel=\"next\"")));
}

#[test]
fn labels_are_added_by_number_and_by_name_but_never_created() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    forge.repo("acme/app").open_issue(&IssueDraft { author: "ada", title: "t", ..IssueDraft::default() });
    let made = bot.post(&format!("{REPO}/labels"), &json!({"name": "bug", "color": "#ff0000"})).json();
    let labels = |body| bot.post(&format!("{REPO}/issues/1/labels"), &body).json();
    assert_eq!(labels(json!({"labels": ["unknown"]})), json!([]));
    assert_eq!(labels(json!({"labels": [made["id"]]}))[0]["name"], "bug");
    assert_eq!(forge.repo("acme/app").item(1).labels, ["bug"]);
}

#[test]
fn reviews_have_comments_on_lines_of_the_change() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    open_pull(&forge, &bot);
    let path = format!("{REPO}/pulls/1/reviews");
    let comment = |line: u64| json!([{"path": "a.txt", "body": "here", "new_position": line}]);
    let body = |event: &str, line: u64| json!({"event": event, "body": "b", "comments": comment(line)});
    assert_eq!(bot.post(&path, &body("APPROVED", 1)).status, 422);
    assert_eq!(bot.post(&path, &body("COMMENT", 9)).status, 422);
    let made = bot.post(&path, &body("COMMENT", 2));
    assert_eq!((made.status, made.json()["state"].clone()), (200, json!("COMMENT")), "{made:?}");
    let inline = bot.get(&format!("{path}/{}/comments", made.json()["id"])).json();
    assert_eq!((&inline[0]["position"], &inline[0]["path"]), (&json!(2), &json!("a.txt")));
}

#[test]
fn statuses_are_combined() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let head = forge.repo("acme/app").branch("main").expect("a branch");
    for state in ["failure", "success"] {
        let made = bot.post(&format!("{REPO}/statuses/{head}"), &json!({"state": state, "context": "build"}));
        assert_eq!(made.status, 201, "{made:?}");
    }
    forge.repo("acme/app").report_status("lint", &head, "error", "bad");
    let all = bot.get(&format!("{REPO}/commits/main/status")).json();
    assert_eq!((&all["state"], &all["total_count"]), (&json!("error"), &json!(2)));
}

#[test]
fn tokens_are_refused_as_gitea_refuses_them() {
    let forge = forge();
    let post = |token: &str| caller(&forge, token).post(&format!("{REPO}/issues"), &json!({"title": "t"}));
    assert_eq!(post("nonsense").status, 401);
    let reads = post(&forge.add_token(FakeToken::personal("bot", &["read:issue", "write:repository"])));
    assert_eq!(reads.status, 403);
    assert!(reads.text.contains("[write:issue]"), "{reads:?}");
    assert_eq!(post(&forge.add_token(FakeToken::personal("bot", &["write:issue"]))).status, 201);
    assert_eq!(Caller { url: forge.gitea_url(), header: None }.post(&format!("{REPO}/issues"), &json!({})).status, 401);
}
