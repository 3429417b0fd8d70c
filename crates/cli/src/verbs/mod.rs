//! The verbs, one file each: an `Args` and a `run`. A verb asks the context for what it needs, calls the engine and hands
//! its answer to the printer.

pub(crate) mod approve;
pub(crate) mod backup;
pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod costs;
pub(crate) mod deny;
pub(crate) mod doctor;
pub(crate) mod forget;
pub(crate) mod gates;
pub(crate) mod gc;
pub(crate) mod hooks;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod pause;
pub(crate) mod prompts;
pub(crate) mod report;
pub(crate) mod retry;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod schema;
pub(crate) mod service;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod take;
pub(crate) mod thaw;
pub(crate) mod tick;
pub(crate) mod up;
pub(crate) mod verify;
pub(crate) mod why;

use crate::args::Verb;
use crate::context::Context;
use crate::error::{CommandError, Kind};
use crate::exit::Exit;
use crate::output::safe;
use crate::{control, demo, dev};
use loopwright_core::BoxFuture;
use std::future::Future;

/// How a verb ends.
pub(crate) type Ended = Result<Exit, CommandError>;

/// Does what was asked: in this process, or where a daemon owns the store, there.
pub(crate) fn run(verb: Verb, cx: &Context) -> Ended {
    if let Verb::Why(_) = &verb {
        // The daemon knows best why; one that cannot be asked leaves the record.
        let asked = elsewhere(cx).inspect_err(|error| cx.out.note(&safe(&error.text)));
        return asked.ok().flatten().map_or_else(|| here(verb, cx), Ok);
    }
    if !verb.changes() {
        return here(verb, cx);
    }
    let there = match (elsewhere(cx), &verb) {
        (Err(error), Verb::Stop(args)) if args.is_everything() => return stop::by_file_at_least(args, cx, &error),
        (there, _) => there?,
    };
    match there {
        Some(ended) => Ok(ended),
        // A daemon that took the store while we looked performs it then.
        None => here(verb, cx).or_else(|error| match error.kind {
            Kind::Held => elsewhere(cx)?.ok_or(error),
            _ => Err(error),
        }),
    }
}

fn elsewhere(cx: &Context) -> Result<Option<Exit>, CommandError> {
    if control::is_there(cx) { reading(control::forwarded(cx)) } else { Ok(None) }
}

/// What a daemon performs for others. Everything else reads, or has no store.
pub(crate) fn lent<'c>(verb: Verb, cx: &'c Context) -> BoxFuture<'c, Ended> {
    match verb {
        Verb::Run(args) => Box::pin(run::run(args, cx)),
        Verb::Approve(args) => Box::pin(approve::run(args, cx)),
        Verb::Deny(args) => Box::pin(deny::run(args, cx)),
        Verb::Budget(args) => Box::pin(budget::run(args, cx)),
        Verb::Gc(args) => Box::pin(gc::run(args, cx)),
        Verb::Retry(args) => Box::pin(retry::run(args, cx)),
        Verb::Gates(args) => Box::pin(gates::run(args, cx)),
        Verb::Stop(args) if args.changes() => Box::pin(stop::run(args, cx)),
        Verb::Why(args) => Box::pin(why::run(args, cx)),
        Verb::Thaw => Box::pin(thaw::run(cx)),
        Verb::Forget(args) => Box::pin(forget::run(args, cx)),
        Verb::Pause(args) => Box::pin(pause::pause(args, cx)),
        Verb::Resume(args) => Box::pin(pause::resume(args, cx)),
        _ => Box::pin(async { Err(CommandError::new(Kind::Usage, "a daemon does not perform this")) }),
    }
}

fn here(verb: Verb, cx: &Context) -> Ended {
    match verb {
        Verb::Demo => owning(demo::run(cx)),
        Verb::Init => reading(init::run(cx)),
        Verb::Check(args) => reading(check::run(args, cx)),
        Verb::Config => reading(config::run(cx)),
        Verb::Run(args) => owning(run::run(args, cx)),
        Verb::Up(args) => owning(up::run(args, cx)),
        Verb::Stop(args) => owning(stop::run(args, cx)),
        Verb::Thaw => owning(thaw::run(cx)),
        Verb::Tick => owning(tick::run(cx)),
        Verb::Pause(args) => owning(pause::pause(args, cx)),
        Verb::Resume(args) => owning(pause::resume(args, cx)),
        Verb::Service(args) => reading(service::run(args, cx)),
        Verb::Hooks(args) => reading(hooks::run(args, cx)),
        Verb::Schema => schema::run(cx),
        Verb::Prompts(args) => reading(prompts::run(args, cx)),
        Verb::Schedule(args) => reading(schedule::run(args, cx)),
        Verb::Status(args) => reading(status::run(args, cx)),
        Verb::Rounds(args) => reading(rounds::run(args, cx)),
        Verb::Show(args) => reading(show::run(args, cx)),
        Verb::Report(args) => reading(report::run(args, cx)),
        Verb::Logs(args) => reading(logs::run(args, cx)),
        Verb::Inbox(args) => reading(inbox::run(args, cx)),
        Verb::Approve(args) => owning(approve::run(args, cx)),
        Verb::Deny(args) => owning(deny::run(args, cx)),
        Verb::Budget(args) => owning(budget::run(args, cx)),
        Verb::Costs(args) => reading(costs::run(args, cx)),
        Verb::Simulate(args) => reading(simulate::run(args, cx)),
        Verb::Verify(args) => reading(verify::run(args, cx)),
        Verb::Why(args) => reading(why::run(args, cx)),
        Verb::Backup(args) => reading(backup::make(args, cx)),
        Verb::Restore(args) => reading(backup::restore(args, cx)),
        Verb::Gc(args) => owning(gc::run(args, cx)),
        Verb::Forget(args) => owning(forget::run(args, cx)),
        Verb::Retry(args) => owning(retry::run(args, cx)),
        Verb::Take(args) => owning(take::run(args, cx)),
        Verb::Gates(args) => owning(gates::run(args, cx)),
        Verb::Doctor(args) => reading(doctor::run(args, cx)),
        Verb::Dev(args) => owning(dev::run(args, cx)),
        Verb::Completions(args) => completions::run(&args, cx),
    }
}

/// Runs a verb that looks only: one thread is enough and starts fastest.
fn reading<T>(verb: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    on(tokio::runtime::Builder::new_current_thread(), verb)
}

/// Runs a verb that owns the store and starts processes: a second thread hears signals while the first is busy.
fn owning(verb: impl Future<Output = Ended>) -> Ended {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2);
    on(builder, verb)
}

fn on<T>(
    mut builder: tokio::runtime::Builder,
    verb: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| CommandError::failed(format!("start the runtime: {error}")))?.block_on(verb)
}
