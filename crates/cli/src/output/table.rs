//! Aligned columns for people. Cells are escaped here, so that no cell can break its row.

use super::safe;

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new<'h>(headings: impl IntoIterator<Item = &'h str>) -> Self {
        Self { rows: vec![headings.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| safe(cell.as_ref())).collect());
    }

    /// The whole table, without a line end at its end.
    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        let lines = self.rows.iter().map(|row| line(row, &widths));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_cannot_break_rows() {
        let mut table = Table::new(["LOOP", "STATUS"]);
        table.row(["a", "idle"]);
        table.row(["grün-loop", "x\nFORGED  ok"]);
        assert_eq!(table.render(), "LOOP       STATUS\na          idle\ngrün-loop  x\\nFORGED  ok");
    }
}
