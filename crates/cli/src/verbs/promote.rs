//! `promote LOOP`: shows the evidence for a level of a loop and, with `--yes`, records the person's decision. The level
//! in the loop file is the level at which the loop runs, so a decision for another level changes that one line.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, safe};
use crate::context::{CheckedLoopFile, FileProblem, error_from_problems, read_repo_file};
use crate::signals::CurrentRound;
use crate::view::SCHEMA;
use crate::view::evidence::EvidenceView;
use loopwright::autonomy::{LevelPromotion, LevelStanding, read_standing, record_promotion};
use loopwright::git::UserRepo;
use loopwright::store::Store;
use loopwright_core::autonomy::{LevelCeiling, LoopDebts, PromotionProposal, next_level, propose};
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::{CheckedSpec, read_loop_file};
use serde::Serialize;
use std::io::Write as _;

#[derive(Debug, clap::Args)]
pub(crate) struct PromoteArgs {
    /// The name of the loop
    #[arg(value_name = "LOOP")]
    name: String,
    /// The level [default: the level of the file if it is not in force, else the next one]
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    to: Option<LoopLevel>,
    /// Record the promotion
    #[arg(long)]
    pub(crate) yes: bool,
    /// Promote although the evidence is too thin, for this reason, which is recorded
    #[arg(long, value_name = "TEXT", requires = "yes")]
    despite: Option<String>,
}

/// The longest reason, in bytes.
const DESPITE_MAX: usize = 2000;

pub(super) fn level(text: &str) -> Result<LoopLevel, String> {
    LoopLevel::parse(text).ok_or_else(|| "a level: `L1`, `L2` or `L3`".to_owned())
}

/// The document of `promote --json`.
#[derive(Debug, Serialize)]
struct PromotionView {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    /// The level in the loop file.
    level: LoopLevel,
    ceiling: Option<LevelCeiling>,
    #[serde(flatten)]
    proposal: PromotionProposal,
    /// Whether the evidence suffices for every requirement.
    supported: bool,
    evidence: EvidenceView,
    debts: LoopDebts,
    /// Whether the decision is on record now.
    recorded: bool,
    actor: Option<String>,
    despite: Option<String>,
    /// The hash of the loop that the decision is bound to.
    spec_hash: Option<String>,
    /// The loop file, if its level was changed.
    changed: Option<String>,
    next: Vec<String>,
}

pub(crate) async fn run(args: PromoteArgs, cx: &CommandContext) -> VerbResult {
    if args.despite.as_ref().is_some_and(|text| text.trim().is_empty() || text.len() > DESPITE_MAX) {
        let text = format!("`--despite` takes some text of at most {DESPITE_MAX} bytes");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let repo = cx.repo().await?;
    let loops = cx.loops(&repo)?;
    let file = loops.find(&args.name)?;
    let spec = cx.with_configured_agents(file.spec.clone(), &repo)?;
    let view =
        if args.yes { decide(cx, &repo, file, &spec, args).await? } else { show(cx, &repo, &spec, &args).await? };
    Ok(cx.out.answer(&view, || page(&view)))
}

async fn show(
    cx: &CommandContext,
    repo: &UserRepo,
    spec: &CheckedSpec,
    args: &PromoteArgs,
) -> Result<PromotionView, CommandError> {
    let store = super::status::open_store_if_any(cx).await?.ok_or_else(|| {
        CommandError::refused(format!("loop `{}` has no record yet", args.name))
            .hint(format!("loopwright run {}", args.name))
    })?;
    let standing = standing(cx, &store, repo, spec).await?;
    view(cx, repo, spec, &standing, args.to)
}

async fn standing(
    cx: &CommandContext,
    store: &Store,
    repo: &UserRepo,
    spec: &CheckedSpec,
) -> Result<LevelStanding, CommandError> {
    let rules = cx.config(Some(&repo.work_tree))?.autonomy();
    Ok(read_standing(store, &repo.id, spec.spec(), spec.hash(), rules).await?)
}

fn view(
    cx: &CommandContext,
    repo: &UserRepo,
    spec: &CheckedSpec,
    standing: &LevelStanding,
    to: Option<LoopLevel>,
) -> Result<PromotionView, CommandError> {
    let rules = cx.config(Some(&repo.work_tree))?.autonomy();
    let is_capped = standing.ceiling.is_some();
    let to = to.or_else(|| if is_capped { Some(spec.level) } else { next_level(spec.level) }).unwrap_or(spec.level);
    let proposal = propose(to, &standing.record, &standing.debts, rules);
    let supported = proposal.is_supported();
    let name = spec.name.clone();
    let confirm = format!("loopwright promote {name} --to {} --yes", to.short());
    let next = if supported { vec![confirm] } else { vec![format!("{confirm} --despite \"…\"")] };
    Ok(PromotionView {
        schema: SCHEMA,
        level: spec.level,
        ceiling: standing.ceiling.clone(),
        proposal,
        supported,
        evidence: EvidenceView::from(standing),
        debts: standing.debts.clone(),
        recorded: false,
        actor: None,
        despite: None,
        spec_hash: None,
        changed: None,
        next,
        name,
    })
}

async fn decide(
    cx: &CommandContext,
    repo: &UserRepo,
    file: &CheckedLoopFile,
    spec: &CheckedSpec,
    args: PromoteArgs,
) -> Result<PromotionView, CommandError> {
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(repo), &cancel).await?;
    let done = async {
        let standing = standing(cx, engine.store().as_ref(), repo, spec).await?;
        let mut view = view(cx, repo, spec, &standing, args.to)?;
        if !view.supported && args.despite.is_none() {
            let text = format!("the evidence does not support {}: {}", view.proposal.to.short(), view.proposal.gaps());
            return Err(CommandError::refused(text).hint(format!("promote anyway: {}", view.next.join(""))));
        }
        let new = NewLevel::prepare(cx, repo, file, view.proposal.to)?;
        let promotion = LevelPromotion {
            repo: &repo.id,
            spec: &new.spec,
            level: view.proposal.to,
            actor: cx.actor_name(),
            despite: args.despite.clone(),
            standing: &standing,
        };
        // The file comes last: a decision without it is visible, a level without its decision would not be.
        let row = record_promotion(&engine, promotion).await?;
        view.changed = new.write(repo, file)?;
        (view.recorded, view.actor, view.despite) = (true, Some(row.actor), args.despite.clone());
        (view.spec_hash, view.ceiling, view.next) = (Some(row.spec_hash), None, Vec::new());
        Ok(view)
    }
    .await;
    engine.close().await?;
    done
}

