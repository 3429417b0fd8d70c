//! Python tests: functions and methods that pytest or unittest would collect.
//!
//! The parser reads logical lines and their indentation. The last definition of a name counts, as when the module is
//! imported.

use super::mask::{CommentGrammar, mask};
use super::tokens::looks_like_assertion;
use super::{DEPTH_MAX, InventoryTest, TESTS_MAX};
use std::collections::BTreeSet;

/// A statement: lines joined at brackets and backslashes, comments and strings blanked.
struct Line {
    indent: usize,
    code: String,
}

enum Block {
    Class { name: String, is_test: bool },
    Function,
    Other,
}

struct Scope {
    indent: usize,
    block: Block,
    guards: BTreeSet<String>,
    is_off: bool,
}

/// Whether pytest or unittest collect tests from a file of this name.
fn is_collected(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("test") || name.ends_with("_test.py") || name.ends_with("_tests.py")
}

fn is_in_tests(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(folder, _)| folder.split('/').any(|part| matches!(part, "test" | "tests")))
}

pub(super) fn tests(path: &str, text: &str) -> Vec<InventoryTest> {
    let lines = logical_lines(text);
    let takes_functions = is_collected(path) || is_in_tests(path);
    let mut reader =
        Reader { lines: &lines, scopes: Vec::new(), found: Vec::new(), takes_functions, module: Scope::module(path) };
    let mut decorators: Vec<&str> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        reader.leave(line.indent);
        if reader.scopes.len() >= DEPTH_MAX || reader.found.len() >= TESTS_MAX {
            break;
        }
        let code = line.code.as_str();
        if code.starts_with('@') {
            decorators.push(code);
            continue;
        }
        reader.statement(at, code, &decorators);
        decorators.clear();
    }
    reader.finish()
}

impl Scope {
    fn module(path: &str) -> Self {
        let mut guards = BTreeSet::new();
        // A file in a tests folder that runners do not collect by name may be started manually. A test that moves into
        // such a file from a collected one no longer runs.
        if !is_collected(path) {
            guards.insert("file is not collected by its name".to_owned());
        }
        Self { indent: 0, block: Block::Other, guards, is_off: false }
    }
}

struct Reader<'a> {
    lines: &'a [Line],
    scopes: Vec<Scope>,
    found: Vec<InventoryTest>,
    takes_functions: bool,
    module: Scope,
}

