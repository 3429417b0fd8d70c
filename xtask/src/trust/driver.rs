//! The held-out half: a program for each language that reads arguments as JSON lines and prints results, the cases, and
//! the benchmark's own check whether a tree is right.

use super::program::{ArgumentType, BuggyProgram, ProgramLanguage, SuiteRunner};
use super::run_dir::{TrustDir, run_limited};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The command that starts a driver, with the folder of its files before their names.
pub(super) fn command(program: &BuggyProgram, folder: &str) -> Vec<String> {
    match program.language {
        ProgramLanguage::Python => vec!["python3".to_owned(), "-B".to_owned(), format!("{folder}/drive.py")],
        ProgramLanguage::JavaScript => vec!["node".to_owned(), format!("{folder}/drive.js")],
        ProgramLanguage::Rust => vec!["sh".to_owned(), format!("{folder}/drive.sh")],
        ProgramLanguage::Shell => vec!["python3".to_owned(), format!("{folder}/drive.py")],
    }
}

/// The driver's files by name.
pub(super) fn files(program: &BuggyProgram) -> Vec<(&'static str, String)> {
    let (name, function) = (&program.name, &program.function);
    match program.language {
        ProgramLanguage::Python => vec![(
            "drive.py",
            format!(
                "import json\nimport os\nimport sys\n\nsys.path[0] = os.getcwd()\nfrom {name} import {function}\n\nfor line in sys.stdin:\n    print(json.dumps({function}(*json.loads(line))), flush=True)\n"
            ),
        )],
        ProgramLanguage::JavaScript => vec![(
            "drive.js",
            format!(
                "const {{ {function} }} = require(require(\"node:path\").resolve(\"src/{name}.js\"));\nconst lines = require(\"node:readline\").createInterface({{ input: process.stdin }});\nlines.on(\"line\", (line) => console.log(JSON.stringify({function}(...JSON.parse(line)))));\n"
            ),
        )],
        ProgramLanguage::Rust => vec![("drive.rs", rust(program)), ("drive.sh", SCRIPT.to_owned())],
        ProgramLanguage::Shell => vec![(
            "drive.py",
            format!(
                "import json\nimport subprocess\nimport sys\n\nfor line in sys.stdin:\n    ended = subprocess.run([\"sh\", \"-c\", '. ./{name}.sh; {function} \"$@\"', \"sh\", *json.loads(line)], capture_output=True, text=True)\n    print(json.dumps(ended.stdout.rstrip(\"\\n\")), flush=True)\n"
            ),
        )],
    }
}

