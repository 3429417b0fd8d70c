//! `import`: loops of another tool become loop files, with their skills and the items that they have processed. All
//! files are written, or none; no file is replaced without `--force`. The report names everything that changed.

mod engine_specs;
mod harness;
mod new_files;
mod pattern_library;
mod plan;
mod source_folder;

use super::{CommandContext, CommandError, VerbResult, close, safe};
use crate::error::with_count;
use crate::output::safe_lines;
use crate::signals::CurrentRound;
use crate::view::SCHEMA;
use loopwright::git::UserRepo;
use loopwright::import::{ItemImport, ProcessedItems, import_items};
use loopwright_core::import::{ImportEffect, ImportNote};
use new_files::{NewFiles, Replace};
use plan::{ImportPlan, RepoFacts};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    from: ImportFrom,
}

#[derive(Debug, clap::Subcommand)]
enum ImportFrom {
    /// Import an installation of the bash harness: definitions, skills, configuration and processed items
    #[command(name = "loop-harness")]
    Harness {
        /// The folder with `definitions/`, `skills/` and `state/`
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        flags: ImportFlags,
    },
    /// Import specs of the loop engine, as JSON: one, or a list
    #[command(name = "loop-engine")]
    Specs {
        /// The file with the specs
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        flags: ImportFlags,
    },
    /// Import the loops of a pattern library: LOOP.md, gate.yaml, loop-budget.md and STATE.md
    #[command(name = "loop-engineering")]
    Library {
        /// The folder with `LOOP.md`
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        flags: ImportFlags,
    },
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct ImportFlags {
    /// Only report; write nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace files that exist with other content
    #[arg(long)]
    force: bool,
}

impl ImportArgs {
    /// Only an import of processed items writes to the store.
    pub(crate) fn needs_store_owner(&self) -> bool {
        matches!(&self.from, ImportFrom::Harness { flags, .. } if !flags.dry_run)
    }

    fn flags(&self) -> ImportFlags {
        match &self.from {
            ImportFrom::Harness { flags, .. } | ImportFrom::Specs { flags, .. } | ImportFrom::Library { flags, .. } => {
                *flags
            }
        }
    }
}

/// The document of `import --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    source: &'static str,
    from: String,
    dry_run: bool,
    loops: Vec<LoopLine>,
    files: Vec<FileLine>,
    items: Vec<ItemLine>,
    carried: Vec<ImportNote>,
    changed: Vec<ImportNote>,
    not_carried: Vec<ImportNote>,
    /// Settings for the user's own configuration.
    settings: Option<String>,
    next: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LoopLine {
    #[serde(rename = "loop")]
    name: String,
    file: String,
    level: &'static str,
    cadence: String,
    source: String,
}

#[derive(Debug, Serialize)]
struct FileLine {
    file: String,
    /// `written`, `replaced` or `unchanged`.
    state: &'static str,
}

#[derive(Debug, Serialize)]
struct ItemLine {
    #[serde(rename = "loop")]
    name: String,
    source: String,
    /// Items that the other tool has processed.
    processed: usize,
    /// Those of them that the store did not know.
    new: usize,
}

pub(crate) async fn run(args: ImportArgs, cx: &CommandContext) -> VerbResult {
    let (repo, flags) = (cx.repo().await?, args.flags());
    let facts = RepoFacts::read(cx, &repo).await?;
    let plan = match &args.from {
        ImportFrom::Harness { dir, .. } => harness::plan(cx, &repo, &facts, dir)?,
        ImportFrom::Specs { file, .. } => engine_specs::plan(cx, file)?,
        ImportFrom::Library { dir, .. } => pattern_library::plan(cx, &repo, &facts, dir)?,
    };
    plan.refuse_taken_names(&cx.loops(&repo)?)?;
    let replace = if flags.force { Replace::Allowed } else { Replace::Refused };
    let files = NewFiles::compare(&repo.work_tree, plan.files(), replace)?;
    let states = files.states();
    let mut items = plan.item_lines();
    if !flags.dry_run {
        let staged = files.stage()?;
        record_items(cx, &repo, &plan, &mut items).await?;
        staged.publish()?;
    }
    let document = document(plan, states, items, flags);
    Ok(cx.out.answer(&document, || page(&document)))
}

/// The items come before the loop files, so that no loop is ever due without its history.
async fn record_items(
    cx: &CommandContext,
    repo: &UserRepo,
    plan: &ImportPlan,
    lines: &mut [ItemLine],
) -> Result<(), CommandError> {
    let known = |one: &&plan::LoopItems| !one.items.is_empty();
    let loops = plan.items.iter().filter(known);
    let loops: Vec<_> =
        loops.map(|one| ProcessedItems { loop_name: one.loop_name.clone(), items: one.items.clone() }).collect();
    if loops.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = loops.iter().map(|one| one.loop_name.clone()).collect();
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(repo), &cancel).await?;
    let import = ItemImport { repo: repo.id.clone(), source: plan.source.to_owned(), actor: cx.actor_name(), loops };
    let counts = close(&engine, import_items(&engine, import).await).await?;
    for (name, count) in names.iter().zip(counts) {
        lines.iter_mut().filter(|line| line.name == *name).for_each(|line| line.new = count);
    }
    Ok(())
}

