//! `prompts [show NAME]`: the parts of briefs that are the same for every loop, and the repository's replacements.

use super::{CommandContext, CommandError, CommandExit, VerbResult};
use crate::context::{FileProblem, error_from_problems, prompts, read_repo_file};
use crate::output::{TextTable, safe_lines};
use loopwright_core::prompt::BriefText;
use serde::Serialize;
use serde_json::json;
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PromptsArgs {
    #[command(subcommand)]
    what: Option<PromptsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum PromptsCommand {
    /// Print one prompt as roles receive it; copy it to write your own
    Show {
        /// The name of the prompt
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// One text.
#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    about: &'static str,
    /// The file with which a repository replaces it; `None` for a text that rules depend on.
    file: Option<String>,
    /// Whether that file is in effect.
    replaced: bool,
}

/// The document of `prompts show --json`.
#[derive(Debug, Serialize)]
struct PromptDocument {
    schema: u32,
    #[serde(flatten)]
    line: Line,
    text: String,
}

pub(crate) async fn run(args: PromptsArgs, cx: &CommandContext) -> VerbResult {
    // Outside a repository, print the built-in prompts.
    let repo = cx.repo().await.ok();
    let work_tree = repo.as_ref().map(|repo| repo.work_tree.as_path());
    match args.what {
        None => Ok(list(cx, work_tree)),
        Some(PromptsCommand::Show { name }) => show(cx, work_tree, &name),
    }
}

fn line(text: BriefText, work_tree: Option<&Path>) -> Line {
    let file = prompts::replaceable_texts().find(|(known, _)| *known == text).map(|(_, file)| file);
    let replaced = work_tree.is_some_and(|tree| prompts::replacement_file(text, tree).is_some());
    Line { name: text.name(), about: text.summary(), file, replaced }
}

fn list(cx: &CommandContext, work_tree: Option<&Path>) -> CommandExit {
    let prompts = BriefText::ALL.map(|text| line(text, work_tree));
    cx.out.answer(&json!({"schema": 1, "prompts": &prompts[..]}), || {
        let from = |line: &Line| line.file.as_deref().filter(|_| line.replaced).unwrap_or("built in").to_owned();
        let row = |line: &Line| [line.name.to_owned(), from(line), line.about.to_owned()];
        let table = TextTable::new(["NAME", "FROM", "ABOUT"], prompts.iter().map(row));
        let way = "replace a prompt for a repository: loopwright prompts show maker > .loopwright/prompts/maker.md";
        format!("{}\n{}", table.render_for(&cx.out), cx.out.wrapped(way))
    })
}

fn show(cx: &CommandContext, work_tree: Option<&Path>, name: &str) -> VerbResult {
    let names = BriefText::ALL.map(BriefText::name).join(", ");
    let unknown = || CommandError::invalid(format!("there is no prompt `{name}`")).hint(format!("one of: {names}"));
    let text = BriefText::ALL.into_iter().find(|text| text.name() == name).ok_or_else(unknown)?;
    let own = work_tree.and_then(|tree| Some((tree, prompts::replacement_file(text, tree)?)));
    let words = match own {
        None => text.built_in().to_owned(),
        Some((tree, file)) => match read_repo_file(tree, &file) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => return Err(error_from_problems(&[FileProblem::unreadable(file, "read the prompt", &error)])),
        },
    };
    let shown = PromptDocument { schema: 1, line: line(text, work_tree), text: words };
    Ok(cx.out.answer(&shown, || safe_lines(shown.text.trim_end())))
}
