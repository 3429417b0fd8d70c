//! A diff as people read it: a part for each file, line numbers, colours, and the notes of the verdict beside the lines
//! that they cite.

use super::highlight::code_line;
use super::parts::{badge, number, text};
use crate::web::markup::{Markup, element, encode};
use serde_json::Value;
use std::collections::BTreeMap;

/// The lines of a diff that a page has.
const LINES_MAX: usize = 1500;

/// Files that are open at first; of more files the others are closed.
const OPEN_MAX: usize = 12;

/// Notes by the file and the line of the new file that they cite.
pub(super) type CitedLines = BTreeMap<(String, u64), Vec<String>>;

/// One file of a diff.
#[derive(Debug, Default)]
struct FileDiff<'d> {
    path: &'d str,
    lines: Vec<&'d str>,
}

/// The diff of a `diff` document with its files, and notes beside the lines that they cite.
pub(super) fn change(document: &Value, cited: &CitedLines) -> Markup {
    let (whole, facts) = (text(document, "diff"), super::parts::list(document, "files"));
    let shown: Vec<&str> = whole.lines().take(LINES_MAX).collect();
    let files = files_of(&shown);
    let fact = |path: &str| facts.iter().find(|fact| text(fact, "path") == path);
    let part = |(at, file): (usize, &FileDiff<'_>)| {
        let is_open = if at < OPEN_MAX { FileState::Open } else { FileState::Closed };
        file_part((text(document, "round"), file), fact(file.path), cited, is_open)
    };
    let parts: Markup = files.iter().enumerate().map(part).collect();
    let left = whole.lines().count().saturating_sub(LINES_MAX);
    let is_cut = document.get("whole").and_then(Value::as_bool) == Some(false);
    let more = match (left, is_cut) {
        (0, false) => Markup::default(),
        (0, true) => element("p", &[("class", "faint")], "The change is larger than this; it was cut."),
        (left, _) => element(
            "p",
            &[("class", "faint")],
            format!("{left} more lines: loopwright diff {}", text(document, "round")),
        ),
    };
    parts.and(more)
}

fn files_of<'d>(lines: &[&'d str]) -> Vec<FileDiff<'d>> {
    let mut files: Vec<FileDiff<'d>> = Vec::new();
    for line in lines.iter().copied() {
        if let Some(rest) = line.strip_prefix("diff --git ") {
            let path = rest.rsplit_once(" b/").map_or(rest, |(_, path)| path);
            files.push(FileDiff { path, lines: Vec::new() });
            continue;
        }
        match files.last_mut() {
            Some(file) => file.lines.push(line),
            None => files.push(FileDiff { path: "", lines: vec![line] }),
        }
    }
    files
}

/// Whether a file's part is open at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    Open,
    Closed,
}

/// The state of a position in a file's diff.
#[derive(Debug, Default)]
struct DiffPlace {
    old: u64,
    new: u64,
    is_in_hunk: bool,
}

