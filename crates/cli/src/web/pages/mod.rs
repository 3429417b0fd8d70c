//! The pages of the dashboard. Each reads documents by the commands that print them, and renders them; a page has no
//! fact that `--json` does not have. Pages work without JavaScript.

mod calendar;
mod diff;
mod health;
mod highlight;
mod inbox;
mod items;
mod loop_detail;
mod loop_list;
mod overview;
mod paging;
pub(crate) mod paper;
mod parts;
pub(crate) mod picture;
mod round;
mod spend;

pub(super) use parts::{error_hints, error_text};

use super::WebState;
use super::access::AccessRole;
use super::markup::{Markup, element, link, void};
use super::reply::{self, WebReply};
use super::respond::RouteCall;
use super::routes::WebPage;
use crate::context::FleetScan;
use crate::error::CommandError;
use hyper::StatusCode;
use loopwright::store::RoundsQuery;
use parts::{PageError, hidden};
use serde_json::Value;
use std::path::PathBuf;

const STYLE: &str = include_str!("../assets/app.css");
const SCRIPT: &str = include_str!("../assets/app.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// A file of the program.
pub(super) fn asset(name: &str) -> Option<WebReply> {
    match name {
        "app.css" => Some(reply::asset("text/css; charset=utf-8", STYLE)),
        "app.js" => Some(reply::asset("text/javascript; charset=utf-8", SCRIPT)),
        "icon.svg" => Some(reply::asset("image/svg+xml", ICON)),
        _ => None,
    }
}

/// The content of a page and its title.
pub(super) struct PageContent {
    title: String,
    /// A state beside the title.
    badge: Markup,
    body: Markup,
}

impl PageContent {
    fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), badge: Markup::default(), body }
    }

    /// The same page with a state beside its title.
    fn with_badge(self, word: &str) -> Self {
        Self { badge: parts::badge(word), ..self }
    }
}

/// Shows a page, or the reason why it cannot be shown.
pub(super) async fn show(call: &RouteCall<'_>, page: WebPage) -> WebReply {
    let source = PageSource { call };
    let content = match page {
        WebPage::Overview => overview::render(&source).await,
        WebPage::Loops => loop_list::render(&source).await,
        WebPage::Loop => loop_detail::render(&source).await,
        WebPage::Round => round::render(&source).await,
        WebPage::Inbox => inbox::render(&source).await,
        WebPage::Spend => spend::render(&source).await,
        WebPage::Calendar => calendar::render(&source).await,
        WebPage::Health => health::render(&source).await,
    };
    match content {
        Ok(content) => reply::page(StatusCode::OK, frame(&content, Some((&source, page)))),
        Err(error) => {
            let body = parts::problem_box(&error.text, &error.hints);
            reply::page(error.status, frame(&PageContent::new("Not available", body), Some((&source, page))))
        }
    }
}

/// A page that only states a problem; it needs no sender.
pub(super) fn problem(title: &str, text: &str, hints: &[String]) -> Markup {
    frame(&PageContent::new(title, parts::problem_box(text, hints)), None)
}

/// The places of the navigation.
const PLACES: [(&str, &str, WebPage); 6] = [
    ("/", "Overview", WebPage::Overview),
    ("/loops", "Loops", WebPage::Loops),
    ("/inbox", "Inbox", WebPage::Inbox),
    ("/spend", "Spend", WebPage::Spend),
    ("/calendar", "Calendar", WebPage::Calendar),
    ("/health", "Health", WebPage::Health),
];

