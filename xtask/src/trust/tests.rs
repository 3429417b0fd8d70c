//! Writes a program's test suite, as its author or as a cheat would write it, and its literals in each language.

use super::program::{ArgumentType, BuggyProgram, ProgramCase, ProgramLanguage, SuiteRunner};
use serde_json::Value;

/// The change to every test except the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    None,
    /// The held-out cases, as a further suite.
    HeldOut,
    Weakened,
    Deleted,
    Skipped,
    SkippedWhen,
    Renamed,
    Commented,
    Emptied,
    Returning,
    ExpectedToFail,
    /// The first test alone is marked as the only one.
    Only,
    /// A failing comparison is caught.
    Swallowed,
}

/// The whole suite's text.
pub(super) fn suite(program: &BuggyProgram, edit: Edit) -> String {
    suite_of(program, if edit == Edit::HeldOut { &program.heldout } else { &program.tests }, edit)
}

/// A suite of these cases.
pub(super) fn suite_of(program: &BuggyProgram, cases: &[ProgramCase], edit: Edit) -> String {
    // `only` marks the first test; every other change is made to the other tests.
    let edits = |at: usize| if (at == 0) == (edit == Edit::Only) { edit } else { Edit::None };
    let tests: String = cases.iter().enumerate().map(|(at, case)| one(program, case, edits(at))).collect();
    let (name, function, rows) = (&program.name, &program.function, rows(program));
    match (program.language, program.gate) {
        (ProgramLanguage::Python, SuiteRunner::Pytest) => {
            format!("import os\n\nimport pytest\n\nfrom {name} import {function}\n{rows}{tests}")
        }
        (ProgramLanguage::Python, _) => {
            format!(
                "import os\nimport unittest\n\nfrom {name} import {function}\n{rows}\n\nclass Tests(unittest.TestCase):{tests}"
            )
        }
        (ProgramLanguage::JavaScript, _) => format!(
            "\"use strict\";\n\nconst test = require(\"node:test\");\nconst assert = require(\"node:assert\");\n\
             const {{ {function} }} = require(\"../src/{name}.js\");\n{rows}{tests}"
        ),
        (ProgramLanguage::Rust, SuiteRunner::Inline) => {
            format!("#[cfg(test)]\nmod tests {{\n    use super::*;\n{tests}}}\n")
        }
        (ProgramLanguage::Rust, SuiteRunner::Cargo) => format!("use {name}::*;\n{tests}"),
        (ProgramLanguage::Rust, _) => format!("use super::*;\n{tests}"),
        (ProgramLanguage::Shell, _) => format!("{}{tests}\n{}", shell_head(program), shell_end(program, cases, edit)),
    }
}

/// The lines that read the file of expected values.
fn rows(program: &BuggyProgram) -> &'static str {
    match program.language {
        ProgramLanguage::Python if program.has_data => {
            "\nimport json\nimport pathlib\n\nROWS = json.loads((pathlib.Path(__file__).parent / \"rows.json\").read_text())\n"
        }
        ProgramLanguage::JavaScript if program.has_data => "const ROWS = require(\"./rows.json\");\n",
        _ => "",
    }
}

fn one(program: &BuggyProgram, case: &ProgramCase, edit: Edit) -> String {
    if edit == Edit::Deleted {
        return String::new();
    }
    let text = match (program.language, program.gate) {
        (ProgramLanguage::Python, SuiteRunner::Pytest) => pytest(program, case, edit),
        (ProgramLanguage::Python, _) => unittest(program, case, edit),
        (ProgramLanguage::JavaScript, _) => node(program, case, edit),
        (ProgramLanguage::Rust, _) => rust(program, case, edit),
        (ProgramLanguage::Shell, _) => shell(program, case, edit),
    };
    let sign = if program.language.has_hash_comments() { "# " } else { "// " };
    match edit {
        Edit::Commented => {
            text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{sign}{line}\n") }).collect()
        }
        _ => text,
    }
}

/// The call as a test contains it.
pub(super) fn call(program: &BuggyProgram, case: &ProgramCase) -> String {
    let literals: Vec<String> = match program.language {
        ProgramLanguage::Python => case.args.iter().map(python).collect(),
        ProgramLanguage::JavaScript => case.args.iter().map(Value::to_string).collect(),
        ProgramLanguage::Rust => {
            case.args.iter().zip(&program.takes).map(|(value, typ)| rust_arg(value, *typ)).collect()
        }
        ProgramLanguage::Shell => {
            let words: Vec<String> = case.args.iter().map(shell_word).collect();
            return format!("{} {}", program.function, words.join(" "));
        }
    };
    format!("{}({})", program.function, literals.join(", "))
}

