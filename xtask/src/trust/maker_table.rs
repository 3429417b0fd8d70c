//! Classes of makers as data: the tables in `makers/` have the code of each class in each language. A class has its own
//! code at the start of the source, in a call of the function, as a condition for the right answer, or in further files.

use super::behaviour::{BehaviourKind, write_file_script};
use super::cheats::{rust_types, shell_old, shell_rows};
use super::program::{BuggyProgram, ProgramLanguage, SuiteRunner};
use super::tests::rust_returns;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const TABLES: [(ProgramLanguage, &str); 4] = [
    (ProgramLanguage::Python, include_str!("makers/python.txt")),
    (ProgramLanguage::JavaScript, include_str!("makers/javascript.txt")),
    (ProgramLanguage::Rust, include_str!("makers/rust.txt")),
    (ProgramLanguage::Shell, include_str!("makers/shell.txt")),
];
/// Classes that are the same in every language.
const ANY: &str = include_str!("makers/any.txt");

/// One class: the texts of each language.
#[derive(Clone, Copy)]
pub(super) struct TableMaker {
    pub(super) name: &'static str,
    pub(super) kind: BehaviourKind,
    pub(super) escapes: &'static str,
}

/// One entry of a table.
struct TableEntry {
    head: BTreeMap<&'static str, &'static str>,
    parts: Vec<(&'static str, &'static str)>,
}

static ENTRIES: LazyLock<Vec<(Option<ProgramLanguage>, &'static str, TableEntry)>> = LazyLock::new(|| {
    let tables = TABLES.iter().map(|(language, table)| (Some(*language), *table)).chain([(None, ANY)]);
    tables.flat_map(|(language, table)| read(table).map(move |(name, entry)| (language, name, entry))).collect()
});

fn read(table: &'static str) -> impl Iterator<Item = (&'static str, TableEntry)> {
    table.strip_prefix("=== ").unwrap_or(table).split("\n=== ").map(|text| {
        let mut sections = text.split("\n--- ");
        let mut head = sections.next().unwrap_or_default().lines();
        let name = head.next().expect("an entry begins with its name").trim();
        let head = head.filter_map(|line| line.split_once(": ")).collect();
        let parts = sections.map(|part| part.split_once('\n').unwrap_or((part, "")));
        (
            name,
            TableEntry {
                head,
                parts: parts.map(|(title, text)| (title.trim(), text.trim_end_matches('\n'))).collect(),
            },
        )
    })
}

/// Every class of the tables, in their order.
pub(super) fn all() -> Vec<TableMaker> {
    let mut all: Vec<TableMaker> = Vec::new();
    for (_, name, entry) in ENTRIES.iter() {
        if all.iter().all(|known| known.name != *name) {
            let kind = match entry.head.get("kind").copied() {
                Some("honest") => BehaviourKind::Honest,
                Some("harmful") => BehaviourKind::Harmful,
                None => BehaviourKind::Dishonest,
                Some(other) => panic!("{name}: no kind is called {other}"),
            };
            all.push(TableMaker { name, kind, escapes: entry.head.get("escapes").copied().unwrap_or_default() });
        }
    }
    all
}

impl TableMaker {
    /// The script for this program, if the class has an entry for its language and its runner.
    pub(super) fn script(&self, program: &BuggyProgram) -> Option<String> {
        let is_own = |language: &Option<ProgramLanguage>| language.is_none_or(|one| one == program.language);
        let runs = |entry: &TableEntry| {
            let gates = entry.head.get("gates").copied();
            let has_data = !entry.head.contains_key("data") || program.has_data;
            has_data && gates.is_none_or(|gates| gates.split_whitespace().any(|word| word == gate_word(program.gate)))
        };
        let found =
            ENTRIES.iter().find(|(language, name, entry)| *name == self.name && is_own(language) && runs(entry));
        found.map(|(_, _, entry)| entry.script(program, self.kind))
    }
}

