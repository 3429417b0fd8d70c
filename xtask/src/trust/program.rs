//! A small buggy program with its tests and its held-out cases, read from the tables in `programs/`, and the files of a
//! repository with it. `honest` and `cheats` contain the makers that change it.

use super::tests::{Edit, suite};
use serde_json::Value;

/// A program's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramLanguage {
    Python,
    JavaScript,
    Rust,
    Shell,
}

impl ProgramLanguage {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::Rust => "Rust",
            Self::Shell => "shell",
        }
    }

    /// Whether a comment begins with `#`.
    pub(super) fn has_hash_comments(self) -> bool {
        matches!(self, Self::Python | Self::Shell)
    }
}

/// The way in which its users run the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SuiteRunner {
    Unittest,
    Pytest,
    Node,
    Npm,
    /// `cargo test` with tests in `tests/`.
    Cargo,
    /// A script of the repository; Rust's tests are in a file of their own.
    Script,
    /// A script of the repository; the tests are in the source file.
    Inline,
    Make,
}

/// A type of an argument, for Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentType {
    Int,
    Text,
    Ints,
    Texts,
}

/// One expectation.
#[derive(Debug, Clone)]
pub(super) struct ProgramCase {
    pub(super) name: String,
    pub(super) args: Vec<Value>,
    pub(super) out: Value,
}

#[derive(Debug, Clone)]
pub(super) struct BuggyProgram {
    pub(super) name: String,
    pub(super) language: ProgramLanguage,
    pub(super) function: String,
    pub(super) helper: String,
    pub(super) gate: SuiteRunner,
    /// Whether its tests read the expected values from a file of data.
    pub(super) has_data: bool,
    pub(super) takes: Vec<ArgumentType>,
    pub(super) buggy: String,
    pub(super) fixed: String,
    pub(super) tests: Vec<ProgramCase>,
    pub(super) heldout: Vec<ProgramCase>,
}

const TABLES: [(ProgramLanguage, &str); 4] = [
    (ProgramLanguage::Python, include_str!("programs/python.txt")),
    (ProgramLanguage::JavaScript, include_str!("programs/javascript.txt")),
    (ProgramLanguage::Rust, include_str!("programs/rust.txt")),
    (ProgramLanguage::Shell, include_str!("programs/shell.txt")),
];

/// Every program, with a runner that this machine has.
pub(super) fn all() -> Vec<BuggyProgram> {
    let mut programs = parse_tables();
    for (gate, other, argv) in [
        (SuiteRunner::Npm, SuiteRunner::Node, ["npm", "--version"].as_slice()),
        (SuiteRunner::Pytest, SuiteRunner::Unittest, &["python3", "-m", "pytest", "--version"]),
    ] {
        let mut ask = crate::command::program(argv[0]);
        ask.args(&argv[1..]).env("PATH", super::run_dir::SYSTEM_PATH);
        if crate::command::first_output_line(ask).is_none() {
            eprintln!("trust: no {}, its programs use another runner", argv[argv.len() - 2]);
            programs.iter_mut().filter(|program| program.gate == gate).for_each(|program| program.gate = other);
        }
    }
    programs
}

/// Every program, from its table.
pub(super) fn parse_tables() -> Vec<BuggyProgram> {
    let programs = |table: &'static str| {
        table.strip_prefix("=== ").unwrap_or(table).split(
            "
=== ",
        )
    };
    let texts = TABLES.iter().flat_map(|(language, table)| programs(table).map(|text| (*language, text)));
    texts.map(|(language, text)| BuggyProgram::read(language, text)).collect()
}

impl BuggyProgram {
    fn read(language: ProgramLanguage, text: &str) -> Self {
        let mut sections = text.split("\n--- ");
        let mut head = sections.next().unwrap_or_default().lines();
        let name = head.next().expect("a program begins with its name").trim().to_owned();
        let keys: Vec<(&str, &str)> = head.filter_map(|line| line.split_once(": ")).collect();
        let key = |wanted: &str| keys.iter().find(|(key, _)| *key == wanted).map_or("", |(_, value)| value.trim());
        let parts: Vec<(&str, &str)> = sections.filter_map(|part| part.split_once('\n')).collect();
        let part = |wanted: &str| {
            let found = parts.iter().find(|(title, _)| *title == wanted);
            found.unwrap_or_else(|| panic!("{name} has no {wanted}")).1.trim_end().to_owned()
        };
        Self {
            language,
            function: key("function").to_owned(),
            helper: key("helper").to_owned(),
            gate: gate(key("gate")),
            has_data: key("data") == "json",
            takes: key("takes").split_whitespace().map(parse_type).collect(),
            buggy: part("buggy") + "\n",
            fixed: part("fixed") + "\n",
            tests: part("tests").lines().map(named_case).collect(),
            heldout: part("heldout").lines().enumerate().map(|(at, line)| case(&format!("held_{at}"), line)).collect(),
            name,
        }
    }

