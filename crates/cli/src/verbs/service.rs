//! `service install|uninstall|status`: writes, removes or checks the file with which the system starts the daemon. The
//! system starts and stops it; this verb prints the commands for that.

mod launchd;
mod systemd;

use super::{CommandContext, CommandError, VerbResult, safe};
use crate::control::DaemonConnection;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    what: ServiceCommand,
    /// The service manager [default: the one of this machine]
    #[arg(long = "for", value_name = "MANAGER", value_enum, global = true)]
    manager: Option<ServiceManager>,
}

#[derive(Debug, clap::Subcommand)]
enum ServiceCommand {
    /// Create the service file, which starts the daemon when you log in
    Install {
        /// Only print the file
        #[arg(long)]
        print: bool,
    },
    /// Remove the service file
    Uninstall,
    /// Print whether the service file exists and whether the daemon runs
    Status,
}

/// The service manager of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ServiceManager {
    /// A systemd user unit
    Systemd,
    /// A launchd agent
    Launchd,
}

impl ServiceManager {
    fn detect() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }
}

/// The contents of a service file, for any manager.
struct ServicePlan {
    manager: ServiceManager,
    /// Its name, without the file extension.
    name: String,
    /// The file.
    file: PathBuf,
    /// The program and its arguments.
    argv: Vec<String>,
    /// The folder in which it starts.
    folder: String,
    /// Its environment variables; never a key.
    variables: Vec<(&'static str, String)>,
    /// The file for its output, if the manager keeps none itself.
    log: String,
    /// A file with more variables that its owner may write.
    secrets: String,
}

pub(crate) async fn run(args: ServiceArgs, cx: &CommandContext) -> VerbResult {
    let plan = ServicePlan::new(cx, args.manager.unwrap_or_else(ServiceManager::detect)).await?;
    match args.what {
        ServiceCommand::Install { print: true } => {
            let document = json!({"schema": 1, "file": plan.file, "service": plan.name, "text": plan.text()});
            Ok(cx.out.answer(&document, || plan.text().trim_end().to_owned()))
        }
        ServiceCommand::Install { print: false } => install(cx, &plan),
        ServiceCommand::Uninstall => uninstall(cx, &plan),
        ServiceCommand::Status => status(cx, &plan).await,
    }
}

impl ServicePlan {
    async fn new(cx: &CommandContext, manager: ServiceManager) -> Result<Self, CommandError> {
        let home = cx.env.home.clone().ok_or_else(|| CommandError::invalid("HOME is not set"))?;
        let (state, origin) = cx.state_dir()?;
        // The default state directory has the default name; another one gets its own name, so that both can be
        // installed.
        let own = if matches!(origin, "default" | "XDG_STATE_HOME") { String::new() } else { tag(&state) };
        let repo = cx.repo().await.ok().map(|repo| repo.work_tree);
        let program =
            std::env::current_exe().map_err(|error| CommandError::failed(format!("find this program: {error}")))?;
        let mut argv = vec![program_text(&program, manager)?, "--state".to_owned(), text(&state)?];
        if let Some(repo) = &repo {
            argv.extend(["--repo".to_owned(), text(repo)?]);
        }
        argv.push("up".to_owned());
        let config =
            cx.env.user_config().and_then(|file| Some(file.parent()?.to_owned())).unwrap_or_else(|| home.clone());
        let (name, file) = match manager {
            ServiceManager::Systemd => systemd::name_and_path(&config, &own),
            ServiceManager::Launchd => launchd::label_and_path(&home, &own),
        };
        Ok(Self {
            manager,
            name,
            file,
            argv,
            folder: text(repo.as_ref().unwrap_or(&home))?,
            variables: variables(cx)?,
            log: text(&state.join("daemon.log"))?,
            secrets: text(&config.join("environment"))?,
        })
    }

    fn text(&self) -> String {
        match self.manager {
            ServiceManager::Systemd => systemd::unit(self),
            ServiceManager::Launchd => launchd::plist(self),
        }
    }

    fn start(&self) -> Vec<String> {
        match self.manager {
            ServiceManager::Systemd => systemd::start_command(self),
            ServiceManager::Launchd => launchd::start_command(self),
        }
    }

