//! The `on:` block, and the seed's cadence strings in its place.

use super::value::{SpecFields, SpecValue};
use crate::spec::tree::YamlValue;
use crate::spec::{Ask, CatchUp, ItemsForm, LoopSpec, Overlap, ProbeSpec, Triggers};

const KEYS: &str = "every cron daily weekly webhook push files probe after timezone catch_up grace overlap jitter quiet \
    not_before until";

/// Reads `on:` or the seed's `cadence:`.
pub(super) fn on(fields: &SpecFields<'_>, spec: &mut LoopSpec) {
    if let Some(at) = fields.get("on") {
        match &at.node.value {
            YamlValue::Text(_) | YamlValue::List(_) => cadence(&at, spec),
            _ => spec.on = triggers(&at).unwrap_or_default(),
        }
    }
    if let Some(at) = fields.get("cadence") {
        if fields.get("on").is_some() {
            super::both_given(&at, "cadence", "on");
        }
        cadence(&at, spec);
    }
}

/// Text that is not a cadence is kept for the rules to report, as for specs built in code.
fn cadence(at: &SpecValue<'_>, spec: &mut LoopSpec) {
    for text in at.texts().unwrap_or_default() {
        spec.add_cadence(&text);
    }
}

fn triggers(at: &SpecValue<'_>) -> Option<Triggers> {
    let fields = at.fields(KEYS)?;
    let mut on = Triggers::default();
    fields.set("every", &mut on.every, |at| {
        at.one_or_many("a span of time such as `15m`", || crate::units::TimeSpan::secs(60), SpecValue::span)
    });
    let lists = [
        ("cron", &mut on.cron),
        ("daily", &mut on.daily),
        ("weekly", &mut on.weekly),
        ("webhook", &mut on.webhook),
        ("push", &mut on.push),
        ("files", &mut on.files),
        ("after", &mut on.after),
    ];
    for (key, slot) in lists {
        fields.set(key, slot, SpecValue::texts);
    }
    on.probe = fields.option("probe", probe);
    on.timezone = fields.option("timezone", SpecValue::text);
    fields.set("catch_up", &mut on.catch_up, catch_up);
    on.grace = fields.option("grace", SpecValue::span);
    let overlaps = [("skip", Overlap::Skip), ("queue", Overlap::Queue), ("cancel", Overlap::Cancel)];
    fields.set("overlap", &mut on.overlap, |at| at.word(&overlaps));
    on.jitter = fields.option("jitter", SpecValue::span);
    on.quiet = fields.option("quiet", SpecValue::text);
    on.not_before = fields.option("not_before", SpecValue::text);
    on.until = fields.option("until", SpecValue::text);
    Some(on)
}

fn catch_up(at: &SpecValue<'_>) -> Option<CatchUp> {
    match &at.node.value {
        YamlValue::Map(_) => at.fields("all")?.required("all", "10", |at| at.whole(1..=1000)).map(CatchUp::All),
        YamlValue::Text(text) if text == "all" => {
            at.wrong_type("`skip`, `once` or `{ all: 10 }`", Some("say how many at most: `{ all: 10 }`".to_owned()))
        }
        _ => at.word(&[("skip", CatchUp::Skip), ("once", CatchUp::Once)]),
    }
}

fn probe(at: &SpecValue<'_>) -> Option<ProbeSpec> {
    if let YamlValue::Text(name) = &at.node.value {
        return Some(ProbeSpec::Named(name.clone()));
    }
    if let YamlValue::Map(entries) = &at.node.value
        && entries.iter().any(|entry| entry.key == "use")
    {
        return ask(at);
    }
    let fields = at.fields("run items batch use")?;
    let forms = [("none", ItemsForm::None), ("lines", ItemsForm::Lines), ("json", ItemsForm::Json)];
    let items = fields.option("items", |at| at.word(&forms)).unwrap_or_default();
    let batch = fields.option("batch", |at| at.whole(1..=1000)).unwrap_or(1);
    Some(ProbeSpec::Run { run: fields.required("run", "[./probe]", SpecValue::argv)?, items, batch })
}

/// The rules check whether the probe knows the key.
fn ask(at: &SpecValue<'_>) -> Option<ProbeSpec> {
    let fields = at.fields(&format!("use {}", Ask::KEYS.join(" ")))?;
    let mut ask = Ask::new(&fields.required("use", "open-issues", SpecValue::text)?);
    let lists = [
        ("labels", &mut ask.labels),
        ("not_labels", &mut ask.not_labels),
        ("author", &mut ask.author),
        ("paths", &mut ask.paths),
        ("checks", &mut ask.checks),
        ("packages", &mut ask.packages),
    ];
    for (key, slot) in lists {
        fields.set(key, slot, SpecValue::texts);
    }
    ask.assignee = fields.option("assignee", SpecValue::text);
    ask.mention = fields.option("mention", SpecValue::text);
    ask.text = fields.option("text", SpecValue::text);
    ask.branch = fields.option("branch", SpecValue::text);
    fields.set("follow_own", &mut ask.follow_own, SpecValue::flag);
    fields.set("batch", &mut ask.batch, |at| at.whole(1..=1000));
    Some(ProbeSpec::Ask(Box::new(ask)))
}
