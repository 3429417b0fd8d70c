//! Deliveries from GitHub.

use super::event::{DeliveryBody, MalformedDelivery, WebhookEvent, capped, commit, is_word, line};
use super::signature::header;
use hyper::header::HeaderMap;
use serde_json::{Value, json};

/// Events that only people and programs with rights to the repository can cause.
const NEEDS_RIGHTS: [&str; 20] = [
    "branch_protection_rule",
    "dependabot_alert",
    "deploy_key",
    "deployment",
    "deployment_status",
    "label",
    "member",
    "milestone",
    "package",
    "page_build",
    "public",
    "repository",
    "repository_dispatch",
    "repository_import",
    "repository_vulnerability_alert",
    "secret_scanning_alert",
    "secret_scanning_alert_location",
    "security_and_analysis",
    "team_add",
    "workflow_dispatch",
];

/// Reads a delivery whose signature is valid. `None` for a ping.
pub(super) fn read(headers: &HeaderMap, body: &Value) -> Result<Option<WebhookEvent>, MalformedDelivery> {
    let word = |name| header(headers, name).filter(|text| is_word(text)).map(str::to_owned);
    let name = word("x-github-event").ok_or(MalformedDelivery("no X-GitHub-Event"))?;
    let delivery = word("x-github-delivery").ok_or(MalformedDelivery("no X-GitHub-Delivery"))?;
    if name == "ping" {
        return Ok(None);
    }
    let body = DeliveryBody(body);
    let (content, actor) = (content(&name), body.owned("/sender/login"));
    let remotes = ["/repository/html_url", "/repository/clone_url", "/repository/ssh_url"];
    let event = about(
        WebhookEvent {
            source: "github",
            delivery,
            remotes: remotes.iter().filter_map(|path| body.owned(path)).collect(),
            default_branch: body.owned("/repository/default_branch"),
            data: data(&name, body, content, actor.as_deref()),
            is_final: true,
            actor,
            name,
            ..WebhookEvent::default()
        },
        body,
    );
    Ok(Some(WebhookEvent {
        details: body.owned("/action").into_iter().chain(event.details).collect(),
        is_insider: event.is_insider
            || is_by_owner(body)
            || content.is_some_and(|content| is_by_insider(body, content)),
        ..event
    }))
}

/// Whether the sender is the owner of the repository.
fn is_by_owner(body: DeliveryBody<'_>) -> bool {
    let sender = body.number("/sender/id");
    sender.is_some() && sender == body.number("/repository/owner/id") && body.text("/sender/type") == Some("User")
}

/// The path of an event's content, for which GitHub gives the author's association: `/issue`, `/comment`.
fn content(name: &str) -> Option<&'static str> {
    match name {
        "pull_request" | "pull_request_target" | "pull_request_review_thread" => Some("/pull_request"),
        "pull_request_review" => Some("/review"),
        "pull_request_review_comment" | "issue_comment" | "discussion_comment" | "commit_comment" => Some("/comment"),
        "issues" => Some("/issue"),
        "discussion" => Some("/discussion"),
        _ => None,
    }
}

/// If the content's author is the sender, GitHub gives the author's association with the repository. Any other sender
/// who can act on another person's text has rights there.
fn is_by_insider(body: DeliveryBody<'_>, content: &str) -> bool {
    let (author, sender) = (body.text(&format!("{content}/user/login")), body.text("/sender/login"));
    let place = body.text(&format!("{content}/author_association"));
    match (author, sender) {
        (Some(author), Some(sender)) if author == sender => {
            matches!(place, Some("OWNER" | "MEMBER" | "COLLABORATOR"))
        }
        (Some(_), Some(_)) => !is_push_to_a_fork(body),
        _ => false,
    }
}

/// A user who pushes to the branch of a pull request from a fork has rights to the fork, and perhaps to nothing else.
fn is_push_to_a_fork(body: DeliveryBody<'_>) -> bool {
    body.text("/action") == Some("synchronize") && !is_same_repository(body, "/pull_request/head/repo")
}

