//! Aligned columns for people. Cells are escaped here, so that no cell can break its row.

use super::{CommandOutput, TextStyle, safe};

/// Spaces between two columns.
const GAP: usize = 2;

/// The least width of a column that is wrapped, however narrow the terminal is.
const LAST_MIN: usize = 12;

/// Applies a style to text, where the output shows it.
type Painter<'p> = dyn Fn(TextStyle, &str) -> String + 'p;

/// The colour of a cell by its text.
type CellStyle = fn(&str) -> Option<TextStyle>;

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
    /// The colour of a cell by its column and text.
    looks: Vec<(usize, CellStyle)>,
}

impl TextTable {
    /// A table with these headings and rows.
    pub(crate) fn new<'h, S: AsRef<str>>(
        headings: impl IntoIterator<Item = &'h str>,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = S>>,
    ) -> Self {
        let headings = headings.into_iter().map(str::to_owned).collect();
        let rows = rows.into_iter().map(|cells| cells.into_iter().map(|cell| safe(cell.as_ref())).collect());
        Self { rows: std::iter::once(headings).chain(rows).collect(), looks: Vec::new() }
    }

    /// The same table, with a colour for the cells of a column where the output shows colours.
    pub(crate) fn with_look(mut self, column: usize, look: fn(&str) -> Option<TextStyle>) -> Self {
        self.looks.push((column, look));
        self
    }

    /// The table for a terminal: bold headings, coloured cells, in parts if it is wider than the terminal.
    pub(crate) fn render_for(&self, out: &CommandOutput) -> String {
        self.render_parts(out.width(), &|look, text| out.style(look, text))
    }

    /// The whole table without styles and without a final line end.
    #[cfg(test)]
    pub(crate) fn render(&self) -> String {
        self.render_painted(usize::MAX, &|_, text| text.to_owned())
    }

    /// The last cell of a row that is wider than the terminal continues on further lines below its own column.
    fn render_painted(&self, width: usize, paint: &Painter<'_>) -> String {
        let widths = self.widths();
        let before: usize = widths.iter().rev().skip(1).map(|wide| wide + GAP).sum();
        let (last, left) = (widths.len().saturating_sub(1), width.saturating_sub(before).max(LAST_MIN));
        let lines = self.rows.iter().enumerate().flat_map(|(at, row)| {
            let pieces = wrap(row.get(last).map_or("", String::as_str), left);
            let first = row.iter().take(last).cloned().chain(pieces.first().cloned()).collect::<Vec<_>>();
            let more = pieces.into_iter().skip(1).map(|piece| {
                let look = if at == 0 { Some(TextStyle::Bold) } else { self.look(last, &row[last]) };
                format!("{}{}", " ".repeat(before), look.map_or(piece.clone(), |look| paint(look, &piece)))
            });
            std::iter::once(self.line(at == 0, &first, &widths, paint)).chain(more.collect::<Vec<_>>())
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// A cell is padded before it is coloured, so that colours do not move columns.
    fn line(&self, is_heading: bool, row: &[String], widths: &[usize], paint: &Painter<'_>) -> String {
        let last = row.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        let cells = row.iter().zip(widths).enumerate().take(last + 1).map(|(column, (cell, width))| {
            let width = if column == last { 0 } else { *width };
            let padded = format!("{cell:<width$}");
            let look = if is_heading { Some(TextStyle::Bold) } else { self.look(column, cell) };
            look.map_or(padded.clone(), |look| paint(look, &padded))
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
    }

    fn look(&self, column: usize, cell: &str) -> Option<TextStyle> {
        self.looks.iter().find(|(of, _)| *of == column).and_then(|(_, look)| look(cell))
    }

    /// The table in as many parts as `width` needs, one below the other; each begins with the first column.
    #[cfg(test)]
    pub(crate) fn render_within(&self, width: usize) -> String {
        self.render_parts(width, &|_, text| text.to_owned())
    }

    /// The same, with a function that applies styles.
    pub(crate) fn render_parts(&self, width: usize, paint: &Painter<'_>) -> String {
        let widths = self.widths();
        let mut parts = vec![Vec::new()];
        let mut used = 0;
        for (column, wide) in widths.iter().enumerate() {
            let first = widths.first().copied().unwrap_or(0);
            if column > 1 && used + GAP + wide > width {
                parts.push(vec![0]);
                used = first;
            }
            used += if column == 0 { *wide } else { GAP + wide };
            parts.last_mut().expect("there is always a part").push(column);
        }
        let parts = parts.iter().map(|columns| self.part(columns).render_painted(width, paint));
        parts.collect::<Vec<_>>().join("\n\n")
    }

    fn part(&self, columns: &[usize]) -> Self {
        let cells = |row: &Vec<String>| columns.iter().map(|at| row.get(*at).cloned().unwrap_or_default()).collect();
        let looks = self.looks.iter().filter_map(|(of, look)| Some((columns.iter().position(|at| at == of)?, *look)));
        Self { rows: self.rows.iter().map(cells).collect(), looks: looks.collect() }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

/// Text in lines of at most this many characters, broken at spaces where possible.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.to_owned();
        loop {
            let line = lines.last_mut().expect("there is always a line");
            let (used, wide) = (line.chars().count(), word.chars().count());
            let gap = usize::from(used > 0);
            if used + gap + wide <= width {
                line.push_str(&" ".repeat(gap));
                line.push_str(&word);
                break;
            }
            // A word that is longer than a whole line is cut.
            let rest = word.chars().skip(width.saturating_sub(used + gap)).collect::<String>();
            if wide > width && used + gap < width {
                let head: String = word.chars().take(width - used - gap).collect();
                line.push_str(&" ".repeat(gap));
                line.push_str(&head);
                word = rest;
            }
            lines.push(String::new());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_cannot_break_rows() {
        let table = TextTable::new(["LOOP", "STATUS"], [["a", "idle"], ["grün-loop", "x\nFORGED  ok"]]);
        assert_eq!(table.render(), "LOOP       STATUS\na          idle\ngrün-loop  x\\nFORGED  ok");
    }

    #[test]
    fn last_column_of_a_narrow_terminal_continues_below_itself() {
        let table = TextTable::new(["KEY", "VALUE"], [["a.b", "one two three fourfivesixseven"], ["c", ""]]);
        let expected = "KEY  VALUE\na.b  one two three\n     fourfivesixsev\n     en\nc";
        assert_eq!(table.render_within(19), expected);
        assert_eq!(table.render_within(usize::MAX), table.render());
        assert_eq!(wrap("one  two", 3), ["one", "two"]);
        assert_eq!(wrap("  one  two", 10), ["  one  two"], "text that fits stays as it is");
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn colours_do_not_move_columns() {
        let table = TextTable::new(["A", "B", "C"], [["x", "bad", "z"]])
            .with_look(1, |cell| (cell == "bad").then_some(TextStyle::Red));
        let painted = table.render_painted(usize::MAX, &|look, text| format!("<{look:?}>{text}</>"));
        assert_eq!(painted, "<Bold>A</>  <Bold>B  </>  <Bold>C</>\nx  <Red>bad</>  z");
        assert_eq!(table.render(), "A  B    C\nx  bad  z");
    }

    #[test]
    fn too_wide_a_table_comes_in_parts_that_each_begin_with_the_first_column() {
        let table = TextTable::new(["LOOP", "ONE", "TWO", "THREE"], [["fix", "1", "2", "3"]]);
        assert_eq!(table.render_within(usize::MAX), table.render());
        assert_eq!(table.render_within(14), "LOOP  ONE  TWO\nfix   1    2\n\nLOOP  THREE\nfix   3");
        assert_eq!(table.render_within(1).matches("fix").count(), 3, "every column is shown, however narrow it is");
    }
}
