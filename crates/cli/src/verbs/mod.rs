//! The verbs, one file each: an `Args` and a `run`. A verb gets its inputs from the context, calls the engine and
//! passes its answer to the printer.

pub(crate) mod approve;
pub(crate) mod backup;
pub(crate) mod budget;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod costs;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod forget;
pub(crate) mod gates;
pub(crate) mod gc;
pub(crate) mod hooks;
pub(crate) mod import;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod new;
pub(crate) mod patterns;
pub(crate) mod pause;
pub(crate) mod promote;
pub(crate) mod prompts;
pub(crate) mod retry;
pub(crate) mod review;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod service;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod take;
pub(crate) mod tick;
pub(crate) mod up;
pub(crate) mod verify;

use crate::args::CliVerb;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind, CommandExit, VerbResult};
use crate::output::safe;
use crate::{control, demo, dev};
use loopwright::Engine;
use loopwright_core::BoxFuture;
use std::ffi::OsString;
use std::future::Future;

/// Runs a verb: in this process, or in the daemon that owns the store.
pub(crate) fn run(verb: CliVerb, cx: &CommandContext) -> VerbResult {
    if let CliVerb::Why(_) = &verb {
        // The daemon has the best answer; if it cannot be reached, the record answers.
        let asked = forward_if_daemon_runs(cx, &[]).inspect_err(|error| cx.out.note(&safe(&error.text)));
        return asked.ok().flatten().map_or_else(|| run_here(verb, cx), Ok);
    }
    if !verb.needs_store_owner() {
        return run_here(verb, cx);
    }
    let verb = match verb {
        CliVerb::Approve(args) if !args.yes && cx.out.can_ask() => match run_reading(approve::confirm(args, cx))? {
            Some(args) => CliVerb::Approve(args),
            None => return Ok(CommandExit::DONE),
        },
        verb => verb,
    };
    let shown = shown_candidates(&verb);
    let there = match (forward_if_daemon_runs(cx, &shown), &verb) {
        (Err(error), CliVerb::Stop(args)) if args.stops_everything() => {
            return stop::stop_by_file(cx, &args.why, &error);
        }
        (there, _) => there?,
    };
    match there {
        Some(ended) => Ok(ended),
        // If a daemon took the store in the meantime, the daemon performs it.
        None => run_here(verb, cx).or_else(|error| match error.kind {
            CommandErrorKind::Held => forward_if_daemon_runs(cx, &shown)?.ok_or(error),
            _ => Err(error),
        }),
    }
}

fn forward_if_daemon_runs(cx: &CommandContext, further: &[OsString]) -> Result<Option<CommandExit>, CommandError> {
    if !control::daemon_may_listen(cx) {
        return Ok(None);
    }
    run_reading(control::forward_to_daemon(cx, further))
}

/// Further arguments for the daemon: the candidates that the person saw.
fn shown_candidates(verb: &CliVerb) -> Vec<OsString> {
    let CliVerb::Approve(args) = verb else { return Vec::new() };
    args.candidate.iter().map(|hash| format!("--candidate={hash}").into()).collect()
}

/// Performs a verb for another process. A daemon performs no verb that only reads, or that needs no store.
pub(crate) fn run_in_daemon<'c>(verb: CliVerb, cx: &'c CommandContext) -> BoxFuture<'c, VerbResult> {
    if verb.needs_store_owner() || matches!(verb, CliVerb::Why(_) | CliVerb::Budget(_)) {
        return perform(verb, cx);
    }
    Box::pin(async { Err(CommandError::new(CommandErrorKind::Usage, "a daemon does not perform this command")) })
}

fn run_here(verb: CliVerb, cx: &CommandContext) -> VerbResult {
    match verb {
        CliVerb::Demo | CliVerb::Up(_) | CliVerb::Stop(_) | CliVerb::Tick => run_owning(perform(verb, cx)),
        CliVerb::Budget(_) | CliVerb::Take(_) | CliVerb::Dev(_) => run_owning(perform(verb, cx)),
        verb if verb.needs_store_owner() => run_owning(perform(verb, cx)),
        verb => run_reading(perform(verb, cx)),
    }
}

