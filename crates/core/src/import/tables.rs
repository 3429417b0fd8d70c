//! Tables in Markdown files that people edit: rows by the names of their columns. Everything else in the file is
//! ignored.

/// The most rows that are read.
const ROWS_MAX: usize = 1000;

/// A row: its line, and its cells by the lower-case names of their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableRow {
    pub(super) line: usize,
    cells: Vec<(String, String)>,
}

impl TableRow {
    /// The cell of the first column whose name contains one of these words.
    pub(super) fn cell(&self, words: &[&str]) -> Option<&str> {
        let found = words.iter().find_map(|word| self.cells.iter().find(|(name, _)| name.contains(word)));
        found.map(|(_, cell)| cell.as_str()).filter(|cell| !cell.is_empty())
    }
}

/// The rows of every table whose first column's name contains one of these words.
pub(super) fn rows(text: &str, first: &[&str]) -> Vec<TableRow> {
    let (mut header, mut rows): (Option<Vec<String>>, Vec<TableRow>) = (None, Vec::new());
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(cells) = cells(line) else {
            header = None;
            continue;
        };
        let starts = header.is_none() && lines.get(at + 1).is_some_and(|next| is_rule(next));
        if starts {
            header = Some(cells.iter().map(|cell| cell.to_lowercase()).collect());
        } else if let (Some(names), false, true) = (&header, is_rule(line), rows.len() < ROWS_MAX) {
            let is_wanted = names.first().is_some_and(|name| first.iter().any(|word| name.contains(word)));
            let row = TableRow { line: at + 1, cells: names.iter().cloned().zip(cells).collect() };
            rows.extend(is_wanted.then_some(row));
        }
    }
    rows
}

/// The cells of a line, without the marks of links, code and emphasis.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    Some(inner.split('|').map(plain).collect())
}

fn plain(cell: &str) -> String {
    let mut text = cell.trim();
    if let Some((label, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once("](")) {
        text = label;
    }
    text.chars().filter(|c| !matches!(c, '`' | '*')).collect::<String>().trim().to_owned()
}

/// The line below the names of the columns.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_lines_and_cells_by_column() {
        let text = "# Loops\n\n| Pattern | Cadence | Status |\n|---|:-:|---|\n| [Daily Triage](a.md) | `1d` | **L1** |\n| x |\n\n| Other |\n|---|\n| no |\n";
        let found = rows(text, &["pattern"]);
        assert_eq!(found.len(), 2);
        let cell = |row: usize, name: &str| found[row].cell(&[name]);
        assert_eq!(
            (found[0].line, cell(0, "pattern"), cell(0, "cadence"), cell(0, "status")),
            (5, Some("Daily Triage"), Some("1d"), Some("L1"))
        );
        assert_eq!((cell(1, "pattern"), cell(1, "cadence")), (Some("x"), None));
        assert_eq!(rows("| a |\nno rule\n||\n|-|\n", &["a"]), []);
    }
}
