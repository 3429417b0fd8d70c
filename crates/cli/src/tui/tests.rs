//! The dashboard drawn into buffers: what people see at several sizes, and that no size and no text breaks it.

use super::documents::TuiDocuments;
use super::draw::TuiDrawing;
use super::screens::TuiScreen;
use super::state::{PageKind, TuiAction, TuiDialog, TuiState};
use super::theme::TuiTheme;
use crate::verbs::approve::ShownQuestion;
use expect_test::{Expect, expect};
use loopwright::store::InboxKind;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

/// 2026-11-18 12:00:00 UTC.
const NOW: i64 = 1_795_003_200_000;

fn round(id: &str, name: &str, status: &str, started: &str, summary: &str) -> Value {
    json!({
        "round": id, "loop": name, "repo": "shop", "status": status, "phase": "make", "started": started,
        "duration_s": 72.5, "attempts": 2, "spend": {"usd": 0.42, "tokens": 12_400},
        "ceiling": {"usd": 5.0, "tokens": 400_000}, "summary": summary,
    })
}

fn loop_line(name: &str, status: &str, reason: Option<&str>, next: Option<&str>) -> Value {
    json!({
        "loop": name, "repo": "shop", "status": status, "level": "L2", "cadence": "every 2 h", "runs": 12,
        "success_rate": 0.75, "last_run": "2026-11-18T11:00:00Z", "next": next, "spend": {"usd": 0.6},
        "paused_reason": reason,
    })
}

/// Several loops: one runs, one waits for an answer, one is broken, one failed, one is idle.
fn documents() -> TuiDocuments {
    let status = json!({"daemon": {"pid": 4711, "since": "2026-11-18T11:57:00Z"}, "loops": [
        loop_line("fix-issues", "running", None, Some("2026-11-18T13:00:00Z")),
        loop_line("nightly-deps", "waiting", None, Some("2026-11-18T23:00:00Z")),
        loop_line("broken", "invalid", Some("line 3: `levle` is not a key"), None),
        loop_line("docs", "idle", None, None),
    ]});
    let mut running = round("r1", "fix-issues", "running", "2026-11-18T11:58:30Z", "");
    running["duration_s"] = Value::Null;
    let rounds = json!({"rounds": [
        running,
        round("r2", "nightly-deps", "waiting", "2026-11-18T11:30:00Z", "waits for an approval"),
        round("r3", "docs", "failed", "2026-11-18T10:00:00Z", "maker: the agent ended with exit code 1"),
        round("r4", "docs", "shipped", "2026-11-17T10:00:00Z", "1 pull request"),
    ]});
    let inbox = json!({"items": [{
        "id": "a-r2", "loop": "nightly-deps", "round": "r2", "kind": "approval", "risk": "high",
        "candidate": "0123456789abcdef0123", "summary": "Update 3 dependencies", "expires": "2026-11-20T12:00:00Z",
    }]});
    let budget = json!({"scopes": [
        {"scope": "day", "loop": "fix-issues", "status": "open", "ceiling": {"usd": 20.0}, "spent": {"usd": 5.0}},
        {"scope": "fleet-day", "loop": null, "status": "unlimited", "ceiling": {"usd": null}, "spent": {"usd": 6.5}},
    ]});
    let costs = json!({"groups": [
        {"key": "fix-issues", "usd": 6.0, "usd_per_accepted": 1.5}, {"key": "docs", "usd": 1.5, "usd_per_accepted": null},
    ]});
    let all = [("status", status), ("rounds", rounds), ("inbox", inbox), ("budget", budget), ("costs", costs)];
    let mut docs = TuiDocuments::of(all, NOW);
    docs.actions.insert("r1".to_owned(), "maker-1 > edit_file src/cart.rs (12 lines)".to_owned());
    docs
}

fn drawn(width: u16, height: u16, docs: &TuiDocuments, state: &mut TuiState) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    TuiDrawing { docs, theme: TuiTheme { has_colour: true }, now: NOW }.draw(&mut buffer, state);
    buffer
}

fn lines(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[Cell]| cells.iter().map(Cell::symbol).collect::<String>().trim_end().to_owned() + "\n";
    buffer.content().chunks(width).map(line).collect()
}

