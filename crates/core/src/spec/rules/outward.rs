//! Rules of outward settings: outputs, allowed kinds, forge, approvers, secrets, set-up.

use super::{Rules, paths};
use crate::level::LoopLevel;
use crate::spec::path::SpecPath;
use crate::spec::problem::quoted;
use crate::spec::reader::value::nearest;
use crate::spec::{ActionKind, AskPlace, LoopSpec, OutputSpec, UnreadText};
use std::collections::BTreeSet;

pub(super) fn check(rules: &mut Rules, spec: &LoopSpec) {
    outputs(rules, spec);
    allow(rules, spec);
    rules.range(SpecPath::root_key("open_max"), spec.open_max, 1, 1000);
    if !is_word(&spec.forge) {
        let what = format!("{} is not the name of a forge", quoted(&spec.forge));
        rules.report(SpecPath::root_key("forge"), what, "such as `local`");
    }
    for (key, list) in [("approvers", &spec.approvers), ("locks", &spec.locks)] {
        for (at, text) in list.iter().enumerate().filter(|(_, text)| !is_line(text)) {
            let what = format!("`{key}` has the unusable text {}", quoted(text));
            rules.report(SpecPath::root_key(key).index(at), what, None);
        }
    }
    approvals(rules, spec);
    for (at, lock) in spec.locks.iter().enumerate().filter(|(_, text)| is_line(text)) {
        check_lock(rules, SpecPath::root_key("locks").index(at), lock);
    }
    labels(rules, spec);
    for (at, name) in spec.secrets.iter().enumerate().filter(|(_, name)| !is_variable(name)) {
        let what = format!("{} is not the name of a secret", quoted(name));
        rules.report(SpecPath::root_key("secrets").index(at), what, "name the variable, never its value");
    }
    for (at, command) in spec.setup.iter().enumerate() {
        rules.command(SpecPath::root_key("setup").index(at), command);
    }
}

/// A quorum that the named approvers cannot reach would block every candidate.
fn approvals(rules: &mut Rules, spec: &LoopSpec) {
    rules.range(SpecPath::root_key("approvals").key("quorum"), spec.approvals.quorum, 1, 100);
    if spec.approvals.ask.contains(&AskPlace::Forge) && spec.forge == "local" {
        let what = "the local forge cannot confirm who wrote a comment".to_owned();
        let hint = "name another `forge`, or ask in `slack`";
        rules.report(SpecPath::root_key("approvals").key("ask"), what, hint);
    }
    let people: BTreeSet<_> = spec.approvers.iter().collect();
    let quorum = usize::try_from(spec.approvals.quorum).unwrap_or(usize::MAX);
    if !people.is_empty() && quorum > people.len() {
        let what = format!("`approvals.quorum` is {quorum}, and `approvers` names {}", people.len());
        rules.report(SpecPath::root_key("approvals").key("quorum"), what, "name more approvers, or ask for fewer");
    }
}

/// The most labels of a loop.
const LABELS_MAX: usize = 16;

/// Labels are also typed on the command line of a worker.
fn labels(rules: &mut Rules, spec: &LoopSpec) {
    for (at, label) in spec.labels.iter().enumerate().filter(|(_, label)| !is_label(label)) {
        let what = format!("{} is not a label of a worker", quoted(label));
        let hint = "a label has letters, digits, `-`, `_` and `.`, at most 64, such as `gpu`";
        rules.report(SpecPath::root_key("labels").index(at), what, hint);
    }
    if spec.labels.len() > LABELS_MAX {
        let what = format!("`labels` names {}, and a loop may have {LABELS_MAX}", spec.labels.len());
        rules.report(SpecPath::root_key("labels"), what, None);
    }
}

/// Whether a text can be a label of a worker.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&text.len()) && text.chars().all(is_part) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Kinds of locks with a special meaning.
const LOCKS: [&str; 6] = ["branch", "path", "issue", "pr", "item", "global"];

