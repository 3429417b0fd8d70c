//! Aligned columns for people. Cells are escaped here, so that no cell can break its row.

use super::safe;

/// Spaces between two columns.
const GAP: usize = 2;

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these headings and rows.
    pub(crate) fn new<'h, S: AsRef<str>>(
        headings: impl IntoIterator<Item = &'h str>,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = S>>,
    ) -> Self {
        let headings = headings.into_iter().map(str::to_owned).collect();
        let rows = rows.into_iter().map(|cells| cells.into_iter().map(|cell| safe(cell.as_ref())).collect());
        Self { rows: std::iter::once(headings).chain(rows).collect() }
    }

    /// The whole table, without a final line end.
    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        let lines = self.rows.iter().map(|row| line(row, &widths));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The table in as many parts as `width` needs, one below the other; each begins with the first column.
    pub(crate) fn render_within(&self, width: usize) -> String {
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
        let parts = parts.iter().map(|columns| self.part(columns).render());
        parts.collect::<Vec<_>>().join("\n\n")
    }

    fn part(&self, columns: &[usize]) -> Self {
        let cells = |row: &Vec<String>| columns.iter().map(|at| row.get(*at).cloned().unwrap_or_default()).collect();
        Self { rows: self.rows.iter().map(cells).collect() }
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
    cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
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
    fn too_wide_a_table_comes_in_parts_that_each_begin_with_the_first_column() {
        let table = TextTable::new(["LOOP", "ONE", "TWO", "THREE"], [["fix", "1", "2", "3"]]);
        assert_eq!(table.render_within(usize::MAX), table.render());
        assert_eq!(table.render_within(14), "LOOP  ONE  TWO\nfix   1    2\n\nLOOP  THREE\nfix   3");
        assert_eq!(table.render_within(1).matches("fix").count(), 3, "every column is shown, however narrow it is");
    }
}
