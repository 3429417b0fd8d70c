//! `completions SHELL`: the script that completes verbs, flags, loops and rounds in a shell. `manual`: the man pages.

use super::{CommandContext, CommandError, CommandExit, VerbResult};
use crate::args::Cli;
use crate::view::repo_view::RepoView;
use clap::CommandFactory as _;
use clap_complete::Shell;
use loopwright::store::{InboxKind, RoundsQuery};
use serde_json::json;
use std::path::PathBuf;

/// The most rounds that a shell is offered.
const ROUNDS_MAX: u32 = 50;

/// Verbs whose words are loops, rounds, or waiting questions.
const LOOP_VERBS: [&str; 12] = [
    "run",
    "check",
    "rounds",
    "pause",
    "resume",
    "schedule",
    "simulate",
    "promote",
    "calibrate",
    "forget",
    "gates",
    "costs",
];
const ROUND_VERBS: [&str; 7] = ["diff", "take", "retry", "stop", "review", "attach", "steer"];
const EITHER_VERBS: [&str; 4] = ["show", "why", "logs", "report"];
const QUESTION_VERBS: [&str; 3] = ["approve", "deny", "hold"];

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that the script is for
    #[arg(required_unless_present = "names")]
    shell: Option<Shell>,
    /// Print the loops and rounds that a command accepts here, one in a line; the scripts use this
    #[arg(long, value_name = "COMMAND", hide = true, conflicts_with = "shell")]
    names: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManualArgs {
    /// The folder for the pages; it is created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(crate) async fn run(args: CompletionsArgs, cx: &CommandContext) -> VerbResult {
    match (args.shell, args.names) {
        (Some(shell), _) => Ok(cx.out.script(&script(shell))),
        (None, Some(verb)) => {
            // A shell shows no errors while it completes; without names it completes nothing.
            let names = names(&verb, cx).await.unwrap_or_default();
            if !names.is_empty() {
                cx.out.script(&names.join("\n"));
            }
            Ok(CommandExit::DONE)
        }
        (None, None) => Ok(CommandExit::USAGE),
    }
}

/// Writes one man page for the program and one for each command.
pub(crate) fn write_manual(args: &ManualArgs, cx: &CommandContext) -> VerbResult {
    let failed = |error: std::io::Error| CommandError::failed(format!("write `{}`: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)?;
    let document = json!({"schema": 1, "folder": args.folder});
    let page = || format!("wrote the man pages; read one with: man -l {}/loopwright.1", args.folder.display());
    Ok(cx.out.answer(&document, page))
}

async fn names(verb: &str, cx: &CommandContext) -> Result<Vec<String>, CommandError> {
    let mut names = Vec::new();
    let has = |list: &[&str]| list.contains(&verb);
    let here = RepoView::find_current(cx).await?;
    if has(&LOOP_VERBS) || has(&EITHER_VERBS) {
        names.extend(here.iter().flat_map(|here| &here.loops.loops).map(|file| file.spec.name.clone()));
    }
    let Some(store) = super::status::open_store_if_any(cx).await? else { return Ok(names) };
    if has(&ROUND_VERBS) || has(&EITHER_VERBS) {
        let repo = here.as_ref().and_then(|here| here.scope_for(cx, None));
        let query = RoundsQuery { repo, limit: ROUNDS_MAX, ..RoundsQuery::default() };
        names.extend(store.rounds(query).await?.into_iter().map(|row| row.id));
    }
    if has(&QUESTION_VERBS) {
        let open = store.inbox(ROUNDS_MAX).await?.into_iter();
        let asked = open.filter(|row| matches!(row.kind, InboxKind::Approval | InboxKind::InDoubt));
        names.extend(asked.map(|row| if row.kind == InboxKind::Approval { row.round } else { row.id }));
    }
    Ok(names)
}

/// The script for verbs and flags, and a part that asks this program for loops and rounds.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loopwright", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => format!("{script}\n{BASH_NAMES}"),
        Shell::Fish => format!("{script}\n{}", fish_names()),
        Shell::Zsh => zsh_with_names(&script),
        _ => script,
    }
}

/// Wraps clap's function: its answer stays unless the program knows names for this place.
const BASH_NAMES: &str = r#"_loopwright_names() {
    _loopwright "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" names
    if [[ $COMP_CWORD -ge 2 && $cur != -* ]]; then
        names=$(command loopwright completions --names "${COMP_WORDS[1]}" 2>/dev/null)
        if [[ -n $names ]]; then
            COMPREPLY=($(compgen -W "$names" -- "$cur"))
        fi
    fi
}
complete -F _loopwright_names -o nosort -o bashdefault -o default loopwright 2>/dev/null ||
    complete -F _loopwright_names -o bashdefault -o default loopwright
"#;

fn fish_names() -> String {
    let verbs = [&LOOP_VERBS[..], &ROUND_VERBS, &EITHER_VERBS, &QUESTION_VERBS].concat();
    let line = |verb: &str| {
        format!(
            "complete -c loopwright -n '__fish_seen_subcommand_from {verb}' -f -a '(command loopwright completions --names {verb} 2>/dev/null)'\n"
        )
    };
    verbs.into_iter().map(line).collect()
}

/// Clap offers files for every word; words that are loops or rounds are called `id` and `name`.
fn zsh_with_names(script: &str) -> String {
    let is_name = |line: &str| [":id -- ", ":name -- "].iter().any(|word| line.contains(word));
    let lines = script.lines().map(|line| match is_name(line) {
        true => line.replace(":_default'", ":_loopwright_names'"),
        false => line.to_owned(),
    });
    let names = "_loopwright_names() {\n    local -a names\n    names=(${(f)\"$(command loopwright completions --names $words[1] 2>/dev/null)\"})\n    compadd -- $names\n}\n";
    let mut lines: Vec<String> = lines.collect();
    // The first line names the command that the file is for.
    lines.insert(1, names.to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_asks_for_names_and_every_verb_of_the_lists_exists() {
        let cli = Cli::command();
        for verb in [&LOOP_VERBS[..], &ROUND_VERBS, &EITHER_VERBS, &QUESTION_VERBS].concat() {
            assert!(cli.find_subcommand(verb).is_some(), "{verb}");
        }
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            assert!(script(shell).contains("loopwright completions --names"), "{shell}");
        }
        assert!(script(Shell::Zsh).contains(":_loopwright_names'"));
    }
}