fn file_part(
    (round, file): (&str, &FileDiff<'_>),
    fact: Option<&Value>,
    cited: &CitedLines,
    state: FileState,
) -> Markup {
    let counts = fact.map(|fact| {
        let (added, removed) = (format!("+{}", number(fact, "added")), format!("−{}", number(fact, "removed")));
        let more = element("span", &[("class", "plus")], added).and(element("span", &[("class", "minus")], removed));
        badge(text(fact, "status")).and(more)
    });
    let name = element("code", &[], file.path);
    let title = element("summary", &[], name.and(element("span", &[("class", "counts")], counts.unwrap_or_default())));
    let mut place = DiffPlace::default();
    let lines: Markup = file.lines.iter().map(|line| place.row(file.path, line, cited)).collect();
    let label = format!("change of {}", file.path);
    let body =
        element("div", &[("class", "diff"), ("role", "group"), ("tabindex", "0"), ("aria-label", &label)], lines);
    let id = format!("file-{}-{}", encode(round), encode(file.path));
    let mut attributes = vec![("class", "dfile"), ("id", id.as_str())];
    if state == FileState::Open {
        attributes.push(("open", "open"));
    }
    element("details", &attributes, title.and(body))
}

impl DiffPlace {
    /// One line with its numbers.
    fn row(&mut self, path: &str, line: &str, cited: &CitedLines) -> Markup {
        if line.starts_with("@@") {
            (self.old, self.new, self.is_in_hunk) = (hunk_start(line, '-'), hunk_start(line, '+'), true);
            return element("div", &[("class", "l hunk")], line);
        }
        let sign = line.chars().next().unwrap_or(' ');
        if !self.is_in_hunk || !matches!(sign, '+' | '-' | ' ') {
            let is_known = ["--- ", "+++ ", "index "].iter().any(|word| line.starts_with(word));
            return if is_known { Markup::default() } else { element("div", &[("class", "l meta")], line) };
        }
        let (class, old, new) = match sign {
            '+' => ("l add", String::new(), self.new.to_string()),
            '-' => ("l del", self.old.to_string(), String::new()),
            _ => ("l", self.old.to_string(), self.new.to_string()),
        };
        let notes = if sign == '-' { None } else { cited.get(&(path.to_owned(), self.new)) };
        self.old += u64::from(sign != '+');
        self.new += u64::from(sign != '-');
        let numbers = element("span", &[("class", "no")], old).and(element("span", &[("class", "no")], new));
        let mark = element("span", &[("class", "sign")], sign.to_string());
        let code = element("code", &[], code_line(path, line.get(1..).unwrap_or_default()));
        let row = numbers.and(mark).and(code);
        match notes {
            None => element("div", &[("class", class)], row),
            Some(notes) => {
                let note = |note: &String| element("span", &[("class", "cite")], note.as_str());
                let notes = element("span", &[("class", "cites")], notes.iter().map(note).collect::<Markup>());
                element("div", &[("class", &format!("{class} noted"))], row.and(notes))
            }
        }
    }
}

/// The first line of a hunk in the old (`-`) or new (`+`) file: `@@ -1,2 +3,4 @@` begins at 1 and 3.
fn hunk_start(line: &str, side: char) -> u64 {
    let after = line.split(side).nth(1).unwrap_or_default();
    after.split([',', ' ']).next().and_then(|number| number.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DIFF: &str = "diff --git a/x.sh b/x.sh\nindex 1..2 100644\n--- a/x.sh\n+++ b/x.sh\n@@ -1,3 +1,3 @@ main()\n same\n--- old\n+fresh <b>\n last\n\
        diff --git a/y b/y\nnew file mode 100755\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+++ three\n\\ No newline at end of file\n";

    #[test]
    fn citations_are_beside_the_lines_that_they_cite() {
        let cited = CitedLines::from([(("x.sh".to_owned(), 2), vec!["correctness 5: <b>".to_owned()])]);
        let html = change(&json!({"diff": DIFF, "files": []}), &cited).into_text();
        let (new, note) = (html.find("fresh &lt;b&gt;").expect("a line"), html.find("correctness 5").expect("a note"));
        let next = html.find("last").expect("a line");
        assert!(new < note && note < next && html.matches("class=\"cite\"").count() == 1, "{html}");
    }

    #[test]
    fn lines_that_look_like_headers_stay_lines_of_their_file() {
        let html = change(&json!({"diff": DIFF, "files": []}), &CitedLines::new()).into_text();
        assert_eq!(
            (html.matches("<details").count(), html.matches("l add").count(), html.matches("l del").count()),
            (2, 2, 1),
            "{html}"
        );
        assert!(
            html.contains("-- old") && html.contains("++ three") && html.contains("new file mode 100755"),
            "{html}"
        );
        assert!(!html.contains("index 1..2"), "{html}");
    }
}
