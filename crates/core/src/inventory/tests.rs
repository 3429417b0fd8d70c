//! Tables for the inventory: base, the sealed tree, and the missing tests.

use super::*;

fn missing(path: &str, before: &str, after: &str) -> Vec<String> {
    let base = TestInventory::from_files([(path, before)].into_iter());
    assert!(!base.is_empty(), "base has tests: {before}");
    let sealed = TestInventory::from_files([(path, after)].into_iter());
    compare(&base, &sealed).iter().map(ToString::to_string).collect()
}

fn ids(path: &str, text: &str) -> Vec<String> {
    let inventory = TestInventory::from_files([(path, text)].into_iter());
    inventory.ids().map(|id| id.strip_prefix(&format!("{path}::")).unwrap_or(&id).to_owned()).collect()
}

/// Replaces a piece of base and expects exactly these findings.
#[track_caller]
fn check(path: &str, base: &str, from: &str, to: &str, expected: &[&str]) {
    assert!(base.contains(from), "`{from}` is in base");
    assert_eq!(missing(path, base, &base.replacen(from, to, 1)), expected, "{from:?} -> {to:?}");
}

const RUST: &str = r##"
use super::*;

fn helper() -> u8 { 1 }

/// Not a test: #[test] fn in_comment() {}
#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"#[test] fn in_string() { assert!(x) }"#;

    #[test]
    fn adds<'a>() {
        let c = 'x';
        assert_eq!(helper() + 1, 2, "{c}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn waits() -> Result<(), Error> {
        let got = ask().await?;
        assert!(got.is_fine());
        Ok(())
    }

    #[test]
    #[cfg(feature = "big")]
    fn is_big() { check_totals(3); }

    proptest! {
        #[test]
        fn holds(x in 0..9) { prop_assert!(x < 9); }
    }
}
"##;

#[test]
fn rust_tests_are_read() {
    let mut found = ids("src/a.rs", RUST);
    found.sort();
    assert_eq!(found, ["tests::adds", "tests::is_big", "tests::proptest!::holds", "tests::waits"]);
}

#[test]
fn rust_lies_are_found() {
    let path = "src/a.rs";
    let adds_gone: &[&str] = &["`src/a.rs::tests::adds` is gone"];
    let adds_skipped: &[&str] = &["`src/a.rs::tests::adds` is skipped"];
    let adds_emptied: &[&str] = &["`src/a.rs::tests::adds` is emptied"];
    let assertion = "assert_eq!(helper() + 1, 2, \"{c}\");";
    for (from, to, expected) in [
        ("fn adds<'a>()", "fn adds_slowly<'a>()", adds_gone),
        ("    #[test]\n    fn adds", "    fn adds", adds_gone),
        ("#[test]\n    fn adds", "#[test]\n    #[ignore = \"later\"]\n    fn adds", adds_skipped),
        ("#[test]\n    fn adds", "#[test]\n    #[cfg(any())]\n    fn adds", adds_skipped),
        ("#[test]\n    fn adds", "#[test]\n    #[cfg(feature = \"never\")]\n    fn adds", adds_skipped),
        ("#[test]\n    fn adds", "#[test]\n    #[should_panic]\n    fn adds", adds_skipped),
        ("#[test]\n    fn adds", "#[test]\n    #[cfg_attr(all(), ignore)]\n    fn adds", adds_skipped),
        (assertion, "", adds_emptied),
        (assertion, "assert!(true);", adds_emptied),
        (assertion, "assert_eq!(1, 1);", adds_emptied),
        (assertion, "assert_eq!(helper(), helper());", adds_emptied),
        (assertion, "// assert_eq!(helper() + 1, 2);", adds_emptied),
        ("let c = 'x';", "return;", adds_emptied),
        ("    #[test]\n    fn adds", "    /* #[test] */\n    fn adds", adds_gone),
    ] {
        check(path, RUST, from, to, expected);
    }
    let all = missing(path, RUST, &RUST.replace("#[cfg(test)]", "#[cfg(any())]"));
    assert_eq!(all.len(), 4, "{all:?}");
    let wrapped = RUST.replace("mod tests {", "macro_rules! never { () => { mod tests {") + "}}";
    assert_eq!(missing(path, RUST, &wrapped).len(), 4);
    let discarded = RUST.replace("    #[test]\n    fn adds", "    discard! {\n    #[test]\n    fn adds") + "}";
    assert!(missing(path, RUST, &discarded).contains(&adds_gone[0].to_owned()));
    assert_eq!(missing(path, RUST, &format!("#![cfg(any())]\n{RUST}")).len(), 4);
    assert_eq!(missing(path, RUST, "").len(), 4);
}

