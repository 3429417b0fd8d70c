//! The table: number, case, and its end for root and for an ordinary user.

use super::{CaseResults, ContainmentResult};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The families of the catalogue that this suite covers, by their last number.
const FAMILIES: [(u32, &str); 10] = [
    (46, "A-C crashes, clocks, disks"),
    (62, "D git and the workspace"),
    (81, "E agent processes"),
    (100, "F false success"),
    (120, "G forgery and confinement"),
    (133, "H secrets and exfiltration"),
    (146, "I prompt injection"),
    (153, "J strange output"),
    (164, "K budget and runaway"),
    (u32::MAX, "L-R delivery, people, specs"),
];

/// The whole text, ending in one line of totals.
pub(super) fn render_table(root: Option<&CaseResults>, user: &CaseResults) -> String {
    let names: BTreeSet<(Option<u32>, &str)> =
        root.into_iter().flatten().chain(user).map(|(name, _)| (number(name), name.as_str())).collect();
    let mut text = format!("\n{:<4} {:<96} {:<24} {:<24}\n", "no.", "case", "root", "user");
    for (number, name) in &names {
        let number = number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (as_root, as_user) = (root.and_then(|ends| ends.get(*name)), user.get(*name));
        let _ = writeln!(text, "{number:<4} {:<96} {:<24} {:<24}", case(name), word(as_root), word(as_user));
    }
    text += &families(&names);
    text += &reasons(root.into_iter().flatten().chain(user));
    text + &totals("root", root) + &totals("user", Some(user))
}

/// The catalogue's number: `paths::h058_a_fifo` has 58.
fn number(name: &str) -> Option<u32> {
    let last = name.rsplit("::").next()?;
    last.strip_prefix('h')?.split('_').next()?.parse().ok()
}

fn case(name: &str) -> String {
    let last = name.rsplit("::").next().unwrap_or(name);
    let words = number(name).and_then(|_| last.split_once('_')).map_or(last, |(_, rest)| rest);
    words.replace('_', " ")
}

fn word(held: Option<&ContainmentResult>) -> &'static str {
    match held {
        Some(ContainmentResult::Contained) => "contained",
        Some(ContainmentResult::NotContained) => "NOT CONTAINED",
        Some(ContainmentResult::NotEnforceable(_)) => "not enforceable here",
        None => "not run",
    }
}

fn families(names: &BTreeSet<(Option<u32>, &str)>) -> String {
    let mut cases: BTreeMap<usize, (BTreeSet<u32>, usize)> = BTreeMap::new();
    for number in names.iter().filter_map(|(number, _)| *number) {
        let family = FAMILIES.iter().position(|(last, _)| number <= *last).unwrap_or(0);
        let (numbers, count) = cases.entry(family).or_default();
        numbers.insert(number);
        *count += 1;
    }
    let line = |(family, (numbers, count)): (&usize, &(BTreeSet<u32>, usize))| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        format!("{}: {count} cases of {}\n", FAMILIES[*family].1, numbers.join(" "))
    };
    std::iter::once("\n".to_owned()).chain(cases.iter().map(line)).collect()
}

fn reasons<'e>(ends: impl Iterator<Item = (&'e String, &'e ContainmentResult)>) -> String {
    let reasons: BTreeSet<String> = ends
        .filter_map(|(name, held)| match held {
            ContainmentResult::NotEnforceable(reason) => {
                Some(format!("not enforceable here: {}: {reason}\n", case(name)))
            }
            ContainmentResult::Contained | ContainmentResult::NotContained => None,
        })
        .collect();
    reasons.into_iter().collect()
}

fn totals(who: &str, ends: Option<&CaseResults>) -> String {
    let Some(ends) = ends else { return format!("{who}: not run\n") };
    let count = |wanted: &str| ends.values().filter(|held| word(Some(held)) == wanted).count();
    format!(
        "{who}: {} contained, {} not contained, {} not enforceable here\n",
        count("contained"),
        count("NOT CONTAINED"),
        count("not enforceable here")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_lists_every_case_for_both_users_and_adds_up() {
        let root =
            [("a::h058_a_fifo", ContainmentResult::Contained), ("a::plain_case", ContainmentResult::NotContained)];
        let user = [("a::h058_a_fifo", ContainmentResult::NotEnforceable("no overlay".to_owned()))];
        let ends = |all: &[(&str, ContainmentResult)]| {
            all.iter().map(|(n, h)| ((*n).to_owned(), h.clone())).collect::<CaseResults>()
        };
        let text = render_table(Some(&ends(&root)), &ends(&user));
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).expect("the row is there").to_owned();
        assert!(row("58 ").contains("a fifo") && row("58 ").contains("not enforceable here"), "{text}");
        assert!(row("-  ").contains("plain case") && row("-  ").contains("NOT CONTAINED"), "{text}");
        assert!(row("-  ").trim_end().ends_with("not run"), "{text}");
        assert!(text.contains("not enforceable here: a fifo: no overlay"), "{text}");
        assert!(text.contains("root: 1 contained, 1 not contained, 0 not enforceable here"), "{text}");
        assert!(text.ends_with("user: 0 contained, 0 not contained, 1 not enforceable here\n"), "{text}");
    }

    #[test]
    fn numbers_come_from_names() {
        assert_eq!(number("paths::h058_a_fifo"), Some(58));
        assert_eq!((number("paths::hardlink_of_x"), number("paths::h_x")), (None, None));
        assert_eq!(case("paths::h058_a_fifo_is_refused"), "a fifo is refused");
        assert_eq!(case("paths::hardlink_of_x"), "hardlink of x");
    }
}
