//! The one table of routes: method, path, role and action. The server, the OpenAPI description and the tests read it.

use super::access::AccessRole;
use super::markup::decode;
use hyper::Method;
use std::collections::BTreeMap;

/// A page of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebPage {
    Overview,
    Loops,
    Loop,
    Round,
    Inbox,
    Spend,
    Calendar,
    Health,
}

/// The work behind a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteAction {
    /// A page.
    Page(WebPage),
    /// The document of a command that reads: its words, in which `{name}` is a part of the path.
    Read(&'static [&'static str]),
    /// A command that changes something, in the same form.
    Write(&'static [&'static str]),
    /// The stream of events.
    Events,
    /// The description of the API.
    OpenApi,
    /// Numbers for Prometheus.
    Metrics,
    /// A file of the program.
    Asset(&'static str),
    /// Exchanges a one-time code for a session.
    SignIn,
    /// Ends a session.
    SignOut,
    /// A message of the Model Context Protocol.
    Mcp,
}

/// A value that a route takes in its query or its body: its name, whether it is required, and its meaning.
pub(crate) type RouteValue = (&'static str, bool, &'static str);

/// A route.
#[derive(Debug)]
pub(crate) struct WebRoute {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The role that it needs; `None` for routes that anyone may use.
    pub(crate) role: Option<AccessRole>,
    pub(crate) action: RouteAction,
    pub(crate) about: &'static str,
    pub(crate) values: &'static [RouteValue],
}

const fn get(path: &'static str, action: RouteAction, about: &'static str, values: &'static [RouteValue]) -> WebRoute {
    WebRoute { method: Method::GET, path, role: Some(AccessRole::View), action, about, values }
}

const fn post(
    path: &'static str,
    role: AccessRole,
    words: &'static [&'static str],
    about: &'static str,
    values: &'static [RouteValue],
) -> WebRoute {
    WebRoute { method: Method::POST, path, role: Some(role), action: RouteAction::Write(words), about, values }
}

const fn open(path: &'static str, action: RouteAction, about: &'static str) -> WebRoute {
    WebRoute { method: Method::GET, path, role: None, action, about, values: &[] }
}

const fn page(path: &'static str, page: WebPage, about: &'static str) -> WebRoute {
    get(path, RouteAction::Page(page), about, &[])
}

const REPO: RouteValue = ("repo", false, "the repository's id, if several have a loop of this name");
const LIMIT: RouteValue = ("limit", false, "how many entries, at most 10000");
const OFFSET: RouteValue = ("offset", false, "how many entries to leave out: those of the pages before");
const LOOPS_READ: &[&str] = &[
    "status",
    "--all",
    "--search={search}",
    "--only={state}",
    "--sort={sort}",
    "--limit={limit}",
    "--offset={offset}",
];
const LOOPS_VALUES: &[RouteValue] = &[
    ("search", false, "a part of the name or the repository"),
    ("state", false, "only the loops in this state"),
    ("sort", false, "name, last, next or spend"),
    LIMIT,
    OFFSET,
];
const WHY: RouteValue = ("why", false, "the reason, for the record");
const WHY_NEEDED: RouteValue = ("why", true, "the reason, which makers of later rounds see");
const SEEN: RouteValue = ("candidate", true, "the hash of the candidate that the person saw");
const SEEN_IF_ANY: RouteValue = ("candidate", false, "the hash of the candidate that the person saw");
const OPERATE: AccessRole = AccessRole::Operate;
const APPROVE: AccessRole = AccessRole::Approve;

