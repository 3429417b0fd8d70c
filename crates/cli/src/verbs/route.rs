//! `route TASK`: where a task runs and which mode it has. The facts come from flags, from the repository, and on a
//! terminal from one batch of questions; the tables of `core` decide. Without a terminal it never waits.

use super::goal::{goal_path, name_of};
use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, safe};
use loopwright_core::paths::Globs;
use loopwright_core::route::{RouteFacts, RunPlace, TaskRoute};
use loopwright_core::spec::LoopMode;
use loopwright_core::units::TimeSpan;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct RouteArgs {
    /// The task
    #[arg(value_name = "TASK")]
    task: String,
    /// It recurs, or watches something that changes elsewhere
    #[arg(long, value_name = "yes|no", num_args = 0..=1, default_missing_value = "yes", value_parser = parse_flag)]
    recurring: Option<bool>,
    /// The number of items
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "files")]
    items: Option<u32>,
    /// Count the files of the repository that match as items
    #[arg(long, value_name = "GLOB")]
    files: Option<String>,
    /// The result must survive attacks
    #[arg(long, value_name = "yes|no", num_args = 0..=1, default_missing_value = "yes", value_parser = parse_flag)]
    adversarial: Option<bool>,
    /// A command can measure success, and one pass will probably miss it
    #[arg(long, value_name = "yes|no", num_args = 0..=1, default_missing_value = "yes", value_parser = parse_flag)]
    measurable: Option<bool>,
    /// How long it will take, such as 30m or 3h
    #[arg(long, value_name = "TIME", value_parser = parse_takes)]
    takes: Option<TimeSpan>,
    /// You will have to decide things while it runs
    #[arg(long, value_name = "yes|no", num_args = 0..=1, default_missing_value = "yes", value_parser = parse_flag)]
    decisions: Option<bool>,
    /// The number of independent streams of work
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    streams: Option<u32>,
}

pub(crate) async fn run(args: RouteArgs, cx: &CommandContext) -> VerbResult {
    if args.task.trim().is_empty() {
        return Err(CommandError::new(CommandErrorKind::Usage, "the task is empty"));
    }
    let mut facts = RouteFacts {
        recurring: args.recurring,
        items: args.items,
        adversarial: args.adversarial,
        measurable: args.measurable,
        takes: args.takes,
        decisions: args.decisions,
        streams: args.streams,
    };
    if let Some(glob) = &args.files {
        facts.items = Some(count_files(cx, glob).await?);
    }
    if cx.out.can_ask() {
        ask(cx, &mut facts);
    }
    let route = TaskRoute::decide(&facts);
    let commands = commands(&args, &facts, &route);
    let document = json!({
        "schema": 1, "task": args.task, "mode": route.mode.word(), "mode_reason": route.mode_reason,
        "place": route.place.word(), "place_reason": route.place_reason, "facts": facts_json(&facts),
        "assumed": route.assumed.iter().map(|fact| fact.word()).collect::<Vec<_>>(), "commands": commands,
    });
    Ok(cx.out.answer(&document, || page(&route, &commands)))
}

/// The files of the checked-out commit that match, at least one.
async fn count_files(cx: &CommandContext, glob: &str) -> Result<u32, CommandError> {
    let globs = Globs::new(&[glob]).map_err(|error| CommandError::new(CommandErrorKind::Usage, error.to_string()))?;
    let repo = cx.repo().await?;
    let head = cx.git().head(&repo, None).await?;
    let count = cx.git().paths(&repo, &head.commit).await?.iter().filter(|path| globs.matches(path)).count();
    if count == 0 {
        return Err(CommandError::new(CommandErrorKind::Usage, format!("no file of the repository matches `{glob}`")));
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Asks for each fact that is not known. An answer that does not fit leaves the fact unknown, which is shown.
fn ask(cx: &CommandContext, facts: &mut RouteFacts) {
    for fact in facts.unknown() {
        if let Err(error) = facts.answer(fact, &cx.out.ask_line(fact.question())) {
            cx.out.note(&safe(&error.to_string()));
        }
    }
}

fn facts_json(facts: &RouteFacts) -> Value {
    json!({
        "recurring": facts.recurring, "items": facts.items, "adversarial": facts.adversarial,
        "measurable": facts.measurable, "takes": facts.takes, "decisions": facts.decisions, "streams": facts.streams,
    })
}

/// The commands that do it, in order. Words in capitals are for the person to replace.
fn commands(args: &RouteArgs, facts: &RouteFacts, route: &TaskRoute) -> Vec<String> {
    if route.mode == LoopMode::TimeLoop {
        return vec!["loopwright patterns".to_owned(), "loopwright new PATTERN".to_owned(), "loopwright up".to_owned()];
    }
    let mut write = format!("loopwright goal write {} --mode {}", quoted(&args.task), route.mode);
    if route.mode == LoopMode::DynamicWorkflow {
        let items = args.files.as_ref().map(|glob| format!(" --files {}", quoted(glob)));
        write += items.as_deref().unwrap_or(" --item 'ITEM'");
    }
    if facts.adversarial == Some(true) {
        write += " --attack hostile-user,security";
    }
    write += " --criterion 'TEXT => GATE' --gate 'GATE=COMMAND'";
    let file = goal_path(&name_of(&args.task));
    let run = match (route.place, route.mode) {
        (RunPlace::Foreground, _) => format!("loopwright goal run {file}"),
        (RunPlace::Detached, _) => format!("loopwright goal run {file} --detach"),
        (RunPlace::Parallel, LoopMode::DynamicWorkflow) => {
            "loopwright goal run FILE --detach   # for the contract of each stream; each lands by itself".to_owned()
        }
        (RunPlace::Parallel, _) => {
            "loopwright goal run FILE FILE --detach   # the contract of each stream; they land together".to_owned()
        }
    };
    vec![write, format!("loopwright goal lint {file}"), run]
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn page(route: &TaskRoute, commands: &[String]) -> String {
    let mut lines = vec![
        format!("mode   {}: {}", route.mode, route.mode_reason),
        format!("place  {}: {}", route.place, route.place_reason),
    ];
    if !route.assumed.is_empty() {
        let assumed: Vec<String> =
            route.assumed.iter().map(|fact| format!("{} {}", fact.word(), fact.assumption())).collect();
        lines.push(format!("assumed: {}; flags of the same names change that", assumed.join(", ")));
    }
    lines.extend(commands.iter().map(|command| format!("run: {}", safe(command))));
    lines.join("\n")
}

fn parse_flag(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("`yes` or `no`".to_owned()),
    }
}

fn parse_takes(text: &str) -> Result<TimeSpan, String> {
    TimeSpan::parse(text).ok_or_else(|| "one number and one unit: `30m`, `3h`".to_owned())
}
