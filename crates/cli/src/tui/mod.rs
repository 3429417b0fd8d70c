//! The terminal dashboard, `loopwright top`: the documents of `--json` as screens, problems first. It reads the store, so
//! it works with and without a daemon; answers run as the commands `approve` and `deny` would, in the daemon if one
//! listens. Nothing here decides anything about rounds.

mod documents;
mod draw;
mod grid;
mod log_follower;
mod screens;
mod state;
mod terminal_session;
#[cfg(test)]
mod tests;
mod theme;

use crate::context::CommandContext;
use crate::control::{CommandAnswer, CommandRunner};
use crate::error::{CommandError, CommandExit, VerbResult};
use crate::signals::SignalListener;
use crate::verbs::approve::{ShownQuestion, shown_question};
use crate::view::time::now_ms;
use documents::{DocumentReader, TuiDocuments};
use draw::TuiDrawing;
use ratatui_crossterm::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use state::{PageKind, TuiAction, TuiDialog, TuiState};
use std::sync::Arc;
use std::time::Duration;
use terminal_session::TerminalSession;
use theme::TuiTheme;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::interval;

/// How often the clock and the elapsed times change.
const CLOCK_EVERY: Duration = Duration::from_secs(1);

/// How long the input thread waits for a key before it checks whether its reader still exists.
const KEY_WAIT: Duration = Duration::from_millis(200);

/// Updates and keys that wait to be drawn.
const QUEUED_MAX: usize = 64;

/// Restores the terminal if the dashboard has it; for the panic hook.
pub(crate) fn restore_terminal() {
    terminal_session::restore();
}

/// News for the screen, from a task.
enum TuiUpdate {
    /// More lines of a round's log.
    LogLines(String, Vec<String>),
    /// The output of a command, with a title.
    Page(String, String),
    /// A question, ready to be answered.
    Question(Result<ShownQuestion, CommandError>),
    /// The end of a command that answered a question.
    Answered(Result<CommandAnswer, CommandError>),
}

/// Input of the person.
enum TuiInput {
    Key(KeyEvent),
    /// The size of the terminal changed.
    Resized,
    /// The terminal is gone.
    Closed,
}

/// Shows the dashboard until the person quits or a signal ends it.
pub(crate) async fn run(cx: &CommandContext, theme_has_colour: bool) -> VerbResult {
    let runner = Arc::new(CommandRunner::new(cx)?);
    let reader = DocumentReader::new(cx)?;
    let mut signals = SignalListener::new();
    let session = TerminalSession::open()?;
    let wanted = Arc::new(Notify::new());
    let (doc_sender, documents) = mpsc::channel(1);
    let reading = tokio::spawn(reader.watch(Arc::clone(&wanted), doc_sender));
    let (sender, updates) = mpsc::channel(QUEUED_MAX);
    let dashboard = Dashboard {
        cx,
        runner,
        session,
        wanted,
        sender,
        state: TuiState::new(),
        docs: TuiDocuments::default(),
        theme: TuiTheme { has_colour: theme_has_colour },
        task: None,
        answering: None,
    };
    let ended = tokio::select! {
        ended = dashboard.show(documents, updates) => ended,
        () = signals.next() => Ok(()),
    };
    reading.abort();
    ended.map(|()| CommandExit::DONE)
}

struct Dashboard<'c> {
    cx: &'c CommandContext,
    runner: Arc<CommandRunner>,
    session: TerminalSession,
    wanted: Arc<Notify>,
    sender: mpsc::Sender<TuiUpdate>,
    state: TuiState,
    docs: TuiDocuments,
    theme: TuiTheme,
    /// The task that fills the open page.
    task: Option<JoinHandle<()>>,
    /// The command that answers a question.
    answering: Option<JoinHandle<()>>,
}

