//! Draws the dashboard into a buffer of any size, including one without a single cell.

use super::documents::{TuiDocuments, text};
use super::grid::{draw_row, draw_text, line_of, text_width};
use super::screens::{ScreenRow, TuiScreen};
use super::state::{OpenPage, PageKind, TuiDialog, TuiState};
use super::theme::{TextTone, TuiTheme};
use crate::output::safe;
use crate::view::time;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use serde_json::Value;

/// The keys, for the help page: what they do on a screen and on a page.
const HELP: [(&str, &str); 17] = [
    ("1 2 3 4 5, Tab", "switch the screen"),
    ("j k, ↓ ↑", "move; PgDn PgUp g G move far"),
    ("Enter", "open: the log of a round, a question, a loop"),
    ("l", "live log"),
    ("s", "facts, gates and spend of the round"),
    ("c", "change of the round as a diff"),
    ("w", "why a loop waits, or a round ended as it did"),
    ("/", "show only rows with a text; Esc shows all"),
    ("q, Ctrl-C", "quit; running rounds continue"),
    ("", ""),
    ("on a question", ""),
    ("a", "approve the candidate that is shown, after `y`"),
    ("d", "deny it, with a reason"),
    ("on a page", ""),
    ("h l, ← →", "move the text sideways"),
    ("G", "go to the end; a log then follows"),
    ("q, Esc", "back"),
];

/// Everything that a drawing depends on.
pub(super) struct TuiDrawing<'d> {
    pub(super) docs: &'d TuiDocuments,
    pub(super) theme: TuiTheme,
    pub(super) now: i64,
}

