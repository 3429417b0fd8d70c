//! The position of the reader: the screen, the selected row, an open page, a question that is being answered. Keys change
//! it and may ask for work; this module performs none and knows no terminal.

use super::documents::TuiDocuments;
use super::grid::text_width;
use super::screens::{RowSubject, ScreenRow, TuiScreen, rows};
use crate::output::safe;
use crate::verbs::approve::ShownQuestion;
use loopwright::store::InboxKind;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Lines of a page that are kept; a log drops its oldest.
const LINES_MAX: usize = 20_000;
/// The characters of a line that are kept; the lines of a question are wrapped instead.
const LINE_MAX: usize = 2_000;
/// The rows of a question after wrapping.
const ROWS_MAX: usize = 100_000;
/// The columns before the first drawing.
const WIDTH_AT_FIRST: usize = 80;
/// The longest typed text, in characters.
const INPUT_MAX: usize = 1_000;

/// Work that a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TuiAction {
    Quit,
    /// Draw everything again.
    Repaint,
    /// Follow the log of a round.
    FollowLog(String),
    /// Show the output of a command: its title and its words.
    ShowPage(String, Vec<String>),
    /// Show a question with its diff and gates.
    ShowQuestion(String),
    /// Run the command that answers a question.
    Answer(Vec<String>),
}

/// The kind of a page that covers the screen.
#[derive(Debug)]
pub(super) enum PageKind {
    /// The output of a command.
    Output,
    /// The log of a round, which grows.
    Log(String),
    /// A question with the candidate that the page shows.
    Question(ShownQuestion),
}

/// A page that covers the screen.
#[derive(Debug)]
pub(super) struct OpenPage {
    pub(super) title: String,
    pub(super) kind: PageKind,
    pub(super) lines: Vec<String>,
    /// The first line that is shown.
    pub(super) top: usize,
    /// The first column that is shown.
    pub(super) column: usize,
    /// Whether the end stays in view while lines arrive.
    pub(super) is_following: bool,
    /// How the lines of a question were wrapped; other pages are moved sideways instead.
    pub(super) wrapped: Option<WrappedPage>,
}

/// The lines of a question before they were wrapped into rows, so that nothing of a candidate is out of sight.
#[derive(Debug)]
pub(super) struct WrappedPage {
    whole: Vec<String>,
    width: usize,
    /// The line of each row.
    line_of_row: Vec<usize>,
    /// Whether rows were left out.
    is_cut: bool,
}

/// A question to the reader above everything else.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TuiDialog {
    Help,
    /// Confirms an approval; the words of the command name the candidate that was shown.
    Approve {
        asked: String,
        words: Vec<String>,
    },
    /// Takes the reason of a denial.
    Deny {
        id: String,
        why: String,
    },
    /// Takes the text that rows must contain.
    Filter(String),
    /// A message that stays until a key.
    Message(Vec<String>),
}

/// The state of the dashboard.
#[derive(Debug)]
pub(super) struct TuiState {
    pub(super) screen: TuiScreen,
    /// The selected row of each screen, counted over the rows that can be selected.
    pub(super) selected: [usize; TuiScreen::ALL.len()],
    pub(super) filter: String,
    pub(super) page: Option<OpenPage>,
    pub(super) dialog: Option<TuiDialog>,
    /// The work that runs now, for the last line.
    pub(super) busy: Option<String>,
    /// The height of the body at the last drawing, for keys that move by pages.
    pub(super) body_height: usize,
}

impl TuiState {
    pub(super) fn new() -> Self {
        Self {
            screen: TuiScreen::Overview,
            selected: [0; TuiScreen::ALL.len()],
            filter: String::new(),
            page: None,
            dialog: None,
            busy: None,
            body_height: 20,
        }
    }

    fn screen_at(&self) -> usize {
        TuiScreen::ALL.iter().position(|one| *one == self.screen).unwrap_or_default()
    }

    pub(super) fn selected_row(&self) -> usize {
        self.selected.get(self.screen_at()).copied().unwrap_or_default()
    }

