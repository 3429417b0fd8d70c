//! GitHub Apps: a signed JWT opens an installation's token, whose rights are those of the installation.

use crate::client::Caller;
use base64::Engine as _;
use loopwright_testkit::fake_forge::{ApiDescription, FakeApp, FakeForge};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// A JWT of an app, signed with openssl; its life in seconds may be negative.
fn jwt(app: &FakeApp, key: &str, life: i64) -> String {
    let encode = |bytes: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs() as i64;
    let head = encode(json!({"alg": "RS256", "typ": "JWT"}).to_string().as_bytes());
    let claims = encode(json!({"iss": app.id.to_string(), "iat": now - 60, "exp": now + life}).to_string().as_bytes());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (key_file, text_file) = (folder.path().join("key"), folder.path().join("text"));
    std::fs::write(&key_file, key).expect("the key can be written");
    std::fs::write(&text_file, format!("{head}.{claims}")).expect("the text can be written");
    let mut openssl = Command::new("openssl");
    openssl.args(["dgst", "-sha256", "-sign"]).arg(&key_file).arg(&text_file).stdin(Stdio::null());
    let signed = openssl.env_clear().env("PATH", loopwright_testkit::TRUSTED_PATH).output().expect("openssl starts");
    assert!(signed.status.success(), "{signed:?}");
    format!("{head}.{claims}.{}", encode(&signed.stdout))
}

fn caller(forge: &FakeForge, token: &str) -> Caller {
    Caller::new(&forge.github_url(), format!("authorization: Bearer {token}"))
}

#[test]
fn installation_s_token_has_the_installation_s_rights() {
    let forge = FakeForge::start();
    let repo = forge.create_repo("acme/app");
    let (app, key) = forge.create_app("loopwright", "acme", &["metadata:read", "checks:write", "contents:read"]);
    let as_app = caller(&forge, &jwt(&app, &key, 500));
    assert_eq!(as_app.get("/app").json()["slug"], "loopwright");
    assert_eq!(as_app.get("/repos/acme/app/installation").json()["id"], json!(app.installation));
    let path = format!("/app/installations/{}/access_tokens", app.installation);
    let made = as_app.post(&path, &json!({"repositories": ["app"], "permissions": {"checks": "write"}}));
    assert_eq!(made.status, 201, "{made:?}");
    let token = made.json()["token"].as_str().expect("a token").to_owned();
    let bot = caller(&forge, &token);
    let head = repo.branch("main").expect("a branch");
    let check = json!({"name": "loop", "head_sha": head, "status": "completed", "conclusion": "success",
                       "output": {"title": "t", "summary": "s"}});
    let run = bot.post("/repos/acme/app/check-runs", &check);
    assert_eq!(run.status, 201, "{run:?}");
    let change = bot.send(
        "PATCH",
        &format!("/repos/acme/app/check-runs/{}", run.json()["id"]),
        &json!({"conclusion": "failure"}),
    );
    assert_eq!(change.json()["conclusion"], "failure");
    let refused = bot.post("/repos/acme/app/issues", &json!({"title": "t"}));
    assert_eq!(
        (refused.status, refused.json()["message"].clone()),
        (403, json!("Resource not accessible by integration"))
    );
    assert_eq!(bot.get("/installation/repositories").json()["total_count"], 1);
    let personal = caller(&forge, &forge.token("acme")).post("/repos/acme/app/check-runs", &check);
    assert_eq!(
        (personal.status, personal.json()["message"].clone()),
        (403, json!("You must authenticate via a GitHub App."))
    );
    let Some(description) = ApiDescription::github() else { return };
    let report = description.check(&forge.requests());
    assert_eq!(report.findings(), "");
}

#[test]
fn jwt_that_github_would_refuse_is_refused() {
    let forge = FakeForge::start();
    forge.create_repo("acme/app");
    let (app, key) = forge.create_app("loopwright", "acme", &["metadata:read"]);
    let (_, other_key) = forge.create_app("other", "acme", &["metadata:read"]);
    let status = |token: &str| caller(&forge, token).send("GET", "/app", &Value::Null).status;
    assert_eq!(status(&jwt(&app, &key, 500)), 200);
    assert_eq!(status(&jwt(&app, &key, -5)), 401, "expired");
    assert_eq!(status(&jwt(&app, &key, 3600)), 401, "too long");
    assert_eq!(status(&jwt(&app, &other_key, 500)), 401, "another key");
    assert_eq!(status(&forge.token("acme")), 401, "not a JWT");
}