#[test]
fn honest_rust_changes_are_not_flagged() {
    let path = "src/a.rs";
    for (from, to) in [
        ("fn helper", "fn renamed_helper"),
        ("let c = 'x';", "let c = 'y'; // a comment with #[ignore]"),
        ("fn helper() -> u8 { 1 }", ""),
        ("assert_eq!(helper() + 1, 2, \"{c}\");", "check_sum(helper(), c);"),
        ("#[test]\n    fn adds", "#[test]\n    fn new_one() { assert!(x()); }\n\n    #[test]\n    fn adds"),
        ("#[test]\n    fn adds", "#[test]\n    #[cfg(unix)]\n    fn adds"),
        ("    #[test]\n    fn adds<'a>()", "  #[test] fn adds<'a>( )"),
        ("#[test]\n    fn adds", "#[allow(dead_code)]\n    #[test]\n    fn adds"),
    ] {
        check(path, RUST, from, to, &[]);
    }
}

#[test]
fn rust_test_may_move_and_a_mod_line_may_not_vanish() {
    let base = TestInventory::from_files([("src/a.rs", RUST), ("src/b.rs", "")].into_iter());
    let sealed = TestInventory::from_files([("src/a.rs", ""), ("src/b.rs", RUST)].into_iter());
    assert_eq!(compare(&base, &sealed), []);
    let linked = "#[cfg(test)]\nmod tests;\nmod other;\n";
    assert_eq!(missing("src/lib.rs", linked, "mod other;\n"), ["`src/lib.rs::mod tests` is gone"]);
    assert_eq!(missing("src/lib.rs", linked, "#[cfg(test)]\nmod tests;\n"), Vec::<String>::new());
}

#[test]
fn tests_that_a_macro_generates_are_counted_by_its_calls() {
    let base = "macro_rules! case {\n    ($name:ident, $x:expr) => {\n        #[test]\n        fn $name() { assert!($x); }\n    };\n}\ncase!(one, f());\ncase!(two, g());\n";
    assert_eq!(ids("tests/a.rs", base), ["case!(one)", "case!(two)"]);
    check("tests/a.rs", base, "case!(two, g());", "", &["`tests/a.rs::case!(two)` is gone"]);
}

#[test]
fn python_case_that_inherits_its_tests_counts_as_one() {
    let base = "class Mixin:\n    def test_a(self):\n        self.assertTrue(f())\n\nclass ATest(Mixin, unittest.TestCase):\n    pass\n";
    check("tests/test_a.py", base, "class ATest", "class Unused", &["`tests/test_a.py::ATest::(inherited)` is gone"]);
    check("tests/test_a.py", base, "def test_a", "def a", &["`tests/test_a.py::Mixin::test_a` is gone"]);
}

#[test]
fn one_moved_test_does_not_replace_two() {
    let one = "#[test]\nfn same() { assert!(x()); }\n";
    let base = TestInventory::from_files([("tests/a.rs", one), ("tests/b.rs", one)].into_iter());
    let sealed = TestInventory::from_files([("tests/c.rs", one)].into_iter());
    assert_eq!(compare(&base, &sealed).len(), 1);
}

const PYTHON: &str = r#"
"""Module text with def test_in_string(): assert x"""
import pytest, unittest
# def test_in_comment(): assert x

def helper(x):
    return x

def test_adds():
    """Adds."""
    total = helper(1) + 1
    assert total == 2

@pytest.mark.parametrize("x", [
    1,
    2,
])
async def test_many(x): assert helper(x) > 0

class TestCalc:
    def test_sub(self):
        with pytest.raises(ValueError):
            helper("def test_no(): pass")

    def helper(self):
        def test_inner():
            pass

class CalcCase(unittest.TestCase):
    def test_mul(self):
        self.assertEqual(helper(4), 4)

if __name__ == "__main__":
    unittest.main()
"#;

