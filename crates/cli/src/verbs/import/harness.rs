//! `import loop-harness DIR`: an installation of the bash harness. Its configuration lists loops for each repository;
//! one import takes those of one repository.

use super::plan::{ImportPlan, LoopItems, RepoFacts};
use super::source_folder::SourceFolder;
use crate::context::{CommandContext, FileProblem, error_from_problems};
use crate::error::{CommandError, with_count};
use loopwright::git::UserRepo;
use loopwright::import::IMPORTED_ITEMS_MAX;
use loopwright_core::import::harness::{HarnessConfig, HarnessDefinition, HarnessLoop, HarnessRepo, HarnessState};
use loopwright_core::import::item_keys::ProcessedItem;
use loopwright_core::import::{ImportNotes, ImportedLoop};
use loopwright_core::spec::{LoopSpec, SpecProblems};
use std::collections::BTreeMap;
use std::path::Path;

const CONFIG: &str = "config.yaml";
/// The most bytes of a skill.
const SKILL_MAX: usize = 256 << 10;

pub(super) fn plan(
    cx: &CommandContext,
    repo: &UserRepo,
    facts: &RepoFacts,
    dir: &Path,
) -> Result<ImportPlan, CommandError> {
    let folder = SourceFolder::open(&cx.env.cwd.join(dir))?;
    let mut import = HarnessImport { folder, facts, notes: ImportNotes::default(), problems: Vec::new() };
    let config = import.config();
    import.stop_on_problems()?;
    let definitions = import.definitions();
    import.stop_on_problems()?;
    if definitions.is_empty() {
        return Err(CommandError::invalid(format!("`{}` has no definitions/*.yaml", dir.display()))
            .hint("name the folder of the installation, with definitions/ and skills/"));
    }
    let chosen = choose_repo(cx, repo, &config, dir)?;
    let definitions = import.listed(definitions, &chosen);
    let (mut loops, mut skills, mut items) = (Vec::new(), BTreeMap::new(), Vec::new());
    for definition in &definitions {
        let Some(text) = import.skill(definition) else { continue };
        let Some(one) = import.one(definition, &config, &text) else { continue };
        items.extend(import.items(definition, &chosen, &one.spec));
        skills.insert(definition.skill.clone(), text);
        loops.push(one);
    }
    import.stop_on_problems()?;
    let (notes, from) = (import.notes, dir.display().to_string());
    let settings = Some(config.user_settings(&chosen));
    let mut plan = ImportPlan { source: "loop-harness", from, loops, skills, items, notes, settings, next: Vec::new() };
    plan.add_next_commands();
    let others = config.repos.iter().filter(|other| other.path != chosen.path);
    plan.next.extend(others.map(|other| import_command(&other.path, dir)));
    Ok(plan)
}

fn import_command(repo: &str, dir: &Path) -> String {
    format!("loopwright --repo {repo} import loop-harness {}", dir.display())
}

/// The entry of the configuration for this repository. Without a list of repositories, all loops are meant.
fn choose_repo(
    cx: &CommandContext,
    repo: &UserRepo,
    config: &HarnessConfig,
    dir: &Path,
) -> Result<HarnessRepo, CommandError> {
    if config.repos.is_empty() {
        return Ok(HarnessRepo { path: repo.work_tree.display().to_string(), loops: Vec::new() });
    }
    let own = repo.work_tree.canonicalize().ok();
    let is_own = |entry: &&HarnessRepo| {
        own.is_some() && cx.user_path(&entry.path).ok().and_then(|path| path.canonicalize().ok()) == own
    };
    config.repos.iter().find(is_own).cloned().ok_or_else(|| {
        let what = format!("{CONFIG} has no loops for this repository, {}", repo.work_tree.display());
        let error = CommandError::invalid(what).at_location(CONFIG, 0, 0);
        config.repos.iter().take(10).fold(error, |error, entry| error.hint(import_command(&entry.path, dir)))
    })
}

/// The files of an installation while they are read. Problems are collected, so that all are shown at once.
struct HarnessImport<'a> {
    folder: SourceFolder,
    facts: &'a RepoFacts,
    notes: ImportNotes,
    problems: Vec<FileProblem>,
}