impl TuiDrawing<'_> {
    /// Draws everything, and notes the height of the body in the state.
    pub(super) fn draw(&self, buffer: &mut Buffer, state: &mut TuiState) {
        let area = buffer.area;
        // A few lines show the body alone, because it has the facts.
        let (head, foot) = if area.height >= 6 { (2, 1) } else { (0, 0) };
        let body = Rect {
            y: area.y.saturating_add(head),
            height: area.height.saturating_sub(head).saturating_sub(foot),
            ..area
        };
        state.body_height = usize::from(body.height).saturating_sub(usize::from(state.page.is_some()));
        if head > 0 {
            self.tabs(buffer, line_of(area, 0), state);
            self.summary(buffer, line_of(area, 1), state);
            self.foot(buffer, line_of(area, usize::from(area.height) - 1), state);
        }
        if let Some(page) = &mut state.page {
            page.fit(usize::from(body.width));
        }
        match &state.page {
            Some(page) => self.page(buffer, body, page),
            None => self.screen(buffer, body, state),
        }
        if let Some(dialog) = &state.dialog {
            self.dialog(buffer, area, dialog);
        }
    }

    fn style(&self, tone: TextTone) -> Style {
        self.theme.style(tone)
    }

    fn tabs(&self, buffer: &mut Buffer, area: Rect, state: &TuiState) {
        let waiting = self.docs.list("inbox", "items").len();
        let mut x = area.x;
        let is_wide = area.width >= 72;
        if is_wide {
            x = put(buffer, area, x, "loopwright  ", self.style(TextTone::Accent));
        }
        for (at, screen) in TuiScreen::ALL.into_iter().enumerate() {
            let count = if screen == TuiScreen::Inbox && waiting > 0 { format!(" {waiting}") } else { String::new() };
            let title = format!(" {} {}{count} ", at + 1, screen.title());
            let style = match screen == state.screen {
                true => self.theme.selected(),
                false if !count.is_empty() => self.style(TextTone::Waiting),
                false => self.style(TextTone::Plain),
            };
            x = put(buffer, area, x, &title, style);
        }
        let clock = time::time_of_day(self.now);
        put_right(buffer, area, x, &clock, self.style(TextTone::Dim));
    }

    /// One line with the numbers that matter.
    fn summary(&self, buffer: &mut Buffer, area: Rect, state: &TuiState) {
        if self.docs.read_ms == 0 {
            draw_text(buffer, area, "reading …", self.style(TextTone::Dim));
            return;
        }
        let rounds = self.docs.list("rounds", "rounds");
        let running = rounds.iter().filter(|round| text(round, "status") == "running").count();
        let waiting = self.docs.list("inbox", "items").len();
        let loops = self.docs.list("status", "loops").len();
        let look = |count: usize, tone: TextTone| self.style(if count > 0 { tone } else { TextTone::Dim });
        let mut x = put(buffer, area, area.x, &format!("{loops} loops"), self.style(TextTone::Dim));
        x = put(buffer, area, x, &format!("  ● {running} running"), look(running, TextTone::Live));
        x = put(buffer, area, x, &format!("  ◆ {waiting} waiting"), look(waiting, TextTone::Waiting));
        x = put(buffer, area, x, &format!("  ${:.2} today", self.docs.spent_today()), self.style(TextTone::Plain));
        if !state.filter.is_empty() {
            x = put(buffer, area, x, &format!("  /{}", safe(&state.filter)), self.style(TextTone::Accent));
        }
        let (daemon, tone) = self.daemon();
        put_right(buffer, area, x, &daemon, self.style(tone));
    }

    fn daemon(&self) -> (String, TextTone) {
        let Some(pid) = self.docs.value("status", "/daemon/pid").and_then(Value::as_i64) else {
            return ("no daemon".to_owned(), TextTone::Waiting);
        };
        let since = self.docs.value("status", "/daemon").and_then(|daemon| super::documents::moment(daemon, "since"));
        let up = since.map_or(String::new(), |at| format!(", up {}", time::elapsed_text(self.now - at)));
        (format!("daemon {pid}{up}"), TextTone::Good)
    }

    fn foot(&self, buffer: &mut Buffer, area: Rect, state: &TuiState) {
        let keys = match &state.page {
            _ if state.busy.is_some() => state.busy.clone().unwrap_or_default(),
            Some(OpenPage { kind: PageKind::Question(_), .. }) => {
                "a approve  d deny  j k scroll  q back  ? help".to_owned()
            }
            Some(OpenPage { kind: PageKind::Log(_), .. }) => "j k scroll  G follow  q back  ? help".to_owned(),
            Some(_) => "j k scroll  h l sideways  q back  ? help".to_owned(),
            None if state.screen == TuiScreen::Inbox => {
                "Enter open, then a approve or d deny  / filter  ? help  q quit".to_owned()
            }
            None if state.screen == TuiScreen::Spend => "1-5 screens  ? help  q quit".to_owned(),
            None => "Enter open  l log  s facts  c change  w why  / filter  ? help  q quit".to_owned(),
        };
        let tone = if state.busy.is_some() { TextTone::Live } else { TextTone::Dim };
        draw_text(buffer, area, &safe(&keys), self.style(tone));
    }

    fn screen(&self, buffer: &mut Buffer, area: Rect, state: &TuiState) {
        let rows = state.rows(self.docs, self.now);
        let subjects: Vec<usize> =
            rows.iter().enumerate().filter(|(_, row)| row.subject().is_some()).map(|(at, _)| at).collect();
        let selected = subjects.get(state.selected_row().min(subjects.len().saturating_sub(1))).copied();
        let height = usize::from(area.height);
        // The selected row is in view, with a row of what follows.
        let top = match selected {
            Some(at) if height <= 1 => at,
            Some(at) if at + 2 > height => (at + 2 - height).min(rows.len().saturating_sub(height)),
            _ => 0,
        };
        for (at, row) in rows.iter().enumerate().skip(top).take(height) {
            self.row(buffer, line_of(area, at - top), row, selected == Some(at));
        }
    }

    fn row(&self, buffer: &mut Buffer, area: Rect, row: &ScreenRow, is_selected: bool) {
        match row {
            ScreenRow::Section(title, tone, more) => self.section(buffer, area, title, *tone, more),
            ScreenRow::Columns(cells) | ScreenRow::Text(cells) => draw_row(buffer, area, cells, self.theme, false),
            ScreenRow::Line(cells, _) => draw_row(buffer, area, cells, self.theme, is_selected),
            ScreenRow::Gap => {}
        }
    }

    fn section(&self, buffer: &mut Buffer, area: Rect, title: &str, tone: TextTone, more: &str) {
        if area.is_empty() {
            return;
        }
        let style = self.style(tone).add_modifier(ratatui_core::style::Modifier::BOLD);
        let x = put(buffer, area, area.x, title, style);
        let x = put(
            buffer,
            area,
            x,
            &if more.is_empty() { " ".to_owned() } else { format!(" {more} ") },
            self.style(TextTone::Dim),
        );
        let line = "─".repeat(usize::from(area.right().saturating_sub(x)));
        put(buffer, area, x, &line, self.style(TextTone::Dim));
    }

    fn page(&self, buffer: &mut Buffer, area: Rect, page: &OpenPage) {
        let last = page.top.saturating_add(usize::from(area.height).saturating_sub(1)).min(page.lines.len());
        let follows = if page.is_following { ", following" } else { "" };
        let place = format!("{last}/{}{follows}", page.lines.len());
        self.section(buffer, line_of(area, 0), &safe(&page.title), TextTone::Accent, &place);
        for (at, line) in page.lines.iter().skip(page.top).take(usize::from(area.height).saturating_sub(1)).enumerate()
        {
            let shown: String = line.chars().skip(page.column).collect();
            draw_text(
                buffer,
                line_of(area, at + 1),
                &safe(&shown),
                self.style(line_tone(page.line_of_row(page.top + at), &page.kind)),
            );
        }
    }

    fn dialog(&self, buffer: &mut Buffer, area: Rect, dialog: &TuiDialog) {
        let (title, lines): (&str, Vec<String>) = match dialog {
            TuiDialog::Help => {
                let line = |(keys, what): &(&str, &str)| format!("{keys:<16}{what}");
                ("Keys", HELP.iter().map(line).collect())
            }
            TuiDialog::Approve { asked, .. } => {
                ("Approve", vec![asked.clone(), String::new(), "y approves, any other key goes back".to_owned()])
            }
            TuiDialog::Deny { id, why } => (
                "Deny",
                vec![
                    format!("Why deny {id}? Makers of later rounds see the reason."),
                    format!("> {}▏", end_of(why, 60)),
                    "Enter denies, Esc goes back".to_owned(),
                ],
            ),
            TuiDialog::Filter(text) => {
                let line = Rect { y: area.bottom().saturating_sub(1), height: area.height.min(1), ..area };
                clear(buffer, line);
                draw_text(buffer, line, &format!("/{}▏", safe(&end_of(text, 60))), self.style(TextTone::Accent));
                return;
            }
            TuiDialog::Message(lines) => ("Result", lines.clone()),
        };
        self.boxed(buffer, area, title, &lines);
    }

    /// A box in the middle of the screen, as large as its text and the screen allow.
    fn boxed(&self, buffer: &mut Buffer, area: Rect, title: &str, lines: &[String]) {
        let widest = lines.iter().map(|line| text_width(line)).max().unwrap_or_default().max(30) + 4;
        let width = u16::try_from(widest).unwrap_or(u16::MAX).min(area.width);
        let lines: Vec<String> =
            lines.iter().flat_map(|line| wrapped(line, usize::from(width).saturating_sub(4))).collect();
        let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
        let place =
            Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
        clear(buffer, place);
        self.frame(buffer, place, title);
        let inner = Rect {
            x: place.x.saturating_add(2),
            y: place.y.saturating_add(1),
            width: width.saturating_sub(4),
            height: height.saturating_sub(2),
        };
        for (at, line) in lines.iter().take(usize::from(inner.height)).enumerate() {
            draw_text(buffer, line_of(inner, at), &safe(line), self.style(TextTone::Plain));
        }
    }

    fn frame(&self, buffer: &mut Buffer, place: Rect, title: &str) {
        let style = self.style(TextTone::Accent);
        let inside = usize::from(place.width).saturating_sub(2);
        let title = format!("─ {title} ");
        let top: String = title.chars().chain(std::iter::repeat('─')).take(inside).collect();
        draw_text(buffer, line_of(place, 0), &format!("╭{top}╮"), style);
        for at in 1..usize::from(place.height).saturating_sub(1) {
            draw_text(buffer, line_of(place, at), &format!("│{}│", " ".repeat(inside)), style);
        }
        if place.height > 1 {
            draw_text(
                buffer,
                line_of(place, usize::from(place.height) - 1),
                &format!("╰{}╯", "─".repeat(inside)),
                style,
            );
        }
    }
}

