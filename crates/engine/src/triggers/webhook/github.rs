//! Deliveries from GitHub.

use super::event::{DeliveryBody, MalformedDelivery, WebhookEvent, capped, commit, is_word, line};
use super::signature::header;
use hyper::header::HeaderMap;
use serde_json::{Value, json};

/// The subject of an event, and its origin.
#[derive(Default)]
struct About<'a> {
    /// The path of the event's content, for which GitHub gives the author's association: `/issue`, `/comment`.
    content: Option<&'a str>,
    branch: Option<String>,
    head_branch: Option<String>,
    item: Option<String>,
    title: Option<&'a str>,
    moved_to: Option<String>,
    moves_nothing: bool,
    details: Vec<&'a str>,
    is_final: bool,
    /// Only people with rights to the repository can cause it.
    needs_rights: bool,
}

/// Reads a delivery whose signature is valid. `None` for a ping.
pub(super) fn read(headers: &HeaderMap, body: &Value) -> Result<Option<WebhookEvent>, MalformedDelivery> {
    let word = |name| header(headers, name).filter(|text| is_word(text)).map(str::to_owned);
    let name = word("x-github-event").ok_or(MalformedDelivery("no X-GitHub-Event"))?;
    let delivery = word("x-github-delivery").ok_or(MalformedDelivery("no X-GitHub-Delivery"))?;
    if name == "ping" {
        return Ok(None);
    }
    let body = DeliveryBody(body);
    let about = about(&name, body);
    let actor = body.owned("/sender/login");
    let is_insider = about.needs_rights || about.content.is_some_and(|content| is_by_insider(body, content));
    let remotes = ["/repository/html_url", "/repository/clone_url", "/repository/ssh_url"];
    let action = body.text("/action");
    Ok(Some(WebhookEvent {
        source: "github",
        details: action.into_iter().chain(about.details).map(str::to_owned).collect(),
        is_final: about.is_final,
        delivery,
        remotes: remotes.iter().filter_map(|path| body.owned(path)).collect(),
        branch: about.branch,
        default_branch: body.owned("/repository/default_branch"),
        head_branch: about.head_branch,
        is_insider,
        moved_to: about.moved_to,
        moves_nothing: about.moves_nothing,
        item: about.item,
        title: about.title.map(line),
        data: data(&name, body, about.content, actor.as_deref()),
        actor,
        name,
    }))
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

fn about<'a>(name: &str, body: DeliveryBody<'a>) -> About<'a> {
    let usual = About { is_final: true, ..About::default() };
    match name {
        "push" => About {
            branch: body.branch("/ref"),
            moved_to: body.text("/after").and_then(commit),
            moves_nothing: body.moves_nothing(),
            title: body.text("/head_commit/message"),
            needs_rights: true,
            ..usual
        },
        "pull_request" | "pull_request_target" => pull(body, "/pull_request"),
        "pull_request_review" => pull(body, "/review"),
        "pull_request_review_comment" => pull(body, "/comment"),
        "issues" => issue(body, "/issue"),
        "issue_comment" => issue(body, "/comment"),
        "discussion" => About { content: Some("/discussion"), title: body.text("/discussion/title"), ..usual },
        "discussion_comment" => About { content: Some("/comment"), title: body.text("/discussion/title"), ..usual },
        "workflow_run" => run(body),
        "check_suite" | "check_run" => check(name, body),
        "status" => About {
            branch: body.owned("/branches/0/name"),
            details: body.text("/state").into_iter().collect(),
            title: body.text("/description"),
            is_final: body.text("/state") != Some("pending"),
            needs_rights: true,
            ..About::default()
        },
        "release" => About {
            item: body.number("/release/id").map(|id| format!("release-{id}")),
            title: body.text("/release/name"),
            needs_rights: true,
            ..usual
        },
        "create" | "delete" => About {
            // Loopwright's own branches are created and deleted as well.
            head_branch: body.owned("/ref").filter(|_| body.text("/ref_type") == Some("branch")),
            needs_rights: true,
            ..usual
        },
        "deployment" | "deployment_status" | "workflow_dispatch" | "repository_dispatch" => {
            About { needs_rights: true, ..usual }
        }
        // Any user may have caused other events, including future kinds.
        _ => usual,
    }
}

fn pull<'a>(body: DeliveryBody<'a>, content: &'static str) -> About<'a> {
    let (number, head) = (body.number("/pull_request/number"), body.text("/pull_request/head/sha").and_then(commit));
    About {
        content: Some(content),
        branch: body.owned("/pull_request/base/ref"),
        head_branch: body
            .owned("/pull_request/head/ref")
            .filter(|_| is_same_repository(body, "/pull_request/head/repo")),
        item: number.zip(head).map(|(number, head)| format!("pr-{number}@{head}")),
        title: body.text("/pull_request/title"),
        is_final: true,
        ..About::default()
    }
}

fn issue<'a>(body: DeliveryBody<'a>, content: &'static str) -> About<'a> {
    let kind = if body.has("/issue/pull_request") { "pr" } else { "issue" };
    let (number, at) = (body.number("/issue/number"), body.text("/issue/updated_at").filter(|text| is_word(text)));
    About {
        content: Some(content),
        item: number.zip(at).map(|(number, at)| format!("{kind}-{number}@{at}")),
        title: body.text("/issue/title"),
        is_final: true,
        ..About::default()
    }
}

fn run(body: DeliveryBody<'_>) -> About<'_> {
    let (id, attempt) = (body.number("/workflow_run/id"), body.number("/workflow_run/run_attempt").unwrap_or(1));
    About {
        branch: body.owned("/workflow_run/head_branch"),
        item: id.map(|id| format!("run-{id}@{attempt}")),
        title: body.text("/workflow_run/name"),
        details: body.text("/workflow_run/conclusion").into_iter().collect(),
        is_final: body.text("/action") == Some("completed"),
        // Any user can run a fork's workflow with a pull request.
        needs_rights: is_same_repository(body, "/workflow_run/head_repository"),
        ..About::default()
    }
}

fn check<'a>(name: &str, body: DeliveryBody<'a>) -> About<'a> {
    let at = |path: &str| format!("/{name}{path}");
    let (id, head) = (body.number(&at("/id")), body.text(&at("/head_sha")).and_then(commit));
    let suite = if name == "check_run" { "/check_run/check_suite/head_branch" } else { "/check_suite/head_branch" };
    About {
        branch: body.owned(suite),
        item: id.zip(head).map(|(id, head)| format!("check-{id}@{head}")),
        title: body.text(&at("/name")),
        details: body.text(&at("/conclusion")).into_iter().collect(),
        is_final: body.text("/action") == Some("completed"),
        // Checks of a fork have no branch in this repository.
        needs_rights: body.has(suite),
        ..About::default()
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
