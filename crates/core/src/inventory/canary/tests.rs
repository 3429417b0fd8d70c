//! Falsifications of each language, and the judgement of runs.

use super::*;
use std::collections::BTreeSet;

/// The lines that a falsification changes, with the name of each test.
fn changed(path: &str, text: &str, width: CanaryWidth) -> Vec<String> {
    let canaries = find_canaries(path, text, width, 7);
    let mut out = Vec::new();
    for canary in &canaries {
        let (new, applied) = apply_canaries(path, text, &[canary]);
        assert_eq!(applied, 1, "{path}: {canary:?}");
        let lines = text.lines().zip(new.lines()).filter(|(before, after)| before != after);
        out.extend(lines.map(|(before, after)| format!("{}: {} => {}", canary.name, before.trim(), after.trim())));
    }
    out
}

fn one(path: &str, text: &str) -> Vec<String> {
    changed(path, text, CanaryWidth::One)
}

/// A path, a text, the name of its test, and the literal that a falsification changes.
const LANGUAGES: &[(&str, &str, &str, &str)] = &[
    ("tests/test_a.py", "def test_x():\n    assert add(2, 3) == 5, \"sums 7\"\n", "test_x", "5"),
    (
        "tests/test_a.py",
        "class T(TestCase):\n    def test_x(self):\n        self.assertEqual(add(2, 3), 5)\n",
        "test_x",
        "5",
    ),
    ("tests/test_a.py", "def test_x():\n    assert add(\n        2,\n        3,\n    ) == 'abc'\n", "test_x", "'abc'"),
    ("tests/test_a.py", "def test_x():\n    expected = [1, 9]\n    assert f(1) == expected\n", "test_x", "9"),
    (
        "tests/test_a.py",
        "@pytest.mark.parametrize('a,b', [(1, 2), (3, 8)])\ndef test_x(a, b):\n    assert f(a) == b\n",
        "test_x",
        "8",
    ),
    (
        "test/a.test.js",
        "test(\"adds two\", () => {\n  assert.strictEqual(add(2, 3), 5, 'sums 7');\n});\n",
        "adds two",
        "5",
    ),
    (
        "test/a.test.ts",
        "it('adds', async () => {\n  expect(await add(2, 3)).toEqual({ sum: \"x\" });\n});\n",
        "adds",
        "\"x\"",
    ),
    (
        "src/lib.rs",
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(add(2, 3), 5);\n    }\n}\n",
        "adds",
        "5",
    ),
    ("tests/a.rs", "#[test]\nfn adds() {\n    assert_eq!(words(\"a b\"), vec![\"a\", \"b\"]);\n}\n", "adds", "\"b\""),
    (
        "a_test.go",
        "func TestAdd(t *testing.T) {\n\tcases := []struct{a, b, c int}{{1, 2, 3}, {2, 2, 4}}\n}\n",
        "TestAdd",
        "4",
    ),
    (
        "a_test.go",
        "func TestAdd(t *testing.T) {\n\twant := 5\n\tif got := Add(2, 3); got != want {\n\t\tt.Errorf(\"%d\", got)\n\t}\n}\n",
        "TestAdd",
        "5",
    ),
    (
        "src/test/ATest.java",
        "class ATest {\n  @Test\n  void adds() {\n    assertEquals(5, Calc.add(2, 3));\n  }\n}\n",
        "adds",
        "5",
    ),
    (
        "src/test/ATest.kt",
        "class ATest {\n  @Test\n  fun adds() {\n    assertEquals(\"x\", Calc.name(2))\n  }\n}\n",
        "adds",
        "\"x\"",
    ),
    ("tests/a.cpp", "TEST(Calc, Adds) {\n  EXPECT_EQ(add(2, 3), 5);\n}\n", "Adds", "5"),
    ("spec/a_spec.rb", "describe Calc do\n  it \"adds\" do\n    expect(add(2, 3)).to eq(5)\n  end\nend\n", "adds", "5"),
    ("tests/run.sh", "set -e\nout=$(./calc 2 3)\n[ \"$out\" = \"5\" ] || exit 1\n", "tests/run.sh", "\"5\""),
    ("tests/run.sh", "if [ $(./calc 2 3) -eq 5 ]; then echo ok; fi\n", "tests/run.sh", "5"),
    ("tests/a.bats", "@test \"adds\" {\n  run ./calc 2 3\n  [ \"$output\" = \"5\" ]\n}\n", "adds", "\"5\""),
];

#[test]
fn each_language_yields_one_falsified_expectation_a_test() {
    for (path, text, name, before) in LANGUAGES.iter().copied() {
        let found = one(path, text);
        assert_eq!(found.len(), 1, "{path}: {text}\n{found:?}");
        let (changed_name, rest) = found[0].split_once(": ").expect("a name");
        assert_eq!(changed_name, name, "{path}: {found:?}");
        let (old, new) = rest.split_once(" => ").expect("two lines");
        let at = old.bytes().zip(new.bytes()).take_while(|(old, new)| old == new).count();
        let place = old.rfind(before).expect("the literal is in the line");
        assert!((place..=place + before.len()).contains(&at), "{path}: {old} => {new}");
    }
}