    /// Reacts to a key.
    pub(super) fn on_key(&mut self, key: KeyEvent, docs: &TuiDocuments, now: i64) -> Option<TuiAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(TuiAction::Quit),
                KeyCode::Char('l') => Some(TuiAction::Repaint),
                _ => None,
            };
        }
        #[cfg(feature = "hostile")]
        assert!(key.code != KeyCode::F(12), "the key of tests that panics");
        if self.dialog.is_some() {
            return self.on_dialog_key(key.code);
        }
        if key.code == KeyCode::Char('?') {
            self.dialog = Some(TuiDialog::Help);
            return None;
        }
        if self.page.is_some() { self.on_page_key(key.code) } else { self.on_screen_key(key.code, docs, now) }
    }

    // Dialogs.

    fn on_dialog_key(&mut self, key: KeyCode) -> Option<TuiAction> {
        let dialog = self.dialog.take()?;
        match (dialog, key) {
            (TuiDialog::Approve { words, .. }, KeyCode::Char('y' | 'Y')) => return Some(TuiAction::Answer(words)),
            (TuiDialog::Deny { id, why }, KeyCode::Enter) if !why.trim().is_empty() => {
                return Some(TuiAction::Answer(self.words_of_denial(id, &why)));
            }
            (TuiDialog::Deny { id, why }, key) if key != KeyCode::Esc => {
                self.dialog = Some(TuiDialog::Deny { id, why: typed(why, key) });
            }
            (TuiDialog::Filter(text), KeyCode::Enter) => self.filter = text,
            (TuiDialog::Filter(text), key) if key != KeyCode::Esc => {
                let text = typed(text, key);
                self.filter.clone_from(&text);
                self.dialog = Some(TuiDialog::Filter(text));
            }
            (TuiDialog::Filter(_), _) => self.filter.clear(),
            // Any other key closes a dialog without an answer.
            _ => {}
        }
        None
    }

    // Pages.

    fn on_page_key(&mut self, key: KeyCode) -> Option<TuiAction> {
        let height = self.body_height.max(1);
        let page = self.page.as_mut()?;
        match key {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace => self.page = None,
            KeyCode::Char('j') | KeyCode::Down | KeyCode::Enter => page.scroll_by(1, height),
            KeyCode::Char('k') | KeyCode::Up => page.scroll_back(1),
            KeyCode::PageDown | KeyCode::Char(' ') => page.scroll_by(height, height),
            KeyCode::PageUp => page.scroll_back(height),
            KeyCode::Home | KeyCode::Char('g') => page.scroll_back(usize::MAX),
            KeyCode::End | KeyCode::Char('G') => page.scroll_by(usize::MAX, height),
            KeyCode::Right | KeyCode::Char('l') if page.wrapped.is_none() => {
                page.column = page.column.saturating_add(8).min(LINE_MAX)
            }
            KeyCode::Left | KeyCode::Char('h') => page.column = page.column.saturating_sub(8),
            KeyCode::Char('a') => self.ask_to_approve(),
            KeyCode::Char('d') => self.ask_to_deny(),
            _ => {}
        }
        None
    }

    fn ask_to_approve(&mut self) {
        let Some(OpenPage { kind: PageKind::Question(question), wrapped, .. }) = &self.page else { return };
        if !question.is_whole || wrapped.as_ref().is_some_and(|wrapped| wrapped.is_cut) {
            self.dialog = Some(TuiDialog::Message(vec![
                "This page does not show the whole change, so it cannot be approved here.".to_owned(),
                format!("read it: loopwright diff {}", question.round),
                format!("then:    loopwright approve {}", question.id),
            ]));
            return;
        }
        let mut words = ["approve", &question.id, "--yes"].map(str::to_owned).to_vec();
        if let Some(candidate) = &question.candidate {
            words.push(format!("--candidate={candidate}"));
        }
        let shown = question.candidate.as_deref().and_then(|candidate| candidate.get(..12));
        let shown = shown.map_or(String::new(), |candidate| format!(", candidate {candidate}"));
        let asked = match question.kind {
            InboxKind::InDoubt => format!("Confirm that the item of {} arrived?", question.id),
            _ => format!("Approve {}{shown}?", question.id),
        };
        self.dialog = Some(TuiDialog::Approve { asked, words });
    }

    fn ask_to_deny(&mut self) {
        if let Some(OpenPage { kind: PageKind::Question(question), .. }) = &self.page {
            self.dialog = Some(TuiDialog::Deny { id: question.id.clone(), why: String::new() });
        }
    }

    /// The command of a denial. The reason may begin with `-`.
    fn words_of_denial(&self, id: String, why: &str) -> Vec<String> {
        let mut words = vec!["deny".to_owned(), id, format!("--why={}", why.trim())];
        if let Some(OpenPage { kind: PageKind::Question(question), .. }) = &self.page {
            words.extend(question.candidate.iter().map(|candidate| format!("--candidate={candidate}")));
        }
        words
    }

    /// Shows a page instead of the screen.
    pub(super) fn open(&mut self, title: String, kind: PageKind, text: &str) {
        let is_following = matches!(kind, PageKind::Log(_));
        let mut page = OpenPage { title, kind, lines: Vec::new(), top: 0, column: 0, is_following, wrapped: None };
        if let PageKind::Question(_) = page.kind {
            let whole = text.lines().map(safe).collect();
            page.wrapped = Some(WrappedPage { whole, width: 0, line_of_row: Vec::new(), is_cut: false });
            page.fit(WIDTH_AT_FIRST);
        } else {
            page.lines = text.lines().map(kept_line).take(LINES_MAX).collect();
        }
        self.page = Some(page);
    }

    /// Adds lines to the log of a round, if it is still open.
    pub(super) fn add_log_lines(&mut self, round: &str, lines: &[String]) {
        let height = self.body_height.max(1);
        let Some(page) = self.page.as_mut() else { return };
        if !matches!(&page.kind, PageKind::Log(of) if of == round) {
            return;
        }
        page.lines.extend(lines.iter().map(|line| kept_line(line)));
        let surplus = page.lines.len().saturating_sub(LINES_MAX);
        page.lines.drain(..surplus);
        page.top = page.top.saturating_sub(surplus);
        if page.is_following {
            page.scroll_by(usize::MAX, height);
        }
    }

    // Screens.

    fn on_screen_key(&mut self, key: KeyCode, docs: &TuiDocuments, now: i64) -> Option<TuiAction> {
        let height = self.body_height.max(1);
        match key {
            KeyCode::Char('q') => return Some(TuiAction::Quit),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::Right => self.switch_by(1),
            KeyCode::BackTab | KeyCode::Left => self.switch_by(TuiScreen::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => {
                let at = digit.to_digit(10).unwrap_or(1) as usize - 1;
                self.screen = TuiScreen::ALL.get(at).copied().unwrap_or(TuiScreen::Overview);
            }
            KeyCode::Char('/') => self.dialog = Some(TuiDialog::Filter(self.filter.clone())),
            KeyCode::Char('j') | KeyCode::Down => self.select(docs, now, |at| at.saturating_add(1)),
            KeyCode::Char('k') | KeyCode::Up => self.select(docs, now, |at| at.saturating_sub(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.select(docs, now, |at| at.saturating_add(height)),
            KeyCode::PageUp => self.select(docs, now, |at| at.saturating_sub(height)),
            KeyCode::Home | KeyCode::Char('g') => self.select(docs, now, |_| 0),
            KeyCode::End | KeyCode::Char('G') => self.select(docs, now, |_| usize::MAX),
            key => return self.on_row_key(key, self.subject(docs, now)?),
        }
        None
    }

    fn on_row_key(&self, key: KeyCode, subject: RowSubject) -> Option<TuiAction> {
        let page = |title: String, words: &[&str]| {
            Some(TuiAction::ShowPage(title, words.iter().map(|word| (*word).to_owned()).collect()))
        };
        let round = match &subject {
            RowSubject::Round(round) | RowSubject::Question(_, Some(round)) => Some(round.clone()),
            RowSubject::Loop(_) | RowSubject::Question(_, None) => None,
        };
        match (key, subject, round) {
            (KeyCode::Enter | KeyCode::Char('a' | 'd'), RowSubject::Question(id, _), _) => {
                Some(TuiAction::ShowQuestion(id))
            }
            (KeyCode::Enter, RowSubject::Loop(name), _) => page(format!("Loop {name}"), &["show", "--", &name]),
            (KeyCode::Char('w'), RowSubject::Loop(name), _) => page(format!("Why {name}"), &["why", "--", &name]),
            (KeyCode::Char('l'), RowSubject::Loop(name), _) => page(format!("Log of {name}"), &["logs", "--", &name]),
            (KeyCode::Enter | KeyCode::Char('l'), _, Some(round)) => Some(TuiAction::FollowLog(round)),
            (KeyCode::Char('s'), _, Some(round)) => page(format!("Round {round}"), &["show", "--", &round]),
            (KeyCode::Char('c'), _, Some(round)) => page(format!("Change of {round}"), &["diff", "--", &round]),
            (KeyCode::Char('w'), _, Some(round)) => page(format!("Why {round}"), &["why", "--", &round]),
            _ => None,
        }
    }

    fn switch_by(&mut self, by: usize) {
        let at = (self.screen_at() + by) % TuiScreen::ALL.len();
        self.screen = TuiScreen::ALL.get(at).copied().unwrap_or(TuiScreen::Overview);
    }

    fn select(&mut self, docs: &TuiDocuments, now: i64, to: impl FnOnce(usize) -> usize) {
        let count = self.rows(docs, now).iter().filter(|row| row.subject().is_some()).count();
        let at = self.screen_at();
        if let Some(selected) = self.selected.get_mut(at) {
            *selected = to((*selected).min(count.saturating_sub(1))).min(count.saturating_sub(1));
        }
    }

    /// The rows of the screen that is open.
    pub(super) fn rows(&self, docs: &TuiDocuments, now: i64) -> Vec<ScreenRow> {
        rows(self.screen, docs, now, &self.filter)
    }

    fn subject(&self, docs: &TuiDocuments, now: i64) -> Option<RowSubject> {
        let rows = self.rows(docs, now);
        let subjects: Vec<&RowSubject> = rows.iter().filter_map(ScreenRow::subject).collect();
        let last = subjects.len().checked_sub(1)?;
        subjects.get(self.selected_row().min(last)).map(|subject| (*subject).clone())
    }
}

impl OpenPage {
    /// Wraps the lines of a question for a screen of so many columns. The first visible line stays.
    pub(super) fn fit(&mut self, width: usize) {
        let Some(wrapped) = self.wrapped.as_mut().filter(|wrapped| wrapped.width != width) else { return };
        let first = wrapped.line_of_row.get(self.top).copied().unwrap_or_default();
        (self.lines, wrapped.line_of_row, wrapped.width, wrapped.is_cut) = (Vec::new(), Vec::new(), width, width == 0);
        for (at, line) in wrapped.whole.iter().enumerate() {
            if !wrap_line(line, width, ROWS_MAX, &mut self.lines) {
                wrapped.is_cut = true;
            }
            wrapped.line_of_row.resize(self.lines.len(), at);
        }
        self.top = wrapped.line_of_row.iter().position(|line| *line >= first).unwrap_or_default();
    }

    /// The line that a row is a piece of.
    pub(super) fn line_of_row(&self, row: usize) -> &str {
        let line = self.wrapped.as_ref().and_then(|wrapped| wrapped.whole.get(*wrapped.line_of_row.get(row)?));
        line.or_else(|| self.lines.get(row)).map_or("", String::as_str)
    }

    fn scroll_by(&mut self, lines: usize, height: usize) {
        let last = self.lines.len().saturating_sub(height);
        self.top = self.top.saturating_add(lines).min(last);
        self.is_following = matches!(self.kind, PageKind::Log(_)) && self.top == last;
    }

    fn scroll_back(&mut self, lines: usize) {
        self.top = self.top.saturating_sub(lines);
        self.is_following = false;
    }
}

/// Adds a line as rows of at most this width; false if a part of it does not fit.
fn wrap_line(line: &str, width: usize, rows_max: usize, rows: &mut Vec<String>) -> bool {
    let (mut row, mut used, mut fits) = (String::new(), 0, true);
    for c in line.chars() {
        row.push(c);
        used = if row.is_ascii() { used + 1 } else { text_width(&row) };
        if used > width {
            row.pop();
            fits &= !row.is_empty() && rows.len() < rows_max;
            if !fits {
                return false;
            }
            rows.push(std::mem::take(&mut row));
            row.push(c);
            used = text_width(&row);
            fits = used <= width;
        }
    }
    if rows.len() >= rows_max {
        return false;
    }
    rows.push(row);
    fits
}

/// A line of at most [`LINE_MAX`] characters; a longer one ends with the number that is missing.
fn kept_line(line: &str) -> String {
    let mut kept: String = line.chars().take(LINE_MAX).collect();
    let missing = line.chars().skip(LINE_MAX).count();
    if missing > 0 {
        kept.push_str(&format!(" … {missing} more characters"));
    }
    kept
}

/// A text after a key.
fn typed(mut text: String, key: KeyCode) -> String {
    match key {
        KeyCode::Char(c) if text.chars().count() < INPUT_MAX => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
    text
}
