//! The checker's file, from outside: every refusal, every failure, and the one way to pass.
#![expect(clippy::unwrap_used, reason = "tests")]

use expect_test::{Expect, expect};
use loopwright_core::spec::Rubric;
use loopwright_core::verdict::{
    BYTES_MAX, CitationResolver, Judgement, TreeChange, VerdictExpectation, dimensions, judge,
};
use serde_json::{Value, json};

struct Sealed;

impl CitationResolver for Sealed {
    fn line(&self, path: &str, line: u32) -> Option<String> {
        (path == "calc.py" && line == 2).then(|| "    return a + b\r".to_owned())
    }

    fn item_line(&self, item: &str, line: u32) -> Option<String> {
        (item == "report.md" && line == 1).then(|| "Fixed the sign.".to_owned())
    }
}

fn expected() -> VerdictExpectation {
    VerdictExpectation {
        nonce: "n1".to_owned(),
        tree: "t1".to_owned(),
        candidate: "c1".to_owned(),
        dimensions: ["correctness", "scope", "tests"].map(str::to_owned).to_vec(),
        threshold: 3.5,
        floor: 3,
        gates: vec!["tests".to_owned()],
    }
}

fn score(dimension: &str, score: i64, evidence: Value) -> Value {
    json!({"dimension": dimension, "score": score, "why": "because", "evidence": [evidence]})
}

fn good() -> Value {
    json!({
        "nonce": "n1", "tree": "t1", "candidate": "c1", "verdict": "pass", "summary": "well done",
        "scores": [
            score("correctness", 5, json!({"path": "calc.py", "line": 2, "quote": " a + b "})),
            score("scope", 4, json!({"gate": "tests"})),
            score("tests", 3, json!({"item": "report.md", "line": 1, "quote": "sign"})),
        ],
    })
}

/// The good file with one value changed; `null` is inserted as `null`.
fn with(pointer: &str, value: Value) -> Value {
    let mut file = good();
    *file.pointer_mut(pointer).unwrap() = value;
    file
}

fn without(parent: &str, key: &str) -> Value {
    let mut file = good();
    file.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(key).unwrap();
    file
}

fn judged(bytes: &[u8]) -> Judgement {
    judge(Some(bytes), &expected(), &Sealed)
}

/// One line for each judgement, for tables.
fn describe(judgement: &Judgement) -> String {
    match judgement {
        Judgement::Pass { scored } => format!("pass, mean {:?}", scored.mean),
        Judgement::Fail { reasons, scored } => format!("fail, mean {:?}: {}", scored.mean, reasons.join(" | ")),
        Judgement::Escalate { reasons, .. } => format!("escalate: {}", reasons.join(" | ")),
        Judgement::Malformed { why } => format!("malformed: {why}"),
        Judgement::Missing => "missing".to_owned(),
        Judgement::Forged { why } => format!("forged: {why}"),
    }
}

