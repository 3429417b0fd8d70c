//! Runs of goals for tasks of the registry: one id names the task and its round.

use super::{env, red_repo};
use loopwright_testkit::{CommandRun, TestEnv};
use std::path::PathBuf;

struct TaskGoal {
    env: TestEnv,
    folder: PathBuf,
}

impl TaskGoal {
    fn new() -> Self {
        let env = env();
        drop(red_repo(&env));
        let folder = env.root().join("r");
        Self { env, folder }
    }

    fn run(&self, words: &[&str]) -> CommandRun {
        self.env.loopwright_in(&self.folder, words)
    }

    fn task(&self, title: &str) -> String {
        self.run(&["tasks", "add", title, "--json"]).success().json()["task"]["id"].as_str().expect("an id").to_owned()
    }

    fn contract(&self, name: &str) -> String {
        let words = ["goal", "write", "The answer is 42", "--mode", "single-run", "--name", name];
        let gate = ["--criterion", "right => answer", "--gate", "answer=./test.sh"];
        drop(self.run(&[&words[..], &gate].concat()).success());
        format!(".loopwright/goals/{name}.md")
    }
}

#[test]
fn goal_that_runs_for_a_task_has_its_id_and_decides_it() {
    let goal = TaskGoal::new();
    let (task, file) = (goal.task("Fix the answer"), goal.contract("one"));
    drop(goal.run(&["tasks", "claim", &task]).success());
    drop(goal.run(&["goal", "run", &file, "--task", &task, "--fence", "7"]).code(15));
    drop(goal.run(&["goal", "run", &file, "--task", "nothing"]).code(2));
    let ran = goal.run(&["goal", "run", &file, "--task", &task, "--fence", "1", "--json"]).code(10).json();
    assert_eq!(ran["round"], task.as_str());
    let shown = goal.run(&["tasks", "show", &task, "--json"]).success().json();
    assert_eq!(
        (&shown["task"]["standing"], &shown["task"]["source"]),
        (&"waiting".into(), &format!("goal:{file}").into())
    );
    drop(goal.run(&["goal", "run", &file, "--task", &task]).code(15));
    let listed = goal.run(&["tasks", "list", "--all", "--json"]).success().json();
    assert_eq!(listed["tasks"].as_array().map(Vec::len), Some(1), "the run registers no second task: {listed}");
    drop(goal.run(&["approve", &task]).success());
    let shown = goal.run(&["tasks", "show", &task, "--json"]).success().json();
    assert_eq!(shown["task"]["standing"], "done");
}

#[test]
fn detached_goal_has_the_id_of_its_task_too() {
    let goal = TaskGoal::new();
    let (task, file) = (goal.task("Fix the answer"), goal.contract("two"));
    let started = goal.run(&["goal", "run", &file, "--task", &task, "--detach", "--json"]).success().json();
    assert_eq!(started["round"], task.as_str());
    drop(goal.run(&["attach", &task]).code(10));
}
