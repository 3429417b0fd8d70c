//! `demote LOOP`: lowers the level of a loop from its next round on, with the person's reason. The loop file keeps its
//! level; only `promote` lifts the demotion.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, safe};
use crate::signals::CurrentRound;
use crate::view::SCHEMA;
use loopwright::autonomy::{LevelDemotion, read_standing, record_demotion};
use loopwright_core::level::LoopLevel;
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(crate) struct DemoteArgs {
    /// The name of the loop
    #[arg(value_name = "LOOP")]
    name: String,
    /// The highest level at which it may run [default: one below the present one]
    #[arg(long, value_name = "LEVEL", value_parser = super::promote::level)]
    to: Option<LoopLevel>,
    /// The reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    why: String,
}

/// The longest reason, in bytes.
const WHY_MAX: usize = 2000;

/// The document of `demote --json`.
#[derive(Debug, Serialize)]
struct DemotionView {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    /// The level in the loop file.
    level: LoopLevel,
    /// The level before the demotion.
    from: LoopLevel,
    /// The level from the next round on.
    to: LoopLevel,
    actor: String,
    why: String,
    spec_hash: String,
    next: Vec<String>,
}

pub(crate) async fn run(args: DemoteArgs, cx: &CommandContext) -> VerbResult {
    if args.why.trim().is_empty() || args.why.len() > WHY_MAX {
        let text = format!("`--why` takes some text of at most {WHY_MAX} bytes");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let repo = cx.repo().await?;
    let file = cx.loops(&repo)?.find(&args.name)?.spec.clone();
    let spec = cx.with_configured_agents(file, &repo)?;
    let rules = cx.config(Some(&repo.work_tree))?.autonomy();
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let done = async {
        let standing = read_standing(engine.store().as_ref(), &repo.id, spec.spec(), spec.hash(), rules).await?;
        let from = standing.ceiling.map_or(spec.level, |ceiling| ceiling.level);
        let to = args.to.unwrap_or_else(|| one_below(from));
        if to >= from {
            let text =
                format!("loop `{}` runs at {}, so it cannot be lowered to {}", spec.name, from.short(), to.short());
            return Err(CommandError::refused(text).hint(format!("loopwright show {}", spec.name)));
        }
        let (repo, spec, actor, why) = (&*repo.id, &spec, cx.actor_name(), args.why.trim().to_owned());
        let row = record_demotion(&engine, LevelDemotion { repo, spec, level: to, actor, why: why.clone() }).await?;
        let name = spec.name.clone();
        let next = vec![format!("loopwright promote {name}")];
        let (level, actor, spec_hash) = (spec.level, row.actor, row.spec_hash);
        Ok(DemotionView { schema: SCHEMA, name, level, from, to, actor, why, spec_hash, next })
    }
    .await;
    engine.close().await?;
    let view = done?;
    Ok(cx.out.answer(&view, || page(&view)))
}

fn one_below(level: LoopLevel) -> LoopLevel {
    match level {
        LoopLevel::L3Unattended => LoopLevel::L2Assisted,
        LoopLevel::L2Assisted | LoopLevel::L1Report => LoopLevel::L1Report,
    }
}

fn page(view: &DemotionView) -> String {
    format!(
        "{} runs at {} instead of {} from its next round on: {} (by {})\nits file keeps {}; to lift this: {}",
        safe(&view.name),
        view.to.short(),
        view.from.short(),
        safe(&view.why),
        safe(&view.actor),
        view.level.short(),
        safe(&view.next.join(""))
    )
}
