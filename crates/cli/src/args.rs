//! The command line as typed: verbs and flags, without any decision. A verb's own arguments are beside its code.

use crate::{dev, verbs};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::path::PathBuf;

/// Run AI coding agents in loops that you can trust.
#[derive(Debug, Parser)]
#[command(name = "loopwright", version, max_term_width = 100)]
#[command(after_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: GlobalFlags,
    #[command(subcommand)]
    pub(crate) verb: CliVerb,
}

const AFTER: &str = "\
`loopwright help COMMAND` explains a command. `loopwright demo` is a good start.

Exit codes: 0 done, 1 failed, 2 usage or configuration, 10 waiting for a person, 11 rejected,
12 over budget, 13 cannot be done, 14 plateaued, 15 refused, 75 rate-limited, 130 interrupted.";

/// Flags that every verb has.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GlobalFlags {
    /// The repository to work on [default: the one that contains the current folder]
    #[arg(long, value_name = "DIR", global = true, display_order = 901)]
    pub(crate) repo: Option<PathBuf>,
    /// The state directory [default: $LOOPWRIGHT_STATE_DIR, else $XDG_STATE_HOME/loopwright]
    #[arg(long, value_name = "DIR", global = true, display_order = 902)]
    pub(crate) state: Option<PathBuf>,
    /// Print one JSON document on standard output, and all other output on standard error
    #[arg(long, global = true, display_order = 903)]
    pub(crate) json: bool,
    /// Do not use colors
    #[arg(long, global = true, display_order = 904)]
    pub(crate) no_color: bool,
}

/// The commands, in the order of the groups of the help page.
#[derive(Debug, Subcommand)]
pub(crate) enum CliVerb {
    /// Run three example loops in a temporary repository: needs no key, network or configuration
    Demo,
    /// Create `.loopwright/` with one example loop that fits the repository
    Init,
    /// List the loops that Loopwright ships, or show one of them
    Patterns(verbs::patterns::PatternsArgs),
    /// Write a shipped loop into `.loopwright/loops/`, adapted to the repository
    New(verbs::new::NewArgs),
    /// Import the loops of another tool: loop-harness, the loop engine, loop-engineering
    Import(verbs::import::ImportArgs),
    /// Check the configuration and all loop files, or only one loop
    Check(verbs::check::CheckArgs),
    /// Run one round of a loop now
    Run(verbs::run::RunArgs),
    /// Run the daemon, which starts loops when they are due
    Up(verbs::up::UpArgs),
    /// Stop the daemon, cancel one of its rounds, or stop everything until `thaw`
    Stop(verbs::stop::StopArgs),
    /// Let systemd or launchd start the daemon when you log in
    Service(verbs::service::ServiceArgs),
    /// Check this machine: print what is installed, what is missing and how to fix it
    Doctor(verbs::doctor::DoctorArgs),

    /// Show all loops and their state
    Status(verbs::status::StatusArgs),
    /// List the rounds of this repository, newest first; outside a repository, all rounds
    Rounds(verbs::rounds::RoundsArgs),
    /// Show one round, or a loop with its latest rounds, receipts and memory
    Show(verbs::show::ShowArgs),
    /// Show the change of a round as a diff against its base
    Diff(verbs::diff::DiffArgs),
    /// Print the report of a round
    Report(verbs::logs::ReportArgs),
    /// Print the output of the agents and gates of a round
    Logs(verbs::logs::LogsArgs),
    /// Explain why a loop does or does not run, or why a round ended as it did
    Why(verbs::show::WhyArgs),
    /// Sum up costs by loop, role, model, day, item or agent
    Costs(verbs::costs::CostsArgs),

    /// List everything that waits for a person
    Inbox,
    /// Approve a waiting candidate, or confirm that an item in doubt arrived
    Approve(verbs::approve::ApproveArgs),
    /// Deny a waiting candidate, or state that an item in doubt did not arrive
    Deny(verbs::approve::DenyArgs),
    /// Show the changes that no person has read, and record that you read them
    Review(verbs::review::ReviewArgs),
    /// Show the evidence for a higher level of a loop, and record your decision
    Promote(verbs::promote::PromoteArgs),
    /// Put the candidate of a round on a new branch of your repository
    Take(verbs::take::TakeArgs),
    /// Resume a suspended round; after any other outcome, start a new round for the same item
    Retry(verbs::retry::RetryArgs),
    /// Show how much of every budget is spent, reserved and left, or raise a budget
    Budget(verbs::budget::BudgetArgs),

