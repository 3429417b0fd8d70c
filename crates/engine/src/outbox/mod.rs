//! The way out: one delivery with its discipline, and the local forge that receives by default. What may be sent was
//! decided before; the durable claim and receipt around each delivery are the round's.

mod discipline;
mod folder;
mod front;
mod local;
mod page;
mod push;
mod pushing;
mod read;

pub use discipline::{DeliveryOutcome, PriorDelivery, deliver_one};
pub use front::PageFrontMatter;
pub use local::LocalForge;
pub use pushing::PushingDeliver;
pub(crate) use read::LocalReader;

use loopwright_core::outbox::{SanitiseRules, StagedItem, sanitise_item};
use loopwright_core::spec::ActionKind;

/// Titles of more characters are cut by most tools.
const TITLE_CHARS: usize = 72;

/// The pull request or commit of a round that changed files and staged no words: the loop's intent as its title, and the
/// engine's facts, which every pull request carries, as its only text.
#[must_use]
pub fn default_item(kind: ActionKind, position: u32, intent: &str) -> StagedItem {
    let words = intent.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut title: String = words.chars().take(TITLE_CHARS).collect();
    if title.len() < words.len() {
        title.pop();
        title.push('…');
    }
    let item = StagedItem { title: Some(title), ..StagedItem::new(position, format!("{kind}.md"), kind, "") };
    sanitise_item(&item, &SanitiseRules::default()).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_title_is_the_intent_cut_to_one_short_line() {
        let title = |intent: &str| default_item(ActionKind::PullRequest, 1, intent).title.expect("it has a title");
        assert_eq!(title("Keep the\n docs true"), "Keep the docs true");
        assert_eq!(title("fixes #12"), "fixes # 12");
        let long = title(&"ä".repeat(100));
        assert_eq!(long.chars().count(), TITLE_CHARS);
        assert!(long.ends_with('…'));
    }
}