#[test]
fn python_tests_are_read() {
    let mut found = ids("tests/test_calc.py", PYTHON);
    found.sort();
    assert_eq!(found, ["CalcCase::test_mul", "TestCalc::test_sub", "test_adds", "test_many"]);
    assert_eq!(ids("src/calc.py", "def test_connection():\n    assert x\n"), Vec::<String>::new());
}

#[test]
fn python_lies_are_found() {
    let path = "tests/test_calc.py";
    let gone: &[&str] = &["`tests/test_calc.py::test_adds` is gone"];
    let skipped: &[&str] = &["`tests/test_calc.py::test_adds` is skipped"];
    let emptied: &[&str] = &["`tests/test_calc.py::test_adds` is emptied"];
    for (from, to, expected) in [
        ("def test_adds", "def _test_adds", gone),
        ("def test_adds", "def test_adds_up", gone),
        ("def test_adds", "# def test_adds", gone),
        ("def test_adds", "@pytest.mark.skip\ndef test_adds", skipped),
        ("def test_adds", "@pytest.mark.skip(reason=\"x\")\ndef test_adds", skipped),
        ("def test_adds", "@unittest.skip(\"x\")\ndef test_adds", skipped),
        ("def test_adds", "@pytest.mark.skipif(True, reason=\"\")\ndef test_adds", skipped),
        ("def test_adds", "@pytest.mark.skipif(sys.version_info > (2,), reason=\"\")\ndef test_adds", skipped),
        ("def test_adds", "@pytest.mark.xfail\ndef test_adds", skipped),
        ("    total = ", "    pytest.skip(\"later\")\n    total = ", skipped),
        ("    total = ", "    if flag:\n        pytest.skip(\"later\")\n    total = ", skipped),
        ("    total = ", "    return\n    total = ", emptied),
        ("    total = helper(1) + 1\n    assert total == 2", "    pass", emptied),
        ("    total = helper(1) + 1\n    assert total == 2", "    assert True", emptied),
        ("    assert total == 2", "    assert total == total", emptied),
        ("    assert total == 2", "    # assert total == 2", emptied),
        ("    total = helper(1) + 1\n    assert total == 2", "    \"\"\"\n    assert total == 2\n    \"\"\"", emptied),
        ("class TestCalc:", "def test_adds():\n    pass\n\nclass TestCalc:", emptied),
        ("class TestCalc:", "del test_adds\nclass TestCalc:", gone),
        ("class TestCalc:", "test_adds = None\nclass TestCalc:", gone),
        ("class TestCalc:", "class Calc:", &["`tests/test_calc.py::TestCalc::test_sub` is gone"]),
        ("def test_adds():", "if False:\n  def test_adds():", skipped),
        (
            "    def test_sub",
            "    __test__ = False\n    def test_sub",
            &["`tests/test_calc.py::TestCalc::test_sub` is skipped"],
        ),
    ] {
        check(path, PYTHON, from, to, expected);
    }
    for line in [
        "pytest.skip(\"x\", allow_module_level=True)\n",
        "pytestmark = pytest.mark.skip\n",
        "pytestmark = [pytest.mark.skipif(True)]\n",
        "import sys; sys.exit(0)\n",
        "__test__ = False\n",
    ] {
        check(
            path,
            PYTHON,
            "# def test_in_comment",
            &format!("{line}# def test_in_comment"),
            &[
                "`tests/test_calc.py::CalcCase::test_mul` is skipped",
                "`tests/test_calc.py::TestCalc::test_sub` is skipped",
                "`tests/test_calc.py::test_adds` is skipped",
                "`tests/test_calc.py::test_many` is skipped",
            ],
        );
    }
}

#[test]
fn honest_python_changes_are_not_flagged() {
    let path = "tests/test_calc.py";
    for (from, to) in [
        ("def helper(x)", "def renamed(x)"),
        (
            "    total = helper(1) + 1\n    assert total == 2",
            "    assert helper(1) + 1 == 2  # pytest.skip is not called",
        ),
        ("    total = helper(1) + 1\n    assert total == 2", "    assert_total(helper(1), 2)"),
        ("def test_adds():", "def test_new():\n    assert helper(0) == 0\n\ndef test_adds():"),
        ("def test_adds():", "@pytest.mark.slow\ndef test_adds():"),
        ("def test_adds():", "def test_adds(tmp_path, monkeypatch):"),
        ("    unittest.main()", "    import sys\n    sys.exit(unittest.main())"),
        ("import pytest, unittest", "import pytest\nimport unittest\n\nskip = \"pytest.skip\"\n"),
    ] {
        check(path, PYTHON, from, to, &[]);
    }
}