impl Reader<'_> {
    fn leave(&mut self, indent: usize) {
        while self.scopes.last().is_some_and(|scope| scope.indent >= indent) {
            self.scopes.pop();
        }
    }

    fn statement(&mut self, at: usize, code: &str, decorators: &[&str]) {
        let words = code.strip_prefix("async ").unwrap_or(code);
        if let Some(rest) = words.strip_prefix("def ") {
            self.function(at, name_of(rest), decorators);
        } else if let Some(rest) = code.strip_prefix("class ") {
            self.class(at, rest, decorators);
        } else if opens_block(code) {
            let guards = if is_main_guard(code) { BTreeSet::new() } else { block_guards(code) };
            self.push(at, Block::Other, guards, is_never(code));
        } else {
            self.simple(code);
        }
    }

    fn push(&mut self, at: usize, block: Block, guards: BTreeSet<String>, is_off: bool) {
        self.scopes.push(Scope { indent: self.lines[at].indent, block, guards, is_off });
    }

    fn is_in_function(&self) -> bool {
        self.scopes.iter().any(|scope| matches!(scope.block, Block::Function))
    }

    fn class(&mut self, at: usize, rest: &str, decorators: &[&str]) {
        let name = name_of(rest);
        let bases = rest.split_once('(').map_or("", |(_, bases)| bases);
        // In a collected file, test cases may inherit from any class.
        let is_test = self.takes_functions || bases.contains("TestCase");
        let (guards, is_off) = read_decorators(decorators);
        self.push(at, Block::Class { name: name.to_owned(), is_test }, guards, is_off);
        // A case that inherits all its tests has no test in its text; without the class these tests do not run.
        if bases.contains(',') && bases.contains("TestCase") && !self.is_in_function() {
            let test = InventoryTest { assertions: 1, ..self.test(at, "(inherited)", &[]) };
            self.found.push(InventoryTest { is_empty: false, ..test });
        }
    }

    fn function(&mut self, at: usize, name: &str, decorators: &[&str]) {
        let holder = self.scopes.iter().rev().find(|scope| matches!(scope.block, Block::Class { .. }));
        let is_collected = match holder.map(|scope| &scope.block) {
            Some(Block::Class { is_test, .. }) => *is_test,
            _ => self.takes_functions,
        };
        // A fixture may be called test_something and is not a test.
        let is_fixture = decorators.iter().any(|text| text.contains("fixture"));
        if name.starts_with("test") && is_collected && !self.is_in_function() && !is_fixture {
            let test = self.test(at, name, decorators);
            self.found.retain(|known| known.name != test.name);
            self.found.push(test);
        }
        self.push(at, Block::Function, BTreeSet::new(), false);
    }

    fn test(&self, at: usize, name: &str, decorators: &[&str]) -> InventoryTest {
        let (mut guards, mut is_skipped) = read_decorators(decorators);
        for scope in &self.scopes {
            guards.extend(scope.guards.iter().cloned());
            is_skipped |= scope.is_off;
        }
        let body = body(self.lines, at);
        is_skipped |= body.is_skipped;
        guards.extend(body.guards);
        InventoryTest {
            name: self.full_name(name),
            is_skipped,
            guards,
            assertions: body.assertions,
            is_empty: body.is_empty,
            text: None,
        }
    }

    fn full_name(&self, name: &str) -> String {
        let classes = self.scopes.iter().filter_map(|scope| match &scope.block {
            Block::Class { name, .. } => Some(name.as_str()),
            Block::Function | Block::Other => None,
        });
        classes.chain([name]).collect::<Vec<_>>().join("::")
    }

    /// Statements of a module or class that disable tests.
    fn simple(&mut self, code: &str) {
        if self.is_in_function() {
            return;
        }
        let is_mark = code.starts_with("pytestmark") && code.contains("skip");
        let switches_off = code.starts_with("__test__") && code.contains("False");
        let leaves = ["pytest.skip", "sys.exit", "os._exit", "exit", "quit"].iter().any(|name| is_call(code, name))
            || ["unittest.SkipTest", "SkipTest", "SystemExit"].iter().any(|error| raises(code, error));
        let depends = is_call(code, "pytest.importorskip") || code.contains("= pytest.importorskip(");
        let target = self.scopes.iter_mut().rev().find(|scope| matches!(scope.block, Block::Class { .. }));
        let is_guarded = target.is_none() && !self.scopes.is_empty();
        if (is_mark && code.contains("skipif")) || depends || (leaves && is_guarded) {
            let conditions: Vec<String> = self.scopes.iter().flat_map(|scope| scope.guards.iter().cloned()).collect();
            // `if __name__ == …: sys.exit(main())` is a usual end of a script and does not affect tests.
            if !(leaves && is_guarded && conditions.is_empty()) {
                self.module.guards.insert(format!("{} {code}", conditions.join(" ")));
            }
        } else if is_mark || switches_off || leaves {
            match self.scopes.iter_mut().rev().find(|scope| matches!(scope.block, Block::Class { .. })) {
                Some(scope) => scope.is_off = true,
                None => self.module.is_off = true,
            }
            self.switch_off_class();
        }
        self.forget(code);
        if let Some(rest) = code.strip_prefix("collect_ignore") {
            self.module.guards.insert(format!("collect_ignore{rest}"));
        }
    }

    /// `pytestmark` may follow the methods of its class.
    fn switch_off_class(&mut self) {
        let prefix = self.full_name("");
        if !prefix.is_empty() {
            self.found.iter_mut().filter(|test| test.name.starts_with(&prefix)).for_each(|test| test.is_skipped = true);
        }
    }

    /// `test_x = None` and `del test_x` remove a test.
    fn forget(&mut self, code: &str) {
        let name = code.strip_prefix("del ").map(str::trim).or_else(|| {
            let (name, value) = code.split_once('=')?;
            (!value.starts_with('=')).then(|| name.trim())
        });
        let Some(name) = name.filter(|name| name.starts_with("test")) else { return };
        let full = self.full_name(name);
        self.found.retain(|test| test.name != full);
    }

    /// A statement about the whole module applies to all of its tests, at any position in the file.
    fn finish(mut self) -> Vec<InventoryTest> {
        for test in &mut self.found {
            test.is_skipped |= self.module.is_off;
            test.guards.extend(self.module.guards.iter().cloned());
        }
        self.found
    }
}