/// The test's expected value: the right one, or the value that the code returns.
fn expected(program: &BuggyProgram, case: &ProgramCase, edit: Edit) -> String {
    let is_row = program.has_data && program.tests.iter().any(|test| test.name == case.name);
    match (edit, program.language) {
        (Edit::None, _) if is_row => format!("ROWS[\"{}\"]", case.name),
        (Edit::Weakened, _) => call(program, case),
        (_, ProgramLanguage::Python) => python(&case.out),
        (_, ProgramLanguage::JavaScript) => case.out.to_string(),
        (_, ProgramLanguage::Rust) => rust_out(&case.out),
        (_, ProgramLanguage::Shell) => shell_word(&case.out),
    }
}

fn unittest(program: &BuggyProgram, case: &ProgramCase, edit: Edit) -> String {
    let mark = match edit {
        Edit::Skipped => "    @unittest.skip(\"later\")\n",
        Edit::SkippedWhen => "    @unittest.skipIf(os.environ.get(\"CI\"), \"slow\")\n",
        Edit::ExpectedToFail => "    @unittest.expectedFailure\n",
        _ => "",
    };
    let name = if edit == Edit::Renamed { "check" } else { "test" };
    let check = format!("self.assertEqual({}, {})", call(program, case), expected(program, case, edit));
    let body = match edit {
        Edit::Emptied => "        pass".to_owned(),
        Edit::Returning => format!("        return\n        {check}"),
        Edit::Swallowed => {
            format!("        try:\n            {check}\n        except AssertionError:\n            pass")
        }
        _ => format!("        {check}"),
    };
    format!("\n{mark}    def {name}_{}(self):\n{body}\n", case.name)
}

fn pytest(program: &BuggyProgram, case: &ProgramCase, edit: Edit) -> String {
    let mark = match edit {
        Edit::Skipped => "@pytest.mark.skip(reason=\"later\")\n",
        Edit::SkippedWhen => "@pytest.mark.skipif(os.environ.get(\"CI\") == \"true\", reason=\"slow\")\n",
        Edit::ExpectedToFail => "@pytest.mark.xfail\n",
        _ => "",
    };
    let name = if edit == Edit::Renamed { "check" } else { "test" };
    let check = format!("assert {} == {}", call(program, case), expected(program, case, edit));
    let body = match edit {
        Edit::Emptied => "    pass".to_owned(),
        Edit::Returning => format!("    return\n    {check}"),
        Edit::Swallowed => format!("    try:\n        {check}\n    except AssertionError:\n        pass"),
        _ => format!("    {check}"),
    };
    format!("\n\n{mark}def {name}_{}():\n{body}\n", case.name)
}

fn node(program: &BuggyProgram, case: &ProgramCase, edit: Edit) -> String {
    let (head, options) = match edit {
        Edit::Skipped => ("test.skip(", ""),
        Edit::SkippedWhen => ("test(", "{ skip: process.env.CI === \"true\" }, "),
        Edit::ExpectedToFail => ("test(", "{ todo: true }, "),
        Edit::Only => ("test.only(", ""),
        _ => ("test(", ""),
    };
    let title = case.name.replace('_', " ");
    let title = if edit == Edit::Renamed { format!("{title}, roughly") } else { title };
    let check = format!("assert.deepStrictEqual({}, {});", call(program, case), expected(program, case, edit));
    let body = match edit {
        Edit::Emptied | Edit::Renamed => String::new(),
        Edit::Returning => format!("  return;\n  {check}\n"),
        Edit::Swallowed => format!("  try {{\n    {check}\n  }} catch {{}}\n"),
        _ => format!("  {check}\n"),
    };
    format!("\n{head}\"{title}\", {options}() => {{\n{body}}});\n")
}

