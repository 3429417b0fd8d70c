//! Rules of the `on:` block.

use super::{Rules, paths};
use crate::cadence;
use crate::name::LoopName;
use crate::spec::path::Path;
use crate::spec::problem::quoted;
use crate::spec::reader::value::{listed, nearest};
use crate::spec::{CatchUp, OWN_BRANCHES, ProbeSpec, Triggers};

/// Probes that are part of the product.
const PROBES: [&str; 6] = ["commits", "failing-ci", "open-prs", "open-issues", "outdated", "files"];

pub(super) fn check(rules: &mut Rules, on: &Triggers) {
    let path = Path::to("on");
    times(rules, &path, on);
    paths::globs(rules, &path.key("files"), &on.files);
    for (at, branch) in on.push.iter().enumerate() {
        paths::branch(rules, path.key("push").index(at), branch);
        if OWN_BRANCHES.iter().any(|own| branch.starts_with(own)) {
            let what = format!("{} is a branch of loops' own making", quoted(branch));
            rules.object(path.key("push").index(at), what, "name a branch that people push to");
        }
    }
    for (at, name) in on.after.iter().enumerate() {
        if let Err(error) = LoopName::parse(name) {
            rules.object(path.key("after").index(at), format!("{} is no loop: {error}", quoted(name)), None);
        }
    }
    for (at, event) in on.webhook.iter().enumerate().filter(|(_, event)| !is_event(event)) {
        let what = format!("{} is no event", quoted(event));
        rules.object(path.key("webhook").index(at), what, "such as `github.workflow_run`");
    }
    if let Some(probe) = &on.probe {
        check_probe(rules, &path.key("probe"), probe);
    }
}

/// What the times say is read once, where they are compiled.
fn times(rules: &mut Rules, path: &Path, on: &Triggers) {
    for problem in cadence::problems(on) {
        let path = path.key(problem.key);
        let path = problem.index.map_or_else(|| path.clone(), |at| path.index(at));
        rules.object_with(path, problem.text, Some(problem.hint));
    }
    if let CatchUp::All(most) = on.catch_up {
        rules.range(path.key("catch_up").key("all"), most, 1, 1000);
    }
}

fn check_probe(rules: &mut Rules, path: &Path, probe: &ProbeSpec) {
    match probe {
        ProbeSpec::Named(name) if PROBES.contains(&name.as_str()) => {}
        ProbeSpec::Named(name) => {
            let hint = match nearest(name, PROBES.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("built-in probes: {}; a command is `{{ run: [./probe] }}`", listed(&PROBES)),
            };
            rules.object_with(path.clone(), format!("{} is no built-in probe", quoted(name)), Some(hint));
        }
        ProbeSpec::Run { run, batch, .. } => {
            rules.command(path.key("run"), run);
            rules.range(path.key("batch"), *batch, 1, 1000);
        }
    }
}

fn is_event(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-*".contains(c))
}
