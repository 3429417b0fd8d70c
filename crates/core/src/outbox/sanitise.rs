//! Makes agents' text harmless for its receiver: hidden characters are removed and reported, and constructs that act on
//! a forge (mentions, closing keywords, images, bot commands, Loopwright's own marker) are shown without their effect.
//!
//! Sanitising twice returns the same text as once. Nothing here judges the content: false statements stay, and people
//! read them.

use super::invisible::{self, RemovedCharacters};
use super::{StagedItem, ci_words, json, markdown};
use crate::spec::ActionKind;
use regex::{Captures, Regex};
use serde_json::Value;
use std::sync::LazyLock;

/// The format in which the receiver reads the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextForm {
    /// GitHub's Markdown.
    #[default]
    Markdown,
    /// Plain text: titles, commit messages, chat.
    Plain,
}

/// The treatment of a construct that acts on a forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SanitiseAction {
    /// It is shown and has no effect.
    #[default]
    Neutralise,
    /// It stays as it is.
    Keep,
}

/// The constructs to neutralise; by default all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SanitiseRules {
    /// The format of the text.
    pub form: TextForm,
    /// `@name`, which notifies people.
    pub mentions: SanitiseAction,
    /// `fixes #12`, which closes issues.
    pub closing: SanitiseAction,
    /// Images, which reveal the reader to their host.
    pub images: SanitiseAction,
    /// Lines that start with `/word`, which bots execute, and words such as `[skip ci]`, which turn checks off.
    pub commands: SanitiseAction,
}

impl SanitiseRules {
    /// Everything neutralised in Markdown.
    #[must_use]
    pub fn markdown() -> Self {
        Self::default()
    }

    /// Everything neutralised in plain text.
    #[must_use]
    pub fn plain() -> Self {
        Self { form: TextForm::Plain, ..Self::default() }
    }
}

/// Harmless text, and the list of changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SanitisedText {
    /// The text.
    pub text: String,
    /// The removed or changed parts, for the human who decides.
    pub notes: Vec<String>,
}

/// Makes a text harmless.
#[must_use]
pub fn sanitise(text: &str, rules: &SanitiseRules) -> SanitisedText {
    let (mut text, mut notes) = reveal(text);
    if rules.commands == SanitiseAction::Neutralise {
        let (disarmed, count) = ci_words::disarm(&text);
        if count > 0 {
            notes.push(format!("neutralised {count} word(s) that turn checks off"));
        }
        text = disarmed;
    }
    let text = match rules.form {
        TextForm::Markdown => markdown::neutralise(&text, rules, &mut notes),
        TextForm::Plain => plain(&text, rules, &mut notes),
    };
    SanitisedText { text, notes }
}

/// Makes every text of an item harmless, each in the format of its receiver; notes name the part.
#[must_use]
pub fn sanitise_item(item: &StagedItem, rules: &SanitiseRules) -> (StagedItem, Vec<String>) {
    let mut out = item.clone();
    let mut notes = Vec::new();
    let mut clean = |text: &str, form: TextForm| {
        let done = sanitise(text, &SanitiseRules { form, ..*rules });
        notes.extend(done.notes.into_iter().map(|note| format!("{}: {note}", item.name)));
        done.text
    };
    // The title is joined into one line before it is cleaned, so that no construct hides behind a line break.
    out.title = item.title.as_ref().map(|title| {
        let line = clean(title, TextForm::Plain).replace(['\n', '\t'], " ");
        clean(&line, TextForm::Plain)
    });
    out.body = match item.kind {
        ActionKind::Webhook => json_strings(&item.body, &mut |text| clean_data(text)),
        ActionKind::Commit | ActionKind::Slack => clean(&item.body, TextForm::Plain),
        _ => clean(&item.body, TextForm::Markdown),
    };
    out.labels = item.labels.iter().map(|label| clean(label, TextForm::Plain).replace(['\n', '\t'], " ")).collect();
    for comment in &mut out.comments {
        comment.body = clean(&comment.body, TextForm::Markdown);
    }
    (out, notes)
}

