//! Loops that follow loops: whether every one that is named is there, and whether following ever ends. Pure; a repository's
//! loops are looked at together, because no file can know this alone.

use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with how a repository's loops follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterProblem {
    /// A loop waits for one that is not there.
    Unknown {
        /// The loop that waits.
        name: String,
        /// The one it names.
        after: String,
        /// One with a similar name.
        near: Option<String>,
    },
    /// Each round of a ring makes the next one due, without end.
    Ring {
        /// The loops, in the order in which each makes the next one due; the first comes again after the last.
        ring: Vec<String>,
        /// Whether one of them has a probe, so that the ring rests when there is no work.
        rests: bool,
    },
}

/// A loop as far as this goes.
#[derive(Debug, Clone, Copy)]
pub struct FollowerLoop<'a> {
    /// Its name.
    pub name: &'a str,
    /// The loops it follows.
    pub after: &'a [String],
    /// Whether a probe says when there is no work.
    pub has_probe: bool,
}

/// Looks at all loops of a repository. `known` has every name that is there, also of files that cannot be used as they are.
#[must_use]
pub fn problems(loops: &[FollowerLoop<'_>], known: &BTreeSet<&str>) -> Vec<AfterProblem> {
    let mut found = Vec::new();
    for one in loops {
        for after in one.after.iter().filter(|after| !known.contains(after.as_str())) {
            let near = crate::spec::reader::value::nearest(after, known.iter().copied()).map(str::to_owned);
            found.push(AfterProblem::Unknown { name: one.name.to_owned(), after: after.clone(), near });
        }
    }
    found.extend(rings(loops));
    found
}

/// Every ring once.
fn rings(loops: &[FollowerLoop<'_>]) -> Vec<AfterProblem> {
    let by_name: BTreeMap<&str, &FollowerLoop<'_>> = loops.iter().map(|one| (one.name, one)).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for start in by_name.keys() {
        let Some(ring) = way_back(start, &by_name) else { continue };
        let mut members = ring.clone();
        members.sort_unstable();
        if seen.insert(members) {
            let rests = ring.iter().any(|name| by_name.get(name).is_some_and(|one| one.has_probe));
            found.push(AfterProblem::Ring { ring: ring.into_iter().map(str::to_owned).collect(), rests });
        }
    }
    found
}

/// The shortest way from a loop back to itself, against the direction in which loops name each other.
fn way_back<'a>(start: &'a str, by_name: &BTreeMap<&'a str, &FollowerLoop<'a>>) -> Option<Vec<&'a str>> {
    let followed = |name: &str| {
        by_name
            .get(name)
            .into_iter()
            .flat_map(|one| one.after)
            .filter_map(|after| by_name.get_key_value(after.as_str()))
    };
    let mut ways: Vec<Vec<&str>> = vec![vec![start]];
    let mut reached = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for (next, _) in followed(way.last().copied().unwrap_or(start)) {
                if *next == start {
                    return Some(way.into_iter().rev().collect());
                }
                if reached.insert(*next) {
                    longer.push([way.as_slice(), &[*next]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(loops: &[(&str, &[&str], bool)]) -> Vec<AfterProblem> {
        let after: Vec<Vec<String>> =
            loops.iter().map(|(_, after, _)| after.iter().map(|name| (*name).to_owned()).collect()).collect();
        let followers: Vec<FollowerLoop<'_>> = loops
            .iter()
            .zip(&after)
            .map(|((name, _, has_probe), after)| FollowerLoop { name, after, has_probe: *has_probe })
            .collect();
        problems(&followers, &loops.iter().map(|(name, ..)| *name).collect())
    }

    fn ring(names: &[&str], rests: bool) -> AfterProblem {
        AfterProblem::Ring { ring: names.iter().map(|name| (*name).to_owned()).collect(), rests }
    }

    #[test]
    fn loop_that_nobody_has_is_named_with_one_that_is_near() {
        let unknown = |near: Option<&str>| AfterProblem::Unknown {
            name: "b".to_owned(),
            after: "triaje".to_owned(),
            near: near.map(str::to_owned),
        };
        assert_eq!(told(&[("triage", &[], false), ("b", &["triaje"], false)]), [unknown(Some("triage"))]);
        assert_eq!(told(&[("x", &[], false), ("b", &["triaje"], false)]), [unknown(None)]);
    }

    #[test]
    fn rings_are_found_once_and_chains_are_none() {
        assert_eq!(told(&[("a", &[], false), ("b", &["a"], false), ("c", &["b", "a"], false)]), []);
        assert_eq!(told(&[("a", &["a"], false)]), [ring(&["a"], false)]);
        assert_eq!(told(&[("a", &["b"], false), ("b", &["a"], true)]), [ring(&["b", "a"], true)]);
        let three = told(&[("a", &["c"], false), ("b", &["a"], false), ("c", &["b"], false), ("d", &["a"], false)]);
        assert_eq!(three, [ring(&["b", "c", "a"], false)]);
    }
}