/// Writes a text at a column of a line and returns the column behind it.
fn put(buffer: &mut Buffer, area: Rect, x: u16, text: &str, style: Style) -> u16 {
    let left = area.right().saturating_sub(x);
    if area.is_empty() || left == 0 {
        return x;
    }
    buffer.set_stringn(x, area.y, text, usize::from(left), style).0
}

/// Writes a text at the right end of a line, if there is room behind a column.
fn put_right(buffer: &mut Buffer, area: Rect, after: u16, text: &str, style: Style) {
    let width = u16::try_from(text_width(text)).unwrap_or(u16::MAX);
    let x = area.right().saturating_sub(width);
    if !area.is_empty() && x > after.saturating_add(1) {
        put(buffer, area, x, text, style);
    }
}

fn clear(buffer: &mut Buffer, place: Rect) {
    for position in place.intersection(buffer.area).positions() {
        if let Some(cell) = buffer.cell_mut(position) {
            cell.reset();
        }
    }
}

/// The last characters of a typed text.
fn end_of(text: &str, count: usize) -> String {
    let skipped = text.chars().count().saturating_sub(count);
    text.chars().skip(skipped).collect()
}

/// A line in pieces of at most this many characters.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    if chars.is_empty() || width == 0 {
        return vec![String::new()];
    }
    chars.chunks(width).map(|piece| piece.iter().collect()).collect()
}

/// The look of a line of a page: diffs and logs have marks at their start.
fn line_tone(line: &str, kind: &PageKind) -> TextTone {
    if let PageKind::Log(_) = kind {
        return log_tone(line);
    }
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', b' ', ..] => TextTone::Strong,
        [b'@', b'@', ..] => TextTone::Live,
        [b'+', ..] => TextTone::Good,
        [b'-', ..] => TextTone::Bad,
        [first, ..] if first.is_ascii_lowercase() && line.len() < 40 && !line.contains(' ') => TextTone::Strong,
        _ => TextTone::Plain,
    }
}

/// Lines of agents are indented and have a mark behind the agent's name.
fn log_tone(line: &str) -> TextTone {
    if !line.starts_with("  ") {
        return TextTone::Strong;
    }
    match line.split_whitespace().nth(1) {
        Some(">") => TextTone::Live,
        Some("<" | "*") => TextTone::Dim,
        Some("!") => TextTone::Waiting,
        Some("✗") => TextTone::Bad,
        _ => TextTone::Plain,
    }
}