    /// The path of the code.
    pub(super) fn source_path(&self) -> String {
        match self.language {
            ProgramLanguage::Python => format!("{}.py", self.name),
            ProgramLanguage::JavaScript => format!("src/{}.js", self.name),
            ProgramLanguage::Rust => "src/lib.rs".to_owned(),
            ProgramLanguage::Shell => format!("{}.sh", self.name),
        }
    }

    /// The path of the tests.
    pub(super) fn test_path(&self) -> String {
        match (self.language, self.gate) {
            (ProgramLanguage::Python, _) => format!("tests/test_{}.py", self.name),
            (ProgramLanguage::JavaScript, _) => format!("test/{}.test.js", self.name),
            (ProgramLanguage::Rust, SuiteRunner::Inline) => self.source_path(),
            (ProgramLanguage::Rust, SuiteRunner::Cargo) => format!("tests/{}.rs", self.name),
            (ProgramLanguage::Rust, _) => "src/tests.rs".to_owned(),
            (ProgramLanguage::Shell, _) => format!("tests/{}_test.sh", self.name),
        }
    }

    /// The path of the file with expected values.
    pub(super) fn data_path(&self) -> String {
        let folder = if self.language == ProgramLanguage::JavaScript { "test" } else { "tests" };
        format!("{folder}/rows.json")
    }

    /// A source file with this code, and the tests where they live in it.
    pub(super) fn source(&self, code: &str) -> String {
        self.source_with(code, Edit::None)
    }

    pub(super) fn source_with(&self, code: &str, edit: Edit) -> String {
        match (self.language, self.gate) {
            (ProgramLanguage::Rust, SuiteRunner::Inline) => format!("{code}\n{}", suite(self, edit)),
            (ProgramLanguage::Rust, SuiteRunner::Script) => format!("{code}\n#[cfg(test)]\nmod tests;\n"),
            _ => code.to_owned(),
        }
    }

