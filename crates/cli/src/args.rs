//! The command line as typed: verbs and flags, without any decision. A verb's own arguments are beside its code.

use crate::web::access::AccessRole;
use crate::{demo, dev, verbs};
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
    /// Run example loops in a temporary repository: needs no key, network or configuration
    Demo(demo::DemoArgs),
    /// Create `.loopwright/` with loops that fit the repository, and run their gates once
    Init(verbs::init::InitArgs),
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
    /// Decide which mode a task has and where it runs, and print the commands for it
    Route(verbs::route::RouteArgs),
    /// Write, check, run and export the contract of a goal
    Goal(verbs::goal::GoalArgs),
    /// List the dynamic workflows of this repository, show one with its items, or end one
    Workflow(verbs::workflow::WorkflowArgs),
    /// Register tasks, claim and finish them, and keep them as a Markdown list
    Tasks(verbs::tasks::TasksArgs),
    /// Follow a running round until it ends or waits
    Attach(verbs::attach::AttachArgs),
    /// Add words for the next agent of a running round
    Steer(verbs::steer::SteerArgs),
    /// Print the report over the rounds since yesterday: decisions, evidence, scores, costs
    Digest(verbs::digest::DigestArgs),
    /// List the notifications that were sent, wait or failed; test a route
    Notifications(verbs::notifications::NotificationsArgs),
    /// Copy the repository's skills, agents and workflows to the global places of agents
    Sync(verbs::sync::SyncArgs),
    /// Run the daemon, which starts loops when they are due
    Up(verbs::up::UpArgs),
    /// Run rounds of loops with labels on this machine, from a store that machines share
    Worker(verbs::worker::WorkerArgs),
    /// List the workers and the rounds that wait for one, or let a worker take no more rounds
    Workers(verbs::workers::WorkersArgs),
    /// Stop the daemon, cancel a round, or stop everything until `thaw`
    Stop(verbs::stop::StopArgs),
    /// Watch loops, rounds and questions in the terminal, and answer there
    Top,
    /// Print a link that opens the dashboard of the daemon in a browser
    Web,
    /// Create, list and revoke the tokens of the HTTP API
    Token(verbs::token::TokenArgs),
    /// Serve the tools of the Model Context Protocol to one client, on standard input and output
    Mcp(verbs::mcp::McpArgs),
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
    /// Print the prices of models, where they come from, and how to override them
    Prices(verbs::prices::PricesArgs),

    /// List everything that waits for a person
    Inbox(verbs::inbox::InboxArgs),
    /// Approve a waiting candidate, or confirm that an item in doubt arrived
    Approve(verbs::approve::ApproveArgs),
    /// Deny a waiting candidate, or state that an item in doubt did not arrive
    Deny(verbs::approve::DenyArgs),
    /// Give a waiting candidate more time before its question expires
    Hold(verbs::approve::HoldArgs),
    /// Show the changes that no person has read, and record that you read them
    Review(verbs::review::ReviewArgs),
    /// Show the evidence for a higher level of a loop, and record your decision
    Promote(verbs::promote::PromoteArgs),
    /// Lower the level of a loop from its next round on
    Demote(verbs::demote::DemoteArgs),
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
    /// Pause a loop until `resume`, or a running round before its next agent
    Pause(verbs::pause::PauseArgs),
    /// End the pause of a loop or of a round, or the wait of a loop after a failure
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
    /// Give a loop another name; it keeps its history, its pause, its items and its memory
    Rename(verbs::rename::RenameArgs),

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
    /// Write the man pages into a folder
    Manual(verbs::completions::ManualArgs),
}

/// The groups of the help page. A test compares them with the commands, so that none is forgotten.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Start",
        &[
            "demo", "init", "patterns", "new", "import", "check", "run", "up", "top", "web", "token", "mcp", "stop",
            "service", "worker", "workers", "doctor",
        ],
    ),
    ("Goals", &["route", "goal", "workflow", "tasks", "attach", "steer", "digest", "sync"]),
    ("See", &["status", "rounds", "show", "diff", "report", "logs", "why", "costs", "prices", "notifications"]),
    ("Decide", &["inbox", "approve", "deny", "hold", "review", "promote", "demote", "take", "retry", "budget"]),
    ("Time", &["schedule", "simulate", "pause", "resume", "thaw", "tick", "hooks"]),
    ("Trust", &["verify", "gates", "calibrate", "backup", "restore", "gc", "forget", "rename"]),
    ("Develop", &["config", "schema", "prompts", "dev", "completions", "manual"]),
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
            Self::Run(args) => !args.starts_another_process(),
            Self::Goal(args) => args.needs_store_owner(),
            Self::Workflow(args) => args.needs_store_owner(),
            Self::Approve(_) | Self::Deny(_) | Self::Hold(_) | Self::Gc(_) | Self::Retry(_) | Self::Gates(_) => true,
            Self::Calibrate(_) | Self::Demote(_) => true,
            Self::Promote(args) => args.yes,
            Self::Review(args) => args.yes,
            Self::Web | Self::Thaw | Self::Pause(_) | Self::Resume(_) | Self::Forget(_) | Self::Rename(_) => true,
            Self::Budget(args) => args.needs_store_owner(),
            Self::Import(args) => args.needs_store_owner(),
            Self::Stop(args) => args.needs_store_owner(),
            _ => false,
        }
    }

    /// The role that a token needs for it. An unlisted verb needs the highest role.
    pub(crate) fn token_role(&self) -> AccessRole {
        match self {
            Self::Status(_) | Self::Rounds(_) | Self::Show(_) | Self::Diff(_) | Self::Report(_) => AccessRole::View,
            Self::Logs(_) | Self::Why(_) | Self::Costs(_) | Self::Prices(_) | Self::Inbox(_) => AccessRole::View,
            Self::Budget(args) if !args.needs_store_owner() => AccessRole::View,
            Self::Notifications(args) if args.is_list() => AccessRole::View,
            Self::Run(_) | Self::Stop(_) | Self::Thaw | Self::Pause(_) | Self::Resume(_) => AccessRole::Operate,
            Self::Retry(_) | Self::Steer(_) | Self::Notifications(_) => AccessRole::Operate,
            _ => AccessRole::Approve,
        }
    }

    /// Whether this process was started by `--detach`.
    pub(crate) fn is_detached(&self) -> bool {
        match self {
            Self::Run(args) => args.is_detached(),
            Self::Goal(args) => args.is_detached(),
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
        assert!(help.contains("\nDecide:\n  inbox          List everything that waits for a person\n"), "{help}");
    }
}
