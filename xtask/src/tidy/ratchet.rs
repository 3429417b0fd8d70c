//! Numbers that may only fall. They are in one file, which `cargo xtask tidy --bless` rewrites after they have fallen.

use super::LengthRatchet;
use std::collections::BTreeMap;
use std::path::Path;

const FILE: &str = "xtask/ratchet.txt";

/// Compares today's numbers with the recorded ones, or records them.
pub(crate) fn check(root: &Path, today: &[(&str, usize)], ratchet: LengthRatchet) -> Result<Vec<String>, String> {
    let file = root.join(FILE);
    if ratchet == LengthRatchet::Bless {
        let text: String = today.iter().map(|(name, number)| format!("{name} {number}\n")).collect();
        std::fs::write(file, text).map_err(|error| format!("write `{FILE}`: {error}"))?;
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(file).map_err(|error| format!("read `{FILE}`: {error}"))?;
    Ok(risen(&parse(&text), today))
}

fn parse(text: &str) -> BTreeMap<&str, usize> {
    let rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.filter_map(|(name, number)| Some((name, number.trim().parse().ok()?))).collect()
}

fn risen(known: &BTreeMap<&str, usize>, today: &[(&str, usize)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, number) in today {
        match known.get(name) {
            None => findings.push(format!("{FILE} has no line for `{name}`")),
            Some(limit) if number > limit => findings.push(format!("`{name}` rose from {limit} to {number}")),
            Some(_) => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_fall_and_not_rise() {
        let known = parse("shared-names 90\nwording 4\n");
        assert_eq!(risen(&known, &[("shared-names", 90), ("wording", 3)]), Vec::<String>::new());
        assert_eq!(risen(&known, &[("shared-names", 91), ("unknown", 0)]).len(), 2);
    }
}
