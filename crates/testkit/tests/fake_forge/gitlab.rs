//! GitLab's API of the fake forge by plain requests.

use crate::client::Caller;
use loopwright_testkit::fake_forge::{FakeForge, FakeToken, IssueDraft};
use serde_json::{Value, json};

fn forge() -> FakeForge {
    let forge = FakeForge::start();
    forge.create_repo("acme/app").add_writer("bot").add_writer("ada");
    forge
}

fn caller(forge: &FakeForge, token: &str) -> Caller {
    Caller::new(&forge.gitlab_url(), format!("PRIVATE-TOKEN: {token}"))
}

const PROJECT: &str = "/projects/acme%2Fapp";

fn open_merge_request(forge: &FakeForge, bot: &Caller) -> Value {
    forge.repo("acme/app").push_file("loop/a", "a.txt", "one\ntwo\n", "a change");
    let body = json!({
        "title": "Draft: Fix it", "source_branch": "loop/a", "target_branch": "main", "description": "why",
        "labels": "bug,loop",
    });
    let made = bot.post(&format!("{PROJECT}/merge_requests"), &body);
    assert_eq!(made.status, 201, "{made:?}");
    made.json()
}

#[test]
fn draft_merge_request_is_created_found_changed_and_closed() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let made = open_merge_request(&forge, &bot);
    assert_eq!(
        (&made["draft"], &made["state"], &made["labels"]),
        (&json!(true), &json!("opened"), &json!(["bug", "loop"]))
    );
    let again = bot.post(
        &format!("{PROJECT}/merge_requests"),
        &json!({"title": "x", "source_branch": "loop/a", "target_branch": "main"}),
    );
    assert_eq!(
        (again.status, again.json()["message"][0].as_str().is_some_and(|text| text.ends_with("!1"))),
        (409, true)
    );
    let found = bot.get(&format!("{PROJECT}/merge_requests?source_branch=loop%2Fa&state=opened")).json();
    assert_eq!(found[0]["iid"], 1);
    let path = format!("{PROJECT}/merge_requests/1");
    let changed =
        bot.send("PUT", &path, &json!({"title": "Fix it", "add_labels": "new", "remove_labels": "bug"})).json();
    assert_eq!(
        (&changed["draft"], &changed["labels"], &changed["description"]),
        (&json!(false), &json!(["loop", "new"]), &json!("why"))
    );
    let closed = bot.send("PUT", &path, &json!({"state_event": "close"})).json();
    assert_eq!(closed["state"], "closed");
    assert_eq!(bot.get(&format!("{PROJECT}/issues/1")).status, 404, "a merge request is not an issue");
}

#[test]
fn discussion_needs_a_line_of_the_diff() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let refs = open_merge_request(&forge, &bot)["diff_refs"].clone();
    let path = format!("{PROJECT}/merge_requests/1/discussions");
    let body = |line: u64| {
        json!({"body": "here", "position": {
            "base_sha": refs["base_sha"], "start_sha": refs["start_sha"], "head_sha": refs["head_sha"],
            "position_type": "text", "new_path": "a.txt", "old_path": "a.txt", "new_line": line,
        }})
    };
    assert_eq!(bot.post(&path, &body(7)).status, 400);
    let made = bot.post(&path, &body(2));
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    assert_eq!((&made["notes"][0]["type"], &made["notes"][0]["position"]["new_line"]), (&json!("DiffNote"), &json!(2)));
    let id = made["id"].as_str().expect("an id").to_owned();
    assert_eq!(bot.post(&format!("{path}/{id}/notes"), &json!({"body": "a reply"})).status, 201);
    assert_eq!(bot.get(&path).json()[0]["notes"].as_array().map(Vec::len), Some(2));
}

#[test]
fn merge_and_approval_are_bound_to_the_head() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let ada = caller(&forge, &forge.token("ada"));
    let sha = open_merge_request(&forge, &bot)["sha"].clone();
    let path = format!("{PROJECT}/merge_requests/1");
    assert_eq!(ada.post(&format!("{path}/approve"), &json!({"sha": "0".repeat(40)})).status, 409);
    let approved = ada.post(&format!("{path}/approve"), &json!({"sha": sha})).json();
    assert_eq!(approved["approved_by"][0]["user"]["username"], "ada");
    assert_eq!(ada.send("PUT", &format!("{path}/merge"), &json!({"sha": sha})).status, 405, "a draft");
    forge.repo("acme/app").mark_ready(1);
    forge.repo("acme/app").push_commit("loop/a", "later");
    assert_eq!(ada.send("PUT", &format!("{path}/merge"), &json!({"sha": sha})).status, 409);
    let merged = ada.send("PUT", &format!("{path}/merge"), &json!({})).json();
    assert_eq!(merged["state"], "merged");
}

#[test]
fn pipelines_show_the_checks_of_a_commit() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let head = forge.repo("acme/app").branch("main").expect("a branch");
    forge.repo("acme/app").fail_check("build", &head);
    let made = bot.post(&format!("{PROJECT}/statuses/{head}"), &json!({"state": "success", "name": "lint"}));
    assert_eq!(made.status, 201, "{made:?}");
    let pipelines = bot.get(&format!("{PROJECT}/pipelines?ref=main&status=failed")).json();
    let jobs = bot.get(&format!("{PROJECT}/pipelines/{}/jobs?scope[]=failed", pipelines[0]["id"])).json();
    assert_eq!((&jobs[0]["name"], jobs.as_array().map(Vec::len)), (&json!("build"), Some(1)));
}

#[test]
fn pages_have_gitlab_s_headers() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    for _ in 0..25 {
        forge.repo("acme/app").open_issue(&IssueDraft { author: "ada", title: "t", ..IssueDraft::default() });
    }
    let first = bot.get(&format!("{PROJECT}/issues"));
    assert_eq!(first.json().as_array().map(Vec::len), Some(20));
    assert_eq!((first.header("x-total"), first.header("x-next-page")), (Some("25"), Some("2")));
    let link = first.header("link").unwrap_or_default().to_owned();
    assert!(link.contains("/api/v4/projects/acme%2Fapp/issues?page=2>; rel=\"next\""), "{link}");
}

#[test]
fn tokens_are_refused_as_gitlab_refuses_them() {
    let forge = forge();
    let post = |token: &str| {
        let answer = caller(&forge, token).post(&format!("{PROJECT}/issues"), &json!({"title": "t"}));
        (answer.status, answer.json())
    };
    assert_eq!(post("nonsense"), (401, json!({"message": "401 Unauthorized"})));
    let reads = post(&forge.add_token(FakeToken::personal("bot", &["read_api"])));
    assert_eq!((reads.0, &reads.1["error"]), (403, &json!("insufficient_scope")));
    assert_eq!(post(&forge.add_token(FakeToken::personal("bot", &["api"]))).0, 201);
    let missing = caller(&forge, &forge.token("bot")).get("/projects/acme%2Fnope");
    assert_eq!((missing.status, missing.json()), (404, json!({"message": "404 Project Not found"})));
}
