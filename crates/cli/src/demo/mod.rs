//! `demo`: the whole product on a temporary repository with the scripted agent: a small shop in shell with a bug, a test
//! that shows it, and three loops. An honest change is verified, approved and sent to the local forge; a cheating one is
//! rejected; a report is written. It needs only git and sh, no key and no network, and touches no data of the user.

mod goal;

use crate::context::CommandContext;
use crate::error::{CommandError, CommandExit, VerbResult, error_chain};
use crate::output::{TextStyle, safe};
use crate::progress::ProgressDisplay;
use crate::round_summary;
use crate::signals::{self, CurrentRound};
use loopwright::events::AttachedSink;
use loopwright::git::UserRepo;
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, SpawnRequest, TreeCookie, base_env};
use loopwright::round::RunRequest;
use loopwright::seam::Seam;
use loopwright::{Engine, boundary};
use loopwright_core::BoxFuture;
use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use loopwright_core::spec::SandboxMode;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The person who approves in the demo, as recorded.
const ACTOR: &str = "demo";

/// The arguments of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The story: `shop` (three small loops) or `goal` (two goal loops)
    #[arg(value_enum, default_value = "shop")]
    story: DemoStory,
}

/// A story of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DemoStory {
    /// A change that ships, a cheat that is caught, a report
    Shop,
    /// A goal that is reached through plan, proof, attack and checks, and one that reaches a plateau
    Goal,
}

pub(crate) fn run<'c>(args: DemoArgs, cx: &'c CommandContext) -> BoxFuture<'c, VerbResult> {
    match args.story {
        DemoStory::Shop => Box::pin(run_shop(cx)),
        DemoStory::Goal => Box::pin(goal::run(cx)),
    }
}

async fn run_shop(cx: &CommandContext) -> VerbResult {
    let shop = DemoRepo::build(&FILES, "A shop with a bug").await?;
    let cx = cx.with_repo_and_state(&shop.repo, &shop.state);
    let (reports, story) = run_loops(&cx, &shop).await?;
    let is_as_expected = reports.iter().map(|report| report.outcome).eq(story.outcomes().iter().copied().map(Some));
    let document = json!({
        "schema": 1, "folder": shop.folder, "repo": shop.repo, "state": shop.state, "as_told": is_as_expected, "rounds": reports,
    });
    cx.out.answer(&document, || ending(&cx, &shop, &reports));
    if !is_as_expected {
        // A note instead of an error: the document with the same content has been printed.
        cx.out.note("error: the demo did not end as expected; see the reports");
        return Ok(CommandExit::FAILED);
    }
    Ok(CommandExit::DONE)
}

/// How much of the demo this host can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DemoScope {
    /// All three loops.
    Whole,
    /// Only the one that reports: this host cannot confine the others.
    Report,
}

impl DemoScope {
    fn outcomes(self) -> &'static [RoundOutcome] {
        match self {
            Self::Whole => &[RoundOutcome::Shipped, RoundOutcome::Rejected, RoundOutcome::Reported],
            Self::Report => &[RoundOutcome::Reported],
        }
    }
}

async fn run_loops(cx: &CommandContext, shop: &DemoRepo) -> Result<(Vec<RoundReport>, DemoScope), CommandError> {
    let repo = cx.repo().await?;
    let cancel = signals::cancel_on_signal(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let play = DemoRun { cx, engine: &engine, repo: &repo, cancel: &cancel };
    play.say(&format!("Created a small shop with a bug in {}.", shop.repo.display()));
    play.say("Its discount raises the price, and a test shows that. Three loops work on it.");
    let refused = boundary::decide(LoopLevel::L2Assisted, SandboxMode::On, engine.host().await).err();
    let (reports, story) = match refused {
        None => (vec![play.honest().await?, play.cheat().await?, play.report().await?], DemoScope::Whole),
        Some(refused) => {
            play.act("1 and 2 are at L2 and do not run on this host");
            play.say(&safe(&refused.text));
            (vec![play.report().await?], DemoScope::Report)
        }
    };
    engine.close().await?;
    Ok((reports, story))
}

/// A run of the demo's loops.
struct DemoRun<'p> {
    cx: &'p CommandContext,
    engine: &'p Engine,
    repo: &'p UserRepo,
    cancel: &'p CancelToken,
}

