//! Scripts as text: what is parsed, what is refused on which line, and which block a start gets.

use super::parse::{AgentScript, BlockChooser, ScriptBlock, ScriptBlockHeader};
use super::verb::ScriptVerb;
use expect_test::{Expect, expect};
use loopwright_core::spec::Role;

fn check(scripts: &[&str], expected: Expect) {
    let parsed_text = |script: &&str| match AgentScript::parse(script) {
        Ok(_) => "read\n".to_owned(),
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&scripts.iter().map(parsed_text).collect::<String>());
}

#[test]
fn bad_blocks_and_texts_are_refused_with_their_line() {
    check(
        &[
            "@ maker\nsay hi\ndance\n",
            "@ boss\n",
            "@ maker attempt=0\n",
            "@ maker attempt=1 x\n",
            "@ maker round=1\n",
            "@ maker\nsay a\n@ maker\nsay b\n",
            "write\n",
            "write a.txt\n",
            "# one\n\nwrite a.txt <<END\nno end\n",
            "write a.txt text <<END\nx\nEND\n",
            "write a.txt \"open\n",
            "write a.txt \"a\"b\n",
            "write a.txt \"a\" b\n",
            "say \"\\q\"\n",
            "hang <<END\nx\nEND\n",
            "verdict raw {} <<END\nx\nEND\n",
            "write-later 5 a\n",
        ],
        expect![[r#"
            script line 3: unknown verb `dance`; verbs are say, flood, bytes, write, append, replace, delete, symlink, hardlink, fifo, commit, git, run, stage, cannot, brief, plan, finding, findings, verdict, usage, trouble, exit, die, hang, sleep-until, ignore-term, stop-self, setsid-child, fork-bomb, eat-memory, fill-disk, leak-pipe, write-later, read, env, connect, resolve, kill-parent, ptrace
            script line 1: unknown role `boss`; roles are planner, maker, prover, attacker, checker
            script line 1: `attempt=0` is not `attempt=N` with N from 1
            script line 1: a header is `@ role`, `@ role attempt=N`, `@ maker phase=N` or `@ attacker role=NAME`
            script line 1: `round=1` is not `attempt=N` with N from 1
            script line 3: the script already has a block with this header, so this one would never be used
            script line 1: write `write PATH TEXT`
            script line 1: write `write … TEXT, or … <<END with lines below it`
            script line 3: the text that starts here has no line `END` at its end
            script line 1: text is on the line or below it, not both
            script line 1: a quote is not closed
            script line 1: a closing quote must be followed by a space or the end of the line
            script line 1: words after the quoted text
            script line 1: unknown escape `\q`; known are \n, \t, \" and \\
            script line 1: `hang` takes no multi-line text
            script line 1: text is on the line or below it, not both
            script line 1: write `write-later … TEXT, or … <<END with lines below it`
        "#]],
    );
}

#[test]
fn bad_words_are_refused_with_the_expected_form() {
    check(
        &[
            "replace a b\n",
            "replace a b c d\n",
            "hang now\n",
            "exit x\n",
            "exit 99999999999\n",
            "die NOW\n",
            "bytes abc\n",
            "bytes zz\n",
            "flood\n",
            "flood 10Q\n",
            "flood 99999999999G\n",
            "flood 1 word\n",
            "run\n",
            "usage\n",
            "usage money=1\n",
            "verdict\n",
            "verdict pass tests=x@gate:t\n",
            "verdict pass tests=5@nowhere\n",
            "write-later soon a b\n",
            "eat-memory 1 2\n",
        ],
        expect![[r#"
            script line 1: write `replace PATH "old" "new"`
            script line 1: write `replace PATH "old" "new"`
            script line 1: `hang` takes no words
            script line 1: `x` is not a number in range
            script line 1: `99999999999` is not a number in range
            script line 1: unknown signal `NOW`; signals are HUP, INT, QUIT, ILL, ABRT, FPE, KILL, SEGV, PIPE, ALRM, TERM, BUS, USR1, USR2
            script line 1: `abc` is not an even number of hex digits
            script line 1: `zz` is not an even number of hex digits
            script line 1: write `flood N, N line (one endless line), or N lines (tiny ones)`
            script line 1: `10Q` is not a number in range
            script line 1: `99999999999G` is not a number in range
            script line 1: write `flood N, N line (one endless line), or N lines (tiny ones)`
            script line 1: write `run ARGV…`
            script line 1: write `usage input=N output=N cache_read=N cache_write=N, or none, or nan`
            script line 1: `money=1` is not input=N, output=N, cache_read=N or cache_write=N
            script line 1: write `verdict pass|fail|escalate dimension=score@path:line …, or raw JSON`
            script line 1: `x` is not a number in range
            script line 1: `nowhere` is not path:line, gate:name or item:name:line
            script line 1: `soon` is not a number in range
            script line 1: write `eat-memory [SIZE]`
        "#]],
    );
}

fn verbs(script: &str) -> Vec<ScriptVerb> {
    let script = AgentScript::parse(script).expect("the script is good");
    script.blocks.into_iter().flat_map(|block| block.steps).map(|step| step.verb).collect()
}

#[test]
fn example_of_the_contract_is_parsed_as_intended() {
    let script = r#"
@ maker attempt=1
say I will fix the sign
replace calc.py "a - b" "a + b"
run python3 -m pytest -q
write notes.md <<END
two lines
of text
END
stage issue-comment-7.md "Fixed the sign."
usage input=1200 output=300 cache_read=0
exit 0

@ checker
verdict pass correctness=5@calc.py:2 scope=5@gate:tests tests=4@gate:tests
"#;
    let blocks = AgentScript::parse(script).expect("the contract's example is a script").blocks;
    let describe = |block: &ScriptBlock| {
        let steps: String = block.steps.iter().map(|step| format!("{}: {:?}\n", step.line, step.verb)).collect();
        format!("{:?}\n{steps}", block.header)
    };
    expect![[r#"
        Some(ScriptBlockHeader { role: Maker, attempt: Some(1), phase: None, attack_role: None })
        3: Say("I will fix the sign\n")
        4: Replace("calc.py", "a - b", "a + b")
        5: Run(["python3", "-m", "pytest", "-q"])
        6: Write("notes.md", "two lines\nof text\n")
        10: Stage("issue-comment-7.md", "Fixed the sign.")
        11: Usage([("input", "1200"), ("output", "300"), ("cache_read", "0")])
        12: Exit(0)
        Some(ScriptBlockHeader { role: Checker, attempt: None, phase: None, attack_role: None })
        15: Verdict(Honest { word: "pass", scores: [ScriptScore { dimension: "correctness", score: 5, places: [Line("calc.py", 2, None)] }, ScriptScore { dimension: "scope", score: 5, places: [Gate("tests")] }, ScriptScore { dimension: "tests", score: 4, places: [Gate("tests")] }], summary: "scripted verdict: pass" })
    "#]].assert_eq(&blocks.iter().map(describe).collect::<String>());
}

#[test]
fn text_is_bare_quoted_or_below() {
    let text = |script: &str| match verbs(script).as_slice() {
        [ScriptVerb::Write(_, text)] => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text("write a  two  words # and this"), "two  words # and this\n");
    assert_eq!(text("write a \"x\\ty\\n\\\"\\\\\""), "x\ty\n\"\\");
    assert_eq!(text("write a \"\""), "");
    assert_eq!(text("write a <<E_1\n@ not a header\n\n# kept\n END\nE_1\n"), "@ not a header\n\n# kept\n END\n");
    assert_eq!(text("write a <<E\nE\n"), "");
    assert_eq!(text("write a 1 <<2 3"), "1 <<2 3\n");
    assert_eq!(text("write \"a b\" c"), "c\n");
}

#[test]
fn verdicts_take_places_summaries_and_raw_text() {
    let script = "verdict fail tests=0@item:report.md:3@a:b.py:7 scope=-1 \"too = much\"\nverdict raw {\"a\": \"b\"} \nverdict raw\n\
                  verdict raw <<X\n{\nX\n";
    expect![[r#"
        [
            Verdict(
                Honest {
                    word: "fail",
                    scores: [
                        ScriptScore {
                            dimension: "tests",
                            score: 0,
                            places: [
                                Item(
                                    "report.md",
                                    3,
                                    None,
                                ),
                                Line(
                                    "a:b.py",
                                    7,
                                    None,
                                ),
                            ],
                        },
                        ScriptScore {
                            dimension: "scope",
                            score: -1,
                            places: [],
                        },
                    ],
                    summary: "too = much",
                },
            ),
            Verdict(
                Raw(
                    "{\"a\": \"b\"}",
                ),
            ),
            Verdict(
                Raw(
                    "",
                ),
            ),
            Verdict(
                Raw(
                    "{\n",
                ),
            ),
        ]
    "#]]
    .assert_debug_eq(&verbs(script));
}

#[test]
fn blocks_are_chosen_by_attempt_then_role_then_order() {
    let script =
        "say first\n\nsay second\n@ maker\nsay any\n\nsay still any\n@ maker attempt=2\nsay two\n@\nsay third\n";
    let chooser = BlockChooser::new(AgentScript::parse(script).expect("the script is good"));
    let said = |role, attempt| {
        let start = ScriptBlockHeader { role, attempt: Some(attempt), phase: None, attack_role: None };
        let steps = chooser.choose(&start)?;
        let word =
            |verb: &ScriptVerb| if let ScriptVerb::Say(text) = verb { text.trim().to_owned() } else { String::new() };
        Some(steps.iter().map(|step| word(&step.verb)).collect::<Vec<_>>().join(", "))
    };
    let answer_for = |role, attempt| said(role, attempt).unwrap_or_else(|| "exhausted".to_owned());
    assert_eq!(answer_for(Role::Maker, 1), "any, still any");
    assert_eq!(answer_for(Role::Checker, 1), "first");
    assert_eq!(answer_for(Role::Maker, 2), "two");
    assert_eq!(answer_for(Role::Maker, 3), "any, still any");
    assert_eq!(answer_for(Role::Checker, 1), "second");
    assert_eq!(answer_for(Role::Attacker, 1), "third");
    assert_eq!(answer_for(Role::Checker, 2), "exhausted");
    assert_eq!(answer_for(Role::Maker, 2), "two");
}

#[test]
fn no_mutated_script_panics() {
    let good =
        "@ maker attempt=1\nsay \"hé\\n\" \nwrite a <<END\nx\nEND\nverdict pass a=5@b:2@gate:c \"s\"\nusage input=1\n";
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut dice = |most: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % most.max(1) as u64).unwrap_or(0)
    };
    let letters: Vec<char> = "@\"\\<= :\n#é\u{0}1KMzraw".chars().collect();
    for _ in 0..5_000 {
        let mut script: Vec<char> = good.chars().collect();
        for _ in 0..=dice(6) {
            let at = dice(script.len());
            match dice(3) {
                0 => script[at] = letters[dice(letters.len())],
                1 => script.insert(at, letters[dice(letters.len())]),
                _ => drop(script.remove(at)),
            }
        }
        drop(AgentScript::parse(&script.into_iter().collect::<String>()));
    }
}