    /// Show when loops are due in the coming days, as a list and as a chart
    Schedule(verbs::schedule::ScheduleArgs),
    /// Simulate the coming days: which rounds start, which are skipped and why, and their costs
    Simulate(verbs::simulate::SimulateArgs),
    /// Pause a loop: it does not start on its own until `resume`
    Pause(verbs::pause::PauseArgs),
    /// End the pause of a loop, or its wait after a failure: it starts on its own again
    Resume(verbs::pause::ResumeArgs),
    /// Let loops start again after `stop --all`
    Thaw,
    /// Start the loops that are due, wait for their rounds and exit: for cron or launchd
    Tick,
    /// Add, remove or list git hooks that notify the daemon when a branch moves
    Hooks(verbs::hooks::HooksArgs),

    /// Verify the record of all rounds: find data that was changed, is missing or is damaged
    Verify,
    /// Test the gates of a loop
    Gates(verbs::gates::GatesArgs),
    /// Plant known-bad changes for the checker of a loop, and count how many it catches
    Calibrate(verbs::calibrate::CalibrateArgs),
    /// Copy the state into a new folder, also while a daemon runs
    Backup(verbs::backup::BackupArgs),
    /// Restore a backup
    Restore(verbs::backup::RestoreArgs),
    /// Delete data of old rounds, such as reports and transcripts; the journal stays
    Gc(verbs::gc::GcArgs),
    /// Forget the items and the memory of a loop, so that it starts over
    Forget(verbs::forget::ForgetArgs),

    /// Print the effective configuration and the source of each value
    Config,
    /// Print the JSON Schema of loop files
    Schema,
    /// List the prompts of the maker and the checker, or print one of them
    Prompts(verbs::prompts::PromptsArgs),
    /// Tools for writing loops: a scripted model, to try loops without costs
    Dev(dev::DevArgs),
    /// Print a completion script for a shell
    Completions(verbs::completions::CompletionsArgs),
}

/// The groups of the help page. A test compares them with the commands, so that none is forgotten.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["demo", "init", "patterns", "new", "import", "check", "run", "up", "stop", "service", "doctor"]),
    ("See", &["status", "rounds", "show", "diff", "report", "logs", "why", "costs"]),
    ("Decide", &["inbox", "approve", "deny", "review", "promote", "take", "retry", "budget"]),
    ("Time", &["schedule", "simulate", "pause", "resume", "thaw", "tick", "hooks"]),
    ("Trust", &["verify", "gates", "calibrate", "backup", "restore", "gc", "forget"]),
    ("Develop", &["config", "schema", "prompts", "dev", "completions"]),
];

impl Cli {
    /// Parses the arguments of this process, with a help page that groups the commands.
    pub(crate) fn parse_grouped() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&grouped(Self::command()).try_get_matches()?)
    }
}

fn grouped(cli: clap::Command) -> clap::Command {
    let groups: Vec<String> = GROUPS.iter().map(|(title, verbs)| group(&cli, title, verbs)).collect();
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}{{after-help}}",
        groups.join("\n")
    );
    cli.help_template(template)
}

fn group(cli: &clap::Command, title: &str, verbs: &[&str]) -> String {
    let width = GROUPS.iter().flat_map(|(_, verbs)| *verbs).map(|verb| verb.len()).max().unwrap_or_default();
    let about = |verb: &str| cli.find_subcommand(verb).and_then(|verb| verb.get_about()).map(ToString::to_string);
    let line = |verb: &&str| format!("  {verb:width$}  {}\n", about(verb).unwrap_or_default());
    format!("{title}:\n{}", verbs.iter().map(line).collect::<String>())
}

impl CliVerb {
    /// Whether it must own the store, so that a daemon that owns the store has to perform it.
    pub(crate) fn needs_store_owner(&self) -> bool {
        match self {
            Self::Run(_) | Self::Approve(_) | Self::Deny(_) | Self::Gc(_) | Self::Retry(_) | Self::Gates(_) => true,
            Self::Calibrate(_) => true,
            Self::Promote(args) => args.yes,
            Self::Review(args) => args.yes,
            Self::Thaw | Self::Pause(_) | Self::Resume(_) | Self::Forget(_) => true,
            Self::Budget(args) => args.needs_store_owner(),
            Self::Import(args) => args.needs_store_owner(),
            Self::Stop(args) => args.needs_store_owner(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help_page_and_has_one_line() {
        let cli = Cli::command();
        let mut verbs: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        verbs.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, verbs);
        let help = grouped(cli).render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
        assert!(help.contains("\nDecide:\n  inbox        List everything that waits for a person\n"), "{help}");
    }
}