/// A text without invisible characters, for comparing two texts.
pub(super) fn visible_text(text: &str) -> String {
    invisible::strip(text).0.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn clean_data(text: &str) -> String {
    reveal(text).0
}

/// The same JSON with every string value cleaned; invalid JSON cannot occur here and is dropped.
fn json_strings(text: &str, clean: &mut dyn FnMut(&str) -> String) -> String {
    fn walk(value: &mut Value, clean: &mut dyn FnMut(&str) -> String) {
        match value {
            Value::String(text) => *text = clean(text),
            Value::Array(values) => values.iter_mut().for_each(|value| walk(value, clean)),
            Value::Object(map) => map.values_mut().for_each(|value| walk(value, clean)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut value = json::read(text).unwrap_or(Value::Null);
    walk(&mut value, clean);
    value.to_string()
}

/// Removes invisible characters and text that looks like Loopwright's marker.
fn reveal(text: &str) -> (String, Vec<String>) {
    let (text, removed) = invisible::strip(text);
    let mut notes = removed_notes(&removed);
    static MARKER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?is)<!-*\s*loopwright[\w-]*\s*:(?:.{0,400}?-->)?"));
    let forged = MARKER.find_iter(&text).count();
    if forged > 0 {
        notes.push(format!("removed {forged} forged marker(s)"));
    }
    let text = MARKER.replace_all(&text, "{forged marker removed}").into_owned();
    (text, notes)
}

fn removed_notes(removed: &RemovedCharacters) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: usize, what: &str| {
        if count > 0 {
            notes.push(format!("removed {count} {what}"));
        }
    };
    note(removed.escapes, "terminal escape(s)");
    note(removed.controls, "control character(s)");
    note(removed.invisible, "invisible character(s)");
    if !removed.spelled.is_empty() {
        notes.push(format!("hidden tag characters spell `{}`", invisible::printable(&removed.spelled, 200)));
    }
    notes
}

pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is constant")
}

/// Words that close an issue on at least one forge.
pub(super) const CLOSING: &str = r"close|closes|closed|closing|fix|fixes|fixed|fixing|resolve|resolves|resolved|resolving|implement|implements|implemented|implementing";

/// A link that every forge recognises in full.
pub(super) const URL: &str = r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]+)?(?:/[A-Za-z0-9/._~%+=&?#:@-]*)?";

/// Plain text has no code and no escapes, so a space separates the parts of a construct that a forge would act on.
fn plain(text: &str, rules: &SanitiseRules, notes: &mut Vec<String>) -> String {
    let mut text = text.to_owned();
    // References before mentions: a link that is cut in two no longer protects its second part.
    if rules.closing == SanitiseAction::Neutralise {
        text = plain_closing(&text, notes);
    }
    if rules.images == SanitiseAction::Neutralise {
        static IMAGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"!\["));
        text = replaced(&IMAGE, &text, "! [", "image(s)", notes);
    }
    // A label can hide the address of a link.
    static LINK: LazyLock<Regex> = LazyLock::new(|| pattern(r"\]([(\[])"));
    text = replaced(&LINK, &text, "] ${1}", "link(s)", notes);
    text = plain_tags(&text, notes);
    if rules.mentions == SanitiseAction::Neutralise {
        text = plain_mentions(&text, notes);
    }
    if rules.commands == SanitiseAction::Neutralise {
        static COMMAND: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^(\s*)/([A-Za-z])"));
        text = replaced(&COMMAND, &text, "${1}/ ${2}", "bot command(s)", notes);
    }
    text
}

/// HTML elements that load, link or run something wherever HTML is shown.
const ACTIVE_TAGS: [&str; 20] = [
    "a", "audio", "base", "button", "embed", "form", "iframe", "image", "img", "input", "link", "math", "meta",
    "object", "picture", "script", "source", "style", "svg", "video",
];

/// Separates the parts of HTML tags and of a chat's links (`<https://host|label>`). Type parameters such as
/// `Vec<String>` stay.
fn plain_tags(text: &str, notes: &mut Vec<String>) -> String {
    static TAG: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?P<generic>\w<(?P<name>[A-Za-z_]\w*)[>,])|<(?P<first>[A-Za-z/?])"));
    let mut count = 0;
    let text = TAG.replace_all(text, |found: &Captures<'_>| {
        let is_active = |name: regex::Match<'_>| ACTIVE_TAGS.contains(&name.as_str().to_lowercase().as_str());
        if found.name("name").is_some_and(|name| !is_active(name)) {
            return found[0].to_owned();
        }
        count += 1;
        found[0].replacen('<', "< ", 1)
    });
    if count > 0 {
        notes.push(format!("neutralised {count} HTML tag(s) or chat link(s)"));
    }
    text.into_owned()
}

fn plain_mentions(text: &str, notes: &mut Vec<String>) -> String {
    static ALARM: LazyLock<Regex> = LazyLock::new(|| pattern(r"<([!@#])"));
    let text = replaced(&ALARM, text, "< ${1}", "chat mention(s)", notes);
    static MENTION: LazyLock<Regex> =
        LazyLock::new(|| pattern(&format!(r"(?P<url>(?:^|[\s(]){URL})|(?P<before>^|[^A-Za-z0-9_])@(?P<first>\w)")));
    let mut count = 0;
    let mut apart = |text: &str| {
        let shown = MENTION.replace_all(text, |found: &Captures<'_>| match found.name("url") {
            Some(url) => url.as_str().to_owned(),
            None => {
                count += 1;
                format!("{}@ {}", &found["before"], &found["first"])
            }
        });
        shown.into_owned()
    };
    // Applied twice, because a match consumes the character that the next match needs before it.
    let once = apart(&text);
    let text = apart(&once);
    if count > 0 {
        notes.push(format!("neutralised {count} mention(s)"));
    }
    text
}

fn plain_closing(text: &str, notes: &mut Vec<String>) -> String {
    static KEYWORD: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r"(?i)\b(?:{CLOSING})\b")));
    static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?i)(#|\bgh-|/(?:issues|pull|pulls|merge_requests|work_items|-/issues|-/merge_requests)/)([0-9])")
    });
    // A keyword applies to the rest of its paragraph, because some forges close whole lists of issues.
    let paragraphs = text.split("\n\n").map(|paragraph| match KEYWORD.find(paragraph) {
        None => paragraph.to_owned(),
        Some(keyword) => {
            let (before, after) = paragraph.split_at(keyword.start());
            before.to_owned() + &replaced(&REFERENCE, after, "${1} ${2}", "closing reference(s)", notes)
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn replaced(pattern: &Regex, text: &str, with: &str, what: &str, notes: &mut Vec<String>) -> String {
    let count = pattern.find_iter(text).count();
    if count > 0 {
        notes.push(format!("neutralised {count} {what}"));
    }
    pattern.replace_all(text, with).into_owned()
}
