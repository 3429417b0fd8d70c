//! Delivery: the protocol for one item, and the local forge, which is the default receiver. Earlier stages decide what
//! may be sent; the round writes the durable claim and receipt around each delivery.

mod closed_pages;
mod connection;
mod discipline;
mod folder;
mod front;
mod local;
mod page;
mod push;
mod pushing;
mod read;

pub use connection::{ConnectedForge, ForgeConnector, PushRoute};
pub(crate) use connection::{connect_forge, origin_url};
pub use discipline::{DeliveryOutcome, PriorDelivery, deliver_one};
pub use front::PageFrontMatter;
pub use local::LocalForge;
pub use pushing::PushingDeliver;
pub(crate) use read::LocalReader;

use loopwright_core::outbox::{SanitiseRules, StagedItem, sanitise_item};
use loopwright_core::spec::ActionKind;

/// Most tools cut longer titles.
const TITLE_CHARS: usize = 72;

/// The pull request or commit of a round that changed files but staged no text: its title is the loop's intent, and its
/// body holds only the facts that the engine adds to every pull request.
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