#[test]
fn a_python_test_may_move_to_a_collected_file_only() {
    let base = TestInventory::from_files([("tests/test_a.py", PYTHON)].into_iter());
    let moved = |path| compare(&base, &TestInventory::from_files([(path, PYTHON)].into_iter())).len();
    assert_eq!(moved("tests/unit/test_calc.py"), 0);
    assert_eq!(moved("tests/calc.py"), 4);
    assert_eq!(moved("old/calc.py.txt"), 4);
}

const JAVASCRIPT: &str = r#"
import test from 'node:test';
import { describe, it, expect } from 'vitest';
// test('in comment', () => { expect(x).toBe(1) });
const text = "it('in string', () => {})", pattern = /test('x\/')/, other = `it(${`nested ${1}`})`;
if (pattern.test(text)) { console.log(1 / 2, text / 3); }

test('adds', () => {
  expect(add(1, 1)).toBe(2);
});

describe('calc', () => {
  beforeEach(() => { reset(); });
  it("subtracts", async function () {
    assert.equal(sub(2, 1), 1);
  });
  it.each([[1, 2]])('multiplies %i', (a, b) => { expect(mul(a, b)).toBe(b); });
  describe('deep', () => {
    test('divides', { timeout: 10 }, (t) => { t.assert.equal(div(4, 2), 2); });
  });
});
"#;

#[test]
fn javascript_tests_are_read() {
    let mut found = ids("src/calc.test.ts", JAVASCRIPT);
    found.sort();
    assert_eq!(found, ["adds", "calc > deep > divides", "calc > multiplies %i", "calc > subtracts"]);
    assert_eq!(ids("src/calc.ts", JAVASCRIPT), Vec::<String>::new());
}

#[test]
fn javascript_lies_are_found() {
    let path = "src/calc.test.ts";
    let gone: &[&str] = &["`src/calc.test.ts::adds` is gone"];
    let skipped: &[&str] = &["`src/calc.test.ts::adds` is skipped"];
    let emptied: &[&str] = &["`src/calc.test.ts::adds` is emptied"];
    for (from, to, expected) in [
        ("test('adds'", "test('adds numbers'", gone),
        ("test('adds'", "// test('adds'", gone),
        ("test('adds'", "test.skip('adds'", skipped),
        ("test('adds'", "test.todo('adds'", skipped),
        ("test('adds'", "xtest('adds'", skipped),
        ("test('adds', ", "test('adds', { skip: true }, ", skipped),
        ("test('adds', ", "test('adds', { skip: 'later' }, ", skipped),
        ("test('adds'", "test.skipIf(process.env.CI)('adds'", skipped),
        ("test('adds'", "test.failing('adds'", skipped),
        ("test('adds'", "if (process.env.NEVER) {}\nif (false) { test('adds'", skipped),
        ("test('adds'", "const never = () => { test('adds'", gone),
        ("  expect(add(1, 1)).toBe(2);", "", emptied),
        ("  expect(add(1, 1)).toBe(2);", "  expect(true).toBe(true);", emptied),
        ("  expect(add(1, 1)).toBe(2);", "  return;\n  expect(add(1, 1)).toBe(2);", emptied),
        ("  expect(add(1, 1)).toBe(2);", "  /* expect(add(1, 1)).toBe(2); */ add(1, 1);", emptied),
    ] {
        let after = JAVASCRIPT.replacen(from, to, 1);
        let found = missing(path, JAVASCRIPT, &after);
        assert!(found.iter().any(|one| one == expected[0]), "{to}: {found:?}");
        assert!(found.len() == 1 || to.contains("{ test("), "{to}: {found:?}");
    }
    let only = JAVASCRIPT.replace("it(\"subtracts\"", "it.only(\"subtracts\"");
    assert_eq!(missing(path, JAVASCRIPT, &only).len(), 3);
    let off = JAVASCRIPT.replace("describe('calc'", "describe.skip('calc'");
    assert_eq!(missing(path, JAVASCRIPT, &off).len(), 3);
}

