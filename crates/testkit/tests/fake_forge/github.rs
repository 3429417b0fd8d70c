//! GitHub's API of the fake forge by plain requests.

use crate::client::Caller;
use loopwright_testkit::fake_forge::{FakeForge, FakeToken, ForgeFault, IssueDraft};
use serde_json::{Value, json};

/// A forge with the repository `acme/app`, in which `bot` may write.
fn forge() -> FakeForge {
    let forge = FakeForge::start();
    forge.create_repo("acme/app").add_writer("bot");
    forge
}

fn caller(forge: &FakeForge, token: &str) -> Caller {
    Caller::new(&forge.github_url(), format!("authorization: Bearer {token}"))
}

fn open_pull(forge: &FakeForge, bot: &Caller, branch: &str) -> Value {
    forge.repo("acme/app").push_commit(branch, &format!("change {branch}"));
    let body = json!({"title": "Fix it", "head": branch, "base": "main", "body": "why", "draft": true});
    let made = bot.post("/repos/acme/app/pulls", &body);
    assert_eq!(made.status, 201, "{made:?}");
    made.json()
}

#[test]
fn draft_pull_request_is_created_listed_changed_and_closed() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let made = open_pull(&forge, &bot, "loop/a");
    assert_eq!((&made["number"], &made["draft"], &made["state"]), (&json!(1), &json!(true), &json!("open")));
    assert_eq!(made["head"]["sha"], json!(forge.repo("acme/app").branch("loop/a")));
    let listed = bot.get("/repos/acme/app/pulls?head=acme:loop/a&state=all").json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let changed = bot.send("PATCH", "/repos/acme/app/pulls/1", &json!({"title": "Other", "state": "closed"})).json();
    assert_eq!(
        (&changed["title"], &changed["state"], &changed["body"]),
        (&json!("Other"), &json!("closed"), &json!("why"))
    );
    assert_eq!(bot.get("/repos/acme/app/pulls").json(), json!([]));
}

#[test]
fn second_pull_request_of_a_branch_is_refused() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    open_pull(&forge, &bot, "loop/a");
    let again = bot.post("/repos/acme/app/pulls", &json!({"title": "Again", "head": "loop/a", "base": "main"}));
    assert_eq!(again.status, 422);
    assert_eq!(again.json()["errors"][0]["message"], "A pull request already exists for acme:loop/a.");
    let empty = bot.post("/repos/acme/app/pulls", &json!({"title": "Empty", "head": "main", "base": "main"}));
    assert_eq!(empty.json()["errors"][0]["message"], "No commits between main and main");
    let missing = bot.post("/repos/acme/app/pulls", &json!({"title": "Missing", "head": "nope", "base": "main"}));
    assert_eq!((missing.status, &missing.json()["errors"][0]["field"]), (422, &json!("head")));
}

#[test]
fn open_pull_request_follows_the_pushes_of_people_and_closes_with_its_branch() {
    let forge = forge();
    let repo = forge.repo("acme/app");
    let bot = caller(&forge, &forge.token("bot"));
    open_pull(&forge, &bot, "loop/a");
    let pushed = repo.force_push("loop/a", "another way");
    assert_eq!(bot.get("/repos/acme/app/pulls/1").json()["head"]["sha"], json!(pushed));
    repo.delete_branch("loop/a");
    assert_eq!(bot.get("/repos/acme/app/pulls/1").json()["state"], "closed");
    open_pull(&forge, &bot, "loop/b");
    repo.merge_pull(2);
    let merged = bot.get("/repos/acme/app/pulls/2").json();
    assert_eq!((&merged["merged"], &merged["state"]), (&json!(true), &json!("closed")));
}

#[test]
fn lists_have_pages_with_links() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    for number in 0..5 {
        forge.repo("acme/app").open_issue(&IssueDraft {
            author: "ada",
            title: &format!("{number}"),
            ..IssueDraft::default()
        });
    }
    let second = bot.get("/repos/acme/app/issues?per_page=2&page=2&direction=asc");
    assert_eq!(
        second.json().as_array().expect("rows").iter().map(|row| row["title"].clone()).collect::<Vec<_>>(),
        ["2", "3"]
    );
    let link = second.header("link").expect("links").to_owned();
    let next = format!("<{}/repos/acme/app/issues?per_page=2&direction=asc&page=3>; rel=\"next\"", forge.github_url());
    assert!(link.contains(&next), "{link}");
    assert!(link.contains("rel=\"prev\""), "{link}");
    let last = bot.get("/repos/acme/app/issues?per_page=2&page=3");
    assert!(!last.header("link").expect("links").contains("next"));
}