#[test]
fn a_test_without_literals_gets_its_comparison_turned_around() {
    for (path, text, expected) in [
        ("tests/test_a.py", "def test_x():\n    assert is_even(n)\n", "assert not is_even(n)"),
        ("tests/a.rs", "#[test]\nfn x() {\n    assert!(is_even(n));\n}\n", "assert!(!(is_even(n)));"),
        ("a.test.js", "test('x', () => {\n  expect(f(n)).toBe(m);\n});\n", "expect(f(n)).not.toBe(m);"),
    ] {
        let found = one(path, text);
        assert!(found.len() == 1 && found[0].ends_with(expected), "{found:?}");
    }
}

#[test]
fn all_expected_values_of_a_test_can_change_at_once() {
    let text = "def test_x():\n    assert f(1) == 10\n    assert f(2) == 'b'\n    assert g(3) is True\n";
    assert_eq!(changed("tests/test_a.py", text, CanaryWidth::All).len(), 3);
}

#[test]
fn inputs_messages_bounds_and_comments_stay() {
    for (path, text) in [
        ("tests/test_a.py", "def test_x():\n    # assert f(1) == 2\n    pass\n"),
        ("tests/test_a.py", "def test_x():\n    with pytest.raises(ValueError):\n        f(7)\n"),
        ("src/lib.rs", "fn helper() {\n    assert_eq!(1, 2);\n}\n"),
        ("tests/test_a.py", "@pytest.mark.parametrize((\"a\", \"b\"), CASES)\ndef test_x(a, b):\n    f(a)(b)\n"),
    ] {
        assert_eq!(one(path, text), Vec::<String>::new(), "{path}: {text}");
    }
}

#[test]
fn a_falsification_applies_to_its_own_text_only() {
    let text = "def test_x():\n    assert f(1) == 2\n";
    let canaries = find_canaries("tests/test_a.py", text, CanaryWidth::One, 1);
    let refs: Vec<&TestCanary> = canaries.iter().collect();
    let moved = format!("import os\n\n{text}");
    assert_eq!(apply_canaries("tests/test_a.py", &moved, &refs).1, 1);
    let edited = text.replace("f(1)", "g(1)");
    assert_eq!(apply_canaries("tests/test_a.py", &edited, &refs), (edited, 0));
}

