//! The grammar of staged files, from the outside: accepted items, their order, and reasons to refuse the batch.

use loopwright_core::outbox::{
    DiffSide, FILES_MAX, OutboxEntryKind, ReviewDecision, StagedFile, StagedItem, TEXT_BYTES_MAX, cannot_reason,
    parse_batch,
};
use loopwright_core::spec::ActionKind;

fn files(files: &[(&str, &str)]) -> Vec<StagedFile> {
    files.iter().map(|(name, text)| StagedFile::regular(*name, *text)).collect()
}

fn items(staged: &[(&str, &str)]) -> Vec<StagedItem> {
    parse_batch(&files(staged)).expect("the batch is good")
}

fn refused(staged: &[StagedFile]) -> String {
    parse_batch(staged).expect_err("the batch is bad").to_string()
}

#[test]
fn items_come_in_the_order_of_their_prefixes_and_then_of_their_names() {
    let items = items(&[
        ("slack.md", "d"),
        ("10-issue-comment-1.md", "b"),
        ("2-issue-comment-9.md", "a"),
        ("issue-comment-3.md", "c"),
    ]);
    let order: Vec<_> = items.iter().map(|item| (item.position, item.body.as_str())).collect();
    assert_eq!(order, [(1, "a"), (2, "b"), (3, "c"), (4, "d")]);
}

#[test]
fn every_kind_is_read_with_its_parts() {
    let inline = r#"{"path":"a/b.py","line":3,"body":"why?"}

{"path":"c","line":9,"side":"LEFT","start_line":7,"body":"x"}"#;
    let items = items(&[
        ("01-pull-request.md", "# Fix the sign\n\nIt was wrong.\n"),
        ("02-commit.md", "Fix the sign\n\nIt was wrong."),
        ("03-issue-create.md", "\n\nFlaky test\nSometimes."),
        ("04-issue-label-7.txt", "bug, needs docs\nbug\n"),
        ("05-pr-inline-8.jsonl", inline),
        ("06-pr-approve-8.md", ""),
        ("07-webhook-ci.json", "{ \"b\": 1, \"a\": [2] }"),
        ("08-report.md", "\u{feff}All well."),
    ]);
    let title = |index: usize| (items[index].title.as_deref(), items[index].body.as_str());
    assert_eq!(title(0), (Some("Fix the sign"), "It was wrong."));
    assert_eq!(title(1), (Some("Fix the sign"), "It was wrong."));
    assert_eq!(title(2), (Some("Flaky test"), "Sometimes."));
    assert_eq!(items[3].labels, ["bug", "needs docs"]);
    let lines: Vec<_> =
        items[4].comments.iter().map(|comment| (comment.line, comment.side, comment.start_line)).collect();
    assert_eq!(lines, [(3, DiffSide::Right, None), (9, DiffSide::Left, Some(7))]);
    assert_eq!((items[5].kind, items[5].review), (ActionKind::PrReview, Some(ReviewDecision::Approve)));
    assert_eq!((items[6].target.as_deref(), items[6].body.as_str()), (Some("ci"), "{\"b\":1,\"a\":[2]}"));
    assert_eq!(title(7), (None, "All well."));
}

#[test]
fn the_list_says_the_same_as_files() {
    let list = r#"[
        {"kind": "pull-request", "title": "Fix", "body": "Because.", "labels": ["bug"]},
        {"kind": "issue-comment", "target": 7, "body": "done"},
        {"kind": "comment", "target": "pr-8", "body": "look"},
        {"kind": "comment", "target": "9", "body": "look"},
        {"kind": "pr-request-changes", "target": "8", "body": "no"},
        {"kind": "pr-inline", "target": "8", "comments": [{"path": "a", "line": 1, "body": "x"}]},
        {"kind": "webhook", "target": "ci", "body": {"a": 1}},
        {"kind": "draft", "body": "report"}
    ]"#;
    let items = items(&[("outbox.json", list)]);
    let shown = |item: &StagedItem| format!("{} {}", item.kind, item.target.as_deref().unwrap_or("-"));
    let expected = "pull-request -, issue-comment 7, pr-comment 8, issue-comment 9, pr-review 8, pr-inline 8, webhook ci, report -";
    assert_eq!(items.iter().map(shown).collect::<Vec<_>>().join(", "), expected);
    assert_eq!(items[4].review, Some(ReviewDecision::RequestChanges));
    let stored = serde_json::to_string(&items).expect("plain data");
    assert_eq!(serde_json::from_str::<Vec<StagedItem>>(&stored).expect("plain data"), items);
}

