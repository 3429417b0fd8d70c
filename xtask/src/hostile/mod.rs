//! `cargo xtask hostile [FILTER]`: the hostile suite as root and as an ordinary user, with a table of the contained
//! cases.
//!
//! The tests themselves are in `crates/cli/tests/hostile`; this verb runs them once for each kind of user and judges
//! nothing.

mod pass;
mod table;

use crate::command::cargo;
use crate::summary::TestCounts;
use pass::{HostileSuite, SuiteUser};
use std::collections::BTreeMap;

/// The end of one case for one kind of user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContainmentResult {
    /// The attack had no effect outside.
    Contained,
    /// The attack had an effect, or the test did not report an end.
    NotContained,
    /// This host cannot run the case; with the reason.
    NotEnforceable(String),
}

/// The ends of every case, by the test's name.
type CaseResults = BTreeMap<String, ContainmentResult>;

/// Runs the suite; fails if any case was not contained.
pub(crate) fn run(filter: &[&str]) -> Result<(), String> {
    run_counted(filter).1
}

/// Runs the suite and returns the counts for the test command's last line.
pub(crate) fn run_counted(filter: &[&str]) -> (TestCounts, Result<(), String>) {
    match run_suite(filter) {
        Ok((root, user)) => judge(root.as_ref(), &user),
        Err(why) => (TestCounts { failed: 1, ..TestCounts::default() }, Err(why)),
    }
}

fn run_suite(filter: &[&str]) -> Result<(Option<CaseResults>, CaseResults), String> {
    let suite = HostileSuite::build(cargo(), filter)?;
    if !rustix::process::geteuid().is_root() {
        println!("hostile: not root, so the cases run as this user only");
        return Ok((None, suite.run(&SuiteUser::Caller)?));
    }
    let root = suite.run(&SuiteUser::Caller)?;
    let user = suite.run(&SuiteUser::ordinary(&suite)?)?;
    Ok((Some(root), user))
}

fn judge(root: Option<&CaseResults>, user: &CaseResults) -> (TestCounts, Result<(), String>) {
    print!("{}", table::render_table(root, user));
    let mut counts = TestCounts::default();
    for held in root.into_iter().flatten().chain(user).map(|(_, held)| held) {
        match held {
            ContainmentResult::Contained => counts.passed += 1,
            ContainmentResult::NotContained => counts.failed += 1,
            ContainmentResult::NotEnforceable(_) => counts.skipped += 1,
        }
    }
    let ended = match (counts.failed, counts.passed) {
        (0, 0) => Err("no case ran".to_owned()),
        (0, _) => Ok(()),
        (failed, _) => Err(format!("{failed} not contained")),
    };
    (counts, ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(held: &[(&str, ContainmentResult)]) -> CaseResults {
        held.iter().map(|(name, held)| ((*name).to_owned(), held.clone())).collect()
    }

    #[test]
    fn one_case_that_was_not_contained_fails_the_suite() {
        let fine = ends(&[
            ("a::h001_x", ContainmentResult::Contained),
            ("a::h002_y", ContainmentResult::NotEnforceable("no cgroup".to_owned())),
        ]);
        let (counts, ended) = judge(Some(&fine), &fine);
        assert_eq!((counts, ended), (TestCounts { passed: 2, failed: 0, skipped: 2 }, Ok(())));
        let (counts, ended) = judge(Some(&fine), &ends(&[("a::h001_x", ContainmentResult::NotContained)]));
        assert_eq!((counts.failed, ended), (1, Err("1 not contained".to_owned())));
    }

    #[test]
    fn suite_in_which_nothing_ran_is_no_success() {
        assert!(judge(None, &CaseResults::new()).1.is_err());
    }
}
