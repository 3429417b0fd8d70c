//! `dev model SCENARIO`: a model that answers from a file, in the protocols of the providers, on loopback. Agents that
//! use it do real work in real loops, without costs.

mod model_request;
mod parse;
mod protocol;
mod reply;
mod request_log;
mod scenario;
mod scenario_player;
mod serve;
#[cfg(test)]
mod tests;
mod tools;

use crate::context::CommandContext;
use crate::error::{CommandError, CommandExit, VerbResult};
use crate::output::safe;
use loopwright::agents::scripted::script_text::SCRIPT_MAX;
use scenario::ModelScenario;
use serde::Serialize;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// The file with the answers of the model
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The port on loopback [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Append every request and its answer to a file, one JSON line each
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write a configuration file whose providers are this model, for LOOPWRIGHT_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Exit when standard input ends, for programs that hold its other end
    #[arg(long)]
    until_eof: bool,
}

/// The addresses of the model.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    url: String,
    anthropic: String,
    openai: String,
    gemini: String,
    counter: String,
    log: Option<PathBuf>,
}

impl Document {
    fn of(at: SocketAddr, log: Option<PathBuf>) -> Self {
        let url = format!("http://{at}");
        Self {
            schema: 1,
            anthropic: url.clone(),
            openai: format!("{url}/v1"),
            gemini: url.clone(),
            counter: format!("{url}/_counter"),
            url,
            log,
        }
    }

    fn page(&self) -> String {
        let Self { anthropic, openai, gemini, counter, .. } = self;
        format!(
            "the scripted model answers until Ctrl-C:\n\n\
             \x20 Anthropic Messages          {anthropic}\n\
             \x20 OpenAI Responses and Chat   {openai}\n\
             \x20 Gemini                      {gemini}\n\
             \x20 tokens reported so far      {counter}\n\n\
             To try a loop, put this into your configuration file, and start it with any key:\n\n\
{}\n\
             \x20 ANTHROPIC_API_KEY=dummy loopwright run LOOP\n\n\
             To try an agent directly:\n\n\
             \x20 ANTHROPIC_BASE_URL={anthropic} ANTHROPIC_API_KEY=dummy claude -p …\n\
             \x20 GOOGLE_GEMINI_BASE_URL={gemini} GEMINI_API_KEY=dummy gemini …\n\
             \x20 codex -c 'model_providers.scripted={{name=\"scripted\",base_url=\"{openai}\",wire_api=\"responses\"}}' …\n",
            indented(&self.configuration())
        )
    }

    /// The user's configuration with this model as every provider.
    fn configuration(&self) -> String {
        let Self { anthropic, openai, gemini, .. } = self;
        format!(
            "providers:\n  anthropic: {{ url: {anthropic} }}\n  openai: {{ url: {openai} }}\n  google: {{ url: {gemini} }}\n"
        )
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

pub(crate) async fn run(args: ModelArgs, cx: &CommandContext) -> VerbResult {
    let scenario = read(&args.scenario)?;
    let broke = |what: &str, error: std::io::Error| CommandError::failed(format!("{what}: {error}"));
    let book = request_log::RequestLog::open(args.log.as_deref()).map_err(|error| broke("open the log", error))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    let listener = listener.map_err(|error| {
        broke(&format!("listen on {}:{}", Ipv4Addr::LOCALHOST, args.port), error)
            .hint("choose another port with --port, or leave the option out for a free one")
    })?;
    let at = listener.local_addr().map_err(|error| broke("listen on loopback", error))?;
    let document = Document::of(at, args.log);
    if let Some(path) = &args.config {
        std::fs::write(path, document.configuration()).map_err(|error| broke("write the configuration", error))?;
    }
    if cx.out.is_json() {
        cx.out.script(&serde_json::to_string(&document).map_err(|error| CommandError::failed(error.to_string()))?);
    } else {
        cx.out.print(&document.page());
    }
    let server = Arc::new(serve::ScenarioServer { player: scenario_player::ScenarioPlayer::new(scenario), log: book });
    let mut ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    tokio::select! {
        () = serve::serve(server, listener) => {}
        () = heard(&mut ends) => {}
        () = input_ended(), if args.until_eof => {}
    }
    Ok(CommandExit::DONE)
}

fn read(path: &Path) -> Result<ModelScenario, CommandError> {
    let shown = safe(&path.to_string_lossy());
    let unreadable = |error: std::io::Error| {
        CommandError::invalid(format!("read the scenario `{shown}`: {error}"))
            .hint("a scenario is a text file with the model's turns; docs/dev-model.md has an example")
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let one_more = u64::try_from(SCRIPT_MAX).unwrap_or(u64::MAX).saturating_add(1);
    file.take(one_more).read_to_string(&mut text).map_err(unreadable)?;
    ModelScenario::parse(&text).map_err(|wrong| {
        let line = u32::try_from(wrong.line).unwrap_or(u32::MAX);
        CommandError::invalid(format!("{shown}:{line}: {}", wrong.text)).at_location(shown.to_string(), line, 0)
    })
}

/// Waits for a signal. A signal that cannot be caught keeps its default action.
async fn heard(ends: &mut [std::io::Result<tokio::signal::unix::Signal>; 3]) {
    let [Ok(interrupt), Ok(terminate), Ok(hangup)] = ends else { return std::future::pending().await };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

/// Waits for the end of standard input; the thread that waits ends with the process.
async fn input_ended() {
    let (sender, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = sender.send(());
    });
    let _ = ended.await;
}
