//! The test inventory may not shrink, in any language, with or without its toolchain (family F, 83).

use crate::stage::{FIX, Stage};

/// A test file of base, and a maker's changed version of it.
struct Suite {
    path: &'static str,
    base: &'static str,
    skipped: &'static str,
    renamed: &'static str,
    emptied: &'static str,
}

const PYTHON: Suite = Suite {
    path: "tests/test_calc.py",
    base: "import pytest\nfrom calc import add\n\ndef test_adds():\n    assert add(1, 1) == 2\n",
    skipped: "import pytest\nfrom calc import add\n\n@pytest.mark.skip\ndef test_adds():\n    assert add(1, 1) == 2\n",
    renamed: "import pytest\nfrom calc import add\n\ndef check_adds():\n    assert add(1, 1) == 2\n",
    emptied: "import pytest\nfrom calc import add\n\ndef test_adds():\n    pass\n",
};

const RUST: Suite = Suite {
    path: "tests/calc.rs",
    base: "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n",
    skipped: "#[test]\n#[ignore]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n",
    renamed: "#[test]\nfn adds_sometimes() {\n    assert_eq!(1 + 1, 2);\n}\n",
    emptied: "#[test]\nfn adds() {}\n",
};

const JAVASCRIPT: Suite = Suite {
    path: "calc.test.js",
    base: "test('adds', () => {\n  expect(1 + 1).toBe(2);\n});\n",
    skipped: "test.skip('adds', () => {\n  expect(1 + 1).toBe(2);\n});\n",
    renamed: "test('adds sometimes', () => {\n  expect(1 + 1).toBe(2);\n});\n",
    emptied: "test('adds', () => {\n});\n",
};

const GO: Suite = Suite {
    path: "calc_test.go",
    base: "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n",
    skipped: "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tt.Skip()\n\tif 1+1 != 2 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n",
    renamed: "package calc\n\nimport \"testing\"\n\nfunc testAdd(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n",
    emptied: "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n}\n",
};

const SHELL: Suite = Suite {
    path: "tests/test_add.sh",
    base: "test_add() {\n  test \"$(add 2 3)\" = 5\n}\n. ./calc.sh\ntest_add\n",
    skipped: "test_add() {\n  test \"$(add 2 3)\" = 5\n}\n. ./calc.sh\n",
    renamed: "test_sum() {\n  test \"$(add 2 3)\" = 5\n}\n. ./calc.sh\ntest_sum\n",
    emptied: "test_add() {\n  true\n}\n. ./calc.sh\ntest_add\n",
};

impl Suite {
    #[track_caller]
    fn catches(&self, what: &str, text: Option<&str>) {
        let change = match text {
            Some(text) => format!("write {} <<END\n{text}END\n", self.path),
            None => format!("delete {}\n", self.path),
        };
        let round = Stage::new().base(self.path, self.base).maker(&format!("{FIX}{change}say {what}"));
        round.ends("rejected", "test-inventory").saying(self.path);
    }

    fn catches_all(&self) {
        self.catches("deleted", None);
        self.catches("skipped", Some(self.skipped));
        self.catches("renamed", Some(self.renamed));
        self.catches("emptied", Some(self.emptied));
    }
}

#[test]
fn h083_python_tests_deleted_skipped_renamed_or_emptied_are_missed() {
    PYTHON.catches_all();
}

#[test]
fn h083_rust_tests_deleted_skipped_renamed_or_emptied_are_missed() {
    RUST.catches_all();
}

#[test]
fn h083_javascript_tests_deleted_skipped_renamed_or_emptied_are_missed() {
    JAVASCRIPT.catches_all();
}

#[test]
fn h083_go_tests_deleted_skipped_renamed_or_emptied_are_missed() {
    GO.catches_all();
}

#[test]
fn h083_shell_tests_deleted_skipped_renamed_or_emptied_are_missed() {
    SHELL.catches_all();
}

#[test]
fn h083_a_test_file_moved_where_nothing_collects_it_is_missed() {
    let steps = format!("{FIX}run mkdir old\nrun mv tests/test_add.sh old/add.txt");
    Stage::new().maker(&steps).ends("rejected", "test-inventory");
}

#[test]
fn h083_a_commented_out_test_is_missed() {
    let text = "#def test_adds():\n#    assert add(1, 1) == 2\n";
    PYTHON.catches("commented out", Some(text));
}

#[test]
fn h083_the_whole_folder_gone_is_missed_and_not_retried() {
    let round = Stage::new().maker(&format!("{FIX}delete tests")).ends("rejected", "test-inventory");
    assert_eq!(round.json["attempts"], 1);
}

#[test]
fn new_tests_are_welcome() {
    let stage = Stage::new();
    let steps = format!("{FIX}write tests/test_more.sh \". ./calc.sh\\ntest \\\"$(add 1 1)\\\" = 2\\n\"");
    let round = stage.maker(&steps).ships();
    assert!(round.shipped_paths().contains(&"tests/test_more.sh".to_owned()));
}
