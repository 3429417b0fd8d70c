//! Skills of loop-harness: text for the maker, which is copied as it is. This module finds the parts of a skill that
//! cannot work here, and the sentence that says what its loop is for.

use crate::import::ImportNotes;

/// The most lines of one skill that are reported.
const REPORTED_MAX: usize = 5;
/// The longest intent that is taken from a skill.
const INTENT_MAX: usize = 200;

/// The first sentence of a skill that can serve as an intent.
pub(super) fn intent(text: &str) -> Option<String> {
    let is_prose = |line: &&str| line.starts_with(|c: char| c.is_alphabetic()) && line.split_whitespace().count() > 2;
    let body = without_front_matter(text);
    let line = body.lines().map(str::trim).find(is_prose)?;
    let sentence = line.split_inclusive(['.', '!', '?']).next().unwrap_or(line).trim();
    let clean: String = sentence.chars().filter(|c| !c.is_control() && !matches!(c, '*' | '`' | '_')).collect();
    (clean.chars().count() <= INTENT_MAX).then_some(clean)
}

/// The text below the front matter, if there is one.
fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("---\n") else { return text };
    rest.split_once("\n---\n").map_or(text, |(_, body)| body)
}

/// Words of a skill that have no effect here, with the reason.
const WITHOUT_EFFECT: [(&str, &str); 5] = [
    (
        "LOOP_CONNECTORS",
        "connectors are not run: the item of the round has the data, and the executor sends the outputs",
    ),
    ("LOOP_WORKTREE_ROOT", "a round works in a private copy below the state directory"),
    ("gh ", "an agent has neither a token nor the network: the probe reads the forge, and the executor sends"),
    ("git push", "an agent cannot push: the engine sends the files that passed"),
    ("VERDICT:", "the checker's verdict comes through its own file; a printed verdict is ignored"),
];

/// Notes the lines of a skill that cannot work here.
pub(super) fn examine(file: &str, text: &str, notes: &mut ImportNotes) {
    let found = text.lines().enumerate().filter_map(|(at, line)| {
        let (word, why) = WITHOUT_EFFECT.into_iter().find(|(word, _)| has_word(line, word))?;
        Some((at + 1, word.trim(), why))
    });
    let found: Vec<_> = found.collect();
    for (line, word, why) in found.iter().take(REPORTED_MAX) {
        notes.not_carried(&format!("{file}:{line}"), word, *why);
    }
    if found.len() > REPORTED_MAX {
        let more =
            format!("{} more lines of this skill have words that have no effect here", found.len() - REPORTED_MAX);
        notes.not_carried(file, "skill", more);
    }
}

/// Whether a line has a word that does not continue another word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intent_is_the_first_sentence_of_prose() {
        let skill = "# Groom\n\n- a list of things\nYou keep the **issue list** tidy. Then more.\n";
        assert_eq!(intent(skill).as_deref(), Some("You keep the issue list tidy."));
        assert_eq!(intent("---\nname: an x y\n---\nKeep it green always\n").as_deref(), Some("Keep it green always"));
        assert_eq!(intent("# Only\n\n- bullets here and\n"), None);
        assert_eq!(intent(&"word ".repeat(100)), None);
    }

    #[test]
    fn words_without_effect_are_reported_with_their_lines() {
        let mut notes = ImportNotes::default();
        examine("skills/a.md", "one\nrun `gh pr list`\nhigh gh\n\"$LOOP_CONNECTORS/github.sh\"\n", &mut notes);
        let found: Vec<_> = notes.0.iter().map(|note| (note.source.as_str(), note.key.as_str())).collect();
        assert_eq!(found, [("skills/a.md:2", "gh"), ("skills/a.md:4", "LOOP_CONNECTORS")]);
        let mut notes = ImportNotes::default();
        examine("skills/a.md", &"gh issue list\n".repeat(9), &mut notes);
        assert_eq!((notes.0.len(), notes.0[5].text.starts_with("4 more lines")), (6, true));
    }
}