fn name_of(rest: &str) -> &str {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

fn is_call(code: &str, name: &str) -> bool {
    code.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
}

fn raises(code: &str, error: &str) -> bool {
    code.strip_prefix("raise ").is_some_and(|rest| rest.starts_with(error))
}

fn opens_block(code: &str) -> bool {
    let word = code.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    matches!(
        word,
        "if" | "elif" | "else" | "for" | "while" | "with" | "try" | "except" | "finally" | "match" | "case" | "async"
    ) && code.contains(':')
}

fn is_main_guard(code: &str) -> bool {
    code.starts_with("if __name__")
}

/// Only conditions count; the bodies of `try`, `with` and `for` run.
fn block_guards(code: &str) -> BTreeSet<String> {
    let is_condition = ["if", "elif", "else", "while", "except", "case"].iter().any(|word| name_of(code) == *word);
    is_condition.then(|| code.split_whitespace().collect::<Vec<_>>().join(" ")).into_iter().collect()
}

fn is_never(code: &str) -> bool {
    matches!(code.trim_end_matches(':').trim(), "if False" | "if 0" | "while False" | "if None" | "if not True")
}

fn read_decorators(decorators: &[&str]) -> (BTreeSet<String>, bool) {
    let mut guards = BTreeSet::new();
    let mut is_off = false;
    for text in decorators {
        let lower = text.to_ascii_lowercase();
        let is_conditional =
            ["skipif", "skipunless", "xfail", "expectedfailure"].iter().any(|word| lower.contains(word));
        let arguments = text.split_once('(').map_or("", |(_, rest)| rest).trim_start();
        let always = lower.contains("skipif") && (arguments.starts_with("True") || arguments.starts_with('1'));
        if always || (lower.contains("skip") && !is_conditional) || lower.contains("mark.disabled") {
            is_off = true;
        } else if is_conditional {
            guards.insert(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    (guards, is_off)
}

#[derive(Default)]
struct Body {
    is_skipped: bool,
    is_empty: bool,
    assertions: usize,
    guards: BTreeSet<String>,
}

/// Reads the statements under a `def`, or the statement after its colon.
fn body(lines: &[Line], at: usize) -> Body {
    let indent = lines[at].indent;
    let inner = lines[at + 1..].iter().take_while(|line| line.indent > indent);
    let behind = inline_body(&lines[at].code);
    let statements: Vec<(usize, &str)> = behind
        .map(|code| (indent + 1, code))
        .into_iter()
        .chain(inner.map(|line| (line.indent, line.code.as_str())))
        .collect();
    let level = statements.first().map_or(0, |(indent, _)| *indent);
    let mut body = Body { is_empty: true, ..Body::default() };
    let mut condition = String::new();
    for (indent, code) in statements {
        let is_own_level = indent == level;
        if is_own_level {
            condition = if opens_block(code) { code.to_owned() } else { String::new() };
        }
        if skips(code) {
            body.is_skipped |= is_own_level;
            body.guards.extend((!is_own_level).then(|| format!("skip {condition}")));
            continue;
        }
        // Code after an unconditional return never runs.
        if is_own_level && (code == "return" || code == "return None" || code == "return True") {
            break;
        }
        if matches!(code, "pass" | "..." | "" | "\"\"") || code.starts_with('"') {
            continue;
        }
        let is_trivial =
            code.strip_prefix("assert ").is_some_and(|rest| !has_name(rest) || is_same_on_both_sides(rest));
        body.is_empty &= is_trivial;
        body.assertions += usize::from(!is_trivial && asserts(code));
    }
    body
}

fn inline_body(code: &str) -> Option<&str> {
    let mut depth = 0_i32;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ':' if depth == 0 => return Some(code[at + 1..].trim()).filter(|rest| !rest.is_empty()),
            _ => {}
        }
    }
    None
}

fn skips(code: &str) -> bool {
    let heads =
        "pytest.skip(|self.skipTest(|raise unittest.SkipTest|raise SkipTest|pytest.xfail(|skip(|raise pytest.skip";
    heads.split('|').any(|head| code.starts_with(head))
}

fn asserts(code: &str) -> bool {
    if code.starts_with("assert") {
        return true;
    }
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
    words.filter(|word| word.contains('(')).any(|word| word.split('(').any(looks_like_assertion))
}

fn has_name(code: &str) -> bool {
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.any(|word| {
        !word.starts_with(|c: char| c.is_ascii_digit())
            && !matches!(word, "True" | "False" | "None" | "not" | "is" | "or" | "and" | "in")
    })
}

fn is_same_on_both_sides(code: &str) -> bool {
    code.split_once("==").is_some_and(|(one, other)| one.trim() == other.trim() && !one.contains('"'))
}

/// Joins physical lines into statements.
fn logical_lines(text: &str) -> Vec<Line> {
    let masked = mask(text, CommentGrammar::Python);
    let code = String::from_utf8_lossy(&masked).into_owned();
    let mut lines: Vec<Line> = Vec::new();
    let mut depth = 0_i64;
    let mut is_joined = false;
    let mut is_string = false;
    for line in code.split('\n') {
        let body = line.trim();
        if depth > 0 || is_joined || is_string {
            if let Some(last) = lines.last_mut() {
                last.code.push(' ');
                last.code.push_str(body.trim_end_matches('\\').trim_end());
            }
        } else if body.is_empty() {
            continue;
        } else {
            let indent = line
                .bytes()
                .take_while(|byte| *byte == b' ' || *byte == b'\t')
                .map(|byte| if byte == b'\t' { 8 } else { 1 })
                .sum();
            lines.push(Line { indent, code: body.trim_end_matches('\\').trim_end().to_owned() });
        }
        // A multi-line literal is open while the number of its quote marks is odd.
        is_string ^= !body.bytes().filter(|byte| *byte == b'"').count().is_multiple_of(2);
        is_joined = body.ends_with('\\');
        let opened = body.bytes().filter(|byte| b"([{".contains(byte)).count() as i64;
        let closed = body.bytes().filter(|byte| b")]}".contains(byte)).count() as i64;
        depth = (depth + opened - closed).max(0);
    }
    split_semicolons(lines)
}

/// Splits `a; b` into two statements.
fn split_semicolons(lines: Vec<Line>) -> Vec<Line> {
    let mut split = Vec::with_capacity(lines.len());
    for line in lines {
        if !line.code.contains(';') || opens_block(&line.code) || line.code.contains("def ") {
            split.push(line);
            continue;
        }
        let parts = line.code.split(';').map(str::trim).filter(|part| !part.is_empty());
        split.extend(parts.map(|part| Line { indent: line.indent, code: part.to_owned() }));
    }
    split
}
