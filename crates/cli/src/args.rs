//! The command line as it is typed: verbs and flags, nothing decided. A verb's own arguments are beside its code.

use crate::{dev, verbs};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs AI coding agents in loops that people can trust.
#[derive(Debug, Parser)]
#[command(name = "loopwright", version, max_term_width = 100)]
#[command(after_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const AFTER: &str = "\
Start with `loopwright demo`: the whole story on a throw-away repository, without a key or a network.

Exit codes: 0 done, 1 failed, 2 usage or configuration, 10 waiting for a human, 11 rejected,
12 over budget, 13 cannot, 14 plateaued, 15 refused, 75 rate-limited, 130 interrupted.";

/// Flags that every verb has.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// The repository to work on [default: the one around the current folder]
    #[arg(long, value_name = "DIR", global = true, display_order = 901)]
    pub(crate) repo: Option<PathBuf>,
    /// The state directory [default: $LOOPWRIGHT_STATE_DIR, else $XDG_STATE_HOME/loopwright]
    #[arg(long, value_name = "DIR", global = true, display_order = 902)]
    pub(crate) state: Option<PathBuf>,
    /// Print one JSON document on standard output, and everything else on standard error
    #[arg(long, global = true, display_order = 903)]
    pub(crate) json: bool,
    /// Never use colour
    #[arg(long, global = true, display_order = 904)]
    pub(crate) no_color: bool,
}

/// What can be asked for, in the order of the help page.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// The whole story on a throw-away repository: no key, no network, no set-up
    Demo,
    /// Write `.loopwright/` with one example loop that suits the repository
    Init,
    /// Check all loop files, or one loop, and the configuration
    Check(verbs::check::Args),
    /// Run one round of a loop now
    Run(verbs::run::Args),
    /// Start loops when they are due, until stopped
    Up(verbs::up::Args),
    /// Let the daemon end its rounds and end; or cancel one round; or stop everything
    Stop(verbs::stop::Args),
    /// Let loops start again after `stop --all`
    Thaw,
    /// Make one pass over what is due and wait for its rounds: for cron or launchd
    Tick,
    /// Let a loop start nothing by itself
    Pause(verbs::pause::PauseArgs),
    /// Let a paused loop start by itself again
    Resume(verbs::pause::ResumeArgs),
    /// Have the system start the daemon: a systemd user unit or a launchd agent
    Service(verbs::service::Args),
    /// Add or remove git hooks that tell the daemon when a branch moved
    Hooks(verbs::hooks::Args),
    /// Print the effective configuration and where each value came from
    Config,
    /// Print the JSON Schema of loop files
    Schema,
    /// List what roles are told, or show one of the texts
    Prompts(verbs::prompts::Args),
    /// Show all loops and how they stand
    Status(verbs::status::Args),
    /// Show what is due in the coming days, also as a picture
    Schedule(verbs::schedule::Args),
    /// List rounds, newest first: of this repository's loops, elsewhere of all
    Rounds(verbs::rounds::Args),
    /// Show one round, or the latest of a loop
    Show(verbs::show::Args),
    /// Print a round's report
    Report(verbs::report::Args),
    /// Print what agents and gates wrote
    Logs(verbs::logs::Args),
    /// List what waits for a human
    Inbox(verbs::inbox::Args),
    /// Let a waiting candidate out
    Approve(verbs::approve::Args),
    /// End a waiting round with a no
    Deny(verbs::deny::Args),
    /// Show what is spent, reserved and left of every budget, or add room to one
    Budget(verbs::budget::Args),
    /// Sum up what was spent: by loop, role, model, day, item or agent
    Costs(verbs::costs::Args),
    /// Play the coming days on a virtual clock: what fires, what is skipped and why, what it costs
    Simulate(verbs::simulate::Args),
    /// Check the whole record: hashes, chain, database
    Verify(verbs::verify::Args),
    /// Explain why a loop is or is not running, or from the record how a round ended as it did
    Why(verbs::why::Args),
    /// Copy the state into a folder of its own, also while a daemon runs
    Backup(verbs::backup::BackupArgs),
    /// Make the state of a folder that `backup` made
    Restore(verbs::backup::RestoreArgs),
    /// Remove what is no longer needed
    Gc(verbs::gc::Args),
    /// Make a loop take its items anew, and drop what it remembers
    Forget(verbs::forget::Args),
    /// Start another round like an ended one
    Retry(verbs::retry::Args),
    /// Put a round's candidate on a new branch of your repository
    Take(verbs::take::Args),
    /// Try gates out
    Gates(verbs::gates::Args),
    /// Look at this machine: what is there, what is missing, what to do
    Doctor(verbs::doctor::Args),
    /// Helpers for writing loops: a scripted model to try them without spending
    Dev(dev::Args),
    /// Print a script that completes commands in a shell
    Completions(verbs::completions::Args),
}

impl Verb {
    /// Whether it needs the store for itself, so that a daemon that owns it has to perform it.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Self::Run(_) | Self::Approve(_) | Self::Deny(_) | Self::Gc(_) | Self::Retry(_) | Self::Gates(_) => true,
            Self::Thaw | Self::Pause(_) | Self::Resume(_) | Self::Forget(_) => true,
            Self::Budget(args) => args.changes(),
            Self::Stop(args) => args.changes(),
            _ => false,
        }
    }
}
