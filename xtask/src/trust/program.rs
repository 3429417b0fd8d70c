//! A small buggy program with its tests and its held-out cases, read from the tables in `programs/`, and the files of a
//! repository that holds it. What makers do with it is in `honest` and `cheats`.

use super::tests::{Edit, suite};
use serde_json::Value;

/// What a program is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    JavaScript,
    Rust,
}

impl Language {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::Rust => "Rust",
        }
    }
}

/// How people run the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
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
pub(super) enum Type {
    Int,
    Text,
    Ints,
    Texts,
}

/// One expectation.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) args: Vec<Value>,
    pub(super) out: Value,
}

#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) language: Language,
    pub(super) function: String,
    pub(super) helper: String,
    pub(super) gate: Gate,
    pub(super) takes: Vec<Type>,
    pub(super) buggy: String,
    pub(super) fixed: String,
    pub(super) tests: Vec<Case>,
    pub(super) heldout: Vec<Case>,
}

const TABLES: [(Language, &str); 3] = [
    (Language::Python, include_str!("programs/python.txt")),
    (Language::JavaScript, include_str!("programs/javascript.txt")),
    (Language::Rust, include_str!("programs/rust.txt")),
];

/// Every program, with a runner that this machine has.
pub(super) fn all() -> Vec<Program> {
    let mut programs = written();
    for (gate, other, argv) in [
        (Gate::Npm, Gate::Node, ["npm", "--version"].as_slice()),
        (Gate::Pytest, Gate::Unittest, &["python3", "-m", "pytest", "--version"]),
    ] {
        let mut ask = crate::command::program(argv[0]);
        ask.args(&argv[1..]).env("PATH", super::world::SYSTEM_PATH);
        if crate::command::ask(ask).is_none() {
            eprintln!("trust: no {}, its programs use another runner", argv[argv.len() - 2]);
            programs.iter_mut().filter(|program| program.gate == gate).for_each(|program| program.gate = other);
        }
    }
    programs
}

/// Every program as its table says.
pub(super) fn written() -> Vec<Program> {
    let programs = |table: &'static str| {
        table.strip_prefix("=== ").unwrap_or(table).split(
            "
=== ",
        )
    };
    let texts = TABLES.iter().flat_map(|(language, table)| programs(table).map(|text| (*language, text)));
    texts.map(|(language, text)| Program::read(language, text)).collect()
}

