//! Words in a text with which people switch a CI system off. A title or a text of a pull request becomes the message of
//! a merge commit, so an agent's words could keep the checks of a forge from running. Code and quotations do not protect:
//! CI systems read a message without Markdown.

use super::sanitise::pattern;
use regex::Regex;
use std::sync::LazyLock;

/// The systems and steps that people name in such words.
const SYSTEMS: &str = "ci|cd|actions|checks?|tests?|build|deploy|pipelines?|workflows?|github[ _-]actions|appveyor|azp|\
                       azurepipelines|buildkite|cf-pages|circle|circleci|cirrus|codebuild|drone|jenkins|netlify|render|\
                       semaphore|travis|vercel|woodpecker";

/// Writes the words without their effect, and counts them: `[skip ci]` becomes `(skip ci)`.
pub(super) fn disarm(text: &str) -> (String, usize) {
    static BRACKETS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r"(?i)\[(\s*(?:(?:skip|no|off)[\s_-]+(?:{SYSTEMS})|(?:{SYSTEMS})[\s_-]+(?:skip|no|off))\s*)\]"
        ))
    });
    static STARS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\*\*\*(NO_CI)\*\*\*"));
    static TRAILER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?im)^([\s>]*skip-checks)\s*:"));
    let (mut text, mut count) = (text.to_owned(), 0);
    for (words, with) in [(&BRACKETS, "(${1})"), (&STARS, "*** ${1} ***"), (&TRAILER, "${1} =")] {
        count += words.find_iter(&text).count();
        text = words.replace_all(&text, with).into_owned();
    }
    (text, count)
}