/// The event with its subject. Only people with rights to the repository can cause those that it marks as an insider's.
fn about(usual: WebhookEvent, body: DeliveryBody<'_>) -> WebhookEvent {
    let title = |path: &str| body.text(path).map(line);
    match usual.name.as_str() {
        "push" => WebhookEvent {
            branch: body.branch("/ref"),
            moved_to: body.text("/after").and_then(commit),
            moves_nothing: body.moves_nothing(),
            title: title("/head_commit/message"),
            is_insider: true,
            ..usual
        },
        "pull_request" | "pull_request_target" => pull(usual, body),
        "pull_request_review" | "pull_request_review_comment" | "pull_request_review_thread" => pull(usual, body),
        "issues" | "issue_comment" => issue(usual, body),
        "discussion" | "discussion_comment" => WebhookEvent { title: title("/discussion/title"), ..usual },
        "workflow_run" | "deployment_review" => run(usual, body),
        // It does not name the repository of its head, so it may be a fork's.
        "workflow_job" => WebhookEvent {
            branch: body.owned("/workflow_job/head_branch"),
            title: title("/workflow_job/name"),
            details: body.owned("/workflow_job/conclusion").into_iter().collect(),
            is_final: body.text("/action") == Some("completed"),
            ..usual
        },
        "merge_group" => WebhookEvent { branch: body.branch("/merge_group/base_ref"), is_insider: true, ..usual },
        // An alert about a fork's pull request has no branch in this repository.
        "code_scanning_alert" => {
            WebhookEvent { branch: body.branch("/ref"), is_insider: body.branch("/ref").is_some(), ..usual }
        }
        "check_suite" | "check_run" => check(usual, body),
        "status" => WebhookEvent {
            branch: body.owned("/branches/0/name"),
            details: body.owned("/state").into_iter().collect(),
            title: title("/description"),
            is_final: body.text("/state") != Some("pending"),
            is_insider: true,
            ..usual
        },
        "release" => WebhookEvent {
            item: body.number("/release/id").map(|id| format!("release-{id}")),
            title: title("/release/name"),
            is_insider: true,
            ..usual
        },
        "create" | "delete" => WebhookEvent {
            // Loopwright's own branches are created and deleted as well.
            head_branch: body.owned("/ref").filter(|_| body.text("/ref_type") == Some("branch")),
            is_insider: true,
            ..usual
        },
        name if NEEDS_RIGHTS.contains(&name) => WebhookEvent { is_insider: true, ..usual },
        // Any user may have caused other events, including future kinds.
        _ => usual,
    }
}

fn pull(usual: WebhookEvent, body: DeliveryBody<'_>) -> WebhookEvent {
    let (number, head) = (body.number("/pull_request/number"), body.text("/pull_request/head/sha").and_then(commit));
    let is_own = is_same_repository(body, "/pull_request/head/repo");
    WebhookEvent {
        branch: body.owned("/pull_request/base/ref"),
        head_branch: body.owned("/pull_request/head/ref").filter(|_| is_own),
        item: number.zip(head).map(|(number, head)| format!("pr-{number}@{head}")),
        title: body.text("/pull_request/title").map(line),
        ..usual
    }
}

fn issue(usual: WebhookEvent, body: DeliveryBody<'_>) -> WebhookEvent {
    let kind = if body.has("/issue/pull_request") { "pr" } else { "issue" };
    let (number, at) = (body.number("/issue/number"), body.text("/issue/updated_at").filter(|text| is_word(text)));
    WebhookEvent {
        item: number.zip(at).map(|(number, at)| format!("{kind}-{number}@{at}")),
        title: body.text("/issue/title").map(line),
        ..usual
    }
}

fn run(usual: WebhookEvent, body: DeliveryBody<'_>) -> WebhookEvent {
    let (id, attempt) = (body.number("/workflow_run/id"), body.number("/workflow_run/run_attempt").unwrap_or(1));
    WebhookEvent {
        branch: body.owned("/workflow_run/head_branch"),
        item: id.map(|id| format!("run-{id}@{attempt}")),
        title: body.text("/workflow_run/name").map(line),
        details: body.owned("/workflow_run/conclusion").into_iter().collect(),
        is_final: usual.name != "workflow_run" || body.text("/action") == Some("completed"),
        // Any user can run a fork's workflow with a pull request.
        is_insider: is_same_repository(body, "/workflow_run/head_repository"),
        ..usual
    }
}

fn check(usual: WebhookEvent, body: DeliveryBody<'_>) -> WebhookEvent {
    let name = usual.name.clone();
    let at = |path: &str| format!("/{name}{path}");
    let (id, head) = (body.number(&at("/id")), body.text(&at("/head_sha")).and_then(commit));
    let suite = if name == "check_run" { "/check_run/check_suite/head_branch" } else { "/check_suite/head_branch" };
    WebhookEvent {
        branch: body.owned(suite),
        item: id.zip(head).map(|(id, head)| format!("check-{id}@{head}")),
        title: body.text(&at("/name")).map(line),
        details: body.owned(&at("/conclusion")).into_iter().collect(),
        is_final: body.text("/action") == Some("completed"),
        // Checks of a fork have no branch in this repository.
        is_insider: body.has(suite),
        ..usual
    }
}

fn is_same_repository(body: DeliveryBody<'_>, other: &str) -> bool {
    let (one, other) = (body.text("/repository/full_name"), body.text(&format!("{other}/full_name")));
    one.is_some() && one == other
}

fn data(name: &str, body: DeliveryBody<'_>, content: Option<&str>, actor: Option<&str>) -> Value {
    let at = |path: &str| content.and_then(|content| body.text(&format!("{content}{path}")));
    let run = |path: &str| body.text(&format!("/workflow_run{path}"));
    json!({
        "event": format!("github.{name}"),
        "action": body.text("/action"),
        "repository": body.text("/repository/full_name"),
        "actor": actor,
        "url": at("/html_url").or(run("/html_url")),
        "conclusion": run("/conclusion"),
        "commit": run("/head_sha").or(body.text("/after")),
        "label": body.text("/label/name"),
        "text": at("/body").map(capped),
    })
}