/// All routes.
pub(crate) const ROUTES: &[WebRoute] = &[
    page("/", WebPage::Overview, "what needs a person, what runs, what broke, what comes"),
    page("/loops", WebPage::Loops, "the list of loops"),
    page("/loops/{loop}", WebPage::Loop, "one loop"),
    page("/rounds/{round}", WebPage::Round, "one round"),
    page("/inbox", WebPage::Inbox, "everything that waits for a person"),
    page("/spend", WebPage::Spend, "the spend"),
    page("/calendar", WebPage::Calendar, "the coming week"),
    page("/health", WebPage::Health, "this machine and the record"),
    open("/assets/app.css", RouteAction::Asset("app.css"), "the style sheet"),
    open("/assets/app.js", RouteAction::Asset("app.js"), "the script"),
    open("/assets/icon.svg", RouteAction::Asset("icon.svg"), "the icon"),
    open("/sign-in", RouteAction::SignIn, "exchanges the code of `loopwright web` for a session"),
    WebRoute {
        method: Method::POST,
        path: "/sign-out",
        role: Some(AccessRole::View),
        action: RouteAction::SignOut,
        about: "ends the session",
        values: &[],
    },
    get("/metrics", RouteAction::Metrics, "numbers in the text format of Prometheus", &[]),
    get("/api/v1/openapi.json", RouteAction::OpenApi, "this description", &[]),
    get("/api/v1/events", RouteAction::Events, "the journal as it grows; `Last-Event-ID` resumes it", &[]),
    get("/api/v1/status", RouteAction::Read(LOOPS_READ), "`status --all`", LOOPS_VALUES),
    get("/api/v1/loops", RouteAction::Read(LOOPS_READ), "`status --all`", LOOPS_VALUES),
    get("/api/v1/loops/{loop}", RouteAction::Read(&["show", "--", "{loop}"]), "`show LOOP`", &[REPO]),
    get("/api/v1/loops/{loop}/why", RouteAction::Read(&["why", "--", "{loop}"]), "`why LOOP`", &[REPO]),
    get(
        "/api/v1/rounds",
        RouteAction::Read(&["rounds", "--all", "{running}", "--limit={limit}", "--offset={offset}"]),
        "`rounds --all`",
        &[LIMIT, OFFSET, ("running", false, "`true` lists only the rounds that a process runs now")],
    ),
    get(
        "/api/v1/loops/{loop}/rounds",
        RouteAction::Read(&["rounds", "--limit={limit}", "--offset={offset}", "--", "{loop}"]),
        "`rounds LOOP`",
        &[REPO, LIMIT, OFFSET],
    ),
    get("/api/v1/rounds/{round}", RouteAction::Read(&["show", "--", "{round}"]), "`show ROUND`", &[]),
    get("/api/v1/rounds/{round}/diff", RouteAction::Read(&["diff", "--", "{round}"]), "`diff ROUND`", &[]),
    get(
        "/api/v1/rounds/{round}/logs",
        RouteAction::Read(&["logs", "--limit={limit}", "--offset={offset}", "--", "{round}"]),
        "`logs ROUND`: the time of each stage, and the journal",
        &[LIMIT, OFFSET],
    ),
    get("/api/v1/rounds/{round}/report", RouteAction::Read(&["report", "--", "{round}"]), "`report ROUND`", &[]),
    get("/api/v1/rounds/{round}/why", RouteAction::Read(&["why", "--", "{round}"]), "`why ROUND`", &[]),
    get(
        "/api/v1/inbox",
        RouteAction::Read(&["inbox", "--sort={sort}", "--limit={limit}", "--offset={offset}"]),
        "`inbox`",
        &[LIMIT, OFFSET, ("sort", false, "loop or risk")],
    ),
    get(
        "/api/v1/schedule",
        RouteAction::Read(&["schedule", "--days={days}", "--past={past}", "--limit={limit}", "--offset={offset}"]),
        "`schedule`",
        &[
            ("days", false, "how many days, at most 366"),
            ("past", false, "the receipts of how many past days, at most 31"),
            LIMIT,
            OFFSET,
        ],
    ),
    get(
        "/api/v1/costs",
        RouteAction::Read(&["costs", "--by={by}", "--since={since}", "--limit={limit}", "--offset={offset}"]),
        "`costs`",
        &[
            ("by", false, "loop, role, model, day, item or agent"),
            ("since", false, "a date, or a number of days such as `7d`"),
            LIMIT,
            OFFSET,
        ],
    ),
    get(
        "/api/v1/budget",
        RouteAction::Read(&["budget", "--limit={limit}", "--offset={offset}"]),
        "`budget`",
        &[LIMIT, OFFSET],
    ),
    get("/api/v1/verify", RouteAction::Read(&["verify"]), "`verify`", &[]),
    WebRoute {
        method: Method::POST,
        path: "/mcp",
        role: Some(AccessRole::View),
        action: RouteAction::Mcp,
        about: "one message of the Model Context Protocol; each tool checks the role",
        values: &[],
    },
    get("/api/v1/doctor", RouteAction::Read(&["doctor"]), "`doctor`", &[]),
    get(
        "/api/v1/notifications",
        RouteAction::Read(&["notifications"]),
        "`notifications`: the routes, and the messages that were sent, wait or failed",
        &[],
    ),
    post(
        "/api/v1/notifications/{id}/retry",
        OPERATE,
        &["notifications", "retry", "--", "{id}"],
        "`notifications retry ID`",
        &[],
    ),
    post(
        "/api/v1/loops/{loop}/run",
        OPERATE,
        &["run", "{item}", "{dry_run}", "--", "{loop}"],
        "`run LOOP`",
        &[
            REPO,
            ("item", false, "work on this item, without running the probe"),
            ("dry_run", false, "`true` sends nothing"),
        ],
    ),
    post("/api/v1/loops/{loop}/pause", OPERATE, &["pause", "{why}", "--", "{loop}"], "`pause LOOP`", &[REPO, WHY]),
    post("/api/v1/loops/{loop}/resume", OPERATE, &["resume", "--", "{loop}"], "`resume LOOP`", &[REPO]),
    post(
        "/api/v1/loops/{loop}/budget",
        APPROVE,
        &["budget", "raise", "{usd}", "{tokens}", "{round}", "--", "{loop}"],
        "`budget raise LOOP`",
        &[
            REPO,
            ("usd", false, "money to add, in US dollars"),
            ("tokens", false, "tokens to add"),
            ("round", false, "for this suspended round only"),
        ],
    ),
    post("/api/v1/rounds/{round}/stop", OPERATE, &["stop", "{why}", "--", "{round}"], "`stop ROUND`", &[WHY]),
    post("/api/v1/rounds/{round}/retry", OPERATE, &["retry", "--", "{round}"], "`retry ROUND`", &[]),
    post("/api/v1/rounds/{round}/pause", OPERATE, &["pause", "{why}", "--", "{round}"], "`pause ROUND`", &[WHY]),
    post("/api/v1/rounds/{round}/resume", OPERATE, &["resume", "--", "{round}"], "`resume ROUND`", &[]),
    post(
        "/api/v1/rounds/{round}/steer",
        OPERATE,
        &["steer", "--", "{round}", "{=text}"],
        "`steer ROUND TEXT`",
        &[("text", true, "the words for the next agent")],
    ),
    post("/api/v1/inbox/{id}/approve", APPROVE, &["approve", "{candidate}", "--", "{id}"], "`approve ID`", &[SEEN]),
    post(
        "/api/v1/inbox/{id}/deny",
        APPROVE,
        &["deny", "{why}", "{candidate}", "--", "{id}"],
        "`deny ID`",
        &[WHY_NEEDED, SEEN_IF_ANY],
    ),
    post(
        "/api/v1/inbox/{id}/hold",
        APPROVE,
        &["hold", "{for}", "{why}", "{candidate}", "--", "{id}"],
        "`hold ID`",
        &[("for", false, "how long the question stays open from now on, such as `7d`"), WHY, SEEN_IF_ANY],
    ),
    post("/api/v1/stop", OPERATE, &["stop", "--all", "{why}"], "`stop --all`", &[WHY]),
    post("/api/v1/thaw", OPERATE, &["thaw"], "`thaw`", &[]),
];

