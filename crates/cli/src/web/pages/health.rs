//! The health of this machine and of the record: what the host enforces, which agents work, whether the journal is intact.

use super::parts::{PageError, badge, bytes, empty, facts, list, number, problem_box, section, table, text};
use super::{PageContent, PageSource};
use crate::web::access::AccessRole;
use crate::web::markup::{Markup, element, encode};
use serde_json::Value;

/// The messages that are listed.
const MESSAGES_MAX: usize = 20;

pub(super) async fn render(source: &PageSource<'_>) -> Result<PageContent, PageError> {
    let doctor = source.document(&["doctor"]).await;
    let verify = source.document(&["verify"]).await;
    let status = source.document(&["status", "--all", "--limit=1"]).await?;
    let body = section("record", "The record", record(verify, &status))
        .and(section("notifications", "Notifications", notifications(source).await?))
        .and(section("machine", "This machine", machine(&doctor)))
        .and(section("agents", "Agents", agents(&doctor)));
    Ok(PageContent::new("Health", body))
}

fn record(verify: Result<Value, PageError>, status: &Value) -> Markup {
    let verify = match verify {
        Ok(verify) => verify,
        Err(error) => return problem_box(&error.text, &error.hints),
    };
    let is_ok = verify.get("ok").and_then(Value::as_bool) == Some(true);
    let broken = verify.get("broken").cloned().unwrap_or_default();
    let state = if is_ok { badge("ok") } else { badge("failed") };
    let daemon = status.get("daemon").cloned().unwrap_or_default();
    let known = facts(vec![
        ("Journal", state),
        ("Events checked", format!("{}", number(&verify, "events")).into()),
        ("Size of the store", bytes(number(&verify, "bytes")).into()),
        ("Daemon", format!("process {}", number(&daemon, "pid")).into()),
        ("Version", env!("CARGO_PKG_VERSION").into()),
    ]);
    if is_ok { known } else { known.and(problem_box(text(&broken, "why"), &[])) }
}

/// The routes, and the messages that were not sent. Without a route, how to write one.
async fn notifications(source: &PageSource<'_>) -> Result<Markup, PageError> {
    let document = match source.document(&["notifications"]).await {
        Ok(document) => document,
        Err(error) => return Ok(problem_box(&error.text, &error.hints)),
    };
    let routes = list(&document, "routes");
    if routes.is_empty() {
        let example = element("code", &[], "notify: { team: { slack: { webhook_env: SLACK_WEBHOOK_URL } } }");
        return Ok(empty("There is no route for notifications. Write one into your own configuration:").and(example));
    }
    let row = |route: &Value| {
        let loops: Vec<&str> = list(route, "loops").iter().filter_map(Value::as_str).collect();
        let loops = if loops.is_empty() { "all".to_owned() } else { loops.join(", ") };
        vec![
            text(route, "route").into(),
            text(route, "kind").into(),
            text(route, "severity").into(),
            loops.into(),
            text(route, "digest").into(),
            text(route, "quiet").into(),
        ]
    };
    let routes = table(&["Route", "To", "From severity", "Loops", "Digest", "Quiet"], routes.iter().map(row));
    let messages = list(&document, "notifications");
    if messages.is_empty() {
        return Ok(routes.and(empty("No message yet. `loopwright notifications test ROUTE` tries a route.")));
    }
    let row = |message: &Value| {
        vec![
            badge(text(message, "state")),
            text(message, "route").into(),
            text(message, "subject").into(),
            text(message, "error").into(),
            send_again(source, message),
        ]
    };
    let shown = messages.iter().take(MESSAGES_MAX).map(row);
    Ok(routes.and(table(&["State", "Route", "Message", "Last error", "Again"], shown)))
}

fn send_again(source: &PageSource<'_>, message: &Value) -> Markup {
    if text(message, "state") == "sent" {
        return Markup::default();
    }
    let path = format!("/api/v1/notifications/{}/retry", encode(text(message, "id")));
    source.button(AccessRole::Operate, &path, "/health", "Send again", Markup::default())
}

fn machine(doctor: &Result<Value, PageError>) -> Markup {
    let doctor = match doctor {
        Ok(doctor) => doctor,
        Err(error) => return problem_box(&error.text, &error.hints),
    };
    let row = |check: &Value| {
        vec![
            badge(text(check, "status")),
            text(check, "name").into(),
            text(check, "text").into(),
            text(check, "fix").into(),
        ]
    };
    let level = Markup::text("Isolation of loops with ").and(element("code", &[], "sandbox: on"));
    let level = element("p", &[], level.and(": ".into()).and(element("b", &[], text(doctor, "boundary"))));
    // Agents have their own part. Problems come first; the order among them stays.
    let mut checks: Vec<&Value> =
        list(doctor, "checks").iter().filter(|check| !text(check, "name").starts_with("agent ")).collect();
    checks.sort_by_key(|check| text(check, "status") == "ok");
    level.and(table(&["State", "Check", "Result", "Fix"], checks.into_iter().map(row)))
}

fn agents(doctor: &Result<Value, PageError>) -> Markup {
    let Ok(doctor) = doctor else { return Markup::default() };
    let row = |agent: &Value| {
        let usable = agent.get("usable").and_then(Value::as_bool) == Some(true);
        let state = if usable { badge("ok") } else { badge("not here") };
        vec![
            state,
            text(agent, "agent").into(),
            text(agent, "version").into(),
            text(agent, "access").into(),
            text(agent, "fix").into(),
        ]
    };
    table(&["State", "Agent", "Version", "Access", "Fix"], list(doctor, "agents").iter().map(row))
}
