//! Cases about the task registry in which both databases must behave alike.

use loopwright::store::{RowChange, Store, StoreBatch, StoreErrorKind, TaskRow};
use loopwright_core::task::{TaskActor, WorkTask};

use super::place::Place;

async fn write(store: &Store, changes: Vec<RowChange>) -> Result<(), StoreErrorKind> {
    store.append(StoreBatch::of_rows(1, changes)).await.map(drop).map_err(|error| error.kind)
}

fn task(id: &str) -> WorkTask {
    WorkTask::new(id, "a task", 2, 5).expect("a task")
}

pub(crate) async fn task_changes_only_from_the_version_it_was_decided_on(place: Place) {
    let store = place.own().await;
    let row = |task: &WorkTask| TaskRow::new("repo-1", task.clone());
    let first = WorkTask { needs: vec!["r2".to_owned()], source: Some("issue-7".to_owned()), ..task("r1") };
    write(&store, vec![RowChange::NewTask(row(&first))]).await.expect("a new task");
    let same = WorkTask { id: "r9".to_owned(), ..first.clone() };
    for twice in [&first, &same] {
        let known = write(&store, vec![RowChange::NewTask(row(twice))]).await;
        assert!(matches!(known, Err(StoreErrorKind::Conflict(_))), "an id and an issue are registered once");
    }
    let started = first.start(TaskActor { name: "ada", fence: None }, 9).expect("it is open");
    write(&store, vec![RowChange::Task(row(&started))]).await.expect("the first change");
    let late = write(&store, vec![RowChange::Task(row(&started))]).await;
    assert!(matches!(late, Err(StoreErrorKind::Conflict(_))), "two changes of one version never both count");
    let read = store.open_tasks("repo-1").await.expect("tasks").remove(0).into_task();
    assert_eq!(read.expect("a task"), started);
    let done = started.done(TaskActor { name: "ada", fence: None }, None, 9).expect("the owner ends it");
    write(&store, vec![RowChange::Task(row(&done))]).await.expect("the end");
    assert_eq!(store.open_tasks("repo-1").await.expect("tasks"), []);
    assert_eq!(store.tasks("repo-1").await.expect("tasks").len(), 1);
    assert_eq!(store.tasks("repo-2").await.expect("tasks"), []);
}

pub(crate) async fn dependencies_change_only_from_the_version_they_were_decided_on(place: Place) {
    let store = place.own().await;
    let change = |version| vec![RowChange::TaskGraph { repo: "repo-1".to_owned(), version }];
    assert_eq!(store.task_graph_version("repo-1").await.expect("a version"), 0);
    write(&store, change(0)).await.expect("the first change");
    assert!(matches!(write(&store, change(0)).await, Err(StoreErrorKind::Conflict(_))));
    assert_eq!(store.task_graph_version("repo-1").await.expect("a version"), 1);
    write(&store, change(1)).await.expect("a change of the present ones");
}
