//! Questions and answers as comments on forges, by polling with `tick` and by a webhook.

use crate::world::{AskingWorld, ListeningDaemon, until};
use loopwright_testkit::fake_forge::ForgeFault;
use loopwright_testkit::wait;
use std::process::Stdio;
use std::time::Duration;

const ASK: &str = "approvals: { ask: [forge] }\n";
const KINDS: [&str; 3] = ["github", "gitlab", "gitea"];

/// The issue that asks, which is the first item of the repository.
const ISSUE: u64 = 1;

#[test]
fn a_comment_approves_on_every_forge_and_the_question_shows_the_decision() {
    for kind in KINDS {
        let world = AskingWorld::new(kind, ASK);
        let round = world.escalate();
        let _ = world.tick();
        let asked = world.remote().item(ISSUE);
        let body = asked.body.expect("a text");
        // GitLab takes `/approve` on a merge request as its own command.
        let command = if kind == "gitlab" { "loopwright approve" } else { "/approve" };
        let quoted = format!("`{command}`");
        for part in ["| gates | tests passed |", "| sends | pull-request |", "| risk | medium |", &quoted, &round] {
            assert!(body.contains(part), "{kind}: {part} in {body}");
        }
        assert!(!body.contains("@all") && asked.title.starts_with("Approve? Fix"), "{kind}: {} {body}", asked.title);
        let _ = world.tick();
        assert_eq!(world.remote().issues().len(), 1, "{kind}: it is asked once");
        world.remote().comment(ISSUE, "grace", &format!("{command}\n\nThank you."));
        let _ = world.tick();
        let (outcome, reasons) = world.show(&round);
        assert_eq!(outcome, "shipped", "{kind}: {reasons}");
        assert!(reasons.to_string().contains("approved by grace"), "{kind}: {reasons}");
        assert_eq!(world.remote().pulls().len(), 1, "{kind}");
        let said = world.replies(ISSUE);
        assert!(said.len() == 1 && said[0].body.contains("Outcome: shipped"), "{kind}: {said:?}");
        let _ = world.tick();
        assert_eq!(world.replies(ISSUE).len(), 1, "{kind}: the decision is shown once");
    }
}

#[test]
fn a_question_about_an_issue_is_a_comment_on_that_issue() {
    let world = AskingWorld::new("github", "approvals: { ask: [forge] }\non: { probe: open-issues }\n");
    assert_eq!(world.remote().open_issue(&Default::default()), ISSUE);
    let round = world.escalate();
    let _ = world.tick();
    assert_eq!(world.remote().issues().len(), 1);
    let said = world.replies(ISSUE);
    assert!(said.len() == 1 && said[0].body.contains("**Approve?**"), "{said:?}");
    world.remote().comment(ISSUE, "ada", "/deny the title is wrong");
    let _ = world.tick();
    let (outcome, reasons) = world.show(&round);
    assert_eq!(outcome, "rejected", "{reasons}");
    assert!(reasons.to_string().contains("denied by ada: the title is wrong"), "{reasons}");
}

#[test]
fn question_of_a_killed_process_that_is_shown_late_is_asked_once() {
    let world = AskingWorld::new("github", "approvals: { ask: [forge] }\non: { probe: open-issues }\n");
    assert_eq!(world.remote().open_issue(&Default::default()), ISSUE);
    world.escalate();
    let comments = "/repos/*/*/issues/*/comments";
    // The forge takes the comment, and shows it from the fourth request on.
    world.forge.fail("POST", comments, 1, ForgeFault::LateAfterCut(4));
    let mut command = world.env.command(world.repo.path());
    let command = command.arg("tick").stdout(Stdio::null()).stderr(Stdio::null());
    let mut pass = command.spawn().expect("the binary starts");
    until("the question is on its way", || !world.forge.requests_to("POST", comments).is_empty());
    pass.kill().and_then(|()| pass.wait()).expect("it is killed");
    let _ = world.tick();
    let said = world.replies(ISSUE);
    assert!(said.len() == 1 && said[0].body.contains("**Approve?**"), "{said:?}");
    world.remote().comment(ISSUE, "grace", "/approve");
    let _ = world.tick();
    assert_eq!(world.remote().pulls().len(), 1);
}

/// Runs another loop, which differs from `fix` in its name and in these words, to its question.
fn escalate_second(world: &AskingWorld, from: &str, to: &str) -> String {
    let path = world.repo.path().join(".loopwright/loops/fix.md");
    let text = std::fs::read_to_string(path).expect("a loop").replace("name: fix", "name: second").replace(from, to);
    world.repo.write(".loopwright/loops/second.md", text);
    let ran = world.run(&["run", "second", "--json"]).code(10).json();
    ran["round"].as_str().expect("a round").to_owned()
}