/// The values of a request, by name: parts of the path, of the query and of the body.
pub(crate) type RequestValues = BTreeMap<String, String>;

/// The result of a search in the table.
#[derive(Debug)]
pub(crate) enum RouteMatch {
    Found(&'static WebRoute, RequestValues),
    WrongMethod,
    NotFound,
}

/// Finds the route of a request. Paths are compared part by part, without any normalisation.
pub(crate) fn find(method: &Method, path: &str) -> RouteMatch {
    let mut has_path = false;
    for route in ROUTES {
        let Some(parts) = parts_of(route.path, path) else { continue };
        if route.method == *method {
            return RouteMatch::Found(route, parts);
        }
        has_path = true;
    }
    if has_path { RouteMatch::WrongMethod } else { RouteMatch::NotFound }
}

fn parts_of(pattern: &str, path: &str) -> Option<RequestValues> {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    let mut parts = RequestValues::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(parts),
            (Some(wanted), Some(given)) => match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) => {
                    let value = decode(given).filter(|value| is_plain_part(value))?;
                    parts.insert(name.to_owned(), value);
                }
                None if wanted == given => {}
                None => return None,
            },
            _ => return None,
        }
    }
}

/// A part of a path names a loop, a round or a question, none of which has such characters.
fn is_plain_part(value: &str) -> bool {
    (1..=200).contains(&value.len()) && !value.chars().any(|c| c.is_control() || c == '/')
}

