//! Deliveries from GitLab. They do not state a person's rights to a project, so an event that any user can cause in a
//! public project counts only for people who are named.

use super::event::{DeliveryBody, MalformedDelivery, WebhookEvent, capped, commit, is_word, line};
use super::signature::header;
use hyper::header::HeaderMap;
use loopwright_core::hash;
use serde_json::{Value, json};

/// The headers that name a delivery, the best first: the signed one, the one that stays the same on a retry, the last
/// resort.
const DELIVERY: [&str; 3] = ["webhook-id", "idempotency-key", "x-gitlab-event-uuid"];

/// Reads a delivery whose signature is valid.
pub(super) fn read(headers: &HeaderMap, body: &Value, raw: &[u8]) -> Result<WebhookEvent, MalformedDelivery> {
    let value = DeliveryBody(body);
    let name = value.text("/object_kind").or_else(|| value.text("/event_name")).filter(|text| is_word(text));
    let name = name.ok_or(MalformedDelivery("no object_kind"))?.to_owned();
    let named = DELIVERY.iter().find_map(|name| header(headers, name).filter(|text| is_word(text)));
    let delivery = named.map_or_else(|| hash::hash_bytes(raw)[..32].to_owned(), str::to_owned);
    let actor = ["/user/username", "/user_username"].iter().find_map(|path| value.owned(path));
    let remotes = ["/project/web_url", "/project/git_http_url", "/project/git_ssh_url"];
    let event = WebhookEvent {
        source: "gitlab",
        delivery,
        remotes: remotes.iter().filter_map(|path| value.owned(path)).collect(),
        default_branch: value.owned("/project/default_branch"),
        data: data(&name, value, actor.as_deref()),
        is_final: true,
        actor,
        name,
        ..WebhookEvent::default()
    };
    Ok(about(event, value))
}

fn about(event: WebhookEvent, body: DeliveryBody<'_>) -> WebhookEvent {
    let details = |paths: &[&str]| paths.iter().filter_map(|path| body.owned(path)).collect();
    let of = |kind: &str, number: Option<u64>, at: Option<String>| {
        number.zip(at.filter(|at| is_word(at))).map(|(number, at)| format!("{kind}-{number}@{at}"))
    };
    let words = |text: Option<&str>| text.map(|text| text.split_whitespace().collect::<Vec<_>>().join("T"));
    match event.name.as_str() {
        "push" => WebhookEvent {
            branch: body.branch("/ref"),
            moved_to: body.text("/after").and_then(commit),
            moves_nothing: body.moves_nothing(),
            title: body.text("/commits/0/title").map(line),
            is_insider: true,
            ..event
        },
        "merge_request" => WebhookEvent {
            branch: body.owned("/object_attributes/target_branch"),
            head_branch: body.owned("/object_attributes/source_branch").filter(|_| is_same_project(body)),
            details: details(&["/object_attributes/action"]),
            item: of(
                "pr",
                body.number("/object_attributes/iid"),
                body.text("/object_attributes/last_commit/id").and_then(commit),
            ),
            title: body.text("/object_attributes/title").map(line),
            ..event
        },
        "issue" => WebhookEvent {
            details: details(&["/object_attributes/action"]),
            item: of("issue", body.number("/object_attributes/iid"), words(body.text("/object_attributes/updated_at"))),
            title: body.text("/object_attributes/title").map(line),
            ..event
        },
        "pipeline" => WebhookEvent {
            branch: body.owned("/object_attributes/ref"),
            details: details(&["/object_attributes/status"]),
            item: of("run", body.number("/object_attributes/id"), body.text("/object_attributes/sha").and_then(commit)),
            is_final: matches!(
                body.text("/object_attributes/status"),
                Some("success" | "failed" | "canceled" | "skipped")
            ),
            is_insider: !body.has("/merge_request") || is_same_project(body),
            ..event
        },
        "tag_push" | "release" | "deployment" => WebhookEvent { is_insider: true, ..event },
        _ => WebhookEvent { details: details(&["/object_attributes/action", "/build_status"]), ..event },
    }
}

fn is_same_project(body: DeliveryBody<'_>) -> bool {
    let at = |part: &str, side: &str| body.number(&format!("{part}/{side}_project_id"));
    ["/object_attributes", "/merge_request"].iter().any(|part| {
        let (source, target) = (at(part, "source"), at(part, "target"));
        source.is_some() && source == target
    })
}

fn data(name: &str, body: DeliveryBody<'_>, actor: Option<&str>) -> Value {
    let text = body.text("/object_attributes/description").or_else(|| body.text("/object_attributes/note"));
    json!({
        "event": format!("gitlab.{name}"),
        "action": body.text("/object_attributes/action"),
        "repository": body.text("/project/path_with_namespace"),
        "actor": actor,
        "url": body.text("/object_attributes/url"),
        "status": body.text("/object_attributes/status"),
        "commit": body.text("/after").or_else(|| body.text("/object_attributes/sha")),
        "text": text.map(capped),
    })
}