fn document(plan: ImportPlan, states: Vec<FileLine>, items: Vec<ItemLine>, flags: ImportFlags) -> Document {
    let of = |effect: ImportEffect| plan.notes.0.iter().filter(|note| note.effect == effect).cloned().collect();
    let loops = plan.loops.iter().map(|one| LoopLine {
        name: one.name().to_string(),
        file: plan::loop_path(one),
        level: one.spec.level.short(),
        cadence: one.spec.cadence(),
        source: one.source.clone(),
    });
    Document {
        schema: SCHEMA,
        source: plan.source,
        from: plan.from.clone(),
        dry_run: flags.dry_run,
        loops: loops.collect(),
        files: states,
        items,
        carried: of(ImportEffect::Carried),
        changed: of(ImportEffect::Changed),
        not_carried: of(ImportEffect::NotCarried),
        settings: plan.settings.clone(),
        next: plan.next,
    }
}

fn page(document: &Document) -> String {
    let (would, loops) = (if document.dry_run { "would be " } else { "" }, with_count(document.loops.len(), "loop"));
    let mut lines = vec![format!("{loops} of {} at {}", document.source, safe(&document.from))];
    lines.extend(document.files.iter().map(|line| {
        let found = document.loops.iter().find(|one| one.file == line.file);
        let about = found.map_or(String::new(), |one| format!(": {}, {}", one.level, safe(&one.cadence)));
        format!("  {would}{} {}{about}", line.state, safe(&line.file))
    }));
    for line in &document.items {
        let new = if document.dry_run { String::new() } else { format!(", {} of them new here", line.new) };
        lines.push(format!("  {}: {} processed{new}", safe(&line.name), with_count(line.processed, "item")));
    }
    let parts = [
        ("Carried over", &document.carried),
        ("Changed", &document.changed),
        ("Not carried over", &document.not_carried),
    ];
    for (title, notes) in parts.into_iter().filter(|(_, notes)| !notes.is_empty()) {
        lines.push(format!("\n{title}:"));
        lines.extend(
            notes.iter().map(|note| format!("  {} {}: {}", safe(&note.source), safe(&note.key), safe(&note.text))),
        );
    }
    if let Some(settings) = &document.settings {
        lines.push("\nSettings for your own configuration; a repository may not set them (docs/forges.md):".to_owned());
        lines.extend(settings.lines().map(|line| format!("  {}", safe_lines(line))));
    }
    lines.push(String::new());
    lines.extend(document.next.iter().map(|next| format!("next: {}", safe(next))));
    lines.join("\n")
}