/// Any word is a valid lock, so only probable mistakes are reported.
fn check_lock(rules: &mut Rules, path: SpecPath, lock: &str) {
    let Some((kind, of)) = lock.split_once(':') else {
        if lock.contains(['/', '*']) {
            let hint = format!("write `path:{lock}`");
            rules.object_with(path, format!("{} looks like a path", quoted(lock)), Some(hint));
        }
        return;
    };
    match kind {
        "path" => paths::globs(rules, &path, std::slice::from_ref(&of.to_owned())),
        "branch" => paths::branch(rules, path, of),
        "issue" | "pr" if of.is_empty() || !of.bytes().all(|byte| byte.is_ascii_digit()) => {
            rules.report(path, format!("{} names no number", quoted(lock)), "such as `issue:12`");
        }
        kind if LOCKS.contains(&kind) => {}
        kind => {
            if let Some(near) = nearest(kind, LOCKS.into_iter()) {
                let hint = format!("did you mean `{near}:{of}`?");
                rules.object_with(path, format!("{} is not a kind of lock", quoted(kind)), Some(hint));
            }
        }
    }
}

fn outputs(rules: &mut Rules, spec: &LoopSpec) {
    let path = SpecPath::root_key("output");
    let unread = spec.unread.iter().any(|unread| matches!(unread, UnreadText::ActionKind(_)));
    if spec.output.is_empty() && !unread {
        rules.report(path.clone(), "`output` is empty", "write `output: report`");
    }
    for (at, output) in spec.output.iter().enumerate() {
        limits(rules, &path.index(at), output);
        if spec.output[..at].iter().any(|other| other.kind == output.kind) {
            rules.report(path.index(at), format!("`output` has `{}` twice", output.kind), None);
        }
        if is_any_webhook(spec, output) {
            let what = "`webhook` without `targets` lets an unattended agent call every configured webhook";
            rules.report(path.index(at), what, "name them: `webhook: { targets: [NAME] }`");
        }
    }
    if spec.outputs(ActionKind::Commit) && spec.outputs(ActionKind::PullRequest) {
        let hint = "a change is either committed or proposed; keep one of them";
        rules.report(path, "`output` has both `commit` and `pull-request`", hint);
    }
}

/// Whether an agent chooses the webhook, and no person sees which.
fn is_any_webhook(spec: &LoopSpec, output: &OutputSpec) -> bool {
    spec.level == LoopLevel::L3Unattended && output.kind == ActionKind::Webhook && output.targets.is_empty()
}

fn limits(rules: &mut Rules, path: &SpecPath, output: &OutputSpec) {
    let path = path.key(output.kind.word());
    rules.range(path.key("max"), output.max, 1, 50);
    for (key, limit) in [("day_max", output.day_max), ("target_max", output.target_max)] {
        if let Some(limit) = limit {
            rules.range(path.key(key), limit, 1, 1000);
        }
    }
    if !output.draft && output.kind != ActionKind::PullRequest {
        rules.report(path.key("draft"), format!("`draft` has no meaning for `{}`", output.kind), "remove `draft`");
    }
    for (key, list) in [("labels", &output.labels), ("targets", &output.targets)] {
        for (at, text) in list.iter().enumerate().filter(|(_, text)| !is_line(text)) {
            let what = format!("`{path}.{key}` has the unusable text {}", quoted(text));
            rules.report(path.key(key).index(at), what, None);
        }
    }
}

fn allow(rules: &mut Rules, spec: &LoopSpec) {
    for (at, kind) in spec.allow.iter().enumerate() {
        if !spec.outputs(*kind) && spec.unread.is_empty() {
            let what = format!("`allow` has `{kind}`, which is not in `output`");
            rules.report(SpecPath::root_key("allow").index(at), what, "add it to `output`, or remove it here");
        }
        if spec.allow[..at].contains(kind) {
            rules.report(SpecPath::root_key("allow").index(at), format!("`allow` has `{kind}` twice"), None);
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 200 && !text.chars().any(char::is_control)
}

fn is_variable(name: &str) -> bool {
    let known = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    known && !name.is_empty() && name.len() <= 128 && !name.starts_with(|c: char| c.is_ascii_digit())
}
