//! Tasks as a Markdown list, in both directions. Each line ends with the task's id and version, so that an edited line
//! can be compared with the registry: a line whose task has changed since is a conflict, and neither side is lost.

use crate::task::{TaskBoard, TaskStanding, TaskState, WorkTask};

/// The most lines of a list that are read.
const LINES_MAX: usize = 10_000;

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLine {
    /// Its number in the file, from 1.
    pub line: usize,
    /// Whether its box is checked.
    pub is_done: bool,
    /// The title.
    pub title: String,
    /// The priority, if the line states one.
    pub priority: Option<i64>,
    /// The ids of tasks that it needs.
    pub needs: Vec<String>,
    /// The task's id and the version that was written; `None` for a new line.
    pub known: Option<(String, i64)>,
}

/// A difference between a list and the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskListChange {
    /// A line without an id.
    Add(TaskLine),
    /// The line was edited, and the task did not change since.
    Edit(TaskLine),
    /// Both changed, or the line names no task.
    Conflict {
        /// The line.
        line: TaskLine,
        /// The task in the registry, if there is one.
        task: Option<Box<WorkTask>>,
    },
}

/// Writes the tasks as a list by their places.
#[must_use]
pub fn write_task_list(board: &TaskBoard, now_ms: i64) -> String {
    let mut text =
        "# Tasks\n\nEdit titles, priorities, needs and boxes, or add lines; then: loopwright tasks import FILE\n"
            .to_owned();
    for standing in TaskStanding::ALL {
        let members: Vec<_> =
            board.tasks().iter().filter(|task| board.standing(task, now_ms).0 == standing).map(write_line).collect();
        if !members.is_empty() {
            text.push_str(&format!("\n## {}\n\n{}", heading(standing), members.concat()));
        }
    }
    text
}

fn heading(standing: TaskStanding) -> String {
    let (first, rest) = standing.word().split_at(1);
    format!("{}{}", first.to_uppercase(), rest.replace('-', " "))
}

fn write_line(task: &WorkTask) -> String {
    let mark = if task.state == TaskState::Done { 'x' } else { ' ' };
    let needs = if task.needs.is_empty() { String::new() } else { format!(" (needs: {})", task.needs.join(", ")) };
    let title = task.title.replace("<!--", "<!- -");
    format!("- [{mark}] {title} (priority: {}){needs} <!-- {} v{} -->\n", task.priority, task.id, task.version)
}

/// Reads the lines of a list; other lines of the file are ignored. `Err` has the number of the first bad line.
///
/// # Errors
/// A line that begins as a task and cannot be read, and a file with too many lines.
pub fn read_task_list(text: &str) -> Result<Vec<TaskLine>, (usize, String)> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if index >= LINES_MAX {
            return Err((index + 1, format!("a list has at most {LINES_MAX} lines")));
        }
        let line = line.trim();
        let rest = line.strip_prefix("- [ ] ").map(|rest| (false, rest));
        let rest = rest.or_else(|| Some((true, line.strip_prefix("- [x] ").or_else(|| line.strip_prefix("- [X] "))?)));
        if let Some((is_done, rest)) = rest {
            lines.push(read_line(index + 1, is_done, rest).map_err(|why| (index + 1, why))?);
        }
    }
    Ok(lines)
}

fn read_line(line: usize, is_done: bool, rest: &str) -> Result<TaskLine, String> {
    let (rest, known) = match rest.rsplit_once("<!--") {
        Some((rest, comment)) => (rest, Some(read_known(comment)?)),
        None => (rest, None),
    };
    let mut found = TaskLine { line, is_done, title: String::new(), priority: None, needs: Vec::new(), known };
    let mut rest = rest.trim();
    while let Some((before, key, value)) = last_group(rest) {
        match key {
            "priority" => found.priority = Some(value.parse().map_err(|_| format!("`{value}` is no priority"))?),
            _ => found.needs = value.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect(),
        }
        rest = before;
    }
    rest.clone_into(&mut found.title);
    if found.title.is_empty() { Err("the title is empty".to_owned()) } else { Ok(found) }
}

/// The last `(priority: …)` or `(needs: …)` of a line, and the text before it.
fn last_group(text: &str) -> Option<(&str, &str, &str)> {
    let (before, group) = text.strip_suffix(')')?.rsplit_once('(')?;
    let (key, value) = group.split_once(':')?;
    matches!(key, "priority" | "needs").then_some((before.trim_end(), key, value.trim()))
}

