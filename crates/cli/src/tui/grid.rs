//! Rows of cells in columns: each column has a fixed width or the rest of the row, and gives way on a narrow screen.
//! Nothing here is wider than its area, whatever the text is.

use super::theme::{TextTone, TuiTheme};
use crate::output::safe;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::text::Span;

/// The longest text of a cell, in characters.
const CELL_MAX: usize = 1000;

/// How wide a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellWidth {
    /// This many columns, to the left.
    Left(u16),
    /// This many columns, to the right: for numbers.
    Right(u16),
    /// The columns that the others leave.
    Rest,
}

/// One piece of text in a row.
#[derive(Debug, Clone)]
pub(super) struct GridCell {
    text: String,
    tone: TextTone,
    width: CellWidth,
    /// The screen needs this many columns, otherwise the cell is left out.
    from: u16,
}

impl GridCell {
    /// A cell with foreign text, made harmless.
    pub(super) fn new(width: CellWidth, tone: TextTone, text: &str) -> Self {
        let cut: String = text.chars().take(CELL_MAX).collect();
        Self { text: safe(cut.trim()), tone, width, from: 0 }
    }

    /// Only on screens with so many columns.
    pub(super) fn only_from(self, columns: u16) -> Self {
        Self { from: columns, ..self }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Draws a row into the first line of an area.
pub(super) fn draw_row(buffer: &mut Buffer, area: Rect, cells: &[GridCell], theme: TuiTheme, is_selected: bool) {
    if area.is_empty() {
        return;
    }
    let shown: Vec<&GridCell> = cells.iter().filter(|cell| cell.from <= area.width).collect();
    let gaps = u16::try_from(shown.len().saturating_sub(1)).unwrap_or(u16::MAX);
    let fixed = shown.iter().fold(gaps, |sum, cell| match cell.width {
        CellWidth::Left(width) | CellWidth::Right(width) => sum.saturating_add(width),
        CellWidth::Rest => sum,
    });
    let rest = area.width.saturating_sub(fixed);
    if is_selected {
        buffer.set_style(Rect { height: 1, ..area }, theme.selected());
    }
    let mut x = area.x;
    for cell in shown {
        let (width, is_right) = match cell.width {
            CellWidth::Left(width) => (width, false),
            CellWidth::Right(width) => (width, true),
            CellWidth::Rest => (rest, false),
        };
        let width = width.min(area.right().saturating_sub(x));
        // On a selected row only the inversion counts, so that every colour stays readable.
        let style = if is_selected { theme.selected() } else { theme.style(cell.tone) };
        put(buffer, (x, area.y), &cell.text, width, style, is_right);
        x = x.saturating_add(width).saturating_add(1);
    }
}

/// Writes a text into so many columns; a longer one ends with `…`.
fn put(buffer: &mut Buffer, at: (u16, u16), text: &str, width: u16, style: Style, is_right: bool) {
    if width == 0 || !buffer.area.contains(at.into()) {
        return;
    }
    let needs = text_width(text);
    if needs <= usize::from(width) {
        let pad = if is_right { usize::from(width) - needs } else { 0 };
        buffer.set_stringn(at.0.saturating_add(u16::try_from(pad).unwrap_or(0)), at.1, text, usize::from(width), style);
        return;
    }
    let (end, _) = buffer.set_stringn(at.0, at.1, text, usize::from(width) - 1, style);
    buffer.set_stringn(end, at.1, "…", 1, style);
}

/// The columns of a text on a screen.
pub(super) fn text_width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Writes one line of text into the first line of an area.
pub(super) fn draw_text(buffer: &mut Buffer, area: Rect, text: &str, style: Style) {
    if !area.is_empty() {
        put(buffer, (area.x, area.y), text, area.width, style, false);
    }
}

/// The line of an area with this number, if it has one.
pub(super) fn line_of(area: Rect, at: usize) -> Rect {
    let at = u16::try_from(at).unwrap_or(u16::MAX);
    if at >= area.height {
        return Rect { height: 0, ..area };
    }
    Rect { y: area.y.saturating_add(at), height: 1, ..area }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: u16, cells: &[GridCell]) -> String {
        let area = Rect::new(0, 0, width, 1);
        let mut buffer = Buffer::empty(area);
        draw_row(&mut buffer, area, cells, TuiTheme { has_colour: false }, false);
        buffer.content().iter().map(ratatui_core::buffer::Cell::symbol).collect()
    }

    #[test]
    fn long_text_is_cut_numbers_are_to_the_right_and_narrow_screens_lose_columns() {
        let cells = [
            GridCell::new(CellWidth::Left(4), TextTone::Plain, "abcdef"),
            GridCell::new(CellWidth::Rest, TextTone::Plain, "the rest"),
            GridCell::new(CellWidth::Right(4), TextTone::Plain, "7").only_from(18),
        ];
        assert_eq!(shown(18, &cells), "abc… the rest    7");
        assert_eq!(shown(10, &cells), "abc… the …");
        assert_eq!(shown(2, &cells), "a…");
        assert_eq!(shown(0, &cells), "");
    }

    #[test]
    fn hostile_text_is_inert_and_wide_text_keeps_its_columns() {
        let cells = [
            GridCell::new(CellWidth::Rest, TextTone::Plain, "\x1b[2J\u{202e}x"),
            GridCell::new(CellWidth::Right(2), TextTone::Plain, "9"),
        ];
        assert_eq!(shown(30, &cells), r"\u{1b}[2J\u{202e}x           9");
        assert_eq!(text_width("日本"), 4);
        let wide = [GridCell::new(CellWidth::Left(3), TextTone::Plain, "日本語")];
        assert_eq!(shown(3, &wide).chars().filter(|c| *c == '…').count(), 1);
    }
}
