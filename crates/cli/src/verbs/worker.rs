//! `worker`: takes rounds of loops with labels from a store that machines share, and runs them here. It connects only to
//! the database, so it works behind a firewall.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, close, safe};
use crate::context::FleetScan;
use crate::daemon::{DaemonLog, TimestampStyle};
use crate::error::{error_chain, with_count};
use crate::signals::SignalListener;
use loopwright::agents;
use loopwright::proc::CancelToken;
use loopwright::worker::{Worker, WorkerNote, WorkerSettings};
use loopwright::{Engine, EngineError};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::spec::{AgentUse, is_label};
use loopwright_core::units::TimeSpan;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::SignalKind;

/// The longest name of a worker, in bytes.
const NAME_MAX: usize = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// A label of this machine; repeat it for several. A loop names those that it needs under `labels`
    #[arg(long = "label", value_name = "NAME", required = true)]
    labels: Vec<String>,
    /// How many rounds it runs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    slots: u16,
    /// The name of the worker [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long running rounds may take to end when the worker stops
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    grace: TimeSpan,
}

pub(crate) async fn run(args: WorkerArgs, cx: &CommandContext) -> VerbResult {
    // Agents may run beside this process from here on, and it knows keys: make its memory unreadable to them.
    // If that fails, it stays as it was.
    let _ = loopwright::proc::make_undumpable();
    let signals = SignalListener::for_kinds([SignalKind::interrupt(), SignalKind::terminate()]);
    let settings = settings(&args, cx).await?;
    let log = Arc::new(DaemonLog::new(&cx.out, TimestampStyle::TimeOfDay, cx.progress_detail()?));
    let engine = Engine::open(cx.settings(None)?).await?;
    let served = serve(&args, cx, &engine, settings, (log, signals)).await;
    close(&engine, served).await
}

async fn settings(args: &WorkerArgs, cx: &CommandContext) -> Result<WorkerSettings, CommandError> {
    let usage = |text: String| CommandError::new(CommandErrorKind::Usage, text);
    if let Some(label) = args.labels.iter().find(|label| !is_label(label)) {
        let hint = "a label has letters, digits, `-`, `_` and `.`, at most 64, such as `gpu`";
        return Err(usage(format!("`{}` is not a label", safe(label))).hint(hint));
    }
    let name = args.name.clone().unwrap_or_else(loopwright::worker::machine_name);
    if !is_label(&name) || name.len() > NAME_MAX {
        return Err(usage(format!("`{}` is not a name of a worker", safe(&name))).hint("name it with `--name`"));
    }
    let scan = FleetScan::read(cx).await?;
    scan.missing.iter().for_each(|missing| cx.out.note(&safe(&missing.reason)));
    let repos: BTreeSet<String> = scan.repos.into_iter().map(|found| found.repo.id).collect();
    if repos.is_empty() {
        let text = "a worker needs the repositories of the loops that it runs, at the paths that they have elsewhere";
        return Err(CommandError::invalid(text)
            .hint("run it in a repository, or name them under `repos` in your configuration"));
    }
    let path = cx.extra_path(None);
    let has = |agent: &AgentUse| agents::install_hint(*agent).is_none() || agents::find(*agent, &path, None).is_some();
    let agents = AgentUse::ALL.into_iter().filter(has).map(|agent| agent.word().to_owned()).collect();
    let (labels, slots) = (args.labels.iter().cloned().collect(), usize::from(args.slots));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(WorkerSettings { name, labels, agents, repos, slots, version })
}

async fn serve(
    args: &WorkerArgs,
    cx: &CommandContext,
    engine: &Engine,
    settings: WorkerSettings,
    (log, mut signals): (Arc<DaemonLog>, SignalListener),
) -> VerbResult {
    let (stop, interrupt) = (CancelToken::new(), CancelToken::new());
    let tell = {
        let log = Arc::clone(&log);
        Arc::new(move |note: WorkerNote| report(&log, &note))
    };
    let binder = Arc::new(cx.duplicate());
    let worker = Worker::new(engine.clone(), binder, settings.clone(), interrupt.clone(), tell);
    worker.connect().await?;
    engine.events().attach(Arc::clone(&log) as _).keep();
    announce(cx, &settings);
    let mut run = std::pin::pin!(worker.run(&stop));
    let mut grace: Option<Duration> = None;
    loop {
        let overtime = async {
            match grace {
                Some(grace) => engine.settings().clock.after(grace).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut run => {
                ended?;
                return Ok(CommandExit::DONE);
            }
            () = signals.next() => match grace.replace(args.grace.duration()) {
                None => {
                    log.log("ending", "waiting for running rounds; another signal interrupts them");
                    stop.cancel();
                }
                Some(_) => interrupt.cancel(),
            },
            () = overtime, if !interrupt.is_cancelled() => interrupt.cancel(),
        }
    }
}

fn announce(cx: &CommandContext, settings: &WorkerSettings) {
    let WorkerSettings { name, labels, agents, repos, slots, .. } = settings;
    let document = json!({"schema": 1, "worker": {
        "name": name, "pid": std::process::id(), "labels": labels, "agents": agents, "repos": repos, "slots": slots,
    }});
    cx.out.answer(&document, || {
        let labels = labels.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!(
            "worker {name}: process {}, {}, {labels}; Ctrl-C stops it",
            std::process::id(),
            with_count(*slots, "slot")
        )
    });
}

fn report(log: &DaemonLog, note: &WorkerNote) {
    match note {
        WorkerNote::Taken(round) => log.log("taken", &format!("round {round}")),
        WorkerNote::Ended(round, ended) => match ended.as_ref() {
            Ok(done) => {
                let word = done.outcome().map_or("waiting for a person", RoundOutcome::word);
                log.log("end", &format!("round {round}: {word}"));
            }
            Err(error) => log.warn(&failed(round, error)),
        },
        WorkerNote::Away(why) => log.warn(why),
    }
}

fn failed(round: &str, error: &EngineError) -> String {
    format!("round {round} could not continue here: {}", error_chain(error))
}
