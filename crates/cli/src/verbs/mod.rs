//! The verbs, one file each: an `Args` and a `run`. A verb gets its inputs from the context, calls the engine and
//! passes its answer to the printer.

pub(crate) mod approve;
pub(crate) mod attach;
pub(crate) mod backup;
pub(crate) mod budget;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod costs;
pub(crate) mod demote;
pub(crate) mod diff;
pub(crate) mod digest;
pub(crate) mod doctor;
pub(crate) mod forget;
pub(crate) mod gates;
pub(crate) mod gc;
pub(crate) mod goal;
pub(crate) mod hooks;
pub(crate) mod import;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod mcp;
pub(crate) mod new;
pub(crate) mod notifications;
pub(crate) mod patterns;
pub(crate) mod pause;
pub(crate) mod prices;
pub(crate) mod programs;
pub(crate) mod promote;
pub(crate) mod prompts;
pub(crate) mod rename;
pub(crate) mod retry;
pub(crate) mod review;
pub(crate) mod rounds;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod service;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod stop;
pub(crate) mod sync;
pub(crate) mod take;
pub(crate) mod tasks;
pub(crate) mod tick;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod verify;
pub(crate) mod web;
pub(crate) mod worker;
pub(crate) mod workers;
pub(crate) mod workflow;

use crate::args::CliVerb;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind, CommandExit, VerbResult};
use crate::output::safe;
use crate::{control, demo, detached, dev};
use loopwright::Engine;
use loopwright_core::BoxFuture;
use std::ffi::OsString;
use std::future::Future;

/// Runs a verb: in this process, or in the daemon that owns the store.
pub(crate) fn run(verb: CliVerb, cx: &CommandContext) -> VerbResult {
    if verb.is_detached() {
        detached::leave_terminal();
    }
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

/// Performs a verb for the HTTP server, whose table of routes decides which ones it may be.
pub(crate) fn run_for_face<'c>(verb: CliVerb, cx: &'c CommandContext) -> BoxFuture<'c, VerbResult> {
    perform(verb, cx)
}

fn run_here(verb: CliVerb, cx: &CommandContext) -> VerbResult {
    match verb {
        CliVerb::Demo(_) | CliVerb::Init(_) | CliVerb::Up(_) | CliVerb::Stop(_) | CliVerb::Tick => {
            run_owning(perform(verb, cx))
        }
        CliVerb::Budget(_)
        | CliVerb::Take(_)
        | CliVerb::Dev(_)
        | CliVerb::Top
        | CliVerb::Mcp(_)
        | CliVerb::Worker(_) => run_owning(perform(verb, cx)),
        verb if verb.needs_store_owner() => run_owning(perform(verb, cx)),
        verb => run_reading(perform(verb, cx)),
    }
}

