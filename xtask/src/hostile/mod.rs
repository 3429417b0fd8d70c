//! `cargo xtask hostile [FILTER]`: the hostile suite as root and as an ordinary user, told as a table of what was contained.
//!
//! The tests themselves are `crates/cli/tests/hostile`; this verb runs them once for each kind of user and judges nothing.

mod pass;
mod table;

use crate::command::cargo;
use crate::summary::Counts;
use pass::{Suite, Who};
use std::collections::BTreeMap;

/// How one case ended for one kind of user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The harm stayed where it was done.
    Contained,
    /// It did not, or the test never said.
    NotContained,
    /// This host cannot show it, and why.
    NotEnforceable(String),
}

/// The ends of every case, by the test's name.
type Ends = BTreeMap<String, Held>;

/// Runs the suite; fails when anything was not contained.
pub(crate) fn run(filter: &[&str]) -> Result<(), String> {
    counted(filter).1
}

/// The same, with the counts for the test command's last line.
pub(crate) fn counted(filter: &[&str]) -> (Counts, Result<(), String>) {
    match ends(filter) {
        Ok((root, user)) => judge(root.as_ref(), &user),
        Err(why) => (Counts { failed: 1, ..Counts::default() }, Err(why)),
    }
}

fn ends(filter: &[&str]) -> Result<(Option<Ends>, Ends), String> {
    let suite = Suite::build(cargo(), filter)?;
    if !rustix::process::geteuid().is_root() {
        println!("hostile: not root, so the cases run as this user only");
        return Ok((None, suite.run(&Who::Caller)?));
    }
    let root = suite.run(&Who::Caller)?;
    let user = suite.run(&Who::ordinary(&suite)?)?;
    Ok((Some(root), user))
}

fn judge(root: Option<&Ends>, user: &Ends) -> (Counts, Result<(), String>) {
    print!("{}", table::show(root, user));
    let mut counts = Counts::default();
    for held in root.into_iter().flatten().chain(user).map(|(_, held)| held) {
        match held {
            Held::Contained => counts.passed += 1,
            Held::NotContained => counts.failed += 1,
            Held::NotEnforceable(_) => counts.skipped += 1,
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

    fn ends(held: &[(&str, Held)]) -> Ends {
        held.iter().map(|(name, held)| ((*name).to_owned(), held.clone())).collect()
    }

    #[test]
    fn one_case_that_was_not_contained_fails_the_suite() {
        let fine = ends(&[("a::h001_x", Held::Contained), ("a::h002_y", Held::NotEnforceable("no cgroup".to_owned()))]);
        let (counts, ended) = judge(Some(&fine), &fine);
        assert_eq!((counts, ended), (Counts { passed: 2, failed: 0, skipped: 2 }, Ok(())));
        let (counts, ended) = judge(Some(&fine), &ends(&[("a::h001_x", Held::NotContained)]));
        assert_eq!((counts.failed, ended), (1, Err("1 not contained".to_owned())));
    }

    #[test]
    fn suite_in_which_nothing_ran_is_no_success() {
        assert!(judge(None, &Ends::new()).1.is_err());
    }
}