impl TableEntry {
    fn part(&self, title: &str) -> Option<&'static str> {
        self.parts.iter().find(|(known, _)| *known == title).map(|(_, text)| *text)
    }

    fn script(&self, program: &BuggyProgram, kind: BehaviourKind) -> String {
        let is_right = kind != BehaviourKind::Dishonest;
        let code = match (self.part("source"), self.part("when")) {
            (Some(source), _) => source.to_owned() + "\n",
            (None, Some(condition)) => right_when(program, self.part("import"), condition),
            _ => self.composed(program, if is_right { &program.fixed } else { &program.buggy }),
        };
        let source = write_file_script(&program.source_path(), &filled(program, &program.source(&code)));
        let files = self.parts.iter().filter_map(|(title, text)| {
            let path = title.strip_prefix("file ")?;
            Some(write_file_script(&filled(program, path), &filled(program, text)))
        });
        let files: String = files.collect();
        source + &files + &self.part("run").map_or(String::new(), |run| filled(program, run) + "\n")
    }

    /// The code with this entry's additions.
    fn composed(&self, program: &BuggyProgram, code: &str) -> String {
        let (function, import) = (&program.function, self.part("import").unwrap_or_default());
        let Some(call) = self.part("call") else {
            return match program.language {
                _ if import.is_empty() && !self.parts.is_empty() && code == program.fixed => code.to_owned(),
                ProgramLanguage::Rust => format!("{import}\n{}", code.replace("//!", "//")),
                _ => format!("{code}\n{import}\n"),
            };
        };
        match program.language {
            ProgramLanguage::Python => format!(
                "{code}\n\n{import}\n\n_slow = {function}\n\n\ndef {function}(*args):\n{}\n    return _slow(*args)\n",
                indented(call)
            ),
            ProgramLanguage::JavaScript => format!(
                "{code}\n{import}\nconst slow = module.exports.{function};\nmodule.exports.{function} = (...args) => {{\n{}\n  return slow(...args);\n}};\n",
                indented(call)
            ),
            ProgramLanguage::Rust => {
                let (takes, names) = rust_types(program);
                let attribute = self.part("attribute").unwrap_or_default();
                let returns = match self.part("returns") {
                    Some(own) => own.to_owned(),
                    None => rust_returns(program).to_owned(),
                };
                format!(
                    "{import}\nmod old {{\n{code}}}\n\n{attribute}\npub fn {function}({takes}) -> {returns} {{\n{}\n}}\n",
                    indented(&if call.contains("old::") {
                        call.to_owned()
                    } else {
                        format!("{call}\nold::{function}({names})")
                    })
                )
            }
            ProgramLanguage::Shell => format!(
                "{}\n{import}\n\n{function}() {{\n{}\n  old_{function} \"$@\"\n}}\n",
                shell_old(program),
                indented(call)
            ),
        }
    }
}

/// Both versions of the code; a condition decides.
fn right_when(program: &BuggyProgram, import: Option<&str>, condition: &str) -> String {
    if program.language == ProgramLanguage::Shell {
        let function = &program.function;
        return format!(
            "{}\n{function}() {{\n  if {condition}; then (\n{}    {function} \"$@\"\n  ) else (\n{}    {function} \"$@\"\n  ) fi\n}}\n",
            import.unwrap_or_default(),
            program.fixed,
            program.buggy
        );
    }
    let code = super::cheats::right_when_code(program, condition);
    let import = import.unwrap_or_default();
    if program.language == ProgramLanguage::JavaScript {
        // The directive has to stay first.
        return code.replacen("\"use strict\";\n", &format!("\"use strict\";\n{import}\n"), 1);
    }
    format!("{import}\n{code}")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Fills in the program's words.
fn filled(program: &BuggyProgram, text: &str) -> String {
    let (takes, names) =
        if program.language == ProgramLanguage::Rust { rust_types(program) } else { Default::default() };
    let returns = if program.language == ProgramLanguage::Rust { rust_returns(program) } else { "" };
    let rows: Vec<String> =
        program.tests.iter().map(|case| serde_json::json!([case.args, case.out]).to_string()).collect();
    let cases = if program.language == ProgramLanguage::Shell { shell_rows(program) } else { String::new() };
    let fixed = if text.contains("%FIXED%") { program.source(&program.fixed) } else { String::new() };
    let words = [
        ("%FIXED%", fixed.as_str()),
        ("%ROWS%", &rows.join("\n")),
        ("%CASES%", &cases),
        ("%HELPER%", &program.helper),
        ("%FUNCTION%", &program.function),
        ("%NAME%", &program.name),
        ("%TAKES%", &takes),
        ("%NAMES%", &names),
        ("%RETURNS%", returns),
        ("%TEST%", &program.test_path()),
        ("%SOURCE%", &program.source_path()),
        ("%COUNT%", &program.tests.len().to_string()),
        ("%GATE%", &program.command().join(" ")),
    ];
    words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
}

fn gate_word(gate: SuiteRunner) -> &'static str {
    match gate {
        SuiteRunner::Unittest => "unittest",
        SuiteRunner::Pytest => "pytest",
        SuiteRunner::Node => "node",
        SuiteRunner::Npm => "npm",
        SuiteRunner::Cargo => "cargo",
        SuiteRunner::Script => "script",
        SuiteRunner::Inline => "inline",
        SuiteRunner::Make => "make",
    }
}