/// Long because it is the table of commands.
fn perform<'c>(verb: CliVerb, cx: &'c CommandContext) -> BoxFuture<'c, VerbResult> {
    match verb {
        CliVerb::Demo(args) => demo::run(args, cx),
        CliVerb::Init(args) => Box::pin(init::run(args, cx)),
        CliVerb::Patterns(args) => Box::pin(async move { patterns::run(&args, cx) }),
        CliVerb::New(args) => Box::pin(new::run(args, cx)),
        CliVerb::Import(args) => Box::pin(import::run(args, cx)),
        CliVerb::Check(args) => Box::pin(check::run(args, cx)),
        CliVerb::Run(args) => Box::pin(run::run(args, cx)),
        CliVerb::Route(args) => Box::pin(route::run(args, cx)),
        CliVerb::Goal(args) => Box::pin(goal::run(args, cx)),
        CliVerb::Workflow(args) => Box::pin(workflow::run(args, cx)),
        CliVerb::Stop(args) => Box::pin(stop::run(args, cx)),
        CliVerb::Thaw => Box::pin(pause::thaw(cx)),
        CliVerb::Tick => Box::pin(tick::run(cx)),
        CliVerb::Pause(args) => Box::pin(pause::pause(args, cx)),
        CliVerb::Resume(args) => Box::pin(pause::resume(args, cx)),
        CliVerb::Service(args) => Box::pin(service::run(args, cx)),
        CliVerb::Hooks(args) => Box::pin(hooks::run(args, cx)),
        CliVerb::Schedule(args) => Box::pin(schedule::run(args, cx)),
        CliVerb::Status(args) => Box::pin(status::run(args, cx)),
        CliVerb::Rounds(args) => Box::pin(rounds::run(args, cx)),
        CliVerb::Show(args) => Box::pin(show::run(args, cx)),
        CliVerb::Diff(args) => Box::pin(diff::run(args, cx)),
        CliVerb::Report(args) => Box::pin(logs::report(args, cx)),
        CliVerb::Logs(args) => Box::pin(logs::run(args, cx)),
        CliVerb::Tasks(args) => Box::pin(tasks::run(args, cx)),
        CliVerb::Steer(args) => Box::pin(steer::run(args, cx)),
        CliVerb::Digest(args) => Box::pin(digest::run(args, cx)),
        CliVerb::Sync(args) => Box::pin(sync::run(args, cx)),
        CliVerb::Attach(args) => Box::pin(attach::run(args, cx)),
        CliVerb::Inbox(args) => Box::pin(inbox::run(args, cx)),
        CliVerb::Approve(args) => Box::pin(approve::approve(args, cx)),
        CliVerb::Deny(args) => Box::pin(approve::deny(args, cx)),
        CliVerb::Hold(args) => Box::pin(approve::hold(args, cx)),
        CliVerb::Review(args) => Box::pin(review::run(args, cx)),
        CliVerb::Promote(args) => Box::pin(promote::run(args, cx)),
        CliVerb::Demote(args) => Box::pin(demote::run(args, cx)),
        CliVerb::Calibrate(args) => Box::pin(calibrate::run(args, cx)),
        CliVerb::Budget(args) => Box::pin(budget::run(args, cx)),
        CliVerb::Costs(args) => Box::pin(costs::run(args, cx)),
        CliVerb::Prices(args) => Box::pin(prices::run(args, cx)),
        CliVerb::Simulate(args) => Box::pin(simulate::run(args, cx)),
        CliVerb::Verify => Box::pin(verify::run(cx)),
        CliVerb::Up(_) | CliVerb::Top | CliVerb::Mcp(_) | CliVerb::Token(_) => perform_face(verb, cx),
        CliVerb::Web | CliVerb::Notifications(_) | CliVerb::Worker(_) | CliVerb::Workers(_) => perform_face(verb, cx),
        CliVerb::Why(args) => Box::pin(show::explain(args, cx)),
        CliVerb::Backup(args) => Box::pin(backup::create(args, cx)),
        CliVerb::Restore(args) => Box::pin(backup::restore(args, cx)),
        CliVerb::Gc(args) => Box::pin(gc::run(args, cx)),
        CliVerb::Forget(args) => Box::pin(forget::run(args, cx)),
        CliVerb::Rename(args) => Box::pin(rename::run(args, cx)),
        CliVerb::Retry(args) => Box::pin(retry::run(args, cx)),
        CliVerb::Take(args) => Box::pin(take::run(args, cx)),
        CliVerb::Gates(args) => Box::pin(gates::run(args, cx)),
        CliVerb::Doctor(args) => Box::pin(doctor::run(args, cx)),
        CliVerb::Dev(args) => Box::pin(dev::run(args, cx)),
        CliVerb::Completions(_) | CliVerb::Config | CliVerb::Manual(_) => perform_describing(verb, cx),
        CliVerb::Prompts(_) | CliVerb::Schema => perform_describing(verb, cx),
    }
}

/// The verbs that describe the program itself.
fn perform_describing<'c>(verb: CliVerb, cx: &'c CommandContext) -> BoxFuture<'c, VerbResult> {
    match verb {
        CliVerb::Completions(args) => Box::pin(completions::run(args, cx)),
        CliVerb::Config => Box::pin(config::run(cx)),
        CliVerb::Manual(args) => Box::pin(async move { completions::write_manual(&args, cx) }),
        CliVerb::Prompts(args) => Box::pin(prompts::run(args, cx)),
        _ => Box::pin(async { Ok(cx.out.document(&loopwright_core::spec::schema())) }),
    }
}

/// The verbs that start the daemon or a face, and those about access to the HTTP server and about notifications.
fn perform_face<'c>(verb: CliVerb, cx: &'c CommandContext) -> BoxFuture<'c, VerbResult> {
    match verb {
        CliVerb::Up(args) => Box::pin(up::run(args, cx)),
        CliVerb::Top => Box::pin(top::run(cx)),
        CliVerb::Mcp(args) => Box::pin(mcp::run(args, cx)),
        CliVerb::Token(args) => Box::pin(token::run(args, cx)),
        CliVerb::Worker(args) => Box::pin(worker::run(args, cx)),
        CliVerb::Workers(args) => Box::pin(workers::run(args, cx)),
        CliVerb::Notifications(args) => Box::pin(notifications::run(args, cx)),
        _ => Box::pin(web::run(cx)),
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

/// The stack of a worker thread, as large as the main thread's. Futures of nested commands, such as `retry` in a daemon,
/// need more than the default of 2 MiB in a build without optimization.
const WORKER_STACK_BYTES: usize = 8 << 20;

/// Runs a verb that owns the store and starts processes: a second thread receives signals while the first is busy.
fn run_owning(verb: impl Future<Output = VerbResult>) -> VerbResult {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_stack_size(WORKER_STACK_BYTES);
    block_on(builder, verb)
}

fn block_on<T>(
    mut builder: tokio::runtime::Builder,
    verb: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| CommandError::failed(format!("start the runtime: {error}")))?.block_on(verb)
}
