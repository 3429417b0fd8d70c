//! Rules of the `on:` block.

use super::{Rules, paths};
use crate::name::LoopName;
use crate::spec::path::Path;
use crate::spec::problem::quoted;
use crate::spec::reader::value::{listed, nearest};
use crate::spec::{CatchUp, OWN_BRANCHES, ProbeSpec, Triggers, when};

/// Probes that are part of the product.
const PROBES: [&str; 6] = ["commits", "failing-ci", "open-prs", "open-issues", "outdated", "files"];
/// Nothing fires more often than this.
const EVERY_MIN_SECS: u64 = 1;

pub(super) fn check(rules: &mut Rules, on: &Triggers) {
    let path = Path::to("on");
    times(rules, &path, on);
    window(rules, &path, on);
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

fn times(rules: &mut Rules, path: &Path, on: &Triggers) {
    for (at, line) in on.cron.iter().enumerate() {
        if let Some(reason) = when::cron_problem(line) {
            rules.object(path.key("cron").index(at), format!("{} is no cron line: {reason}", quoted(line)), None);
        }
    }
    for (at, time) in on.daily.iter().enumerate().filter(|(_, time)| !when::is_time(time)) {
        let what = format!("{} is no time of day", quoted(time));
        rules.object(path.key("daily").index(at), what, "two digits each, such as `08:00`");
    }
    for (at, time) in on.weekly.iter().enumerate().filter(|(_, time)| !when::is_weekly(time)) {
        let what = format!("{} is no weekday with a time", quoted(time));
        rules.object(path.key("weekly").index(at), what, "such as `mon 09:30`");
    }
    for (at, span) in on.every.iter().enumerate() {
        if span.duration().as_secs() < EVERY_MIN_SECS {
            rules.object(path.key("every").index(at), format!("`{span}` is too often"), "at least `1s`");
        }
    }
}

fn window(rules: &mut Rules, path: &Path, on: &Triggers) {
    if let Some(zone) = on.timezone.as_ref().filter(|zone| !when::is_zone(zone)) {
        let what = format!("{} is no time zone", quoted(zone));
        rules.object(path.key("timezone"), what, "an IANA name such as `Europe/Berlin` or `UTC`");
    }
    if let Some(quiet) = on.quiet.as_ref().filter(|quiet| !when::is_quiet(quiet)) {
        let what = format!("{} is no range of hours", quoted(quiet));
        rules.object(path.key("quiet"), what, "such as `22:00-06:00`");
    }
    for (key, moment) in [("not_before", &on.not_before), ("until", &on.until)] {
        if let Some(moment) = moment.as_ref().filter(|moment| !when::is_moment(moment)) {
            let what = format!("{} is no moment", quoted(moment));
            rules.object(path.key(key), what, "such as `2026-01-31` or `2026-01-31T08:00:00Z`");
        }
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