    fn end(&self) -> Vec<String> {
        match self.manager {
            ServiceManager::Systemd => systemd::stop_command(self),
            ServiceManager::Launchd => launchd::stop_command(self),
        }
    }
}

fn tag(state: &Path) -> String {
    let hash = loopwright_core::hash::hash_bytes(state.as_os_str().as_encoded_bytes());
    format!("-{}", hash.chars().filter(char::is_ascii_hexdigit).take(8).collect::<String>())
}

/// The same for the program: systemd does not start a program with quotes or backslashes in its name.
fn program_text(path: &Path, manager: ServiceManager) -> Result<String, CommandError> {
    let text = text(path)?;
    if manager == ServiceManager::Systemd && text.contains(['"', '\'', '\\']) {
        let what = format!("systemd does not start a program with quotes or backslashes in its name: {}", safe(&text));
        return Err(CommandError::invalid(what).hint("copy the program to another folder and install it from there"));
    }
    Ok(text)
}

/// Text that is valid in a line of a service file; a backslash at its end would join the next line to it.
fn text(path: &Path) -> Result<String, CommandError> {
    let usable = path.to_str().filter(|text| !text.chars().any(char::is_control) && !text.ends_with('\\'));
    usable.map(str::to_owned).ok_or_else(|| {
        CommandError::invalid(format!("`{}` is not allowed in a service file", safe(&path.to_string_lossy())))
    })
}

/// The variables that the command depends on and that the manager does not set. A manager's own PATH seldom has the
/// agents on it.
fn variables(cx: &CommandContext) -> Result<Vec<(&'static str, String)>, CommandError> {
    let env = &cx.env;
    let mut found = vec![("PATH", text(Path::new(&env.path))?)];
    if let Some(config) = &env.config {
        found.push(("LOOPWRIGHT_CONFIG", text(&env.cwd.join(config))?));
    }
    if let Some(folder) = &env.xdg_config {
        found.push(("XDG_CONFIG_HOME", text(folder)?));
    }
    // An address may contain a password, which must not be in a file that others can read.
    if let Some(store) = env.store.as_ref().filter(|store| !store.contains("://")) {
        found.push(("LOOPWRIGHT_STORE", text(Path::new(store))?));
    }
    Ok(found)
}

fn install(cx: &CommandContext, plan: &ServicePlan) -> VerbResult {
    let failed = |error: io::Error| CommandError::failed(format!("write {}: {error}", plan.file.display()));
    let before = std::fs::read_to_string(&plan.file).ok();
    std::fs::create_dir_all(plan.file.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    let new = plan.file.with_extension("new");
    std::fs::write(&new, plan.text()).and_then(|()| std::fs::rename(&new, &plan.file)).map_err(failed)?;
    let word = match before {
        None => "written",
        Some(old) if old == plan.text() => "unchanged",
        Some(_) => "replaced",
    };
    let document = json!({"schema": 1, "file": plan.file, "service": plan.name, "change": word, "next": plan.start()});
    Ok(cx.out.answer(&document, || {
        let keys = format!("keys for agents: put NAME=value lines into {} (mode 0600)", safe(&plan.secrets));
        format!("{word}: {}\nstart it:\n  {}\n{keys}", plan.file.display(), plan.start().join("\n  "))
    }))
}

fn uninstall(cx: &CommandContext, plan: &ServicePlan) -> VerbResult {
    let word = match std::fs::remove_file(&plan.file) {
        Ok(()) => "removed",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "absent",
        Err(error) => return Err(CommandError::failed(format!("remove {}: {error}", plan.file.display()))),
    };
    let document = json!({"schema": 1, "file": plan.file, "service": plan.name, "change": word, "next": plan.end()});
    Ok(cx.out.answer(&document, || match word {
        "removed" => format!("removed: {}\nstop it:\n  {}", plan.file.display(), plan.end().join("\n  ")),
        _ => format!("there is no {}", plan.file.display()),
    }))
}

async fn status(cx: &CommandContext, plan: &ServicePlan) -> VerbResult {
    let found = std::fs::read_to_string(&plan.file).ok();
    let file = match &found {
        None => "not installed",
        Some(text) if *text == plan.text() => "installed",
        Some(_) => "installed, but different from what would be written now",
    };
    let pid = DaemonConnection::connect(&cx.state_dir()?.0).await?.and_then(|peer| peer.pid);
    let document = json!({
        "schema": 1, "file": plan.file, "service": plan.name, "installed": found.is_some(),
        "current": found.as_ref().map(|text| *text == plan.text()), "pid": pid,
    });
    Ok(cx.out.answer(&document, || {
        let daemon = pid.map_or("no daemon runs".to_owned(), |pid| format!("the daemon runs: process {pid}"));
        let next = match (&found, pid) {
            (None, _) => "\ninstall it: loopwright service install".to_owned(),
            (Some(_), None) => format!("\nstart it:\n  {}", plan.start().join("\n  ")),
            (Some(_), Some(_)) => String::new(),
        };
        format!("{file}: {}\n{daemon}{next}", plan.file.display())
    }))
}