/// Built as for users, without tests and without debug assertions.
const SCRIPT: &str = "set -e
here=$(dirname \"$0\")
rustc --edition 2021 -O --cap-lints allow --crate-type lib --crate-name subject src/lib.rs -o \"$TMPDIR/libsubject.rlib\"
rustc --edition 2021 --cap-lints allow --extern subject=\"$TMPDIR/libsubject.rlib\" \"$here/drive.rs\" -o \"$TMPDIR/drive\"
exec \"$TMPDIR/drive\"
";

fn rust(program: &BuggyProgram) -> String {
    let convert = |(at, typ): (usize, &ArgumentType)| match typ {
        ArgumentType::Int => format!("args[{at}].int()"),
        ArgumentType::Text => format!("args[{at}].text()"),
        ArgumentType::Ints => format!("&args[{at}].list().iter().map(Json::int).collect::<Vec<i64>>()"),
        ArgumentType::Texts => format!("&args[{at}].list().iter().map(Json::text).collect::<Vec<&str>>()"),
    };
    let args: Vec<String> = program.takes.iter().enumerate().map(convert).collect();
    format!(
        "{}\nfn answer(args: &[Json]) -> String {{\n    subject::{}({}).shown()\n}}\n",
        include_str!("programs/drive.rs.txt"),
        program.function,
        args.join(", ")
    )
}

/// The cases in the engine's format.
pub(super) fn cases(program: &BuggyProgram) -> String {
    let line =
        |case: &super::program::ProgramCase| serde_json::json!({"in": case.args, "out": case.out}).to_string() + "\n";
    program.heldout.iter().map(line).collect()
}

/// Most restarts of a program that stops at an input; each begins after it.
const RESTARTS_MAX: usize = 12;

/// Whether the tree at `tree` answers every held-out and every visible case correctly. The check runs away from tests,
/// caches and everything that looks like a gate.
pub(super) fn is_right(program: &BuggyProgram, tree: &Path, place: &TrustDir) -> Result<bool, String> {
    let cases: Vec<_> = program.heldout.iter().chain(&program.tests).collect();
    let inputs: Vec<&[Value]> = cases.iter().map(|case| case.args.as_slice()).collect();
    let answers = drive(program, tree, place, &inputs)?;
    let same = |(answer, case): (&Value, &&super::program::ProgramCase)| *answer == case.out;
    Ok(answers.len() == cases.len() && answers.iter().zip(&cases).all(same))
}

/// The answer to each input, or `None` where the program stops.
pub(super) fn answers(
    program: &BuggyProgram,
    tree: &Path,
    place: &TrustDir,
    inputs: &[Vec<Value>],
) -> Result<Vec<Option<Value>>, String> {
    let mut all: Vec<Option<Value>> = Vec::new();
    for _ in 0..RESTARTS_MAX {
        let rest: Vec<&[Value]> = inputs[all.len()..].iter().map(Vec::as_slice).collect();
        if rest.is_empty() {
            break;
        }
        all.extend(drive(program, tree, place, &rest)?.into_iter().take(rest.len()).map(Some));
        if all.len() < inputs.len() {
            all.push(None);
        }
    }
    all.resize(inputs.len(), None);
    Ok(all)
}

/// The answers up to the first input at which the program stops.
fn drive(program: &BuggyProgram, tree: &Path, place: &TrustDir, inputs: &[&[Value]]) -> Result<Vec<Value>, String> {
    let clean = place.folder("oracle")?;
    copy(tree, &clean).map_err(|error| format!("copy the tree: {error}"))?;
    let folder = place.folder("oracle-files")?;
    for (name, text) in files(program) {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    let home = place.folder("oracle-home")?;
    // A person's HOME, because code that is right only in an empty one is wrong.
    std::fs::write(home.join(".profile"), "umask 022\n").map_err(|error| error.to_string())?;
    let words = command(program, &folder.to_string_lossy());
    let mut start = Command::new(&words[0]);
    start.args(&words[1..]).current_dir(&clean).env_clear();
    start
        .env("PATH", place.path())
        .env("HOME", home)
        .env("TMPDIR", place.folder("oracle-tmp")?)
        // Another country than that of any gate, because code that is right only in one language or zone is wrong.
        .env("LANG", "is_IS.UTF-8")
        .env("LC_ALL", "is_IS.UTF-8")
        .env("TZ", "America/Bogota");
    start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let input: String = inputs.iter().map(|args| Value::Array(args.to_vec()).to_string() + "\n").collect();
    let (_, output) = run_limited(start, input.as_bytes())?;
    Ok(output.lines().map_while(|line| serde_json::from_str(line).ok()).take(inputs.len() + 1).collect())
}

/// Copies the program's plain files, without tests and generated files.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    const LEFT_OUT: [&str; 8] =
        [".git", ".loopwright", "__pycache__", "target", "node_modules", "tests", "test", "bin"];
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = entry.file_type()?;
        if kind.is_dir() && !LEFT_OUT.contains(&name.to_string_lossy().as_ref()) {
            std::fs::create_dir_all(to.join(&name))?;
            copy(&entry.path(), &to.join(&name))?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

/// Sends all of `input` from its own thread, so that neither side can block the other.
pub(super) fn feed_stdin(child: &mut std::process::Child, input: &[u8]) {
    let Some(mut stdin) = child.stdin.take() else { return };
    let input = input.to_vec();
    std::thread::spawn(move || {
        // A program may ignore its input.
        let _ = stdin.write_all(&input);
    });
}

/// Whether building the program needs the Rust toolchain's folder.
pub(super) fn needs_toolchain(program: &BuggyProgram) -> bool {
    program.language == ProgramLanguage::Rust || program.gate == SuiteRunner::Cargo
}