fn perform<'c>(verb: CliVerb, cx: &'c CommandContext) -> BoxFuture<'c, VerbResult> {
    match verb {
        CliVerb::Demo => Box::pin(demo::run(cx)),
        CliVerb::Init => Box::pin(init::run(cx)),
        CliVerb::Patterns(args) => Box::pin(async move { patterns::run(&args, cx) }),
        CliVerb::New(args) => Box::pin(new::run(args, cx)),
        CliVerb::Import(args) => Box::pin(import::run(args, cx)),
        CliVerb::Check(args) => Box::pin(check::run(args, cx)),
        CliVerb::Config => Box::pin(config::run(cx)),
        CliVerb::Run(args) => Box::pin(run::run(args, cx)),
        CliVerb::Up(args) => Box::pin(up::run(args, cx)),
        CliVerb::Stop(args) => Box::pin(stop::run(args, cx)),
        CliVerb::Thaw => Box::pin(pause::thaw(cx)),
        CliVerb::Tick => Box::pin(tick::run(cx)),
        CliVerb::Pause(args) => Box::pin(pause::pause(args, cx)),
        CliVerb::Resume(args) => Box::pin(pause::resume(args, cx)),
        CliVerb::Service(args) => Box::pin(service::run(args, cx)),
        CliVerb::Hooks(args) => Box::pin(hooks::run(args, cx)),
        CliVerb::Schema => Box::pin(async { Ok(cx.out.document(&loopwright_core::spec::schema())) }),
        CliVerb::Prompts(args) => Box::pin(prompts::run(args, cx)),
        CliVerb::Schedule(args) => Box::pin(schedule::run(args, cx)),
        CliVerb::Status(args) => Box::pin(status::run(args, cx)),
        CliVerb::Rounds(args) => Box::pin(rounds::run(args, cx)),
        CliVerb::Show(args) => Box::pin(show::run(args, cx)),
        CliVerb::Diff(args) => Box::pin(diff::run(args, cx)),
        CliVerb::Report(args) => Box::pin(logs::report(args, cx)),
        CliVerb::Logs(args) => Box::pin(logs::run(args, cx)),
        CliVerb::Inbox => Box::pin(inbox::run(cx)),
        CliVerb::Approve(args) => Box::pin(approve::approve(args, cx)),
        CliVerb::Deny(args) => Box::pin(approve::deny(args, cx)),
        CliVerb::Review(args) => Box::pin(review::run(args, cx)),
        CliVerb::Promote(args) => Box::pin(promote::run(args, cx)),
        CliVerb::Calibrate(args) => Box::pin(calibrate::run(args, cx)),
        CliVerb::Budget(args) => Box::pin(budget::run(args, cx)),
        CliVerb::Costs(args) => Box::pin(costs::run(args, cx)),
        CliVerb::Simulate(args) => Box::pin(simulate::run(args, cx)),
        CliVerb::Verify => Box::pin(verify::run(cx)),
        CliVerb::Why(args) => Box::pin(show::explain(args, cx)),
        CliVerb::Backup(args) => Box::pin(backup::create(args, cx)),
        CliVerb::Restore(args) => Box::pin(backup::restore(args, cx)),
        CliVerb::Gc(args) => Box::pin(gc::run(args, cx)),
        CliVerb::Forget(args) => Box::pin(forget::run(args, cx)),
        CliVerb::Retry(args) => Box::pin(retry::run(args, cx)),
        CliVerb::Take(args) => Box::pin(take::run(args, cx)),
        CliVerb::Gates(args) => Box::pin(gates::run(args, cx)),
        CliVerb::Doctor(args) => Box::pin(doctor::run(args, cx)),
        CliVerb::Dev(args) => Box::pin(dev::run(args, cx)),
        CliVerb::Completions(args) => Box::pin(async move { Ok(completions::print(&args, cx)) }),
    }
}

/// Closes the engine after a verb's work and returns the result of the work.
async fn close<T>(engine: &Engine, done: Result<T, impl Into<CommandError>>) -> Result<T, CommandError> {
    engine.close().await?;
    done.map_err(Into::into)
}

/// Runs a verb that only reads: one thread is enough and starts fastest.
fn run_reading<T>(verb: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    block_on(tokio::runtime::Builder::new_current_thread(), verb)
}

/// Runs a verb that owns the store and starts processes: a second thread receives signals while the first is busy.
fn run_owning(verb: impl Future<Output = VerbResult>) -> VerbResult {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2);
    block_on(builder, verb)
}

fn block_on<T>(
    mut builder: tokio::runtime::Builder,
    verb: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| CommandError::failed(format!("start the runtime: {error}")))?.block_on(verb)
}
