//! Further tests of base for loops that withhold some: cases that the buggy code and the right code answer in the same
//! way, so they are green on base and stay green for a right change.

use super::driver;
use super::program::{BuggyProgram, ProgramCase, ProgramLanguage, SuiteRunner};
use super::run_dir::{TrustDir, TrustTools, write_base};
use super::tests::{Edit, suite_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

/// The fewest green tests: with the visible ones, base has twenty.
const GREEN_MIN: usize = 16;
const GREEN_MAX: usize = 20;
/// Tests of one file.
const IN_FILE: usize = 2;

/// Files of tests by path.
type TestFiles = Vec<(String, String)>;

/// The files of each program, computed once.
static KNOWN: LazyLock<Mutex<BTreeMap<String, TestFiles>>> = LazyLock::new(Mutex::default);

/// Whether a program's runner collects further files.
pub(super) fn has_place(program: &BuggyProgram) -> bool {
    program.language != ProgramLanguage::Rust || program.gate == SuiteRunner::Cargo
}

/// The further files of tests.
pub(super) fn files(tools: &TrustTools, program: &BuggyProgram) -> Result<TestFiles, String> {
    let mut known = KNOWN.lock().map_err(|error| error.to_string())?;
    if let Some(files) = known.get(&program.name) {
        return Ok(files.clone());
    }
    let cases = green_cases(tools, program)?;
    if cases.len() < GREEN_MIN {
        return Err(format!("{} has only {} green cases", program.name, cases.len()));
    }
    let file = |(at, cases): (usize, &[ProgramCase])| (path(program, at), suite_of(program, cases, Edit::None));
    let files: TestFiles = cases.chunks(IN_FILE).enumerate().map(file).collect();
    known.insert(program.name.clone(), files.clone());
    Ok(files)
}

fn path(program: &BuggyProgram, at: usize) -> String {
    let name = &program.name;
    match program.language {
        ProgramLanguage::Python => format!("tests/test_{name}_part{at}.py"),
        ProgramLanguage::JavaScript => format!("test/{name}_part{at}.test.js"),
        ProgramLanguage::Rust => format!("tests/part{at}.rs"),
        ProgramLanguage::Shell => format!("tests/{name}_part{at}_test.sh"),
    }
}

fn green_cases(tools: &TrustTools, program: &BuggyProgram) -> Result<Vec<ProgramCase>, String> {
    let place = TrustDir::new(tools)?;
    let tree = place.folder("base")?;
    write_base(&tree, program)?;
    let inputs = inputs(program);
    let before = driver::answers(program, &tree, &place, &inputs)?;
    std::fs::write(tree.join(program.source_path()), program.source(&program.fixed))
        .map_err(|error| error.to_string())?;
    let after = driver::answers(program, &tree, &place, &inputs)?;
    let mut cases = Vec::new();
    for ((args, before), after) in inputs.into_iter().zip(before).zip(after) {
        let Some(out) = before.filter(|out| after.as_ref() == Some(out) && is_plain(program, out)) else { continue };
        cases.push(ProgramCase { name: format!("more_{}", cases.len()), args, out });
    }
    cases.truncate(GREEN_MAX);
    Ok(cases)
}

/// JavaScript's strict comparison distinguishes a negative zero from zero, and JSON does not.
fn is_plain(program: &BuggyProgram, out: &Value) -> bool {
    program.language != ProgramLanguage::JavaScript || !out.to_string().contains('0')
}

/// Inputs near the known ones.
fn inputs(program: &BuggyProgram) -> Vec<Vec<Value>> {
    let known: Vec<&Vec<Value>> = program.heldout.iter().chain(&program.tests).map(|case| &case.args).collect();
    let mut all: Vec<Vec<Value>> = program.heldout.iter().map(|case| case.args.clone()).collect();
    for shift in 0..4 {
        for args in &known {
            for at in 0..args.len() {
                let mut other = (*args).clone();
                other[at] = near(&args[at], shift);
                if !all.contains(&other) && !program.tests.iter().any(|case| case.args == other) {
                    all.push(other);
                }
            }
        }
    }
    all
}

fn near(value: &Value, shift: usize) -> Value {
    let moved = |number: i64| number + [1, 2, -1, 10][shift];
    match value {
        Value::Number(number) => number.as_i64().map_or_else(|| value.clone(), |number| moved(number).into()),
        Value::String(text) => match text.parse::<i64>() {
            Ok(number) => moved(number).to_string().into(),
            Err(_) => match shift {
                0 => format!("{text}b").into(),
                1 => text.chars().skip(1).collect::<String>().into(),
                2 => text.chars().rev().collect::<String>().into(),
                _ => format!("c{text}").into(),
            },
        },
        Value::Array(items) => {
            let mut items = items.clone();
            match shift {
                0 => items.extend(items.first().cloned()),
                1 => drop(items.pop()),
                2 => items.reverse(),
                _ => items.truncate(1),
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}