impl HarnessImport<'_> {
    fn stop_on_problems(&self) -> Result<(), CommandError> {
        if self.problems.is_empty() { Ok(()) } else { Err(error_from_problems(&self.problems)) }
    }

    /// The bytes of a file; `None` if there is none, or if it has a problem.
    fn bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        match self.folder.read(name) {
            Ok(bytes) => bytes,
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    fn keep<T>(&mut self, read: Result<T, SpecProblems>) -> Option<T> {
        match read {
            Ok(found) => Some(found),
            Err(problems) => {
                self.problems.extend(problems.into_iter().map(FileProblem::from));
                None
            }
        }
    }

    fn config(&mut self) -> HarnessConfig {
        let Some(bytes) = self.bytes(CONFIG) else {
            self.notes.changed(
                CONFIG,
                "repos",
                "there is no config.yaml: all definitions are imported, with the documented defaults",
            );
            return HarnessConfig::default();
        };
        let read = HarnessConfig::read(CONFIG, &bytes, &mut self.notes);
        self.keep(read).unwrap_or_default()
    }

    fn definitions(&mut self) -> Vec<HarnessDefinition> {
        let names = self.folder.list("definitions", &["yaml", "yml"]);
        let names = names.unwrap_or_else(|problem| {
            self.problems.push(problem);
            Vec::new()
        });
        let mut found = Vec::new();
        for name in names {
            let file = format!("definitions/{name}");
            let Some(bytes) = self.bytes(&file) else { continue };
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
            let read = HarnessDefinition::read(&file, stem, &bytes);
            found.extend(self.keep(read));
        }
        found
    }

    /// The definitions of the loops that the repository lists, in its order; all if it lists none.
    fn listed(&mut self, all: Vec<HarnessDefinition>, repo: &HarnessRepo) -> Vec<HarnessDefinition> {
        if repo.loops.is_empty() {
            return all;
        }
        for definition in all.iter().filter(|one| !repo.loops.iter().any(|(name, _)| *name == one.name)) {
            let text = format!("`{}` is not in the list of this repository, so it is not imported", definition.name);
            self.notes.not_carried(&definition.file, "definition", text);
        }
        let (mut left, mut chosen) = (all, Vec::new());
        for (name, line) in &repo.loops {
            match left.iter().position(|one| one.name == *name) {
                Some(at) => chosen.push(left.remove(at)),
                None => {
                    let what = format!("loop `{name}` has no definition, or is listed twice");
                    let problem = FileProblem::for_file(CONFIG, what)
                        .with_hint("write its file in definitions/, or take it out of `loops`");
                    self.problems.push(problem.on_line(*line));
                }
            }
        }
        chosen
    }

    fn skill(&mut self, definition: &HarnessDefinition) -> Option<String> {
        let file = format!("skills/{}", definition.skill);
        let problems = self.problems.len();
        let bytes = self.bytes(&file);
        let what = match bytes {
            None if self.problems.len() > problems => return None,
            None => format!("the skill of `{}` is missing", definition.name),
            Some(bytes) if bytes.len() > SKILL_MAX => format!("the skill has more than {SKILL_MAX} bytes"),
            Some(bytes) => match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => return Some(text),
                _ => "the skill is not UTF-8 text".to_owned(),
            },
        };
        let hint = format!("{} names it; a skill is a Markdown file", definition.place("skill"));
        self.problems.push(FileProblem::for_file(&file, what).with_hint(hint));
        None
    }

    fn one(&mut self, definition: &HarnessDefinition, config: &HarnessConfig, skill: &str) -> Option<ImportedLoop> {
        let one = HarnessLoop { definition, defaults: config.defaults, skill, fit: self.facts.fit() };
        let spec = one.spec(&mut self.notes);
        let made = ImportedLoop::new(&definition.file, spec, &one.comments());
        self.keep(made)
    }

    /// The processed items of a loop. The instance's own file counts; a file that the definition names is older.
    fn items(&mut self, definition: &HarnessDefinition, repo: &HarnessRepo, spec: &LoopSpec) -> Option<LoopItems> {
        let base = Path::new(&repo.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let own = format!("state/{}@{base}.json", definition.name);
        let named =
            definition.state_file.clone().filter(|name| name.starts_with("state/") && name.matches('/').count() == 1);
        let mut files = [Some(own), named].into_iter().flatten();
        let (source, bytes) = files.find_map(|file| self.bytes(&file).map(|bytes| (file, bytes)))?;
        let state = self.keep(HarnessState::read(&source, &bytes))?;
        let items = self.item_keys(&source, &state, spec);
        let failed = state.failed.len() + state.in_progress.len();
        if failed > 0 {
            self.notes.changed(
                &source,
                "failures, in_progress",
                format!("{} start again without a history", with_count(failed, "item")),
            );
        }
        let (runs, successes) = state.runs;
        self.notes.not_carried(
            &source,
            "metrics, last_run",
            format!(
                "{runs} runs with {successes} successes: the counters start at zero, because no record proves them"
            ),
        );
        Some(LoopItems { loop_name: spec.name.clone(), source, items })
    }

    fn item_keys(&mut self, source: &str, state: &HarnessState, spec: &LoopSpec) -> Vec<(String, Option<i64>)> {
        let (mut items, mut raw, mut unusable) = (Vec::new(), 0, 0);
        for (id, at) in state.processed.iter().take(IMPORTED_ITEMS_MAX) {
            match ProcessedItem::new(spec, id, &self.facts.fit()) {
                ProcessedItem::Known(key) => items.push((key, *at)),
                ProcessedItem::Raw(key) => {
                    raw += 1;
                    items.push((key, *at));
                }
                ProcessedItem::Unusable => unusable += 1,
            }
        }
        let known = items.len() - raw;
        let notes = &mut self.notes;
        if known > 0 {
            notes.carried(
                source,
                "processed",
                format!(
                    "{} stay processed; `loopwright forget {} --item KEY` releases one",
                    with_count(known, "item"),
                    spec.name
                ),
            );
        }
        if raw > 0 && spec.on.probe.is_some() {
            notes.not_carried(source, "processed", format!("{} have ids that the probe does not use; the maker sees them in its state, and the probe may find their work again", with_count(raw, "item")));
        } else if raw > 0 {
            notes.carried(
                source,
                "processed",
                format!(
                    "{} are in the maker's state, and a probe that prints these ids skips them",
                    with_count(raw, "item")
                ),
            );
        }
        let rest = state.processed.len().saturating_sub(IMPORTED_ITEMS_MAX) + unusable;
        if rest > 0 {
            notes.not_carried(
                source,
                "processed",
                format!(
                    "{} are older than the newest {IMPORTED_ITEMS_MAX}, or have ids that cannot be keys",
                    with_count(rest, "item")
                ),
            );
        }
        items
    }
}