    /// The files of base, without the loop.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let mut files = vec![
            (self.source_path(), self.source(&self.buggy)),
            ("README.md".to_owned(), format!("# {}\n\nOne function: `{}`.\n", self.name, self.function)),
        ];
        if self.test_path() != self.source_path() {
            files.push((self.test_path(), suite(self, Edit::None)));
        }
        if self.has_data {
            let rows = self.tests.iter().map(|case| (case.name.clone(), case.out.clone()));
            files.push((self.data_path(), Value::Object(rows.collect()).to_string()));
        }
        // Half of the repositories have a `.gitignore`.
        if self.name.len().is_multiple_of(2) {
            files.push((".gitignore".to_owned(), "__pycache__/\nnode_modules/\ntarget/\n*.xml\n".to_owned()));
        }
        match self.language {
            ProgramLanguage::Python if self.gate != SuiteRunner::Pytest => {
                files.push(("tests/__init__.py".to_owned(), String::new()))
            }
            ProgramLanguage::JavaScript => files.push(("package.json".to_owned(), self.package_json())),
            ProgramLanguage::Rust if self.gate == SuiteRunner::Cargo => {
                files.push(("Cargo.toml".to_owned(), self.cargo_toml()))
            }
            _ => {}
        }
        let command = self.plain_command();
        // A folder named `test` would look up to date to `make`.
        let phony = if self.language == ProgramLanguage::JavaScript { ".PHONY: test\n" } else { "" };
        let in_make = command.replace('$', "$$");
        match self.gate {
            SuiteRunner::Make => files.push(("Makefile".to_owned(), format!("{phony}test:\n\t{in_make}\n"))),
            SuiteRunner::Script | SuiteRunner::Inline => {
                files.push(("check.sh".to_owned(), format!("set -e\n{command}\n")))
            }
            _ => {}
        }
        files
    }

    pub(super) fn package_json(&self) -> String {
        let name = &self.name;
        format!(
            "{{\n  \"name\": \"{name}\",\n  \"version\": \"1.0.0\",\n  \"scripts\": {{ \"test\": \"node --test\" }}\n}}\n"
        )
    }

    pub(super) fn cargo_toml(&self) -> String {
        format!("[package]\nname = \"{}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n", self.name)
    }

    /// The commands of a script or a Makefile.
    fn plain_command(&self) -> &'static str {
        match self.language {
            ProgramLanguage::Python => "python3 -m unittest -v",
            ProgramLanguage::JavaScript => "node --test",
            ProgramLanguage::Rust => {
                "rustc --edition 2021 --test src/lib.rs -o \"${TMPDIR:-/tmp}/suite\" && \"${TMPDIR:-/tmp}/suite\""
            }
            ProgramLanguage::Shell => "for suite in tests/*_test.sh; do sh \"$suite\" || exit 1; done",
        }
    }

    /// The test command.
    pub(super) fn command(&self) -> Vec<&'static str> {
        match self.gate {
            SuiteRunner::Unittest => vec!["python3", "-m", "unittest", "-v"],
            SuiteRunner::Pytest => vec!["python3", "-m", "pytest", "-q", "--junitxml=report.xml"],
            SuiteRunner::Node => vec!["node", "--test"],
            SuiteRunner::Npm => vec!["npm", "test"],
            SuiteRunner::Cargo => vec!["cargo", "test", "--offline"],
            SuiteRunner::Script | SuiteRunner::Inline => vec!["sh", "check.sh"],
            SuiteRunner::Make => vec!["make", "test"],
        }
    }

    /// The files that the loop declares as inputs of the gate.
    pub(super) fn inputs(&self) -> Option<&'static str> {
        match (self.language, self.gate) {
            (ProgramLanguage::Python | ProgramLanguage::Shell, _) | (ProgramLanguage::Rust, SuiteRunner::Cargo) => {
                Some("tests/**")
            }
            (ProgramLanguage::JavaScript, _) => Some("test/**"),
            (ProgramLanguage::Rust, SuiteRunner::Inline) => None,
            (ProgramLanguage::Rust, _) => Some("src/tests.rs"),
        }
    }
}

fn gate(word: &str) -> SuiteRunner {
    match word {
        "unittest" => SuiteRunner::Unittest,
        "pytest" => SuiteRunner::Pytest,
        "node" => SuiteRunner::Node,
        "npm" => SuiteRunner::Npm,
        "cargo" => SuiteRunner::Cargo,
        "script" => SuiteRunner::Script,
        "inline" => SuiteRunner::Inline,
        "make" => SuiteRunner::Make,
        other => panic!("no gate is called {other}"),
    }
}

fn parse_type(word: &str) -> ArgumentType {
    match word {
        "int" => ArgumentType::Int,
        "text" => ArgumentType::Text,
        "ints" => ArgumentType::Ints,
        "texts" => ArgumentType::Texts,
        other => panic!("no type is called {other}"),
    }
}

fn named_case(line: &str) -> ProgramCase {
    let (name, rest) = line.split_once(" | ").unwrap_or_else(|| panic!("no name in {line}"));
    case(name, rest)
}

fn case(name: &str, line: &str) -> ProgramCase {
    let (args, out) = line.rsplit_once(" | ").unwrap_or_else(|| panic!("no result in {line}"));
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let Value::Array(args) = read(args) else { panic!("arguments are a list: {line}") };
    ProgramCase { name: name.to_owned(), args, out: read(out) }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn there_are_ten_programs_of_each_language_and_each_has_enough_cases() {
        let all = parse_tables();
        for language in [ProgramLanguage::Python, ProgramLanguage::JavaScript, ProgramLanguage::Rust] {
            assert!(all.iter().filter(|program| program.language == language).count() >= 10, "{}", language.word());
        }
        assert!(all.iter().filter(|program| program.language == ProgramLanguage::Shell).count() >= 5);
        for program in all {
            assert!(program.tests.len() >= 3 && program.heldout.len() >= 3, "{}", program.name);
            assert!(
                program.buggy.contains(&program.helper) && program.fixed.contains(&program.helper),
                "{}",
                program.name
            );
            let known = |case: &ProgramCase| program.tests.iter().any(|test| test.args == case.args);
            assert!(!program.heldout.iter().any(known), "{}: a held-out case is a visible one", program.name);
        }
    }
}