fn check(files: &[Value], expected: Expect) {
    let lines: Vec<_> = files.iter().map(|file| describe(&judged(file.to_string().as_bytes()))).collect();
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn good_file_passes() {
    check(
        &[good(), without("", "summary"), without("/scores/0", "why")],
        expect![[r#"
            pass, mean Some(4.0)
            pass, mean Some(4.0)
            pass, mean Some(4.0)
        "#]],
    );
}

#[test]
fn no_file_and_an_empty_one_are_missing() {
    assert_eq!(judge(None, &expected(), &Sealed), Judgement::Missing);
    assert_eq!(judged(b" \n"), Judgement::Missing);
}

#[test]
fn verdict_for_another_round_tree_or_candidate_is_forged_and_the_secret_is_not_shown() {
    check(
        &[with("/nonce", json!("n2")), with("/tree", json!("t2")), with("/candidate", json!("c2"))],
        expect![[r#"
            forged: the nonce is not this round's
            forged: the tree is not this round's
            forged: the candidate is not this round's
        "#]],
    );
    let unset = VerdictExpectation { nonce: String::new(), ..expected() };
    let replayed = with("/nonce", json!("")).to_string();
    assert!(matches!(judge(Some(replayed.as_bytes()), &unset, &Sealed), Judgement::Forged { .. }));
}

// Long because it is one table, with one line for each case.
#[test]
fn wrong_shapes_are_malformed_with_their_place() {
    let list = Value::Array(good().as_object().unwrap().values().cloned().collect());
    check(
        &[
            list,
            json!("pass"),
            without("", "nonce"),
            without("", "candidate"),
            without("", "scores"),
            without("/scores/1", "score"),
            without("/scores/1", "evidence"),
            with("/verdict", json!("PASS")),
            with("/verdict", json!(true)),
            with("/verdict", json!("pass | fail")),
            with("/nonce", Value::Null),
            with("/summary", Value::Null),
            with("/scores", json!({})),
            with("/scores/0", json!(5)),
            with("/scores/0/score", json!(0)),
            with("/scores/0/score", json!(6)),
            with("/scores/0/score", json!(-1)),
            with("/scores/0/score", json!(4.0)),
            with("/scores/0/score", json!("5")),
            with("/scores/0/score", Value::Null),
            with("/scores/0/evidence/0/line", json!(0)),
            with("/scores/0/evidence/0/line", json!(1_u64 << 40)),
            with("/scores/0/evidence/0", json!({})),
            with("/scores/0/evidence/0", json!({"path": "calc.py", "line": 2})),
            with("/scores/0/evidence/0", json!({"gate": "tests", "path": "calc.py"})),
            with("/scores/0/evidence/0", json!({"gate": null})),
            with("/scores/1/dimension", json!("correctness")),
            with("/scores/1/dimension", json!("style")),
        ],
        expect![[r#"
            malformed: the document is a list, not a map
            malformed: the document is a string, not a map
            malformed: `nonce` is missing
            malformed: `candidate` is missing
            malformed: `scores` is missing
            malformed: `scores[1].score` is missing
            malformed: `scores[1].evidence` is missing
            malformed: `verdict` is not pass, fail or escalate
            malformed: `verdict` is a boolean, not a string
            malformed: `verdict` is not pass, fail or escalate
            malformed: `nonce` is null, not a string
            malformed: `summary` is null, not a string
            malformed: `scores` is a map, not a list
            malformed: `scores[0]` is a number, not a map
            malformed: `scores[0].score` is not a whole number from 1 to 5
            malformed: `scores[0].score` is not a whole number from 1 to 5
            malformed: `scores[0].score` is not a whole number from 1 to 5
            malformed: `scores[0].score` is not a whole number from 1 to 5
            malformed: `scores[0].score` is a string, not a number
            malformed: `scores[0].score` is null, not a number
            malformed: `scores[0].evidence[0].line` is not a line number
            malformed: `scores[0].evidence[0].line` is not a line number
            malformed: `scores[0].evidence[0].path` is missing
            malformed: `scores[0].evidence[0].quote` is missing
            malformed: unknown field "scores[0].evidence[0].path"
            malformed: `scores[0].evidence[0].gate` is null, not a string
            malformed: dimension "correctness" is scored twice
            malformed: "style" is not a dimension of the rubric
        "#]],
    );
}

#[test]
fn unknown_fields_are_refused_at_every_depth() {
    let add = |pointer: &str| {
        let mut file = good();
        file.pointer_mut(pointer).unwrap().as_object_mut().unwrap().insert("pass".to_owned(), json!(true));
        file
    };
    check(
        &[add(""), add("/scores/0"), add("/scores/0/evidence/0")],
        expect![[r#"
        malformed: unknown field "pass"
        malformed: unknown field "scores[0].pass"
        malformed: unknown field "scores[0].evidence[0].pass"
    "#]],
    );
}

#[test]
fn texts_lists_and_the_file_itself_are_bounded() {
    let long = |size: usize| json!("x".repeat(size));
    check(
        &[
            with("/nonce", long(201)),
            with("/summary", long(16_001)),
            with("/scores/0/why", long(8_001)),
            with("/scores/0/dimension", long(201)),
            with("/scores/0/evidence/0/quote", long(2_001)),
            with("/scores/0/evidence/0/path", long(4_097)),
            with("/scores", json!(vec![score("correctness", 5, json!({"gate": "tests"})); 65])),
            with("/scores/0/evidence", json!(vec![json!({"gate": "tests"}); 65])),
            with("/summary", long(BYTES_MAX)),
        ],
        expect![[r#"
            malformed: `nonce` has 201 bytes, at most 200
            malformed: `summary` has 16001 bytes, at most 16000
            malformed: `scores[0].why` has 8001 bytes, at most 8000
            malformed: `scores[0].dimension` has 201 bytes, at most 200
            malformed: `scores[0].evidence[0].quote` has 2001 bytes, at most 2000
            malformed: `scores[0].evidence[0].path` has 4097 bytes, at most 4096
            malformed: `scores` has 65 entries, at most 64
            malformed: `scores[0].evidence` has 65 entries, at most 64
            malformed: 262525 bytes, at most 262144 are read
        "#]],
    );
}

#[test]
fn texts_that_are_not_agreed_json_are_malformed() {
    let good = good().to_string();
    let deep = |depth: usize| good.replace("\"well done\"", &format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    let cases: Vec<Vec<u8>> = vec![
        b"VERDICT: PASS".to_vec(),
        good.as_bytes()[..good.len() - 1].to_vec(),
        format!("{good}{good}").into_bytes(),
        format!("{good} x").into_bytes(),
        format!("\u{feff}{good}").into_bytes(),
        format!("```json\n{good}\n```").into_bytes(),
        good.replacen('{', "{\"verdict\":\"fail\",", 1).into_bytes(),
        good.replacen("\"gate\":\"tests\"", "\"gate\":\"tests\",\"gate\":\"lint\"", 1).into_bytes(),
        good.replacen("\"score\":5", "\"score\":NaN", 1).into_bytes(),
        good.replacen("\"score\":5", "\"score\":1e999", 1).into_bytes(),
        good.replacen("well done", "\\ud800", 1).into_bytes(),
        [good.as_bytes(), b"\xff"].concat(),
        deep(15).into_bytes(),
        deep(16).into_bytes(),
        "[".repeat(200_000).into_bytes(),
    ];
    let lines: Vec<_> = cases.iter().map(|bytes| describe(&judged(bytes))).collect();
    expect![[r#"
        malformed: not valid JSON: expected value at line 1 column 1
        malformed: not valid JSON: EOF while parsing an object at line 1 column 389
        malformed: not valid JSON: trailing characters at line 1 column 391
        malformed: not valid JSON: trailing characters at line 1 column 392
        malformed: not valid JSON: expected value at line 1 column 1
        malformed: not valid JSON: expected value at line 1 column 1
        malformed: not valid JSON: duplicate key `verdict` at line 1 column 76
        malformed: not valid JSON: duplicate key `gate` at line 1 column 294
        malformed: not valid JSON: expected value at line 1 column 128
        malformed: not valid JSON: number out of range at line 1 column 132
        malformed: not valid JSON: unexpected end of hex escape at line 1 column 78
        malformed: not UTF-8: invalid utf-8 sequence of 1 bytes from index 390
        malformed: `summary` is a list, not a string
        malformed: not valid JSON: nested too deep at line 1 column 87
        malformed: not valid JSON: nested too deep at line 1 column 17
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn score_without_evidence_that_resolves_does_not_count() {
    let cite = |evidence: Value| with("/scores/0/evidence", json!([evidence]));
    check(
        &[
            with("/scores/0/evidence", json!([])),
            cite(json!({"path": "calc.py", "line": 2, "quote": "a - b"})),
            cite(json!({"path": "calc.py", "line": 2, "quote": " \t"})),
            cite(json!({"path": "calc.py", "line": 3, "quote": "a + b"})),
            cite(json!({"path": "other.py", "line": 2, "quote": "a + b"})),
            cite(json!({"path": "./calc.py", "line": 2, "quote": "a + b"})),
            cite(json!({"path": "x/../calc.py", "line": 2, "quote": "a + b"})),
            cite(json!({"path": "/calc.py", "line": 2, "quote": "a + b"})),
            cite(json!({"gate": "lint"})),
            cite(json!({"item": "report.md", "line": 2, "quote": "sign"})),
            with("/scores/0/evidence", json!([{"gate": "lint"}, {"gate": "tests"}])),
        ],
        expect![[r#"
            fail, mean Some(3.5): correctness: scored without evidence
            fail, mean Some(3.5): correctness: no evidence resolves (calc.py:2)
            fail, mean Some(3.5): correctness: no evidence resolves (calc.py:2)
            fail, mean Some(3.5): correctness: no evidence resolves (calc.py:3)
            fail, mean Some(3.5): correctness: no evidence resolves (other.py:2)
            fail, mean Some(3.5): correctness: no evidence resolves (./calc.py:2)
            fail, mean Some(3.5): correctness: no evidence resolves (x/../calc.py:2)
            fail, mean Some(3.5): correctness: no evidence resolves (/calc.py:2)
            fail, mean Some(3.5): correctness: no evidence resolves (gate lint)
            fail, mean Some(3.5): correctness: no evidence resolves (item report.md:2)
            pass, mean Some(4.0)
        "#]],
    );
}

#[test]
fn pass_that_its_own_scores_do_not_bear_fails() {
    let mut missing = good();
    missing["scores"].as_array_mut().unwrap().pop();
    let mut middling = good();
    for index in 0..3 {
        middling["scores"][index]["score"] = json!(3);
    }
    check(
        &[missing, with("/scores", json!([])), with("/scores/2/score", json!(2)), middling],
        expect![[r#"
            fail, mean Some(4.5): tests: not scored
            fail, mean None: correctness: not scored | scope: not scored | tests: not scored
            fail, mean Some(3.6666666666666665): tests: 2 is below the floor of 3: because
            fail, mean Some(3.0): the mean 3.00 is below 3.5
        "#]],
    );
}

#[test]
fn checkers_own_rejection_and_its_request_for_a_human_hold_whatever_the_scores() {
    let mut silent = with("/verdict", json!("fail"));
    silent["summary"] = json!(" ");
    let mut low = with("/verdict", json!("escalate"));
    low["scores"][0]["score"] = json!(1);
    check(
        &[with("/verdict", json!("fail")), silent, with("/verdict", json!("escalate")), low],
        expect![[r#"
        fail, mean Some(4.0): the checker says fail: well done
        fail, mean Some(4.0): the checker says fail: no summary given
        escalate: the checker says escalate: well done
        escalate: the checker says escalate: well done | correctness: 1 is below the floor of 3: because
    "#]],
    );
}

#[test]
fn threshold_that_is_not_a_number_and_a_rubric_without_dimensions_pass_nothing() {
    let bytes = good().to_string();
    let odd = VerdictExpectation { threshold: f64::NAN, ..expected() };
    assert!(matches!(judge(Some(bytes.as_bytes()), &odd, &Sealed), Judgement::Fail { .. }));
    let none = VerdictExpectation { dimensions: Vec::new(), ..expected() };
    let unscored = with("/scores", json!([])).to_string();
    assert!(matches!(judge(Some(unscored.as_bytes()), &none, &Sealed), Judgement::Fail { .. }));
}

// Long because it contains the whole document.
#[test]
fn judgement_as_json_has_verdict_mean_and_scores_and_round_trips() {
    let judgement = judged(with("/scores/2/score", json!(2)).to_string().as_bytes());
    let text = serde_json::to_string_pretty(&judgement).unwrap();
    expect![[r#"
        {
          "judgement": "fail",
          "reasons": [
            "tests: 2 is below the floor of 3: because"
          ],
          "scored": {
            "verdict": "fail",
            "said": "pass",
            "mean": 3.6666666666666665,
            "summary": "well done",
            "scores": [
              {
                "dimension": "correctness",
                "score": 5,
                "why": "because",
                "counts": "yes",
                "evidence": [
                  {
                    "evidence": {
                      "path": "calc.py",
                      "line": 2,
                      "quote": " a + b "
                    },
                    "resolved": "yes"
                  }
                ]
              },
              {
                "dimension": "scope",
                "score": 4,
                "why": "because",
                "counts": "yes",
                "evidence": [
                  {
                    "evidence": {
                      "gate": "tests"
                    },
                    "resolved": "yes"
                  }
                ]
              },
              {
                "dimension": "tests",
                "score": 2,
                "why": "because",
                "counts": "yes",
                "evidence": [
                  {
                    "evidence": {
                      "item": "report.md",
                      "line": 1,
                      "quote": "sign"
                    },
                    "resolved": "yes"
                  }
                ]
              }
            ]
          }
        }
    "#]]
    .assert_eq(&(text.clone() + "\n"));
    assert_eq!(serde_json::from_str::<Judgement>(&text).unwrap(), judgement);
}

#[test]
fn built_in_dimensions_ask_for_tests_only_of_a_changed_tree() {
    let names =
        |rubric: &Rubric, change| dimensions(rubric, change).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let mut rubric = Rubric::default();
    assert_eq!(names(&rubric, TreeChange::Some), ["correctness", "scope", "tests"]);
    assert_eq!(names(&rubric, TreeChange::None), ["correctness", "scope"]);
    rubric.dimensions.insert("tone".to_owned(), "friendly".to_owned());
    assert_eq!(names(&rubric, TreeChange::None), ["tone"]);
}

/// A small generator with a fixed seed: the same files in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most.max(1) as u64).unwrap()
    }
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    const BITS: [&[u8]; 12] =
        [b"\"", b"{", b"}", b"[", b"]", b",", b"null", b"-1", b"9", b"\\u0000", b"\xff", b"\"score\":5,"];
    let at = dice.below(bytes.len());
    match dice.below(5) {
        0 => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
        1 if bytes.len() > 1 => drop(bytes.remove(at)),
        1 => bytes.push(b'x'),
        2 => drop(bytes.splice(at..at, BITS[dice.below(BITS.len())].iter().copied())),
        3 => bytes.truncate(at.max(1)),
        _ => {
            let piece = bytes[at..(at + dice.below(40)).min(bytes.len())].to_vec();
            let to = dice.below(bytes.len());
            drop(bytes.splice(to..to, piece));
        }
    }
}

/// A file that passed must state a pass in every respect, by a check that shares no code with the implementation.
fn must_pass(bytes: &[u8]) -> bool {
    let Ok(file) = serde_json::from_slice::<Value>(bytes) else { return false };
    let ids = file["nonce"] == "n1" && file["tree"] == "t1" && file["candidate"] == "c1" && file["verdict"] == "pass";
    let scores = file["scores"].as_array().cloned().unwrap_or_default();
    let names: std::collections::BTreeSet<_> = scores.iter().filter_map(|one| one["dimension"].as_str()).collect();
    let values: Vec<_> = scores.iter().filter_map(|one| one["score"].as_u64()).collect();
    let cited = scores.iter().all(|one| one["evidence"].as_array().is_some_and(|list| !list.is_empty()));
    let sum: u64 = values.iter().sum();
    ids && cited
        && names.into_iter().eq(["correctness", "scope", "tests"])
        && values.len() == 3
        && values.iter().all(|value| (3..=5).contains(value))
        && sum * 2 >= 21
}

#[test]
fn five_thousand_mutated_files_neither_panic_nor_pass_unless_they_truly_do() {
    let mut dice = Dice(0x5eed_1234_abcd);
    let mut passed = 0;
    for _ in 0..5_000 {
        let mut bytes = good().to_string().into_bytes();
        for _ in 0..=dice.below(4) {
            mutate(&mut bytes, &mut dice);
        }
        if matches!(judged(&bytes), Judgement::Pass { .. }) {
            passed += 1;
            assert!(must_pass(&bytes), "{}", String::from_utf8_lossy(&bytes));
        }
    }
    // Most changes break the file; a few touch only free text and leave it valid.
    assert!((1..1_000).contains(&passed), "{passed} of 5000 passed");
}