#[test]
fn a_stored_item_with_an_unknown_field_is_not_read() {
    let mut value = serde_json::to_value(&items(&[("report.md", "x")])[0]).expect("plain data");
    value["extra"] = 1.into();
    assert!(serde_json::from_value::<StagedItem>(value).is_err());
}

#[test]
fn one_bad_file_refuses_the_batch_and_every_problem_is_reported() {
    let staged = [("report.md", "fine"), ("deploy.sh", "x"), ("issue-comment-0.md", "x"), ("slack.md", " \n")];
    assert_eq!(
        refused(&files(&staged)),
        "outbox refused: `deploy.sh`: unknown outbox file; \
         `issue-comment-0.md`: the number must be 1 to 10 digits without sign or leading zero; `slack.md`: the text is empty"
    );
}

#[test]
fn bad_content_is_refused_with_its_reason() {
    let table: [(&str, &str, &str); 22] = [
        ("report.md", "", "the text is empty"),
        ("report.md", "\u{200b}\u{feff}", "the text is empty"),
        ("pull-request.md", "\n \n", "the title is empty"),
        ("pull-request.md", "###\nbody", "the title is empty"),
        ("issue-label-7.txt", " ,\n, ", "no label"),
        ("issue-label-7.txt", "a\u{202e}b", "bad label `a\\u{202e}b`"),
        ("pr-inline-7.jsonl", "\n", "no comment"),
        ("pr-inline-7.jsonl", "{\"path\":\"a\",\"line\":1,\"body\":\"x\"}\nnot json", "line 2: bad JSON"),
        ("pr-inline-7.jsonl", r#"{"path":"a","line":1,"line":2,"body":"x"}"#, "line 1: bad JSON: duplicate key `line`"),
        ("pr-inline-7.jsonl", r#"{"path":"../a","line":1,"body":"x"}"#, "bad path `../a`"),
        ("pr-inline-7.jsonl", r#"{"path":"/a","line":1,"body":"x"}"#, "bad path `/a`"),
        ("pr-inline-7.jsonl", r#"{"path":"a","line":0,"body":"x"}"#, "bad line range"),
        ("pr-inline-7.jsonl", r#"{"path":"a","line":2,"start_line":3,"body":"x"}"#, "bad line range"),
        ("pr-inline-7.jsonl", r#"{"path":"a","line":2,"body":"x","commit":"y"}"#, "unknown field `commit`"),
        ("pr-request-changes-7.md", "", "the text is empty"),
        ("webhook-ci.json", r#"{"a":1,"a":2}"#, "duplicate key `a`"),
        ("webhook-ci.json", "{'a':1}", "bad JSON"),
        ("outbox.json", "{}", "bad JSON"),
        ("outbox.json", r#"[{"kind":"merge"}]"#, "item 1: unknown kind `merge`"),
        ("outbox.json", r#"[{"kind":"report","body":"x","target":"7"}]"#, "item 1: report has no `target`"),
        ("outbox.json", r#"[{"kind":"issue-comment","target":"07","body":"x"}]"#, "item 1: the number must be"),
        ("outbox.json", r#"[{"kind":"pr-review","target":7,"body":"x"}]"#, "item 1: `review` must be"),
    ];
    for (name, text, expected) in table {
        let said = refused(&files(&[(name, text)]));
        assert!(said.contains(expected), "{name} {text:?}: {said}");
    }
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    assert!(refused(&[StagedFile::regular("report.md", b"a\xff".to_vec())]).contains("is not UTF-8"));
}

#[test]
fn links_folders_and_pipes_are_refused() {
    assert!(refused(&[StagedFile::irregular("report.md", OutboxEntryKind::Symlink)]).contains("is a symbolic link"));
    assert!(refused(&[StagedFile::irregular("report.md", OutboxEntryKind::Other)]).contains("is not a regular file"));
    assert!(refused(&[StagedFile::irregular("CANNOT.md", OutboxEntryKind::Symlink)]).contains("is a symbolic link"));
}

#[test]
fn limits_hold_at_their_edge() {
    let fits = "x".repeat(TEXT_BYTES_MAX);
    assert_eq!(items(&[("report.md", &fits)]).len(), 1);
    assert!(refused(&files(&[("report.md", &format!("{fits}x"))])).contains("the text is over 65536 bytes"));
    let numbered = |count: usize, text: &str| {
        (1..=count).map(|n| StagedFile::regular(format!("issue-comment-{n}.md"), text)).collect::<Vec<_>>()
    };
    assert!(parse_batch(&numbered(4, &fits)).is_ok());
    let over = [numbered(4, &fits), files(&[("slack.md", "x")])].concat();
    assert!(refused(&over).contains("over 262144 bytes in all"));
    assert!(parse_batch(&numbered(FILES_MAX, "x")).is_ok());
    assert!(refused(&numbered(FILES_MAX + 1, "x")).contains("65 files, at most 64"));
}

#[test]
fn line_comments_are_counted_over_the_whole_batch() {
    let comments = |count: usize| "{\"path\":\"a\",\"line\":1,\"body\":\"x\"}\n".repeat(count);
    assert!(parse_batch(&files(&[("pr-inline-7.jsonl", &comments(100))])).is_ok());
    let said = refused(&files(&[("pr-inline-7.jsonl", &comments(60)), ("pr-inline-8.jsonl", &comments(41))]));
    assert!(said.contains("101 line comments, at most 100"), "{said}");
}

#[test]
fn duplicates_and_contradictions_are_refused() {
    let table: [(&[(&str, &str)], bool); 8] = [
        (&[("01-report.md", "a"), ("02-report.md", "b")], false),
        (&[("PR_BODY.md", "a"), ("pull-request.md", "b")], false),
        (&[("pr-approve-7.md", "a"), ("pr-request-changes-7.md", "b")], false),
        (&[("pr-approve-7.md", "a"), ("pr-request-changes-8.md", "b")], true),
        (&[("1-issue-comment-7.md", "a"), ("2-issue-comment-7.md", "b")], true),
        (&[("1-issue-comment-7.md", "a b"), ("2-issue-comment-7.md", "a  b\u{200b}\n")], false),
        (&[("1-issue-label-7.txt", "a"), ("2-issue-label-7.txt", "b")], false),
        (&[("1-slack.md", "a"), ("2-slack.md", "b")], true),
    ];
    for (staged, good) in table {
        assert_eq!(parse_batch(&files(staged)).is_ok(), good, "{staged:?}");
    }
}

#[test]
fn the_list_stands_alone() {
    let list = ("outbox.json", r#"[{"kind":"slack","body":"x"}]"#);
    assert!(refused(&files(&[list, ("report.md", "x")])).contains("cannot be combined with other outbox files"));
    assert_eq!(items(&[list, ("CANNOT.md", "no")]).len(), 1);
}

#[test]
fn cannot_is_read_apart_from_the_batch() {
    let staged = files(&[("CANNOT.md", "\u{1b}[31mThe test needs a network.\u{1b}[0m\n"), ("report.md", "x")]);
    assert_eq!(cannot_reason(&staged).as_deref(), Some("The test needs a network."));
    assert_eq!(parse_batch(&staged).expect("the rest is good").len(), 1);
    assert_eq!(cannot_reason(&files(&[("CANNOT.md", " ")])).as_deref(), Some("no reason given"));
    assert_eq!(cannot_reason(&files(&[("cannot.md", "x")])), None);
}

#[test]
fn a_refusal_never_prints_hostile_names() {
    let said = refused(&files(&[("\u{1b}[2Jx\nok: all gates passed", "x")]));
    assert!(said.chars().all(|c| !c.is_control()), "{said:?}");
}