#[test]
fn honest_javascript_changes_are_not_flagged() {
    let path = "src/calc.test.ts";
    for (from, to) in [
        ("test('adds', () => {", "test(\"adds\", async () => {"),
        ("beforeEach(() => { reset(); });", "beforeEach(() => { resetAll(); });"),
        ("  expect(add(1, 1)).toBe(2);", "  const sum = add(1, 1);\n  expect(sum).toEqual(2); // it.skip('adds')"),
        ("  expect(add(1, 1)).toBe(2);", "  checkSum(add, 2);"),
        ("test('adds'", "test('new', () => { expect(f()).toBe(1); });\ntest('adds'"),
    ] {
        check(path, JAVASCRIPT, from, to, &[]);
    }
}

const GO: &str = r#"package calc

import "testing"

// func TestInComment(t *testing.T) {}
var text = `
func TestInString(t *testing.T) {}
`

func helper(t *testing.T) {}

func TestAdd(t *testing.T) {
	if got := Add(1, 1); got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestMany(t *testing.T) {
	t.Run("zero", func(t *testing.T) { require.Equal(t, 0, Add(0, 0)) })
	t.Run("one", func(t *testing.T) {
		if Add(0, 1) != 1 { t.Fatal("no") }
	})
}

func Testable() {}
"#;

#[test]
fn go_tests_are_read_and_lies_found() {
    let path = "calc/add_test.go";
    let mut found = ids(path, GO);
    found.sort();
    assert_eq!(found, ["TestAdd", "TestMany", "TestMany/one", "TestMany/zero"]);
    let add = |why: &str| format!("`calc/add_test.go::TestAdd` is {why}");
    for (from, to, why) in [
        ("func TestAdd(", "func testAdd(", "gone"),
        ("func TestAdd(", "// func TestAdd(", "gone"),
        ("if got := Add", "t.Skip(\"later\")\n\tif got := Add", "skipped"),
        ("if got := Add", "if testing.Short() {\n\t\tt.Skip()\n\t}\n\tif got := Add", "skipped"),
        ("if got := Add", "return\n\tif got := Add", "emptied"),
        ("t.Errorf(\"got %d\", got)", "_ = got", "emptied"),
    ] {
        check(path, GO, from, to, &[&add(why)]);
    }
    check(path, GO, "t.Run(\"zero\"", "t.Run(\"nil\"", &["`calc/add_test.go::TestMany/zero` is gone"]);
    check(path, GO, "func helper", "func renamed", &[]);
    check(path, GO, "func TestAdd(", "func TestNew(t *testing.T) { t.Fatal(x()) }\n\nfunc TestAdd(", &[]);
    assert_eq!(missing(path, GO, &format!("//go:build never\n\n{GO}")).len(), 4);
    let main = format!("{GO}\nfunc TestMain(m *testing.M) {{ os.Exit(m.Run()) }}\n");
    check(path, &main, "os.Exit(m.Run())", "os.Exit(0)", &["`calc/add_test.go::TestMain` is skipped"]);
}

const SHELL: &str = r##"#!/bin/sh
# test_in_comment() { false; }
set -eu
cat <<'EOF'
test_in_document() {
EOF
test_adds() {
  result=$(./calc 1 1)
  [ "$result" = 2 ]
}
test_subs() { [ "$(./calc 2 -1)" = 1 ]; }
test_adds
test_subs
echo "all fine"
"##;

#[test]
fn shell_tests_are_read_and_lies_found() {
    let path = "tests/calc.sh";
    let mut found = ids(path, SHELL);
    found.sort();
    assert_eq!(found, ["calc.sh", "test_adds", "test_subs"]);
    check(path, SHELL, "test_adds() {", "test_plus() {", &["`tests/calc.sh::test_adds` is gone"]);
    check(path, SHELL, "}\ntest_subs", "}\n\n# new\ntest_new() { [ -f x ]; }\ntest_new\ntest_subs", &[]);
    check(path, SHELL, "  [ \"$result\" = 2 ]", "  :", &["`tests/calc.sh::test_adds` is emptied"]);
    check(path, SHELL, "  result=", "  return 0\n  result=", &["`tests/calc.sh::test_adds` is skipped"]);
    check(path, SHELL, "\ntest_adds\n", "\n", &["`tests/calc.sh::test_adds` is skipped"]);
    check(path, SHELL, "echo \"all fine\"", "echo 'well done'", &[]);
    let plain = "#!/bin/sh\nset -e\ntest \"$(./calc 1 1)\" = 2 || exit 1\n";
    check("test_calc.sh", plain, "set -e", "exit 0", &["`test_calc.sh::test_calc.sh` is emptied"]);
    check(
        "test_calc.sh",
        plain,
        "test \"$(./calc 1 1)\" = 2 || exit 1",
        "true",
        &["`test_calc.sh::test_calc.sh` is emptied"],
    );
    check("test_calc.sh", plain, "test ", "[ -x calc ]\ntest ", &[]);
    let base = TestInventory::from_files([("tests/calc.sh", SHELL)].into_iter());
    assert_eq!(compare(&base, &TestInventory::default()).len(), 3);
    let bats = "@test \"adds\" {\n  run ./calc 1 1\n  [ \"$output\" = 2 ]\n}\n";
    check("tests/a.bats", bats, "  run", "  skip\n  run", &["`tests/a.bats::adds` is skipped"]);
    check("tests/a.bats", bats, "\"adds\"", "\"adds up\"", &["`tests/a.bats::adds` is gone"]);
}

#[test]
fn test_that_base_skipped_may_be_deleted() {
    let base = "#[test]\n#[ignore]\nfn old() { assert!(x()); }\n#[test]\nfn kept() { assert!(x()); }\n";
    assert_eq!(missing("a.rs", base, "#[test]\nfn kept() { assert!(x()); }\n"), Vec::<String>::new());
}

#[test]
fn a_file_made_too_large_to_read_loses_its_tests() {
    let base = "#[test]\nfn kept() { assert!(x()); }\n";
    let padded = format!("{base}//{}", "x".repeat(FILE_BYTES_MAX));
    assert_eq!(missing("a.rs", base, &padded).len(), 1);
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(pieces in proptest::collection::vec(0_usize..40, 0..60), junk in ".{0,20}") {
        const PIECES: [&str; 40] = [
            "#[test]", "fn ", "a", "(", ")", "{", "}", "[", "]", "\"", "'", "`", "\\", "/", "/*", "*/", "//", "#", "\n", "    ",
            "def test_x", "class Test", ":", "@", "assert ", "test(", "it.skip(", "=>", "describe('x', ", "func TestX", "r#\"", "b'",
            "<<EOF", "${", "é", "t.Run(\"", "macro_rules!", "mod tests;", ".only", "test_x() {",
        ];
        let text: String = pieces.iter().map(|at| PIECES[*at]).chain([junk.as_str()]).collect();
        for path in ["a.rs", "tests/test_a.py", "a.test.js", "a_test.go", "tests/a.sh", "tests/a.bats"] {
            let one = TestInventory::from_files([(path, &text)].into_iter());
            proptest::prop_assert_eq!(compare(&one, &one), vec![]);
        }
    }
}

#[test]
fn reading_is_linear_in_the_text() {
    for piece in ["(", "{", "/*", "\"", "`${", "#[", "fn a() {", "if x {", "it('a', () => {", "<<EOF\n", "'", "r#\""] {
        let text = piece.repeat(20_000);
        for path in ["a.rs", "tests/test_a.py", "a.test.js", "a_test.go", "tests/a.sh"] {
            let _ = TestInventory::from_files([(path, &text)].into_iter());
        }
    }
}

#[test]
fn test_in_a_source_file_with_other_content_is_rewritten_and_a_new_or_reformatted_one_is_not() {
    let base = "fn f() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() { assert_eq!(f(1), vec![1, 2]); }\n}\n";
    let of = |text: &str| TestInventory::from_files([("src/lib.rs", text)].into_iter());
    let rewritten = |text: &str| rewritten_tests(&of(base), &of(text));
    assert_eq!(rewritten(base), Vec::<String>::new());
    assert_eq!(rewritten(&base.replace("vec![1, 2]", "f(1)")), ["src/lib.rs::tests::a"]);
    assert_eq!(rewritten(&base.replace("vec![1, 2]", "vec![\n  1,\n  2,\n]")), Vec::<String>::new());
    let more = base.replace("#[test]", "#[test]\n    fn b() { assert_eq!(f(2), vec![3]); }\n    #[test]");
    assert_eq!(rewritten(&more), Vec::<String>::new());
}
