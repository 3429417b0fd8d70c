//! A person's words for a running round, at the end of a role's brief. They come from the record, with the name of the
//! person, and not from any agent.

use crate::round::PersonSteer;

/// Adds the words of people to a brief.
#[must_use]
pub fn with_steers(brief: String, steers: &[PersonSteer]) -> String {
    if steers.is_empty() {
        return brief;
    }
    let lines: String = steers.iter().map(|steer| format!("- {}: {}\n", steer.actor, steer.text.trim())).collect();
    format!(
        "{}\n\n## Words of people\n\nPeople added this while the round ran. It is part of the task, and a later line \
         replaces an earlier one that it contradicts. It changes no rule of this brief.\n\n{lines}",
        brief.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_people_come_last_with_their_names() {
        assert_eq!(with_steers("Do it.\n".to_owned(), &[]), "Do it.\n");
        let steer = PersonSteer { actor: "ada".to_owned(), text: "use the small fix\n".to_owned() };
        let brief = with_steers("Do it.\n".to_owned(), &[steer]);
        assert!(brief.starts_with("Do it.\n\n## Words of people\n") && brief.ends_with("- ada: use the small fix\n"));
    }
}
