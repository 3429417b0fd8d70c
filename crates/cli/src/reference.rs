//! The reference of the manual, written from the code: every verb with its options, the exit codes, and the metrics. Only
//! tests use it; the committed file must be the one that the code gives.

use crate::args::Cli;
use crate::error::CommandExit;
use crate::web::metrics_reference;
use clap::{Arg, Command, CommandFactory as _};
use loopwright_core::outcome::RoundOutcome;
use std::fmt::Write as _;

/// The whole document.
fn reference() -> String {
    let mut text = "# Verbs, exit codes and metrics\n\nThis file is written from the code: \
         `UPDATE_EXPECT=1 cargo nextest run -p loopwright-cli reference_is_the_one`. [json.md](json.md) describes the \
         documents of `--json`, [openapi.json](openapi.json) the HTTP API.\n\n## Verbs\n"
        .to_owned();
    let mut program = Cli::command();
    program.build();
    text.push_str("\nThese options go with every verb:\n\n");
    options(&mut text, program.get_arguments().filter(|arg| !is_common(arg)));
    program.get_subcommands().filter(|verb| !verb.is_hide_set()).for_each(|verb| describe(&mut text, verb));
    text.push_str(&exit_codes());
    text.push_str("\n## Metrics\n\n`GET /metrics` has these numbers in the text format of Prometheus.\n\n");
    text.push_str("| name | kind | meaning |\n|---|---|---|\n");
    for (name, kind, about) in metrics_reference() {
        let _ = writeln!(text, "| `{name}` | {kind} | {about} |");
    }
    text
}

/// A verb, then its own verbs.
fn describe(text: &mut String, verb: &Command) {
    let name = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "\n### `{name}`\n\n{}.\n", cell(&about));
    let usage = verb.clone().render_usage().to_string();
    let _ = writeln!(text, "```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim());
    options(text, verb.get_arguments().filter(|arg| !arg.is_global_set() && !is_common(arg)));
    let own = verb.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    own.for_each(|verb| describe(text, verb));
}

fn is_common(arg: &Arg) -> bool {
    arg.is_hide_set() || matches!(arg.get_id().as_str(), "help" | "version")
}

fn options<'a>(text: &mut String, all: impl Iterator<Item = &'a Arg>) {
    let lines: Vec<String> = all.map(option).collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "| option | meaning |\n|---|---|\n{}", lines.join("\n"));
    }
}

fn option(arg: &Arg) -> String {
    let value = || arg.get_value_names().map(|names| names.join(" ").replace('|', "\\|")).unwrap_or_default();
    let takes = arg.get_action().takes_values();
    let shown = match (arg.get_long(), arg.get_short()) {
        (Some(long), short) => {
            let short = short.map_or(String::new(), |short| format!("-{short}, "));
            if takes { format!("{short}--{long} {}", value()) } else { format!("{short}--{long}") }
        }
        _ => value(),
    };
    let words: Vec<String> =
        arg.get_possible_values().iter().filter(|_| takes).map(|value| format!("`{}`", value.get_name())).collect();
    let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
    let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| `{shown}` | {}{words} |", cell(&about))
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn exit_codes() -> String {
    let mut text = "\n## Exit codes\n\n| code | meaning |\n|---|---|\n".to_owned();
    let of_commands = [
        (CommandExit::DONE, "done"),
        (CommandExit::FAILED, "Loopwright or its environment broke; also a store that another process holds"),
        (CommandExit::USAGE, "wrong usage, an invalid file, an unknown name"),
        (CommandExit::REJECTED, "a gate, the checker or a check of the engine did not accept something"),
        (CommandExit::REFUSED, "policy refuses it, or the content changed"),
        (CommandExit::INTERRUPTED, "a signal ended the command"),
    ];
    for (code, meaning) in of_commands {
        let _ = writeln!(text, "| {} | {meaning} |", code.0);
    }
    text.push_str("\n`run`, `retry`, `approve` and others that end with a round have the code of its outcome:\n\n");
    text.push_str("| outcome | code |\n|---|---|\n");
    for outcome in RoundOutcome::ALL {
        let _ = writeln!(text, "| `{}` | {} |", outcome.word(), outcome.exit_code());
    }
    text
}

#[test]
fn the_committed_reference_is_the_one_that_the_code_gives() {
    expect_test::expect_file!["../../../docs/reference.md"].assert_eq(&reference());
}