#[test]
fn bare_command_is_not_bound_to_another_question_after_its_own_was_decided() {
    let world = AskingWorld::new("github", "approvals: { ask: [forge] }\non: { probe: open-issues }\n");
    assert_eq!(world.remote().open_issue(&Default::default()), ISSUE);
    let first = world.escalate();
    let second = escalate_second(&world, "Make the answer", "Make it");
    let _ = world.tick();
    assert_eq!(world.replies(ISSUE).len(), 2, "both ask on the issue");
    // Grace means the first question; Ada decides it before the comment is read.
    world.remote().comment(ISSUE, "grace", "/approve");
    let _ = world.run(&["approve", &first]).success();
    let _ = world.tick();
    let _ = world.tick();
    assert_eq!(world.show(&second).0, "escalated", "{}", world.show(&second).1);
    let said: Vec<String> = world.replies(ISSUE).into_iter().map(|one| one.body).collect();
    assert!(said.iter().any(|text| text.contains("several questions are or were open here")), "{said:?}");
    let shown = world.run(&["show", &second, "--json"]).success().json();
    let candidate = shown["candidate"].as_str().expect("a candidate")[..12].to_owned();
    world.remote().comment(ISSUE, "grace", &format!("/approve {candidate}"));
    let _ = world.tick();
    assert_eq!(world.show(&second).0, "shipped", "{}", world.show(&second).1);
}

#[test]
fn same_number_on_two_forges_is_two_threads() {
    let world = AskingWorld::new("github", ASK);
    world.forge.create_repo("acme/other").add_writer("bot").copy_branches_from(world.repo.path());
    let config = world.env.root().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("a configuration");
    let line = text.lines().find(|line| line.starts_with("  work:")).expect("a forge").to_owned();
    let other = line.replace("work:", "other:").replace("kind: github", "kind: github, repository: acme/other");
    let text = text.replace(&line, &format!("{line}\n{other}")).replace("{ work:", "{ other: 1, work:");
    let text = text.replacen("other: 1", &format!("other: {}", world.forge.account_id("grace")), 1);
    let text = text.replace("other: 1,", "");
    std::fs::write(&config, text).expect("a configuration");
    let first = world.escalate();
    let second = escalate_second(&world, "forge: work", "forge: other");
    let _ = world.tick();
    let other = world.forge.repo("acme/other");
    assert_eq!((world.remote().issues().len(), other.issues().len()), (1, 1), "each asks on its forge");
    other.comment(ISSUE, "grace", "/approve");
    let _ = world.tick();
    assert_eq!((world.show(&first).0.as_str(), world.show(&second).0.as_str()), ("escalated", "shipped"));
}

#[test]
fn denial_in_the_same_pass_as_an_approval_wins() {
    let world = AskingWorld::new("github", ASK);
    let round = world.escalate();
    let _ = world.tick();
    world.remote().comment(ISSUE, "grace", "/approve");
    world.remote().comment(ISSUE, "ada", "/deny the title is wrong");
    let _ = world.tick();
    let (outcome, reasons) = world.show(&round);
    assert!(outcome == "rejected" && reasons.to_string().contains("denied by ada"), "{outcome} {reasons}");
    assert!(world.remote().pulls().is_empty());
}

/// Writes rows into the store without the program.
fn write_rows(world: &AskingWorld, sql: &str) {
    use sqlx::Connection as _;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(world.env.state().join("store.db"));
        let mut conn = sqlx::SqliteConnection::connect_with(&options).await.expect("opens");
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.expect("edits");
        conn.close().await.expect("closes");
    });
}

#[test]
fn round_that_cannot_be_loaded_does_not_keep_other_answers_from_their_decision() {
    let world = AskingWorld::new("github", ASK);
    let round = world.escalate();
    let _ = world.tick();
    // A question and an answer whose round is gone.
    let asked = "INSERT INTO questions (id, round, loop_name, repo, place, candidate, state, asked_ms, tries, updated_ms) \
                 SELECT 'gone', 'gone', loop_name, repo, place, candidate, 'sent', 1, 1, 1 FROM questions";
    let columns = "id, question, candidate, place, account, name, verb, why, state, tries, at_ms";
    let values = "'work:x', 'gone', 'c', 'work', '1', 'grace', 'approve', '', 'received', 0, 1";
    write_rows(&world, &format!("{asked}; INSERT INTO answers ({columns}) VALUES ({values})"));
    world.remote().comment(ISSUE, "grace", "/approve");
    let _ = world.tick();
    assert_eq!(world.show(&round).0, "shipped", "{}", world.show(&round).1);
}

