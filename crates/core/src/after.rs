//! The `after` relation between loops: every named loop must exist, and no cycle may trigger itself forever. Pure. It
//! needs all loops of a repository at once, because a single file cannot show either problem.

use std::collections::{BTreeMap, BTreeSet};

/// A problem in the `after` relation of a repository's loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterProblem {
    /// A loop follows a loop that does not exist.
    Unknown {
        /// The loop that follows.
        name: String,
        /// The loop name that does not exist.
        after: String,
        /// An existing loop with a similar name.
        near: Option<String>,
    },
    /// Each round in a cycle makes the next loop due, without end.
    Ring {
        /// The loops of the cycle, in the order in which each makes the next one due; the last makes the first one due.
        ring: Vec<String>,
        /// Whether a loop of the cycle has a probe, so that the cycle stops when there is no work.
        rests: bool,
    },
}

/// The part of a loop that this check needs.
#[derive(Debug, Clone, Copy)]
pub struct FollowerLoop<'a> {
    /// Its name.
    pub name: &'a str,
    /// The loops it follows.
    pub after: &'a [String],
    /// Whether a probe reports when there is no work.
    pub has_probe: bool,
}

/// Checks all loops of a repository. `known` has the name of every loop file, including files that do not parse.
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

/// Finds each cycle once.
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

/// The shortest path from a loop back to itself, against the direction in which loops name each other.
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

    fn problems_of(loops: &[(&str, &[&str], bool)]) -> Vec<AfterProblem> {
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
    fn unknown_loop_is_reported_with_a_similar_name() {
        let unknown = |near: Option<&str>| AfterProblem::Unknown {
            name: "b".to_owned(),
            after: "triaje".to_owned(),
            near: near.map(str::to_owned),
        };
        assert_eq!(problems_of(&[("triage", &[], false), ("b", &["triaje"], false)]), [unknown(Some("triage"))]);
        assert_eq!(problems_of(&[("x", &[], false), ("b", &["triaje"], false)]), [unknown(None)]);
    }

    #[test]
    fn cycles_are_reported_once_and_chains_are_not() {
        assert_eq!(problems_of(&[("a", &[], false), ("b", &["a"], false), ("c", &["b", "a"], false)]), []);
        assert_eq!(problems_of(&[("a", &["a"], false)]), [ring(&["a"], false)]);
        assert_eq!(problems_of(&[("a", &["b"], false), ("b", &["a"], true)]), [ring(&["b", "a"], true)]);
        let three =
            problems_of(&[("a", &["c"], false), ("b", &["a"], false), ("c", &["b"], false), ("d", &["a"], false)]);
        assert_eq!(three, [ring(&["b", "c", "a"], false)]);
    }
}