#[test]
fn data_files_get_other_expected_values() {
    for (path, text, expected) in [
        ("tests/cases.json", r#"[{"in": [1, 2], "out": 5}]"#, r#"[{"in": [1, 2], "out": 4}]"#),
        ("tests/cases.yaml", "- in: 3\n  expected: true\n", "- in: 3\n  expected: false\n"),
        ("tests/cases.csv", "2,3,5\n", "2,3,4\n"),
        ("tests/cases.toml", "a = 3\nwant = \"x7\"\n", "a = 3\nwant = \"x8\"\n"),
    ] {
        let found = falsify_data(path, text, 0).expect("a value changes");
        assert_ne!(found, text);
        assert_eq!(found.len(), expected.len(), "{found}");
        let common = found.bytes().zip(text.bytes()).take_while(|(new, old)| new == old).count();
        let place = expected.bytes().zip(text.bytes()).take_while(|(new, old)| new == old).count();
        assert_eq!(common, place, "{path}: {found}");
    }
    assert_eq!(falsify_data("tests/a.png", "x", 0), None);
    assert_eq!(falsify_data("tests/a.json", "{}", 0), None);
}

#[test]
fn ids_of_common_runners_name_their_tests() {
    for (id, name, expected) in [
        ("tests/test_a.py::test_x", "test_x", true),
        ("tests.test_a::test_x[1-2]", "test_x", true),
        ("test_x (tests.test_a.Tests.test_x)", "test_x", true),
        ("tests::adds", "adds", true),
        ("calc::a adds", "adds", true),
        ("example.org/pkg.TestAdd/sub", "TestAdd", true),
        ("Calc › adds two", "adds two", true),
        ("tests/test_x.py::test_y", "test_x", false),
        ("tests::adds_more", "adds", false),
        ("adds more", "adds", false),
        ("test_x::inner", "test_x", false),
    ] {
        assert_eq!(names_test(id, name), expected, "{id} {name}");
    }
}

#[test]
fn failures_are_read_from_the_output_of_common_runners() {
    for (output, name) in [
        ("FAILED tests/test_a.py::test_x - assert 1 == 2\n", "test_x"),
        ("======\nFAIL: test_x (tests.test_a.Tests.test_x)\n------\n", "test_x"),
        ("ERROR: test_x (tests.test_a.Tests.test_x)\n", "test_x"),
        ("test tests::adds ... FAILED\n", "adds"),
        ("        FAIL [   0.004s] calc::a adds\n", "adds"),
        ("✖ adds two (1.2ms)\n", "adds two"),
        ("not ok 1 - adds two\n", "adds two"),
        ("--- FAIL: TestAdd (0.00s)\n", "TestAdd"),
        ("  ● Calc › adds two\n", "adds two"),
        (" FAIL  test/a.test.ts > Calc > adds two\n", "adds two"),
        ("  1) Calc\n       adds two:\n", "adds two"),
        ("rspec ./spec/a_spec.rb:3 # Calc adds two\n", "adds two"),
    ] {
        let ids = failed_test_ids(output, "");
        assert!(ids.iter().any(|id| names_test(id, name)), "{output}: {ids:?}");
    }
}

#[test]
fn a_falsified_test_that_passes_survives_and_another_that_fails_is_named() {
    let text = "def test_x():\n    assert f(1) == 2\ndef test_y():\n    assert f(2) == 3\ndef test_z():\n    assert f(3) == 4\n";
    let canaries = find_canaries("tests/test_a.py", text, CanaryWidth::One, 1);
    let names = canary_tests("tests/test_a.py", text).into_iter().map(|test| test.name).collect();
    let all: TestsByFile = [("tests/test_a.py".to_owned(), names)].into();
    let failed = ["tests/test_a.py::test_x", "tests/test_a.py::test_z", "failing tests:"].map(str::to_owned).into();
    let stopped = judge_canaries(&canaries[..2], &failed, &["tests/test_a.py::test_w".to_owned()].into(), &all);
    assert_eq!((stopped.survived, stopped.missing), (vec![], vec![1]), "a run that shows other tests stopped early");
    let report = judge_canaries(&canaries[..2], &failed, &BTreeSet::new(), &all);
    assert_eq!((report.died, report.survived), (vec![0], vec![1]));
    assert_eq!(report.others, ["tests/test_a.py::test_z"]);
}

#[test]
fn failure_of_a_test_does_not_count_for_the_test_of_the_same_name_in_another_file() {
    let text = "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n";
    let paths = ["src/strip.rs", "src/wincon.rs", "src/web/mod.rs"];
    let canaries: Vec<TestCanary> =
        paths.iter().flat_map(|path| find_canaries(path, text, CanaryWidth::One, 1)).collect();
    let all: TestsByFile = paths.map(|path| (path.to_owned(), ["adds".to_owned()].into())).into();
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    let report = judge_canaries(&canaries, &ids(&["strip::test::adds"]), &ids(&["web::test::adds"]), &all);
    assert_eq!((report.died, report.survived, report.missing), (vec![0], vec![2], vec![1]));
    let blind = judge_canaries(&canaries, &ids(&["adds"]), &BTreeSet::new(), &all);
    assert_eq!(blind.died, [0, 1, 2], "these ids name no file");
}

#[test]
fn failure_of_a_test_that_was_not_falsified_is_no_death_of_its_namesake_in_another_file() {
    let text = "test_add() {\n  test \"$(add 2 3)\" = 5\n}\n. ./calc.sh\ntest_add\n";
    let canaries = find_canaries("tests/test_add.sh", text, CanaryWidth::One, 1);
    assert_eq!(canaries[0].name, "test_add");
    let names = || ["test_add".to_owned()].into();
    let all: TestsByFile =
        [("tests/test_add.sh".to_owned(), names()), ("tests/test_sums.py".to_owned(), names())].into();
    let failed: BTreeSet<String> = ["test_add (test_sums.Sums.test_add)".to_owned()].into();
    assert!(!is_own_failure(&failed, &canaries[0], &all));
    let report = judge_canaries(&canaries, &failed, &BTreeSet::new(), &all);
    assert_eq!((report.died, report.survived, report.others.len()), (vec![], vec![0], 1));
}

#[test]
fn name_of_a_test_that_contains_the_name_of_another_file_says_nothing_about_its_own_file() {
    let text = "test('should render the page', () => {\n  expect(f(1)).toBe(2);\n});\n";
    let paths = ["test/render.test.js", "test/server.test.js"];
    let canaries: Vec<TestCanary> =
        paths.iter().flat_map(|path| find_canaries(path, text, CanaryWidth::One, 1)).collect();
    let failed: BTreeSet<String> = ["should render the page".to_owned()].into();
    let all: TestsByFile = paths.map(|path| (path.to_owned(), failed.clone())).into();
    let report = judge_canaries(&canaries, &failed, &BTreeSet::new(), &all);
    assert_eq!((report.died, report.survived), (vec![0, 1], vec![]));
}

#[test]
fn no_text_makes_the_falsifier_panic() {
    for seed in 0..400_u32 {
        let signs = b"\"'`()[]{}=!<>.,:;@#/\\ \n-0159assertexpecttrueFalsedef test_x(fn Testi\xfc";
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                signs[(state >> 16) as usize % signs.len()]
            })
            .collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for path in ["tests/a.py", "tests/a.js", "tests/a.rs", "a_test.go", "tests/a.java", "spec/a.rb", "tests/a.sh"] {
            for canary in find_canaries(path, &text, CanaryWidth::All, u64::from(seed)) {
                let _ = apply_canaries(path, &text, &[&canary]);
            }
        }
        for path in ["a.json", "a.yaml", "a.toml", "a.csv"] {
            let _ = falsify_data(path, &text, u64::from(seed));
        }
    }
}
