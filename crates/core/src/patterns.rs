//! The seed's seven named loops, as specs. Each is a starting point with a conservative level; none is at L3.

use crate::budget::TokenBudget;
use crate::level::LoopLevel::{self, L1Report, L2Assisted};
use crate::spec::LoopSpec;

struct Pattern {
    name: &'static str,
    intent: &'static str,
    level: LoopLevel,
    cadence: &'static str,
    turns: u32,
    tokens: u64,
    kind: &'static str,
    maker: &'static str,
    checker: &'static str,
}

impl Pattern {
    fn spec(&self) -> LoopSpec {
        LoopSpec::new(self.name, self.intent, self.level)
            .with_cadence(self.cadence)
            .with_budget(TokenBudget::iters(self.turns).with_max_total_tokens(self.tokens))
            .with_maker_prompt(self.maker)
            .with_checker_prompt(self.checker)
            .with_action_kind(self.kind)
    }
}

const DAILY_TRIAGE: Pattern = Pattern {
    name: "daily-triage",
    intent: "Show the team each morning what needs a person today.",
    level: L1Report,
    cadence: "daily 09:00",
    turns: 10,
    tokens: 200_000,
    kind: "report",
    maker: "Look through open issues, failing checks, branches without recent commits, and notes left in the code. \
            Write a short list: what, where, why today. Leave out what can wait.",
    checker: "Open each entry of the list at its place. Strike what is not there any more, is not urgent, or has no place.",
};

const PR_BABYSITTER: Pattern = Pattern {
    name: "pr-babysitter",
    intent: "Keep open pull requests from getting stuck.",
    level: L1Report,
    cadence: "every 10m",
    turns: 8,
    tokens: 150_000,
    kind: "comment",
    maker: "Find pull requests that cannot move: red checks, conflicts, questions without an answer, a day of silence. \
            Name only those, each with the one next action and who can do it.",
    checker: "For each pull request named, confirm that it is still stuck and that the action would free it.",
};

const CI_SWEEPER: Pattern = Pattern {
    name: "ci-sweeper",
    intent: "Keep the default branch green.",
    level: L2Assisted,
    cadence: "every 10m",
    turns: 20,
    tokens: 400_000,
    kind: "apply-patch",
    maker: "When the default branch is red, reproduce the failure, find its cause and make the smallest change that fixes it. \
            Do not touch the tests. When you cannot reproduce it, say so and stop.",
    checker: "Build, run the tests that failed and those around them. Look for what the change breaks elsewhere and for \
              risk that its size does not show.",
};

const DEPENDENCY_SWEEPER: Pattern = Pattern {
    name: "dependency-sweeper",
    intent: "Keep dependencies current in small, verified steps.",
    level: L2Assisted,
    cadence: "daily 04:00",
    turns: 16,
    tokens: 300_000,
    kind: "open-pr",
    maker: "Take patch and minor updates that belong together as one batch, read their notes, apply them, and make the changes they need. \
            Leave major versions alone and list them.",
    checker: "Build and test with the new versions. Look for major jumps, changed licences and new install scripts.",
};

const CHANGELOG_DRAFTER: Pattern = Pattern {
    name: "changelog-drafter",
    intent: "Have release notes drafted from what was merged.",
    level: L1Report,
    cadence: "daily 18:00",
    turns: 10,
    tokens: 200_000,
    kind: "draft",
    maker: "Read what was merged since the last release and draft notes under Added, Changed and Fixed, a line each, from the \
            user's side.",
    checker: "Match every line to a merged change, and every merged change that users can see to a line.",
};

const POST_MERGE_CLEANUP: Pattern = Pattern {
    name: "post-merge-cleanup",
    intent: "Tie up loose ends that merges leave.",
    level: L1Report,
    cadence: "every 6h",
    turns: 10,
    tokens: 200_000,
    kind: "report",
    maker: "Look at what was merged lately for branches that can go, code nothing calls any more, notes that are settled, and \
            documents that no longer match. List them with their places.",
    checker: "Check that each entry is still true on the default branch and really follows from a merge.",
};

const ISSUE_TRIAGE: Pattern = Pattern {
    name: "issue-triage",
    intent: "Label, order and route new issues.",
    level: L1Report,
    cadence: "every 2h",
    turns: 8,
    tokens: 150_000,
    kind: "comment",
    maker: "For each new issue propose labels, a priority and an owner, with the sentence of the issue that says so.",
    checker: "Read each issue and weigh the proposal. Mark what a person has to decide.",
};

/// A morning list of what needs a person.
#[must_use]
pub fn daily_triage() -> LoopSpec {
    DAILY_TRIAGE.spec()
}

/// Finds stuck pull requests.
#[must_use]
pub fn pr_babysitter() -> LoopSpec {
    PR_BABYSITTER.spec()
}

/// Fixes a red default branch.
#[must_use]
pub fn ci_sweeper() -> LoopSpec {
    CI_SWEEPER.spec()
}

/// Updates dependencies in small steps.
#[must_use]
pub fn dependency_sweeper() -> LoopSpec {
    DEPENDENCY_SWEEPER.spec()
}

/// Drafts release notes.
#[must_use]
pub fn changelog_drafter() -> LoopSpec {
    CHANGELOG_DRAFTER.spec()
}

/// Lists loose ends after merges.
#[must_use]
pub fn post_merge_cleanup() -> LoopSpec {
    POST_MERGE_CLEANUP.spec()
}

/// Proposes labels and owners for new issues.
#[must_use]
pub fn issue_triage() -> LoopSpec {
    ISSUE_TRIAGE.spec()
}

/// All seven, in the order that users know.
#[must_use]
pub fn catalogue() -> Vec<LoopSpec> {
    [
        &DAILY_TRIAGE,
        &PR_BABYSITTER,
        &CI_SWEEPER,
        &DEPENDENCY_SWEEPER,
        &CHANGELOG_DRAFTER,
        &POST_MERGE_CLEANUP,
        &ISSUE_TRIAGE,
    ]
    .into_iter()
    .map(Pattern::spec)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_checks_and_round_trips() {
        let names: Vec<_> = catalogue().iter().map(|spec| spec.name.clone()).collect();
        assert_eq!(
            names.join(" "),
            "daily-triage pr-babysitter ci-sweeper dependency-sweeper changelog-drafter post-merge-cleanup issue-triage"
        );
        for spec in catalogue() {
            let json = serde_json::to_string(&spec).expect("serialises");
            assert_eq!(serde_json::from_str::<LoopSpec>(&json).expect("reads back"), spec);
            assert!(spec.level < LoopLevel::L3Unattended);
            assert!(spec.budget.round.tokens.is_some(), "a pattern has a token ceiling");
            spec.check().expect("is valid");
        }
    }
}