fn frame(content: &PageContent, shown: Option<(&PageSource<'_>, WebPage)>) -> Markup {
    let title = format!("{} · Loopwright", content.title);
    let head = Markup::fixed(
        "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"/assets/icon.svg\">\
         <link rel=\"stylesheet\" href=\"/assets/app.css\"><script src=\"/assets/app.js\" defer></script>",
    )
    .and(element("title", &[], title));
    let title = element("h1", &[], content.title.as_str()).and(content.badge.clone());
    let main = element("div", &[("class", "title")], title).and(content.body.clone());
    // The health page asks the whole record, so it is refreshed rarely.
    let refresh = if shown.is_some_and(|(_, page)| page == WebPage::Health) { "60000" } else { "300" };
    let body = element("a", &[("class", "skip"), ("href", "#main")], "Skip to the content")
        .and(header(shown.as_ref()))
        .and(element("main", &[("id", "main"), ("tabindex", "-1"), ("data-refresh", refresh)], main))
        .and(element("p", &[("id", "live"), ("role", "status"), ("aria-live", "polite")], ""));
    let html = element("html", &[("lang", "en")], element("head", &[], head).and(element("body", &[], body)));
    Markup::fixed("<!doctype html>\n").and(html)
}

fn header(shown: Option<&(&PageSource<'_>, WebPage)>) -> Markup {
    let brand = element("a", &[("class", "brand"), ("href", "/")], "Loopwright");
    let Some((source, current)) = shown else { return element("header", &[], brand) };
    let place = |(path, name, page): &(&'static str, &'static str, WebPage)| match page == current {
        true => element("a", &[("href", path), ("aria-current", "page")], *name),
        false => link(path, *name),
    };
    let places: Markup = PLACES.iter().map(place).collect();
    let navigation = element("nav", &[("aria-label", "Pages")], places);
    element("header", &[], brand.and(navigation).and(source.account()))
}

/// The documents of one page.
pub(super) struct PageSource<'c> {
    call: &'c RouteCall<'c>,
}

impl PageSource<'_> {
    /// The document of a command.
    async fn document(&self, words: &[&str]) -> Result<Value, PageError> {
        let words = std::iter::once("--json").chain(words.iter().copied()).map(str::to_owned).collect();
        let answer = self.call.run(words).await.map_err(PageError::from)?;
        PageError::check(answer.document().unwrap_or_default())
    }

    /// The text of a command, as people see it in a terminal without colours.
    async fn text(&self, words: &[&str]) -> Result<String, PageError> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = self.call.run(words).await.map_err(PageError::from)?;
        Ok(loopwright_core::secrets::redact(&answer.out).into_owned())
    }

    /// A value of the path or the query.
    fn value(&self, name: &str) -> &str {
        self.call.values.get(name).map_or("", String::as_str)
    }

    /// Whether the reader may do this.
    fn may(&self, role: AccessRole) -> bool {
        self.call.sender.as_ref().is_some_and(|sender| sender.may(role))
    }

    /// The fields that every form of this reader has: it comes from our page, runs once, and leads back to `back`.
    fn form_fields(&self, back: &str) -> Markup {
        let csrf = self.call.sender.as_ref().and_then(|sender| sender.csrf.clone()).unwrap_or_default();
        // Without random bytes the form has no key, and a second click may run it again.
        let key = loopwright::random::secret().unwrap_or_default();
        let key = if key.is_empty() { Markup::default() } else { hidden("key", &key) };
        hidden("csrf", &csrf).and(hidden("back", back)).and(key)
    }

    /// A form with one button; empty if the reader may not use it.
    fn button(&self, role: AccessRole, path: &str, back: &str, name: &'static str, fields: Markup) -> Markup {
        if !self.may(role) {
            return Markup::default();
        }
        let button = element("button", &[("type", "submit")], name);
        let content = self.form_fields(back).and(fields).and(button);
        element("form", &[("method", "post"), ("action", path), ("class", "inline")], content)
    }

    fn account(&self) -> Markup {
        let Some(sender) = &self.call.sender else { return Markup::default() };
        let name = format!("{} ({})", sender.entry.name, sender.entry.role.word());
        let out = self.button(AccessRole::View, "/sign-out", "/", "Sign out", Markup::default());
        element("div", &[("class", "account")], element("span", &[], name).and(out))
    }
}

/// The path of a repository by its id: one that the daemon manages, or one that has a round.
pub(super) async fn repo_path(state: &WebState, id: &str) -> Result<PathBuf, CommandError> {
    let managed = FleetScan::read(&state.own).await?.repos;
    if let Some(found) = managed.into_iter().find(|one| one.repo.id == id) {
        return Ok(found.repo.work_tree);
    }
    let query = RoundsQuery { repo: Some(id.to_owned()), limit: 1, ..RoundsQuery::default() };
    let round = state.engine.store().rounds(query).await?.pop();
    round.map(|round| PathBuf::from(round.repo_path)).ok_or_else(|| {
        CommandError::unknown(format!("there is no repository `{id}`")).hint("`status --all` lists them")
    })
}

/// A field of a form with a visible name.
fn field(name: &'static str, shown: &str, hint: &str, is_needed: FieldNeed) -> Markup {
    let mut attributes = vec![("name", name), ("placeholder", hint), ("maxlength", "400")];
    if is_needed == FieldNeed::Required {
        attributes.push(("required", "required"));
    }
    element("label", &[], Markup::text(shown).and(Markup::fixed(" ")).and(void("input", &attributes)))
}

/// Whether a field must have text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldNeed {
    Required,
    Optional,
}