impl Program {
    fn read(language: Language, text: &str) -> Self {
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
            takes: key("takes").split_whitespace().map(typ).collect(),
            buggy: part("buggy") + "\n",
            fixed: part("fixed") + "\n",
            tests: part("tests").lines().map(named_case).collect(),
            heldout: part("heldout").lines().enumerate().map(|(at, line)| case(&format!("held_{at}"), line)).collect(),
            name,
        }
    }

    /// Where the code is.
    pub(super) fn source_path(&self) -> String {
        match self.language {
            Language::Python => format!("{}.py", self.name),
            Language::JavaScript => format!("src/{}.js", self.name),
            Language::Rust => "src/lib.rs".to_owned(),
        }
    }

    /// Where the tests are.
    pub(super) fn test_path(&self) -> String {
        match (self.language, self.gate) {
            (Language::Python, _) => format!("tests/test_{}.py", self.name),
            (Language::JavaScript, _) => format!("test/{}.test.js", self.name),
            (Language::Rust, Gate::Inline) => self.source_path(),
            (Language::Rust, Gate::Cargo) => format!("tests/{}.rs", self.name),
            (Language::Rust, _) => "src/tests.rs".to_owned(),
        }
    }

    /// A source file with this code, and the tests where they live in it.
    pub(super) fn source(&self, code: &str) -> String {
        self.source_with(code, Edit::None)
    }

    pub(super) fn source_with(&self, code: &str, edit: Edit) -> String {
        match (self.language, self.gate) {
            (Language::Rust, Gate::Inline) => format!("{code}\n{}", suite(self, edit)),
            (Language::Rust, Gate::Script) => format!("{code}\n#[cfg(test)]\nmod tests;\n"),
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
        // Half of the world has a list of what git should not see.
        if self.name.len().is_multiple_of(2) {
            files.push((".gitignore".to_owned(), "__pycache__/\nnode_modules/\ntarget/\n*.xml\n".to_owned()));
        }
        match self.language {
            Language::Python if self.gate != Gate::Pytest => {
                files.push(("tests/__init__.py".to_owned(), String::new()))
            }
            Language::JavaScript => files.push(("package.json".to_owned(), self.package_json())),
            Language::Rust if self.gate == Gate::Cargo => files.push(("Cargo.toml".to_owned(), self.cargo_toml())),
            _ => {}
        }
        let command = self.plain_command();
        // A folder called `test` would count as made.
        let phony = if self.language == Language::JavaScript { ".PHONY: test\n" } else { "" };
        match self.gate {
            Gate::Make => files.push(("Makefile".to_owned(), format!("{phony}test:\n\t{command}\n"))),
            Gate::Script | Gate::Inline => files.push(("check.sh".to_owned(), format!("set -e\n{command}\n"))),
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

    /// What a script or a Makefile does.
    fn plain_command(&self) -> &'static str {
        match self.language {
            Language::Python => "python3 -m unittest -v",
            Language::JavaScript => "node --test",
            Language::Rust => {
                "rustc --edition 2021 --test src/lib.rs -o \"${TMPDIR:-/tmp}/suite\" && \"${TMPDIR:-/tmp}/suite\""
            }
        }
    }

    /// The test command.
    pub(super) fn command(&self) -> Vec<&'static str> {
        match self.gate {
            Gate::Unittest => vec!["python3", "-m", "unittest", "-v"],
            Gate::Pytest => vec!["python3", "-m", "pytest", "-q", "--junitxml=report.xml"],
            Gate::Node => vec!["node", "--test"],
            Gate::Npm => vec!["npm", "test"],
            Gate::Cargo => vec!["cargo", "test", "--offline"],
            Gate::Script | Gate::Inline => vec!["sh", "check.sh"],
            Gate::Make => vec!["make", "test"],
        }
    }

    /// What the loop declares as deciding the gate.
    pub(super) fn inputs(&self) -> Option<&'static str> {
        match (self.language, self.gate) {
            (Language::Python, _) | (Language::Rust, Gate::Cargo) => Some("tests/**"),
            (Language::JavaScript, _) => Some("test/**"),
            (Language::Rust, Gate::Inline) => None,
            (Language::Rust, _) => Some("src/tests.rs"),
        }
    }
}

fn gate(word: &str) -> Gate {
    match word {
        "unittest" => Gate::Unittest,
        "pytest" => Gate::Pytest,
        "node" => Gate::Node,
        "npm" => Gate::Npm,
        "cargo" => Gate::Cargo,
        "script" => Gate::Script,
        "inline" => Gate::Inline,
        "make" => Gate::Make,
        other => panic!("no gate is called {other}"),
    }
}

fn typ(word: &str) -> Type {
    match word {
        "int" => Type::Int,
        "text" => Type::Text,
        "ints" => Type::Ints,
        "texts" => Type::Texts,
        other => panic!("no type is called {other}"),
    }
}

fn named_case(line: &str) -> Case {
    let (name, rest) = line.split_once(" | ").unwrap_or_else(|| panic!("no name in {line}"));
    case(name, rest)
}

fn case(name: &str, line: &str) -> Case {
    let (args, out) = line.rsplit_once(" | ").unwrap_or_else(|| panic!("no result in {line}"));
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let Value::Array(args) = read(args) else { panic!("arguments are a list: {line}") };
    Case { name: name.to_owned(), args, out: read(out) }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn there_are_ten_programs_of_each_language_and_each_has_enough_cases() {
        let all = written();
        for language in [Language::Python, Language::JavaScript, Language::Rust] {
            assert!(all.iter().filter(|program| program.language == language).count() >= 10, "{}", language.word());
        }
        for program in all {
            assert!(program.tests.len() >= 3 && program.heldout.len() >= 3, "{}", program.name);
            assert!(
                program.buggy.contains(&program.helper) && program.fixed.contains(&program.helper),
                "{}",
                program.name
            );
            let known = |case: &Case| program.tests.iter().any(|test| test.args == case.args);
            assert!(!program.heldout.iter().any(known), "{}: a held-out case is a visible one", program.name);
        }
    }
}