/// The loop at its new level, and the text of its file.
struct NewLevel {
    spec: CheckedSpec,
    /// `None` if the file has the level already.
    text: Option<String>,
}

impl NewLevel {
    fn prepare(
        cx: &CommandContext,
        repo: &UserRepo,
        file: &CheckedLoopFile,
        level: LoopLevel,
    ) -> Result<Self, CommandError> {
        let changed = if file.spec.level == level { None } else { Some(change_level(repo, file, level)?) };
        let (spec, text) = changed.map_or((file.spec.clone(), None), |(spec, text)| (spec, Some(text)));
        Ok(Self { spec: cx.with_configured_agents(spec, repo)?, text })
    }

    fn write(&self, repo: &UserRepo, file: &CheckedLoopFile) -> Result<Option<String>, CommandError> {
        let Some(text) = &self.text else { return Ok(None) };
        let path = repo.work_tree.join(&file.file);
        let draft = path.with_extension("promoted");
        // Not through a link of that name, which a landed change could have brought.
        let created = std::fs::OpenOptions::new().write(true).create_new(true).open(&draft);
        let written = created.and_then(|mut file| {
            let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&draft, &path));
            written.inspect_err(|_| drop(std::fs::remove_file(&draft)))
        });
        written.map_err(|error| CommandError::failed(format!("write `{}`: {error}", file.file)))?;
        Ok(Some(file.file.clone()))
    }
}

/// The loop and its text with another level and nothing else changed; the level's own rules are checked.
fn change_level(
    repo: &UserRepo,
    file: &CheckedLoopFile,
    level: LoopLevel,
) -> Result<(CheckedSpec, String), CommandError> {
    let bytes = read_repo_file(&repo.work_tree, &file.file);
    let bytes = bytes.map_err(|error| CommandError::failed(format!("read `{}`: {error}", file.file)))?;
    let text = with_level(&String::from_utf8_lossy(&bytes), level);
    let spec = read_loop_file(&file.file, text.as_bytes()).map_err(|problems| {
        let found: Vec<_> = problems.into_iter().map(FileProblem::from).collect();
        error_from_problems(&found)
    })?;
    let mut expected = file.spec.spec().clone();
    expected.level = level;
    if *spec.spec() != expected {
        let text = format!("the level in `{}` cannot be changed by code", file.file);
        return Err(CommandError::invalid(text).hint(format!("write `level: {}` there, then promote", level.short())));
    }
    Ok((spec, text))
}

/// The text with the line `level:` replaced, or added after the line `name:`.
fn with_level(text: &str, level: LoopLevel) -> String {
    let line = format!("level: {}\n", level.short());
    let has_level = text.lines().any(|line| line.starts_with("level:"));
    let (mut done, mut changed) = (String::new(), false);
    for old in text.split_inclusive('\n') {
        match (changed, has_level) {
            (false, true) if old.starts_with("level:") => (changed, done) = (true, done + &line),
            (false, false) if old.starts_with("name:") => (changed, done) = (true, done + old + &line),
            _ => done.push_str(old),
        }
    }
    done
}

fn page(view: &PromotionView) -> String {
    let mut lines = vec![format!("{}: {} in its file", safe(&view.name), view.level.short())];
    lines.extend(view.ceiling.as_ref().map(|ceiling| format!("  {}", safe(&ceiling.text))));
    lines.push("evidence".to_owned());
    lines.extend(view.evidence.lines().iter().map(|line| format!("  {}", safe(line))));
    lines.extend(view.debts.lines().iter().map(|line| format!("  {}", safe(line))));
    lines.push(format!("{} permits: {}", view.proposal.to.short(), view.proposal.permits));
    for one in &view.proposal.requirements {
        lines.push(format!("  {} {}", if one.met { "met:    " } else { "not met:" }, safe(&one.text)));
    }
    match &view.actor {
        Some(actor) => lines.push(format!(
            "recorded: {} confirmed {} for {}{}",
            safe(actor),
            view.proposal.to.short(),
            safe(&view.name),
            view.changed.as_ref().map_or(String::new(), |file| format!("; changed the level in {}", safe(file)))
        )),
        None => lines.extend(view.next.iter().map(|next| format!("confirm with: {}", safe(next)))),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_is_the_only_line_that_changes() {
        let front = "---\nname: fix\nlevel: L1 # for now\nintent: x\n---\nlevel: L1\n";
        assert_eq!(with_level(front, LoopLevel::L2Assisted), "---\nname: fix\nlevel: L2\nintent: x\n---\nlevel: L1\n");
        assert_eq!(with_level("name: fix\nintent: x", LoopLevel::L3Unattended), "name: fix\nlevel: L3\nintent: x");
    }
}
