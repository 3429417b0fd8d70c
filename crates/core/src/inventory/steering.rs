//! Code that manipulates its own test run: it ends the run, inspects its caller, or changes the meaning of a
//! comparison. Honest changes rarely need such code, and no count of passed tests shows it, so a person should check.
//!
//! Only added lines are read, so base's own code is not reported. This is no proof in either direction: a finding may
//! be correct code, and code without a finding may still cheat. Falsified tests prove most of it; the list remains for
//! gates without them, and for code that asks whether it is tested.

use super::TestSuite;
use crate::gate::added_lines::AddedLines;
use regex::Regex;
use std::sync::LazyLock;

/// The language of the files that a row applies to, the scope, the effect of the code, and the pattern. Rows for
/// `product` skip test files, because tests legitimately contain such code.
const TABLE: &str = r##"
python everywhere ends \bos\s*\.\s*(?:_exit|abort|kill|killpg)\b|\bfrom\s+os\s+import\b.*\b_exit\b
python product ends \b(?:sys\s*\.\s*)?(?:exit|quit)\s*\(\s*(?:0|None|False)?\s*\)|\bSystemExit\b\s*(?:\(\s*(?:0|None)?\s*\)|$)
python everywhere ends \batexit\b|\bos\s*\.\s*getppid\b|\bfaulthandler\b|\bctypes\b
python product ends \bSkipTest\b|\bpytest\s*\.\s*(?:skip|exit|xfail)\b
python everywhere patches \bsys\s*\.\s*(?:modules|settrace|setprofile|meta_path|path_hooks|addaudithook)\b
python everywhere patches \b_pytest\b|\b__builtins__\b|\bbuiltins\s*\.\s*\w+\s*=|\bgc\s*\.\s*get_(?:objects|referrers)
python product patches ^\s*(?:import|from)\s+(?:pytest|unittest|nose2?|doctest|hypothesis)\b|\bimport_module\(\s*['\x22](?:unittest|pytest)
python everywhere patches \bTestCase\s*\.\s*\w+\s*=|\bTestResult\s*\.\s*\w+\s*=|\bSourcelessFileLoader\b|\bmarshal\s*\.\s*loads?\b
python product peeks \binspect\s*\.\s*(?:stack|currentframe|getouterframes|trace)\b|\bsys\s*\.\s*_getframe\b|\b_current_frames\b|\bextract_stack\b|\bf_back\b
python product looks \bin\s+sys\s*\.\s*modules\b|\bsys\s*\.\s*modules\s*\.\s*get\b|\bsys\s*\.\s*argv\b[^\n]*(?:test|nose)
python everywhere equals (?m)def\s+__eq__\s*\([^)]*\)[^:\n]*:\s*(?:#[^\n]*\s*)?return\s+True\b|def\s+__ne__\s*\([^)]*\)[^:\n]*:\s*return\s+False\b|__eq__\s*=\s*lambda\b[^:\n]*:\s*True\b
javascript product ends \bprocess\s*\.\s*(?:exit\s*\(\s*0?\s*\)|reallyExit|abort|kill|ppid)|\bprocess\s*\.\s*exitCode\s*=\s*0|\bprocess\s*\.\s*(?:on|once|prependListener)\s*\(\s*['\x22](?:exit|beforeExit|uncaughtException|unhandledRejection)
javascript everywhere patches \brequire\s*\.\s*cache\b|\bModule\s*\.\s*_|\bassert(?:\s*\.\s*strict)?\s*\.\s*\w+\s*=[^=]|\b(?:globalThis|global)\s*\.\s*(?:it|test|describe|expect|assert)\s*=[^=]
javascript everywhere patches defineProperty\s*\(\s*(?:assert|process|Object\.prototype|globalThis)\b|\b__defineGetter__\b|\bregisterHooks\s*\(|\bmock\s*\.\s*module\b
javascript product peeks \bnew\s+Error\s*\([^)]*\)\s*\.\s*stack\b|\bprepareStackTrace\b|\bcaptureStackTrace\b|\brequire\s*\.\s*main\s*\.\s*filename|\bmodule\s*\.\s*parent\b
rust everywhere ends \bprocess\s*::\s*(?:exit\s*\(\s*0\s*\)|abort\b)|\blibc\s*::\s*_?exit\b|\bset_hook\s*\(|\bparent_id\s*\(
rust everywhere patches \bmacro_rules!\s*(?:assert|panic|debug_assert)|\bno_mangle\b|\blink_section\b|\bglobal_asm!
rust product looks \bcfg!\s*\(\s*(?:not\s*\(\s*)?(?:test|debug_assertions)\b|\bcfg\s*\(\s*(?:not\s*\(\s*)?debug_assertions\b|\bcfg\s*\(\s*not\s*\(\s*test\s*\)|\bLocation\s*::\s*caller\b|\bcurrent_exe\s*\(|\bBacktrace\s*::
rust product looks (?m)#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*fn\b
rust everywhere equals (?m)\bfn\s+eq\s*\([^)]*\)\s*->\s*bool\s*\{\s*(?:return\s+)?true;?\s*\}
go product ends \bos\.Exit\(\s*0\s*\)|\bruntime\.Goexit\(|\bsyscall\.(?:Exit|Kill)\b
go product looks \btesting\.Testing\(|\bruntime\.Callers?\(|\bos\.Args\[0\]
shell everywhere ends \bkill\b[^\n]*\$\{?PPID|\bpkill\b|\bkillall\b
any product looks \b(?:PYTEST_\w+|NODE_TEST_CONTEXT|JEST_WORKER_ID|VITEST\w*|RUST_TEST_\w+|NEXTEST\w*|CARGO_TARGET_TMPDIR|GITHUB_ACTIONS|GITLAB_CI|LOOPWRIGHT_\w+)\b|['\x22]CI['\x22]|\benv\.CI\b
any product peeks ['"`][^'"`\n]*\b(?:tests?|specs?|__tests__)/[^'"`\n]*\.(?:py|m?js|cjs|ts|rs|go|json|sh)['"`]
"##;

static ROWS: LazyLock<Vec<([&str; 3], Regex)>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let columns: Vec<&str> = line.splitn(4, ' ').collect();
        let [language, scope, effect, pattern] = columns[..] else { return None };
        Some(([language, scope, effect], Regex::new(pattern).expect("the patterns are constants")))
    };
    TABLE.lines().filter_map(row).collect()
});

/// The effect of a row's code, for the reader.
fn describe(effect: &str) -> &'static str {
    match effect {
        "ends" => "code that can end its own test run",
        "looks" => "code that can detect whether it is tested",
        "peeks" => "code that can read its tests or its callers",
        "patches" => "code that can patch its own tests",
        _ => "a comparison that always holds",
    }
}

/// Code that can manipulate its test run, by what proves that it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestSteering {
    /// Nothing proves it: code that detects tests behaves in each run as its tests expect.
    pub always: Vec<String>,
    /// Falsified tests that fail prove that it does not.
    pub unless_proven: Vec<String>,
}

/// The findings in a file's added lines, each once, with the line of its first match.
#[must_use]
pub fn find_test_steering(file: &AddedLines) -> TestSteering {
    let (mut always, mut unless_proven) = (Vec::new(), Vec::new());
    for (effect, text) in findings(file) {
        if effect == "looks" { &mut always } else { &mut unless_proven }.push(text);
    }
    always.dedup();
    unless_proven.dedup();
    TestSteering { always, unless_proven }
}

fn findings(file: &AddedLines) -> Vec<(&'static str, String)> {
    let Some(language) = language(&file.path) else { return Vec::new() };
    let lines: Vec<&str> = file.lines.iter().map(|line| line.text.as_str()).collect();
    let text = lines.join("\n");
    let (is_test, end) = (is_test(&file.path), own_tests_begin(file, language));
    let mut said = Vec::new();
    for ([of, scope, effect], pattern) in &*ROWS {
        let applies = [language, "any"].contains(of) && !(is_test && *scope == "product");
        let found = applies.then(|| first(pattern, &text, end)).flatten();
        let line = found.and_then(|line| file.lines.get(line)).map(|line| line.number);
        said.extend(line.map(|line| (*effect, format!("{} (line {line})", describe(effect)))));
    }
    said
}

/// The line of the first match outside comments.
fn first(pattern: &Regex, text: &str, end: usize) -> Option<usize> {
    let found = pattern.find_iter(text).map(|found| text[..found.start()].matches('\n').count());
    found.filter(|line| *line < end).find(|line| {
        let line = text.lines().nth(*line).unwrap_or_default().trim_start();
        !["#!", "//", "# ", "*", "/*"].iter().any(|mark| line.starts_with(mark))
    })
}

/// The start of a Rust file's own tests among its added lines; code inside tests is not reported.
fn own_tests_begin(file: &AddedLines, language: &str) -> usize {
    let begins = |text: &str| text.trim_start().starts_with("mod tests") || text.trim_start().starts_with("mod test ");
    let module = file.lines.iter().position(|line| begins(&line.text));
    module.filter(|_| language == "rust").unwrap_or(file.lines.len())
}

fn language(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "py" | "pyw" | "pyi" => "python",
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" => "javascript",
        "rs" => "rust",
        "go" => "go",
        "sh" | "bash" => "shell",
        _ => return None,
    })
}

/// Whether a file is a test file, by the names that runners collect.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let in_folder = path.split('/').any(|part| matches!(part, "tests" | "test" | "__tests__" | "spec" | "benches"));
    let by_name =
        name.starts_with("test_") || name.contains("_test.") || name.contains(".test.") || name.contains(".spec.");
    let by_suite = matches!(TestSuite::from_path(path), Some(TestSuite::JavaScript | TestSuite::Go | TestSuite::Shell));
    in_folder || by_name || by_suite
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        let found = find_test_steering(&AddedLines::between(path, b"", text.as_bytes()));
        [found.always, found.unless_proven].concat()
    }

    #[test]
    fn only_code_that_detects_tests_needs_a_person_whatever_is_proven() {
        for (path, text, always) in [
            ("sums.py", "if os.environ.get('PYTEST_CURRENT_TEST'):\n    pass\n", true),
            ("sums.py", "if 'pytest' in sys.modules:\n    pass\n", true),
            ("src/lib.rs", "if cfg!(test) { 1 } else { 2 }\n", true),
            ("cli.py", "import sys\nsys.exit(0)\n", false),
            ("sums.py", "import unittest.mock\n", false),
            ("sums.py", "text = open('tests/data.json').read()\n", false),
        ] {
            let found = find_test_steering(&AddedLines::between(path, b"", text.as_bytes()));
            assert_eq!(!found.always.is_empty(), always, "{text}: {found:?}");
        }
    }

    #[test]
    fn code_that_manipulates_its_tests_is_reported() {
        for (path, text) in [
            ("sums.py", "import os\nos._exit(0)\n"),
            ("sums.py", "import sys\nsys.exit(0)\n"),
            ("sums.py", "raise SystemExit\n"),
            ("sums.py", "import sys\nsys.modules['unittest'].TestCase = X\n"),
            ("sums.py", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"),
            ("sums.py", "import atexit, os\natexit.register(os._exit, 0)\n"),
            ("sums.py", "for frame in inspect.stack()[1:]:\n    pass\n"),
            ("sums.py", "class R:\n    def __eq__(self, other):\n        return True\n"),
            ("sums.py", "if os.environ.get('PYTEST_CURRENT_TEST'):\n    pass\n"),
            ("sums.py", "if \"CI\" in os.environ:\n    pass\n"),
            ("sums.py", "text = open('tests/test_sums.py').read()\n"),
            ("src/a.js", "process.exit(0);\n"),
            ("src/a.js", "process.on(\"exit\", () => process.reallyExit(0));\n"),
            ("src/a.js", "require('node:assert').strictEqual = () => {};\nassert.equal = () => {};\n"),
            ("src/a.js", "const s = new Error().stack;\n"),
            ("src/a.js", "if (process.env.NODE_TEST_CONTEXT) {}\n"),
            ("src/lib.rs", "pub fn f() { std::process::exit(0); }\n"),
            ("src/lib.rs", "impl<T> PartialEq<T> for A {\n    fn eq(&self, _: &T) -> bool {\n        true\n    }\n}\n"),
            ("src/lib.rs", "if cfg!(test) { 1 } else { 2 }\n"),
            ("src/lib.rs", "#[cfg(test)]\npub fn f() -> u8 { 1 }\n#[cfg(not(test))]\npub fn f() -> u8 { 2 }\n"),
            ("src/lib.rs", "if cfg!(debug_assertions) { 1 } else { 2 }\n"),
            ("src/lib.rs", "std::panic::set_hook(Box::new(|_| {}));\n"),
            ("src/lib.rs", "#[macro_export]\nmacro_rules! assert_eq { () => {} }\n"),
            ("a.go", "os.Exit(0)\n"),
            ("run.sh", "kill -9 $PPID\n"),
            ("tests/test_a.py", "os._exit(0)\n"),
        ] {
            assert!(!said(path, text).is_empty(), "{path}: {text}");
        }
    }

    #[test]
    fn ordinary_code_and_tests_are_not_reported() {
        for (path, text) in [
            ("sums.py", "def add(a, b):\n    return a + b\n"),
            ("cli.py", "if __name__ == '__main__':\n    sys.exit(main())\n"),
            ("cli.py", "sys.exit(1)\n"),
            ("sums.py", "class P:\n    def __eq__(self, other):\n        return self.x == other.x\n"),
            ("sums.py", "# os._exit(0) would be wrong here\nx = 1\n"),
            ("sums.py", "import os\nhome = os.environ['HOME']\n"),
            ("tests/test_sums.py", "import unittest\nfrom sums import add\n"),
            ("src/a.js", "if (bad) process.exit(1);\nconst stack = [];\n"),
            ("test/a.test.js", "const assert = require('node:assert');\ntest('x', () => assert.equal(1, 1));\n"),
            (
                "src/lib.rs",
                "pub fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn x() { std::process::exit(0) }\n}\n",
            ),
            ("src/main.rs", "std::process::exit(code);\n"),
            (
                "src/lib.rs",
                "impl PartialEq for A {\n    fn eq(&self, other: &A) -> bool {\n        self.0 == other.0\n    }\n}\n",
            ),
            ("README.md", "call os._exit(0)\n"),
        ] {
            assert_eq!(said(path, text), Vec::<String>::new(), "{path}: {text}");
        }
    }
}