fn read_known(comment: &str) -> Result<(String, i64), String> {
    let wrong = || "the comment at its end is not `<!-- ID vN -->`; remove it to add a new task".to_owned();
    let words = comment.trim().strip_suffix("-->").ok_or_else(wrong)?.trim();
    let (id, version) = words.split_once(" v").ok_or_else(wrong)?;
    Ok((id.to_owned(), version.trim().parse().map_err(|_| wrong())?))
}

/// Compares a list with all tasks of the registry, also those that are done. Lines that agree are left out.
#[must_use]
pub fn compare_task_list(lines: Vec<TaskLine>, tasks: &[WorkTask]) -> Vec<TaskListChange> {
    let changes = lines.into_iter().filter_map(|line| {
        let Some((id, version)) = &line.known else { return Some(TaskListChange::Add(line)) };
        let Some(task) = tasks.iter().find(|task| task.id == *id) else {
            return Some(TaskListChange::Conflict { line, task: None });
        };
        match (is_same(&line, task), task.version == *version) {
            (true, _) => None,
            (false, true) => Some(TaskListChange::Edit(line)),
            (false, false) => Some(TaskListChange::Conflict { line, task: Some(Box::new(task.clone())) }),
        }
    });
    changes.collect()
}

fn is_same(line: &TaskLine, task: &WorkTask) -> bool {
    let priority = line.priority.unwrap_or(task.priority);
    let is_done = task.state == TaskState::Done;
    line.title == task.title && priority == task.priority && line.needs == task.needs && line.is_done == is_done
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn board() -> TaskBoard {
        let first = WorkTask::new("r1", "Fix the (odd) parser", 0, 1).expect("a task");
        let second = WorkTask::new("r2", "Document it", 2, 2).expect("a task");
        let second = second.need(vec!["r1".to_owned()], std::slice::from_ref(&first)).expect("no cycle");
        TaskBoard::new(vec![(first, None), (second, None)])
    }

    #[test]
    fn list_that_was_not_edited_changes_nothing() {
        let text = write_task_list(&board(), 0);
        expect![[r#"
            # Tasks

            Edit titles, priorities, needs and boxes, or add lines; then: loopwright tasks import FILE

            ## Ready

            - [ ] Fix the (odd) parser (priority: 0) <!-- r1 v1 -->

            ## Blocked

            - [ ] Document it (priority: 2) (needs: r1) <!-- r2 v2 -->
        "#]]
        .assert_eq(&text);
        assert_eq!(compare_task_list(read_task_list(&text).expect("a list"), board().tasks()), []);
    }

    #[test]
    fn edits_are_applied_and_edits_of_a_changed_task_are_conflicts() {
        let text = write_task_list(&board(), 0).replace("odd", "even").replace("[ ] Document", "[x] Document")
            + "- [ ] New one\n";
        let lines = read_task_list(&text).expect("a list");
        let mut tasks = board().tasks().to_vec();
        let kinds = |tasks: &[WorkTask]| {
            let words = compare_task_list(lines.clone(), tasks).into_iter().map(|change| match change {
                TaskListChange::Add(line) => format!("add {}", line.title),
                TaskListChange::Edit(line) => format!("edit {}", line.title),
                TaskListChange::Conflict { line, task } => format!("conflict {} {}", line.title, task.is_some()),
            });
            words.collect::<Vec<_>>()
        };
        assert_eq!(kinds(&tasks), ["edit Fix the (even) parser", "edit Document it", "add New one"]);
        tasks[0].version += 1;
        assert_eq!(kinds(&tasks)[0], "conflict Fix the (even) parser true", "neither side is lost");
        assert_eq!(kinds(&tasks[1..])[0], "conflict Fix the (even) parser false");
    }

    #[test]
    fn lines_that_cannot_be_read_are_errors_with_their_number() {
        for text in
            ["- [ ] (priority: 1)", "- [ ] x (priority: high)", "- [ ] x <!-- r1 -->", "- [x] x <!-- r1 vone -->"]
        {
            assert_eq!(read_task_list(&format!("\n{text}\n")).map_err(|(line, _)| line), Err(2), "{text}");
        }
        assert_eq!(read_task_list("text\n- item\n- [ ]\n"), Ok(Vec::new()), "other lines are left alone");
    }
}