impl Dashboard<'_> {
    async fn show(
        mut self,
        mut documents: mpsc::Receiver<TuiDocuments>,
        mut updates: mpsc::Receiver<TuiUpdate>,
    ) -> Result<(), CommandError> {
        let mut input = read_input()?;
        let mut clock = interval(CLOCK_EVERY);
        loop {
            self.draw()?;
            tokio::select! {
                Some(docs) = documents.recv() => self.docs = docs,
                Some(update) = updates.recv() => self.on_update(update),
                event = input.recv() => match event {
                    Some(TuiInput::Key(key)) => {
                        if let Some(action) = self.state.on_key(key, &self.docs, now_ms())
                            && !self.perform(action)?
                        {
                            self.finish_answer().await;
                            return Ok(());
                        }
                        self.drop_unused_task();
                    }
                    Some(TuiInput::Resized) => {}
                    Some(TuiInput::Closed) | None => return Ok(()),
                },
                _ = clock.tick() => {}
            }
        }
    }

    fn draw(&mut self) -> Result<(), CommandError> {
        let drawing = TuiDrawing { docs: &self.docs, theme: self.theme, now: now_ms() };
        let state = &mut self.state;
        let drawn = self.session.terminal.draw(|frame| drawing.draw(frame.buffer_mut(), state));
        drawn.map(|_| ()).map_err(|error| CommandError::failed(format!("draw: {error}")))
    }

    /// Starts the work of a key; `false` ends the dashboard.
    fn perform(&mut self, action: TuiAction) -> Result<bool, CommandError> {
        match action {
            TuiAction::Quit => return Ok(false),
            TuiAction::Repaint => {
                self.session.terminal.clear().map_err(|error| CommandError::failed(format!("draw: {error}")))?
            }
            TuiAction::FollowLog(round) => {
                self.state.open(format!("Log of {round}"), PageKind::Log(round.clone()), "");
                let followed = log_follower::follow(self.cx.duplicate(), round, self.sender.clone());
                self.start(followed);
            }
            TuiAction::ShowPage(title, words) => {
                self.state.busy = Some("reading …".to_owned());
                let (runner, sender) = (Arc::clone(&self.runner), self.sender.clone());
                self.start(async move {
                    let text = match runner.run(words).await {
                        Ok(answer) => answer.output.out + &answer.output.err,
                        Err(error) => error.text,
                    };
                    let _ = sender.send(TuiUpdate::Page(title, text)).await;
                });
            }
            TuiAction::ShowQuestion(id) => {
                self.state.busy = Some("reading …".to_owned());
                let (cx, sender) = (self.runner.quiet_context(), self.sender.clone());
                self.start(async move {
                    let question = shown_question(&cx, &id).await;
                    let _ = sender.send(TuiUpdate::Question(question)).await;
                });
            }
            TuiAction::Answer(words) => self.answer(words),
        }
        Ok(true)
    }

    /// Runs the command of an answer. It continues when its page is closed.
    fn answer(&mut self, words: Vec<String>) {
        let asked = words.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
        self.state.busy = Some(format!("{asked} …"));
        let (runner, sender) = (Arc::clone(&self.runner), self.sender.clone());
        self.answering = Some(tokio::spawn(async move {
            let answered = runner.run(words).await;
            let _ = sender.send(TuiUpdate::Answered(answered)).await;
        }));
    }

    /// Waits for an answer that is being given, in the restored terminal: a delivery should not be cut off.
    async fn finish_answer(&mut self) {
        if let Some(answer) = self.answering.take().filter(|answer| !answer.is_finished()) {
            terminal_session::restore();
            self.cx.out.note("the answer is being recorded …");
            // A panic of the task was reported already.
            let _ = answer.await;
        }
    }

    fn start(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(before) = self.task.replace(tokio::spawn(work)) {
            before.abort();
        }
    }

    /// Ends the task of a page that was closed.
    fn drop_unused_task(&mut self) {
        if self.state.page.is_none()
            && self.state.busy.is_none()
            && let Some(task) = self.task.take()
        {
            task.abort();
        }
    }

    fn on_update(&mut self, update: TuiUpdate) {
        match update {
            TuiUpdate::LogLines(round, lines) => self.state.add_log_lines(&round, &lines),
            TuiUpdate::Page(title, text) => {
                self.state.busy = None;
                self.state.open(title, PageKind::Output, &text);
            }
            TuiUpdate::Question(Ok(question)) => {
                self.state.busy = None;
                let title = format!("{}: {}", question.loop_name, question.summary);
                let page = question.page.clone();
                self.state.open(title, PageKind::Question(question), &page);
            }
            TuiUpdate::Question(Err(error)) => {
                self.state.busy = None;
                self.state.dialog = Some(TuiDialog::Message(error_lines(&error)));
            }
            TuiUpdate::Answered(answered) => {
                self.state.busy = None;
                self.state.page = None;
                self.state.dialog = Some(TuiDialog::Message(answer_lines(&answered)));
                self.wanted.notify_one();
            }
        }
    }
}

fn error_lines(error: &CommandError) -> Vec<String> {
    let hints = error.hints.iter().map(|hint| format!("hint: {hint}"));
    std::iter::once(error.text.clone()).chain(hints).collect()
}

fn answer_lines(answered: &Result<CommandAnswer, CommandError>) -> Vec<String> {
    match answered {
        Ok(answer) => {
            let text = format!("{}{}", answer.output.out, answer.output.err);
            let lines: Vec<String> = text.lines().take(12).map(str::to_owned).collect();
            if lines.is_empty() { vec![format!("exit code {}", answer.exit.0)] } else { lines }
        }
        Err(error) => error_lines(error),
    }
}

/// Reads the terminal in a thread of its own, which ends with its reader.
fn read_input() -> Result<mpsc::Receiver<TuiInput>, CommandError> {
    let (sender, input) = mpsc::channel(QUEUED_MAX);
    let read = move || {
        while !sender.is_closed() {
            let event = match event::poll(KEY_WAIT) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let input = match event {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => TuiInput::Key(key),
                Ok(Event::Resize(..)) => TuiInput::Resized,
                Ok(_) => continue,
                Err(_) => TuiInput::Closed,
            };
            let is_closed = matches!(input, TuiInput::Closed);
            if sender.blocking_send(input).is_err() || is_closed {
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("keys".to_owned()).spawn(read);
    spawned.map_err(|error| CommandError::failed(format!("read the terminal: {error}")))?;
    Ok(input)
}