#[test]
fn unchanged_resource_is_answered_with_304_until_it_changes() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let first = bot.get("/repos/acme/app/issues");
    let tag = first.header("etag").expect("a tag").to_owned();
    let header = bot.header.clone().expect("a header");
    let again = || {
        let headers = [header.clone(), format!("if-none-match: {tag}")];
        crate::client::ask(&forge.github_url(), "GET", "/repos/acme/app/issues", &headers, "").status
    };
    assert_eq!(again(), 304);
    forge.repo("acme/app").open_issue(&IssueDraft { author: "ada", title: "new", ..IssueDraft::default() });
    assert_eq!(again(), 200);
}

#[test]
fn tokens_are_refused_as_github_refuses_them() {
    let forge = forge();
    let issue = json!({"title": "t"});
    let post = |token: &str| {
        let answer = caller(&forge, token).post("/repos/acme/app/issues", &issue);
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    let expect = |status: u16, text: &str| (status, text.to_owned());
    assert_eq!(post("nonsense"), expect(401, "Bad credentials"));
    let anonymous = Caller { url: forge.github_url(), header: None }.post("/repos/acme/app/issues", &issue);
    assert_eq!((anonymous.status, anonymous.json()["message"].clone()), (401, json!("Requires authentication")));
    let classic = forge.add_token(FakeToken::personal("bot", &[]));
    assert_eq!(post(&classic), expect(404, "Not Found"));
    let fine = forge.add_token(FakeToken::fine_grained("bot", &["issues:read", "contents:write"]));
    assert_eq!(post(&fine), expect(403, "Resource not accessible by personal access token"));
    let good = forge.add_token(FakeToken::personal("bot", &["public_repo"]));
    assert_eq!(post(&good).0, 201);
    forge.repo("acme/app").make_private();
    assert_eq!(post(&good), expect(404, "Not Found"));
    let scopes = caller(&forge, &good).get("/user");
    assert_eq!(scopes.header("x-oauth-scopes"), Some("public_repo"));
    forge.revoke_token(&good);
    assert_eq!(post(&good), expect(401, "Bad credentials"));
}

#[test]
fn log_has_no_token() {
    let forge = forge();
    let token = forge.token("bot");
    caller(&forge, &token).get("/repos/acme/app?access_token=secret");
    let log = forge.requests();
    assert_eq!(log[0].header("authorization"), Some("<token of bot>"));
    assert!(!format!("{log:?}").contains(&token) && !format!("{log:?}").contains("secret"), "{log:?}");
}

#[test]
fn faults_hit_the_nth_request_and_say_whether_it_was_performed() {
    let forge = forge();
    let bot = caller(&forge, &forge.token("bot"));
    let path = "/repos/acme/app/issues";
    let titles = || forge.repo("acme/app").issues().len();
    let post = |fault: ForgeFault| {
        forge.fail("POST", "/repos/*/*/issues", 1, fault);
        bot.post(path, &json!({"title": "t"}))
    };
    assert_eq!((post(ForgeFault::CutAfter).status, titles()), (0, 1));
    assert_eq!((post(ForgeFault::CutBefore).status, titles()), (0, 1));
    let limited = post(ForgeFault::TooManyRequests(7));
    assert_eq!((limited.status, limited.header("retry-after"), titles()), (429, Some("7"), 1));
    let secondary = post(ForgeFault::SecondaryLimit(60));
    assert_eq!((secondary.status, secondary.header("retry-after"), titles()), (403, Some("60"), 1));
    let primary = post(ForgeFault::PrimaryLimit(60));
    assert_eq!((primary.status, primary.header("x-ratelimit-remaining")), (403, Some("0")));
    assert_eq!((post(ForgeFault::ServerError(502)).status, titles()), (502, 1));
    assert_eq!((post(ForgeFault::ServerErrorAfter(500)).status, titles()), (500, 2));
    assert!(post(ForgeFault::HtmlPage(503)).text.starts_with("<!DOCTYPE html>"));
    let broken = post(ForgeFault::MalformedJson);
    assert!(serde_json::from_str::<Value>(&broken.text).is_err() && broken.status == 201 && titles() == 3);
    let half = post(ForgeFault::CutInside);
    assert!(serde_json::from_str::<Value>(&half.text).is_err() && titles() == 4, "{half:?}");
    assert_eq!(post(ForgeFault::Slow(std::time::Duration::from_millis(1))).status, 201);
    assert_eq!(forge.requests_to("POST", path).iter().filter(|row| row.status.is_none()).count(), 3);
}
