//! `import loop-engine FILE`: specs of the loop engine.

use super::plan::ImportPlan;
use crate::context::{CommandContext, FileProblem, error_from_problems, read_named_file};
use crate::error::CommandError;
use loopwright_core::import::ImportNotes;
use loopwright_core::import::seed_specs::read_seed_specs;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn plan(cx: &CommandContext, file: &Path) -> Result<ImportPlan, CommandError> {
    let shown = file.display().to_string();
    let bytes = read_named_file(&cx.env.cwd.join(file)).map_err(|error| {
        CommandError::invalid(format!("read `{shown}`: {error}")).hint("name a file with the JSON of a spec")
    })?;
    let mut notes = ImportNotes::default();
    let loops = read_seed_specs(&shown, &bytes, &mut notes)
        .map_err(|problems| error_from_problems(&problems.into_iter().map(FileProblem::from).collect::<Vec<_>>()))?;
    let (skills, items, next) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut plan = ImportPlan { source: "loop-engine", from: shown, loops, skills, items, notes, settings: None, next };
    plan.add_next_commands();
    Ok(plan)
}