/// One answer that does not count: the lines of the loop, the author, the comment, and the words of the reply.
type Refused = (&'static str, &'static str, &'static str, &'static str, &'static str);

#[test]
fn answers_that_do_not_count_get_one_reply_and_leave_the_question_open() {
    let approvers = "approvers: [grace]\napprovals: { ask: [forge] }\n";
    let separate = "approvals: { ask: [forge], separate: true }\n";
    let table: [Refused; 7] = [
        ("wrong person", approvers, "carol", "/approve", "`carol` may not approve"),
        ("wrong person denies", approvers, "carol", "/deny no", "`carol` may not deny"),
        ("unmapped person", ASK, "eve", "/approve", "no person in `people`"),
        ("the person who started it", separate, "ada", "/approve", "`ada` started this round"),
        ("our own token", ASK, "bot", "/approve", "the account that Loopwright uses itself"),
        ("another candidate", ASK, "grace", "/approve 0123456789ab", "no open question here is about the candidate"),
        ("no reason", ASK, "grace", "/deny", "write the reason"),
    ];
    for (name, more, author, comment, reply) in table {
        let world = AskingWorld::new("github", more);
        let round = world.escalate();
        let _ = world.tick();
        world.remote().comment(ISSUE, author, comment);
        for _ in 0..2 {
            let _ = world.tick();
        }
        let said: Vec<_> = world.replies(ISSUE).into_iter().filter(|one| one.body != comment).collect();
        assert!(said.len() == 1 && said[0].body.contains("does not count"), "{name}: {said:?}");
        assert!(said[0].body.contains(reply), "{name}: {reply} in {}", said[0].body);
        let (outcome, reasons) = world.show(&round);
        assert_eq!(outcome, "escalated", "{name}: {reasons}");
        assert!(world.remote().pulls().is_empty(), "{name}");
    }
}

#[test]
fn account_that_answers_many_times_gets_one_reply() {
    let world = AskingWorld::new("github", ASK);
    let round = world.escalate();
    let _ = world.tick();
    for digit in 0..5 {
        world.remote().comment(ISSUE, "eve", &format!("/approve 0123456789a{digit}"));
    }
    for _ in 0..2 {
        let _ = world.tick();
    }
    let said: Vec<_> = world.replies(ISSUE).into_iter().filter(|one| one.body.contains("does not count")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(world.show(&round).0, "escalated");
}

#[test]
fn edited_and_quoted_commands_do_not_count() {
    for kind in KINDS {
        let world = AskingWorld::new(kind, ASK);
        let round = world.escalate();
        let _ = world.tick();
        let comment = world.remote().comment(ISSUE, "grace", "What is this?");
        for quoted in ["> /approve", "```\n/approve\n```", "Yes.\n/approve", "/approve please", " /approve"] {
            world.remote().comment(ISSUE, "grace", quoted);
        }
        let _ = world.tick();
        assert!(world.replies(ISSUE).is_empty(), "{kind}: {:?}", world.replies(ISSUE));
        world.remote().edit_comment(comment, "/approve");
        let _ = world.tick();
        let said = world.replies(ISSUE);
        assert!(said.len() == 1 && said[0].body.contains("was edited"), "{kind}: {said:?}");
        assert_eq!(world.show(&round).0, "escalated", "{kind}");
    }
}

#[test]
fn two_people_by_two_ways_make_a_quorum_and_one_person_twice_does_not() {
    let world = AskingWorld::new("gitlab", "approvals: { ask: [forge], quorum: 2 }\n");
    let round = world.escalate();
    let _ = world.tick();
    // Ada is the user of this machine.
    let waits = world.run(&["approve", &round, "--json"]).code(10).json();
    assert!(waits["reasons"].to_string().contains("approved by ada (1 of 2)"), "{waits}");
    world.remote().comment(ISSUE, "ada", "/approve");
    let _ = world.tick();
    let said = world.replies(ISSUE);
    assert!(said.len() == 1 && said[0].body.contains("`ada` has already approved"), "{said:?}");
    world.remote().comment(ISSUE, "grace", "/approve");
    let _ = world.tick();
    assert_eq!(world.show(&round).0, "shipped", "{}", world.show(&round).1);
}

#[test]
fn an_answer_after_the_time_is_refused_and_the_question_shows_its_end() {
    let world = AskingWorld::new("gitea", ASK);
    world.configure("approvals: { expire: 2s }\n");
    let round = world.escalate();
    let asked = std::time::Instant::now();
    let _ = world.tick();
    world.remote().comment(ISSUE, "grace", "What is this?");
    until("the question expires", || asked.elapsed() > Duration::from_secs(2));
    world.remote().comment(ISSUE, "grace", "/approve");
    let _ = world.tick();
    let (outcome, reasons) = world.show(&round);
    assert!(outcome == "rejected" && world.remote().pulls().is_empty(), "{outcome} {reasons}");
    let said: Vec<String> = world.replies(ISSUE).into_iter().map(|one| one.body).collect();
    assert!(said.len() == 2 && said[0].contains("the question expired at"), "{said:?}");
    assert!(said[1].contains("Outcome: rejected (no answer arrived in time)"), "{said:?}");
}

/// The daemon reads comments once a minute; a delivery from the forge makes it read them at once.
#[test]
fn a_webhook_about_a_comment_has_it_read_at_once() {
    let world = AskingWorld::new("gitlab", ASK);
    world.configure_with("gitlab: { file: SIGNING }, ", "");
    let daemon = ListeningDaemon::start(&world);
    let round = world.escalate();
    until("the question is asked", || !world.remote().issues().is_empty());
    // The pass that asked has read the comments; the next one is a minute later.
    let reads =
        || world.forge.requests().iter().filter(|one| one.method == "GET" && one.path.ends_with("/notes")).count();
    until("the comments are read", || reads() > 0);
    world.remote().comment(ISSUE, "grace", "/approve");
    let note = r#"{"object_kind":"note","project":{"web_url":"https://elsewhere.example/acme/app"}}"#;
    wait::until("the answer is read", Duration::from_secs(30), || {
        assert!(daemon.deliver_gitlab(note).starts_with("HTTP/1.1 200"), "{}", daemon.said());
        world.show(&round).0 == "shipped"
    });
}

#[test]
fn check_refuses_a_question_that_nobody_could_answer() {
    let world = AskingWorld::new("github", "approvals: { ask: [slack, forge] }\n");
    let _ = world.run(&["check", "fix"]).success();
    let config = world.env.root().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("a configuration");
    let table = [
        ("people:", "peoples:", "unknown key"),
        ("work: {", "gone: {", "forge `work` is not configured"),
        ("secrets: { slack:", "secrets: { gitlab:", "signing secret"),
        ("slack: { token_file", "slack: { webhook_file", "bot token"),
    ];
    for (from, to, expected) in table {
        std::fs::write(&config, text.replacen(from, to, 1)).expect("a configuration");
        let refused = world.run(&["check", "fix"]);
        let said = format!("{}{}", refused.stdout(), refused.stderr());
        assert!(said.contains(expected), "{expected} in {said}");
    }
    let people = text.split("people:").next().expect("the part before").to_owned();
    std::fs::write(&config, people).expect("a configuration");
    let refused = world.run(&["check", "fix"]).code(2);
    assert!(refused.stderr().contains("`people` names no account there"), "{}", refused.stderr());
}

#[test]
fn a_label_approves_by_the_account_that_added_it_on_every_forge() {
    for kind in KINDS {
        let world = AskingWorld::new(kind, ASK);
        let round = world.escalate();
        let _ = world.tick();
        // Added and removed before anything read it: the person took it back.
        world.remote().add_label_as(ISSUE, Some("grace"), "approve");
        world.remote().remove_label(ISSUE, "approve");
        // The account that Loopwright uses, one that no person has, and one that was deleted since.
        for account in [Some("bot"), Some("eve"), None] {
            world.remote().add_label_as(ISSUE, account, "approve");
            let _ = world.tick();
            assert_eq!(world.show(&round).0, "escalated", "{kind}: {account:?}");
            world.remote().remove_label(ISSUE, "approve");
        }
        let said: Vec<String> = world.replies(ISSUE).into_iter().map(|reply| reply.body).collect();
        for part in ["the account that Loopwright uses itself", "no person in `people`", "does not say which account"] {
            assert_eq!(said.iter().filter(|body| body.contains(part)).count(), 1, "{kind}: {part} in {said:?}");
        }
        world.remote().add_label_as(ISSUE, Some("grace"), "approve");
        let _ = world.tick();
        let (outcome, reasons) = world.show(&round);
        assert_eq!(outcome, "shipped", "{kind}: {reasons}");
        assert!(reasons.to_string().contains("approved by grace"), "{kind}: {reasons}");
    }
}

#[test]
fn a_label_from_before_a_question_does_not_answer_it_and_a_later_one_denies() {
    let world = AskingWorld::new("github", "approvals: { ask: [forge] }\non: { probe: open-issues }\n");
    assert_eq!(world.remote().open_issue(&Default::default()), ISSUE);
    world.remote().add_label_as(ISSUE, Some("grace"), "approve");
    let round = world.escalate();
    for _ in 0..2 {
        let _ = world.tick();
    }
    assert_eq!(world.show(&round).0, "escalated", "the label was for something else");
    world.remote().add_label_as(ISSUE, Some("grace"), "deny");
    let _ = world.tick();
    let (outcome, reasons) = world.show(&round);
    assert_eq!(outcome, "rejected", "{reasons}");
    assert!(reasons.to_string().contains("denied by grace: denied on work by grace"), "{reasons}");
}
