//! `token add`, `token list`, `token revoke`: the tokens of the HTTP API and their rights.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, safe};
use crate::error::error_chain;
use crate::output::{CommandOutput, TextTable};
use crate::view::time::{Moment, date_and_time};
use crate::web::access::{AccessEntry, AccessKind, AccessRegistry, AccessRole, NewAccess};
use loopwright::seam::Seam;
use loopwright::state_dir::StateDir;
use loopwright_core::units::TimeSpan;
use serde_json::{Value, json};

/// The longest name, in bytes.
const NAME_MAX: usize = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    action: TokenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Create a token and print it once
    Add(TokenAddArgs),
    /// List the tokens and the browsers that are signed in
    List,
    /// Remove a token or a browser, by its name or its id
    Revoke {
        /// The name or the id
        #[arg(value_name = "NAME|ID")]
        which: String,
    },
}

#[derive(Debug, clap::Args)]
struct TokenAddArgs {
    /// The name of its holder, which records show as the actor
    #[arg(value_name = "NAME")]
    name: String,
    /// The rights; each role includes the ones before it
    #[arg(long, value_enum)]
    role: AccessRole,
    /// How long it is valid
    #[arg(long, value_name = "SPAN", default_value = "90d")]
    expires: TimeSpan,
}

pub(crate) async fn run(args: TokenArgs, cx: &CommandContext) -> VerbResult {
    let state = cx.state_dir()?.0;
    StateDir::open(&state, Seam::none()).map_err(|error| CommandError::failed(error_chain(&error)))?;
    let registry = AccessRegistry::new(&state);
    match args.action {
        TokenCommand::Add(new) => add(cx, &registry, new),
        TokenCommand::List => list(cx, &registry),
        TokenCommand::Revoke { which } => revoke(cx, &registry, &which),
    }
}

fn add(cx: &CommandContext, registry: &AccessRegistry, new: TokenAddArgs) -> VerbResult {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.@ ".contains(c);
    if new.name.trim().is_empty() || new.name.len() > NAME_MAX || !new.name.chars().all(is_plain) {
        let text = format!("`{}` is not a name of 1 to {NAME_MAX} letters and digits", new.name);
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    if registry.entries()?.iter().any(|entry| entry.kind == AccessKind::Token && entry.name == new.name) {
        let text = format!("there is a token `{}` already", new.name);
        return Err(CommandError::refused(text).hint(format!("remove it: loopwright token revoke {}", new.name)));
    }
    let lasts_ms = i64::try_from(new.expires.duration().as_millis()).unwrap_or(i64::MAX);
    let new = NewAccess { name: new.name, role: new.role, kind: AccessKind::Token, lasts_ms, uid: None };
    let (entry, secret) = registry.add(new)?;
    let mut document = describe(&entry);
    document["schema"] = json!(1);
    document["token"] = json!(secret);
    Ok(cx.out.answer(&document, || {
        let until = date_and_time(entry.expires_ms);
        format!("{secret}\nthis is the only time that it is shown; role {}, until {until}", entry.role.word())
    }))
}

fn describe(entry: &AccessEntry) -> Value {
    json!({
        "id": entry.id, "name": entry.name, "role": entry.role, "kind": entry.kind, "created": Moment(entry.created_ms),
        "expires": entry.expires(), "last_used": entry.used_ms.map(Moment),
    })
}

fn list(cx: &CommandContext, registry: &AccessRegistry) -> VerbResult {
    let entries = registry.entries()?;
    let rows: Vec<Value> = entries.iter().map(describe).collect();
    Ok(cx.out.answer(&json!({"schema": 1, "tokens": rows}), || render(&entries, &cx.out)))
}

fn render(entries: &[AccessEntry], out: &CommandOutput) -> String {
    if entries.is_empty() {
        return "no tokens\ncreate one with: loopwright token add NAME --role view".to_owned();
    }
    let row = |entry: &AccessEntry| {
        let kind = if entry.kind == AccessKind::Token { "token" } else { "browser" };
        let used = entry.used_ms.map_or("never".to_owned(), date_and_time);
        let (role, until) = (entry.role.word().to_owned(), date_and_time(entry.expires_ms));
        [entry.name.clone(), role, kind.to_owned(), until, used, entry.id.clone()]
    };
    let headings = ["NAME", "ROLE", "KIND", "EXPIRES", "LAST USED", "ID"];
    TextTable::new(headings, entries.iter().map(row)).render_for(out)
}

fn revoke(cx: &CommandContext, registry: &AccessRegistry, which: &str) -> VerbResult {
    let gone = registry.revoke(which)?;
    if gone.is_empty() {
        let text = format!("there is no token `{which}`");
        return Err(CommandError::unknown(text).hint("see `loopwright token list`"));
    }
    let rows: Vec<Value> = gone.iter().map(describe).collect();
    Ok(cx.out.answer(&json!({"schema": 1, "revoked": rows}), || format!("revoked: {}", safe(which))))
}