impl DemoRun<'_> {
    fn say(&self, text: &str) {
        self.cx.out.print(text);
    }

    fn act(&self, title: &str) {
        self.say(&format!("\n{}", self.cx.out.style(TextStyle::Bold, title)));
    }

    async fn honest(&self) -> Result<RoundReport, CommandError> {
        self.act("1. fix-cart, at L2: works on its own, ships only with your approval");
        let report = self.round("fix-cart").await?;
        self.say(&round_summary::render_end(&self.cx.out, &report));
        if report.outcome != Some(RoundOutcome::Escalated) {
            return Ok(report);
        }
        self.say(&format!(
            "\nThe gates and the checker accept it, so it waits for a person. The demo now approves it as `{ACTOR}`."
        ));
        let loops = self.cx.loops(self.repo)?;
        let bind = self.cx.bindings(&loops.find("fix-cart")?.spec, &self.repo.work_tree)?;
        let candidate = report.candidate.clone().unwrap_or_default();
        let _screen = self.screen()?;
        let report = self.engine.approve(&report.round, &candidate, ACTOR, &bind).await?;
        self.say(&round_summary::render_end(&self.cx.out, &report));
        Ok(report)
    }

    async fn cheat(&self) -> Result<RoundReport, CommandError> {
        self.act("2. quick-fix, at L2: its maker deletes the failing test and claims success");
        let report = self.round("quick-fix").await?;
        self.say(&round_summary::render_end(&self.cx.out, &report));
        self.say("Its claim does not count: Loopwright knows the tests of base, and one of them is missing.");
        Ok(report)
    }

    async fn report(&self) -> Result<RoundReport, CommandError> {
        self.act("3. morning-report, at L1: reads and reports, and sends nothing");
        let report = self.round("morning-report").await?;
        self.say(&round_summary::render_end(&self.cx.out, &report));
        for line in report.agent_report.iter().flat_map(|text| text.lines()) {
            self.say(&format!("  | {}", safe(line)));
        }
        Ok(report)
    }

    async fn round(&self, name: &str) -> Result<RoundReport, CommandError> {
        let loops = self.cx.loops(self.repo)?;
        let spec = loops.find(name)?.spec.clone();
        let bind = self.cx.bindings(&spec, &self.repo.work_tree)?;
        let request = RunRequest::manual(spec, &self.repo.work_tree, ACTOR);
        let _screen = self.screen()?;
        Ok(self.engine.run(request, &bind, self.cancel).await?)
    }

    /// Shows the progress of rounds until the returned value is dropped.
    fn screen(&self) -> Result<AttachedSink, CommandError> {
        let screen = ProgressDisplay::new(&self.cx.out, self.cx.progress_detail()?, &CurrentRound::default());
        Ok(self.engine.events().attach(Arc::new(screen)))
    }
}

fn ending(cx: &CommandContext, shop: &DemoRepo, reports: &[RoundReport]) -> String {
    let mut lines = vec![format!("\n{}", cx.out.style(TextStyle::Bold, "Where to look"))];
    for report in reports {
        let path = report.report.as_deref().unwrap_or("no report");
        lines.push(format!("  {:<15} {path}", report.loop_name));
    }
    let pull = reports.iter().flat_map(|report| &report.outbox).find_map(|item| item.receipt.clone());
    lines.push(format!("  {:<15} {}", "pull request", pull.as_deref().unwrap_or("none")));
    lines.push(format!("  {:<15} {}", "everything", shop.folder.display()));
    lines.push(format!("\n{}", cx.out.style(TextStyle::Bold, "Next steps")));
    // A new user has not installed the program yet; the path of the running one works.
    let program = std::env::current_exe().map_or_else(|_| "loopwright".to_owned(), |path| path.display().to_string());
    let here = format!("{program} --repo {} --state {}", shop.repo.display(), shop.state.display());
    lines.push(format!("  {here} status"));
    lines.push(format!(
        "  {here} why {}",
        reports.iter().rev().nth(1).or(reports.first()).map_or("", |report| report.round.as_str())
    ));
    lines.push("  cargo install --profile dist --path crates/cli, then in your repository: loopwright init".to_owned());
    lines.join("\n")
}