/// The words of a command. `{name}` alone becomes `--name=VALUE`, or is left out if it has no value; `{=name}` becomes the
/// value; after `--` a part of the path becomes itself. No value can become another option.
pub(crate) fn words(template: &[&str], values: &RequestValues) -> Vec<String> {
    let mut words = Vec::new();
    let mut is_after_options = false;
    for word in template {
        is_after_options |= *word == "--";
        let name = word.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        match name {
            None => words.extend(fill(word, values)),
            Some(name) if is_after_options => {
                words.push(values.get(name.trim_start_matches('=')).cloned().unwrap_or_default());
            }
            Some(flag @ ("dry_run" | "running")) => {
                let is_set = values.get(flag).is_some_and(|value| value == "true");
                words.extend(is_set.then(|| format!("--{}", flag.replace('_', "-"))));
            }
            Some(name) => words.extend(values.get(name).map(|value| format!("--{name}={value}"))),
        }
    }
    words
}

/// A word such as `--days={days}`; `None` without a value.
fn fill(word: &str, values: &RequestValues) -> Option<String> {
    match word.split_once("={") {
        Some((option, name)) => values.get(name.trim_end_matches('}')).map(|value| format!("{option}={value}")),
        None => Some(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> RequestValues {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_value_cannot_become_an_option() {
        let deny = words(&["deny", "{why}", "--", "{id}"], &values(&[("why", "--yes"), ("id", "--all")]));
        assert_eq!(deny, ["deny", "--why=--yes", "--", "--all"]);
        let run = ["run", "{item}", "{dry_run}", "--", "{loop}"];
        assert_eq!(words(&run, &values(&[("loop", "fix")])), ["run", "--", "fix"]);
        assert_eq!(words(&run, &values(&[("loop", "fix"), ("dry_run", "true")])), ["run", "--dry-run", "--", "fix"]);
        assert_eq!(words(&["schedule", "--days={days}"], &values(&[])), ["schedule"]);
    }

    #[test]
    fn paths_are_compared_part_by_part() {
        let found = |path: &str| match find(&Method::GET, path) {
            RouteMatch::Found(route, parts) => format!("{} {parts:?}", route.path),
            RouteMatch::WrongMethod => "method".to_owned(),
            RouteMatch::NotFound => "none".to_owned(),
        };
        assert_eq!(found("/loops/fix%20it"), r#"/loops/{loop} {"loop": "fix it"}"#);
        for path in
            ["/x/../api/v1/inbox", "//loops", "/loops/", "/loops/a%2Fb", "/loops/a%00", "/loops/%zz", "/api/v1/inbox/"]
        {
            assert_eq!(found(path), "none", "{path}");
        }
        assert_eq!(found("/api/v1/thaw"), "method");
    }

    #[test]
    fn every_route_that_changes_something_is_a_post_with_a_role() {
        for route in ROUTES {
            let writes = matches!(route.action, RouteAction::Write(_) | RouteAction::SignOut | RouteAction::Mcp);
            assert_eq!(writes, route.method == Method::POST, "{}", route.path);
            assert!(!writes || route.role.is_some(), "{}", route.path);
        }
    }
}
