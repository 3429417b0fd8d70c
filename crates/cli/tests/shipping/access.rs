//! A forge that refuses access gives one clear line with the next step, keeps the item, and sends it once the cause is
//! fixed.

use super::stage::{NAME, PULL, ShippingStage};
use loopwright_testkit::fake_forge::{FakeToken, ForgeFault};

type Change = fn(&ShippingStage, &str);

/// A cause, how it comes and goes, and the words of its message: what is wrong, and the next step.
struct AccessCase {
    name: &'static str,
    spoil: Change,
    fix: Change,
    words: [&'static str; 2],
}

fn restore_token(stage: &ShippingStage, _: &str) {
    stage.set_token(&stage.forge.token("bot"));
}

fn cases() -> Vec<AccessCase> {
    vec![
        AccessCase {
            name: "token",
            spoil: |stage, _| {
                stage.set_token("ghp_wrong");
            },
            fix: restore_token,
            words: ["does not accept the token", "create a token with"],
        },
        AccessCase {
            name: "scope",
            spoil: |stage, _| {
                let scopes = ["read:org", "read_api", "read:repository", "read:issue"];
                stage.set_token(&stage.forge.add_token(FakeToken::personal("bot", &scopes)));
            },
            fix: restore_token,
            words: ["denies the push", "the token's permissions"],
        },
        AccessCase {
            name: "protected branch",
            spoil: |stage, round| {
                stage.remote().protect(&format!("loop/fix/{round}"));
            },
            fix: |stage, round| {
                stage.remote().unprotect(&format!("loop/fix/{round}"));
            },
            words: ["denies the push", "the branch's protection"],
        },
        AccessCase {
            name: "deleted repository",
            spoil: |stage, _| stage.forge.delete_repo(NAME),
            fix: |stage, _| {
                stage.forge.create_repo(NAME).add_writer("bot").copy_branches_from(stage.repo.path());
            },
            words: ["has no repository `acme/app`", "check the name"],
        },
        AccessCase {
            name: "archived repository",
            spoil: |stage, _| {
                stage.remote().archive();
            },
            fix: |stage, _| {
                stage.remote().unarchive();
            },
            words: ["`acme/app` is archived", "unarchive it"],
        },
        AccessCase {
            name: "right to push",
            spoil: |stage, _| {
                stage.remote().remove_writer("bot");
            },
            fix: |stage, _| {
                stage.remote().add_writer("bot");
            },
            words: ["may not push to `acme/app`", "give it"],
        },
    ]
}

fn every_cause_has_one_line_and_recovers(kind: &'static str) {
    for case in cases() {
        let name = format!("{kind}, {}", case.name);
        let stage = ShippingStage::on(kind, "L2", PULL);
        let round = stage.escalate();
        (case.spoil)(&stage, &round);
        let blocked = stage.approve(&round, 10);
        let reasons = blocked["reasons"].as_array().expect("reasons").clone();
        let kept: Vec<_> = reasons.iter().filter(|reason| reason["code"] == "delivery-blocked").collect();
        let [reason] = kept.as_slice() else { panic!("{name}: one reason in {blocked}") };
        let text = reason.to_string();
        assert!(case.words.iter().all(|words| text.contains(words)), "{name}: {text}");
        assert!(!text.contains("\\n") && text.len() < 1_000, "{name}: one line: {text}");
        assert!(!text.contains("ghp_"), "{name}: {text}");
        assert_eq!(blocked["outbox"][0]["state"], "waiting", "{name}");
        assert!(stage.run(&["inbox"]).success().stdout().contains(&round), "{name}");
        (case.fix)(&stage, &round);
        let shipped = stage.approve(&round, 0);
        assert_eq!(shipped["outcome"], "shipped", "{name}: {shipped}");
        assert_eq!(stage.remote().pulls().len(), 1, "{name}");
    }
}

#[test]
fn github_that_refuses_access_keeps_the_item_until_a_person_fixes_it() {
    every_cause_has_one_line_and_recovers("github");
}

#[test]
fn gitlab_that_refuses_access_keeps_the_item_until_a_person_fixes_it() {
    every_cause_has_one_line_and_recovers("gitlab");
}

#[test]
fn gitea_that_refuses_access_keeps_the_item_until_a_person_fixes_it() {
    every_cause_has_one_line_and_recovers("gitea");
}

#[test]
fn label_or_reviewer_that_the_forge_does_not_accept_is_named_in_the_report() {
    let cases = [
        ("/repos/*/*/issues/*/labels", 403, "lacks a permission"),
        ("/repos/*/*/pulls/*/requested_reviewers", 422, "rejects"),
    ];
    for (path, status, words) in cases {
        let stage = ShippingStage::new("L2", "output: [{ pull-request: { labels: [bot] } }]\n");
        stage.configure("    reviewers: [ada]\n");
        let round = stage.escalate();
        stage.forge.fail("POST", path, 1, ForgeFault::Status(status));
        let shipped = stage.approve(&round, 0);
        assert_eq!((&shipped["outcome"], stage.remote().pulls().len()), (&"shipped".into(), 1), "{shipped}");
        let notes: Vec<_> = shipped["reasons"].as_array().expect("reasons").iter().collect();
        let note = notes.iter().find(|reason| reason["code"] == "partly-accepted");
        let text = note.unwrap_or_else(|| panic!("{path}: a note in {shipped:#}")).to_string();
        assert!(text.contains(words) && text.contains("lacks labels or reviewers"), "{path}: {text}");
    }
}