const FILES: [(&str, &str); 12] = [
    ("cart.sh", include_str!("assets/cart.sh")),
    ("tests/run.sh", include_str!("assets/run.sh")),
    ("tests/test_plain.sh", include_str!("assets/test_plain.sh")),
    ("tests/test_discount.sh", include_str!("assets/test_discount.sh")),
    ("tests/test_empty.sh", include_str!("assets/test_empty.sh")),
    (".loopwright/loops/fix-cart.md", include_str!("assets/fix-cart.md")),
    (".loopwright/loops/quick-fix.md", include_str!("assets/quick-fix.md")),
    (".loopwright/loops/morning-report.md", include_str!("assets/morning-report.md")),
    (".loopwright/fix.script", include_str!("assets/fix.script")),
    (".loopwright/cheat.script", include_str!("assets/cheat.script")),
    (".loopwright/report.script", include_str!("assets/report.script")),
    ("README.md", "# A shop\n\n`cart.sh PRICE QUANTITY PERCENT` prints what a customer pays.\n"),
];

/// The folders of the demo.
#[derive(Debug)]
struct DemoRepo {
    folder: PathBuf,
    repo: PathBuf,
    state: PathBuf,
}

impl DemoRepo {
    /// Creates the folder, the repository and its one commit.
    async fn build(files: &[(&str, &str)], message: &str) -> Result<Self, CommandError> {
        let folder = new_folder()?;
        let shop = Self { repo: folder.join("shop"), state: folder.join("state"), folder };
        for (name, text) in files {
            write(&shop.repo.join(name), text)?;
        }
        let who = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"];
        shop.git(&["init", "--quiet", "--initial-branch=main"]).await?;
        shop.git(&["add", "--all"]).await?;
        shop.git(&[&who[..], &["commit", "--quiet", "--message", message]].concat()).await?;
        Ok(shop)
    }

    async fn git(&self, words: &[&str]) -> Result<(), CommandError> {
        let home = self.folder.join("home");
        fs::create_dir_all(&home).map_err(|error| failed("make", &home, &error))?;
        let mut spawn = SpawnRequest::new("git", &self.repo, TreeCookie::new("lw-demo"));
        spawn.args = words.iter().map(Into::into).collect();
        spawn.env = base_env(&home, &home, &[]);
        let ended = ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await;
        let ended = ended.map_err(|error| CommandError::failed(error_chain(&error)).hint("the demo needs git"))?;
        match ended.how {
            RunEnd::Exited(0) => Ok(()),
            _ => {
                Err(CommandError::failed(format!("git {}: {}", words.join(" "), ended.stderr.to_lossy_string().trim())))
            }
        }
    }
}

/// A new folder with its own name; an old demo is never reused.
fn new_folder() -> Result<PathBuf, CommandError> {
    let base = std::env::temp_dir();
    let name = |try_number: u32| base.join(format!("loopwright-demo-{}-{try_number}", std::process::id()));
    for path in (1..100).map(name) {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make", &path, &error)),
        }
    }
    Err(CommandError::failed(format!("no free name for a demo in {}", base.display()))
        .hint("remove old loopwright-demo folders"))
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
    fs::write(path, text).map_err(|error| failed("write", path, &error))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::failed(format!("{what} {}: {error}", path.display()))
}