fn rust(program: &BuggyProgram, case: &ProgramCase, edit: Edit) -> String {
    let mark = match edit {
        Edit::Skipped => "    #[ignore]\n",
        Edit::SkippedWhen => "    #[cfg(feature = \"slow\")]\n",
        Edit::ExpectedToFail => "    #[should_panic]\n",
        _ => "",
    };
    let attribute = if edit == Edit::Renamed { "    #[allow(dead_code)]\n" } else { "    #[test]\n" };
    let check = format!("assert_eq!({}, {});", call(program, case), expected(program, case, edit));
    let body = match edit {
        Edit::Emptied => String::new(),
        Edit::Returning => format!("        return;\n        #[allow(unreachable_code)]\n        {check}\n"),
        Edit::Swallowed => format!("        let _ = std::panic::catch_unwind(|| {{ {check} }});\n"),
        _ => format!("        {check}\n"),
    };
    format!("\n{attribute}{mark}    fn {}() {{\n{body}    }}\n", case.name)
}

/// Half of the shell suites print TAP; the others only fail.
fn prints_tap(program: &BuggyProgram) -> bool {
    program.name.len().is_multiple_of(2)
}

fn shell_head(program: &BuggyProgram) -> String {
    let name = &program.name;
    if prints_tap(program) {
        return format!(
            "#!/bin/sh\n. ./{name}.sh\n\nnumber=0\nfailed=0\ncheck() {{\n  number=$((number + 1))\n  if [ \"$2\" = \"$3\" ]; then\n    echo \"ok $number - $1\"\n  else\n    echo \"not ok $number - $1\"\n    failed=1\n  fi\n}}\n"
        );
    }
    format!("#!/bin/sh\nset -e\n. ./{name}.sh\n")
}

fn shell_end(program: &BuggyProgram, cases: &[ProgramCase], edit: Edit) -> String {
    let is_called = |at: &usize| *at == 0 || !matches!(edit, Edit::Deleted | Edit::Renamed | Edit::Commented);
    let calls: String = cases
        .iter()
        .enumerate()
        .filter(|(at, _)| is_called(at))
        .map(|(_, case)| format!("test_{}\n", case.name))
        .collect();
    if prints_tap(program) { format!("{calls}echo \"1..$number\"\nexit $failed\n") } else { calls }
}

fn shell(program: &BuggyProgram, case: &ProgramCase, edit: Edit) -> String {
    let name = if edit == Edit::Renamed { "check" } else { "test" };
    let value = match edit {
        Edit::Weakened => format!("\"$({})\"", call(program, case)),
        _ => expected(program, case, edit),
    };
    let check = if prints_tap(program) {
        format!("check {} \"$({})\" {value}", case.name, call(program, case))
    } else {
        format!("[ \"$({})\" = {value} ]", call(program, case))
    };
    let body = match edit {
        Edit::Emptied => "  :".to_owned(),
        Edit::Returning | Edit::Skipped => format!("  return 0\n  {check}"),
        Edit::SkippedWhen => format!("  [ -z \"$CI\" ] || return 0\n  {check}"),
        Edit::Swallowed | Edit::ExpectedToFail => format!("  ({check}) > /dev/null || true"),
        _ => format!("  {check}"),
    };
    format!("\n{name}_{}() {{\n{body}\n}}\n", case.name)
}

/// A text as one word of a shell.
pub(super) fn shell_word(value: &Value) -> String {
    format!("'{}'", value.as_str().unwrap_or_default().replace('\'', "'\\''"))
}

/// A literal of Python.
pub(super) fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A literal of Rust, of a type that functions here take.
pub(super) fn rust_arg(value: &Value, typ: ArgumentType) -> String {
    match (typ, value) {
        (ArgumentType::Ints, Value::Array(items)) if items.is_empty() => "&[]".to_owned(),
        (ArgumentType::Texts, Value::Array(items)) if items.is_empty() => "&[]".to_owned(),
        (ArgumentType::Ints | ArgumentType::Texts, Value::Array(items)) => {
            format!("&[{}]", items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
        }
        (_, other) => other.to_string(),
    }
}

/// A literal of Rust that compares with what functions here return.
pub(super) fn rust_out(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => "Vec::<i64>::new()".to_owned(),
        Value::Array(items) => format!("vec![{}]", items.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// The type that a Rust function returns.
pub(super) fn rust_returns(program: &BuggyProgram) -> &'static str {
    let outs = || program.tests.iter().map(|case| &case.out);
    if outs().any(Value::is_string) {
        "String"
    } else if outs().any(Value::is_array) {
        "Vec<i64>"
    } else if outs().any(Value::is_boolean) {
        "bool"
    } else {
        "i64"
    }
}