fn check(screen: TuiScreen, width: u16, height: u16, expected: &Expect) {
    let mut state = TuiState { screen, ..TuiState::new() };
    expected.assert_eq(&lines(&drawn(width, height, &documents(), &mut state)));
}

fn key(state: &mut TuiState, docs: &TuiDocuments, code: KeyCode) -> Option<TuiAction> {
    state.on_key(KeyEvent::new(code, KeyModifiers::NONE), docs, NOW)
}

fn question() -> ShownQuestion {
    ShownQuestion {
        id: "a-r2".to_owned(),
        loop_name: "nightly-deps".to_owned(),
        kind: InboxKind::Approval,
        summary: "Update 3 dependencies".to_owned(),
        candidate: Some("0123456789abcdef0123".to_owned()),
        round: "r2".to_owned(),
        is_whole: true,
        page: "round r2 waits\n\ndiff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n".to_owned(),
    }
}

fn with_question() -> TuiState {
    let mut state = TuiState { screen: TuiScreen::Inbox, ..TuiState::new() };
    let question = question();
    let page = question.page.clone();
    state.open("nightly-deps: Update 3 dependencies".to_owned(), PageKind::Question(question), &page);
    state
}

#[test]
fn overview_shows_problems_first() {
    check(
        TuiScreen::Overview,
        80,
        24,
        &expect![[r#"
        loopwright   1 Overview  2 Loops  3 Rounds  4 Inbox 1  5 Spend      12:00:00 UTC
        4 loops  ● 1 running  ◆ 1 waiting  $2.40 today             daemon 4711, up 3m00s
        Problems 2 ─────────────────────────────────────────────────────────────────────
        ✗ invalid       broken             line 3: `levle` is not a key
        ✗ failed        docs               maker: the agent ended with exit co…   2h ago

        Needs you 1 ────────────────────────────────────────────────────────────────────
        ▲ high          nightly-deps       Update 3 dependencies                   in 2d

        Running 1 ──────────────────────────────────────────────────────────────────────
        ● make          fix-issues         1m30s    $0.42 of $5.00, 12k of 400k tokens
          └ maker-1 > edit_file src/cart.rs (12 lines)

        Next ───────────────────────────────────────────────────────────────────────────
        › in 1h         fix-issues         every 2 h
        › in 11h        nightly-deps       every 2 h

        Latest rounds ──────────────────────────────────────────────────────────────────
        ◆ waiting       nightly-deps       waits for an approval          $0.42  30m ago
        ✗ failed        docs               maker: the agent ended with …  $0.42   2h ago
        ✓ shipped       docs               1 pull request                 $0.42  26h ago


        Enter open  l log  s facts  c change  w why  / filter  ? help  q quit
    "#]],
    );
}

#[test]
fn narrow_overview_leaves_columns_out() {
    check(
        TuiScreen::Overview,
        58,
        14,
        &expect![[r#"
         1 Overview  2 Loops  3 Rounds  4 Inbox 1  5 Spend
        4 loops  ● 1 running  ◆ 1 waiting  $2.40 today
        Problems 2 ───────────────────────────────────────────────
        ✗ invalid       broken             line 3: `levle` is not…
        ✗ failed        docs               maker: the agent ended…

        Needs you 1 ──────────────────────────────────────────────
        ▲ high          nightly-deps       Update 3 dependencies

        Running 1 ────────────────────────────────────────────────
        ● make          fix-issues         1m30s    $0.42 of $5.0…
          └ maker-1 > edit_file src/cart.rs (12 lines)

        Enter open  l log  s facts  c change  w why  / filter  ? …
    "#]],
    );
}

#[test]
fn loops_are_sorted_by_need() {
    check(
        TuiScreen::Loops,
        120,
        9,
        &expect![[r#"
        loopwright   1 Overview  2 Loops  3 Rounds  4 Inbox 1  5 Spend                                              12:00:00 UTC
        4 loops  ● 1 running  ◆ 1 waiting  $2.40 today                                                     daemon 4711, up 3m00s
          STATUS        LOOP                           LEVEL      LAST     NEXT  RUNS    OK   TODAY CADENCE
        ✗ invalid       broken                         L2       1h ago        –    12   75%   $0.60 every 2 h
        ◆ waiting       nightly-deps                   L2       1h ago   in 11h    12   75%   $0.60 every 2 h
        ● running       fix-issues                     L2       1h ago    in 1h    12   75%   $0.60 every 2 h
        · idle          docs                           L2       1h ago        –    12   75%   $0.60 every 2 h

        Enter open  l log  s facts  c change  w why  / filter  ? help  q quit
    "#]],
    );
}

#[test]
fn rounds_show_the_stage_and_the_last_action_of_a_running_agent() {
    let mut state = TuiState { screen: TuiScreen::Rounds, ..TuiState::new() };
    let shown = lines(&drawn(80, 9, &documents(), &mut state));
    assert!(shown.contains("● running       fix-issues         make  maker-1 > ed"), "{shown}");
    assert!(shown.contains("✗ failed        docs               maker: the agent"), "{shown}");
}

#[test]
fn spend_shows_budgets_as_bars() {
    let mut state = TuiState { screen: TuiScreen::Spend, ..TuiState::new() };
    let shown = lines(&drawn(80, 14, &documents(), &mut state));
    assert!(shown.contains("fix-issues, day            █████░░░░░░░░░░░░░░░    $5.00 of $20.00"), "{shown}");
    assert!(shown.contains("    $6.50 no ceiling"), "{shown}");
}

#[test]
fn question_is_shown_with_its_diff_and_an_approval_asks_first() {
    let (docs, mut state) = (documents(), with_question());
    key(&mut state, &docs, KeyCode::Char('a'));
    let shown = lines(&drawn(70, 16, &docs, &mut state));
    for part in
        ["Approve a-r2, candidate 0123456789ab?", "y approves, any other key goes back", "+new", "a approve  d deny"]
    {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
}

#[test]
fn every_screen_page_and_dialog_fits_any_size() {
    let docs = documents();
    let sizes = [0, 1, 2, 3, 5, 7, 20, 79, 80, 200, 1000];
    for width in sizes {
        for height in [0, 1, 2, 3, 5, 6, 24, 50] {
            for screen in TuiScreen::ALL {
                drawn(width, height, &docs, &mut TuiState { screen, ..TuiState::new() });
            }
            let dialogs = [
                TuiDialog::Help,
                TuiDialog::Approve { asked: "Approve a-r2?".to_owned(), words: Vec::new() },
                TuiDialog::Deny { id: "a-r2".to_owned(), why: "too large".to_owned() },
                TuiDialog::Filter("x".to_owned()),
                TuiDialog::Message(vec!["done".to_owned()]),
            ];
            for dialog in dialogs {
                let mut state = TuiState { dialog: Some(dialog), ..with_question() };
                drawn(width, height, &docs, &mut state);
            }
        }
    }
}

#[test]
fn buffer_without_cells_stays_empty_and_one_cell_has_one_character() {
    let (docs, mut state) = (documents(), TuiState::new());
    assert_eq!(drawn(0, 0, &docs, &mut state), Buffer::empty(Rect::new(0, 0, 0, 0)));
    let mut expected = Buffer::empty(Rect::new(0, 0, 1, 1));
    expected.set_stringn(0, 0, "✗", 1, TuiTheme { has_colour: true }.selected());
    assert_eq!(drawn(1, 1, &docs, &mut state), expected);
}

#[test]
fn hostile_text_never_reaches_the_terminal() {
    let hostile = "\x1b[2J\x1b]0;owned\x07\r\n\u{202e}\u{200b}<script>";
    let long = "x".repeat(1 << 20);
    let items = json!({"items": [{"id": hostile, "loop": hostile, "risk": hostile, "summary": hostile}]});
    let rounds = json!({"rounds": [round("r1", hostile, "running", "2026-11-18T11:00:00Z", hostile)]});
    let mut docs = TuiDocuments::of([("inbox", items), ("rounds", rounds)], NOW);
    docs.actions.insert("r1".to_owned(), format!("{hostile}{long}"));
    for screen in TuiScreen::ALL {
        let mut state = TuiState { screen, ..TuiState::new() };
        let shown = lines(&drawn(200, 40, &docs, &mut state));
        let is_inert = |c: char| c == '\n' || !(c.is_control() || matches!(c, '\u{202e}' | '\u{200b}'));
        assert!(shown.chars().all(is_inert), "{shown:?}");
    }
    let mut state = TuiState::new();
    state.open(hostile.to_owned(), PageKind::Output, &format!("{hostile}\n{long}"));
    let shown = lines(&drawn(200, 40, &docs, &mut state));
    assert!(!shown.contains(['\x1b', '\u{202e}', '\r', '\x07']), "{shown:?}");
}

#[test]
fn approval_binds_the_candidate_that_was_shown_and_only_y_gives_it() {
    let docs = documents();
    let mut state = with_question();
    key(&mut state, &docs, KeyCode::Char('a'));
    assert_eq!(key(&mut state, &docs, KeyCode::Enter), None);
    assert!(state.dialog.is_none(), "any other key closes the dialog");
    key(&mut state, &docs, KeyCode::Char('a'));
    let words = ["approve", "a-r2", "--yes", "--candidate=0123456789abcdef0123"].map(str::to_owned).to_vec();
    assert_eq!(key(&mut state, &docs, KeyCode::Char('y')), Some(TuiAction::Answer(words)));
}

/// A maker may hide text behind blanks at the end of a line.
#[test]
fn end_of_a_long_line_is_on_the_page_and_what_is_not_cannot_be_approved() {
    let docs = documents();
    let long = format!("+x = 1{}; danger()", " ".repeat(9_000));
    let shown_question = |is_whole: bool| {
        let mut state = TuiState { screen: TuiScreen::Inbox, ..TuiState::new() };
        let question = ShownQuestion { is_whole, page: format!("{long}\n+last\n"), ..question() };
        let page = question.page.clone();
        state.open("a question".to_owned(), PageKind::Question(question), &page);
        state
    };
    let mut state = shown_question(true);
    for width in [80, 33, 200] {
        drawn(width, 20, &docs, &mut state);
        key(&mut state, &docs, KeyCode::Char('G'));
        let end = lines(&drawn(width, 20, &docs, &mut state));
        // The end may begin on one row and end on the next.
        assert!(end.replace('\n', "").contains("; danger()+last"), "{end}");
    }
    key(&mut state, &docs, KeyCode::Char('a'));
    assert!(matches!(state.dialog, Some(TuiDialog::Approve { .. })), "all of it is on the page");
    let narrow = |state: &mut TuiState| {
        drawn(0, 20, &docs, state);
        key(state, &docs, KeyCode::Char('a'));
    };
    for (mut state, act) in [(shown_question(false), None), (shown_question(true), Some(narrow))] {
        match act {
            Some(act) => act(&mut state),
            None => drop(key(&mut state, &docs, KeyCode::Char('a'))),
        }
        let Some(TuiDialog::Message(said)) = &state.dialog else { panic!("{:?}", state.dialog) };
        assert!(said.concat().contains("loopwright approve a-r2"), "{said:?}");
    }
}

#[test]
fn denial_needs_a_reason() {
    let docs = documents();
    let mut state = with_question();
    key(&mut state, &docs, KeyCode::Char('d'));
    assert_eq!(key(&mut state, &docs, KeyCode::Enter), None);
    assert!(state.dialog.is_some(), "it still waits for the reason");
    for c in "-no".chars() {
        key(&mut state, &docs, KeyCode::Char(c));
    }
    let words = ["deny", "a-r2", "--why=-no", "--candidate=0123456789abcdef0123"].map(str::to_owned).to_vec();
    assert_eq!(key(&mut state, &docs, KeyCode::Enter), Some(TuiAction::Answer(words)));
}

#[test]
fn keys_move_over_rows_and_open_what_they_are_about() {
    let docs = documents();
    let mut state = TuiState::new();
    let page = |title: &str, words: [&str; 3]| TuiAction::ShowPage(title.to_owned(), words.map(str::to_owned).to_vec());
    assert_eq!(key(&mut state, &docs, KeyCode::Enter), Some(page("Loop broken", ["show", "--", "broken"])));
    key(&mut state, &docs, KeyCode::Char('j'));
    assert_eq!(key(&mut state, &docs, KeyCode::Enter), Some(TuiAction::FollowLog("r3".to_owned())));
    assert_eq!(key(&mut state, &docs, KeyCode::Char('c')), Some(page("Change of r3", ["diff", "--", "r3"])));
    key(&mut state, &docs, KeyCode::Char('4'));
    assert_eq!(key(&mut state, &docs, KeyCode::Char('a')), Some(TuiAction::ShowQuestion("a-r2".to_owned())));
    key(&mut state, &docs, KeyCode::Char('G'));
    key(&mut state, &docs, KeyCode::PageDown);
    assert_eq!(key(&mut state, &docs, KeyCode::Enter), Some(TuiAction::ShowQuestion("a-r2".to_owned())));
    assert_eq!(key(&mut state, &docs, KeyCode::Char('q')), Some(TuiAction::Quit));
}

#[test]
fn filter_hides_rows_and_escape_shows_them_again() {
    let docs = documents();
    let mut state = TuiState { screen: TuiScreen::Loops, ..TuiState::new() };
    key(&mut state, &docs, KeyCode::Char('/'));
    for c in "NIGHT".chars() {
        key(&mut state, &docs, KeyCode::Char(c));
    }
    key(&mut state, &docs, KeyCode::Enter);
    let shown = lines(&drawn(80, 12, &docs, &mut state));
    assert!(shown.contains("nightly-deps") && !shown.contains("docs"), "{shown}");
    key(&mut state, &docs, KeyCode::Esc);
    assert!(lines(&drawn(80, 12, &docs, &mut state)).contains("docs"));
}

#[test]
fn log_follows_its_end_until_somebody_scrolls_and_stays_bounded() {
    let docs = documents();
    let mut state = TuiState::new();
    state.open("Log of r1".to_owned(), PageKind::Log("r1".to_owned()), "");
    drawn(80, 24, &docs, &mut state);
    let many: Vec<String> = (0..30_000).map(|at| format!("line {at}")).collect();
    state.add_log_lines("r1", &many);
    state.add_log_lines("other", &["not this".to_owned()]);
    let shown = lines(&drawn(80, 24, &docs, &mut state));
    assert!(shown.contains("line 29999") && shown.contains("20000/20000, following"), "{shown}");
    key(&mut state, &docs, KeyCode::Char('k'));
    state.add_log_lines("r1", &["later".to_owned()]);
    assert!(!lines(&drawn(80, 24, &docs, &mut state)).contains("later"));
    key(&mut state, &docs, KeyCode::Char('G'));
    assert!(lines(&drawn(80, 24, &docs, &mut state)).contains("later"));
}

#[test]
fn missing_daemon_and_unreadable_documents_are_problems() {
    let mut docs = documents();
    docs.problems.push("the store is damaged".to_owned());
    let status = json!({"daemon": null, "loops": [loop_line("fix", "idle", None, Some("2026-11-18T13:00:00Z"))]});
    let without = TuiDocuments::of([("status", status)], NOW);
    let shown = |docs: &TuiDocuments| lines(&drawn(80, 24, docs, &mut TuiState::new()));
    assert!(shown(&docs).contains("✗ cannot read: the store is damaged"), "{}", shown(&docs));
    assert!(shown(&without).contains("no daemon runs, so nothing starts on its own"), "{}", shown(&without));
}

#[test]
fn ten_thousand_loops_are_drawn_in_a_moment() {
    let loops: Vec<Value> = (0..10_000).map(|at| loop_line(&format!("loop-{at}"), "idle", None, None)).collect();
    let docs = TuiDocuments::of([("status", json!({"daemon": null, "loops": loops}))], NOW);
    let mut state = TuiState { screen: TuiScreen::Loops, ..TuiState::new() };
    key(&mut state, &docs, KeyCode::Char('G'));
    let shown = lines(&drawn(80, 24, &docs, &mut state));
    assert!(shown.contains("loop-9999"), "{shown}");
}
