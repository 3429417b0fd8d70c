//! Creates whose answer was lost. A forge or Slack that is only late shows the item some seconds later, and accepts the
//! same text twice. So the client searches for the item several times, with pauses, before it may create it again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The pauses between the look-ups; the first look-up is immediate.
const PAUSES_MS: [i64; 2] = [1_000, 4_000];
/// An item without a search since then is forgotten.
const AGE_MAX_MS: i64 = 24 * 3_600_000;

/// The lost creates of this process, by the items' keys.
#[derive(Debug, Default)]
pub(crate) struct LostCreates(Mutex<BTreeMap<String, LostCreate>>);

#[derive(Debug)]
struct LostCreate {
    looks: usize,
    next_ms: i64,
}

impl LostCreates {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, LostCreate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a create of this item was lost.
    pub(crate) fn add(&self, key: &str, now_ms: i64) {
        let mut all = self.all();
        all.retain(|_, lost| now_ms.saturating_sub(lost.next_ms) < AGE_MAX_MS);
        all.insert(key.to_owned(), LostCreate { looks: 0, next_ms: now_ms });
    }

    /// A create of this item by an earlier process may have been lost. Known look-ups still count.
    pub(crate) fn expect(&self, key: &str, now_ms: i64) {
        if !self.all().contains_key(key) {
            self.add(key, now_ms);
        }
    }

    /// The item was found.
    pub(crate) fn remove(&self, key: &str) {
        self.all().remove(key);
    }

    /// A look-up did not find the item: the time of the next look-up, or `None` if the item may be created.
    pub(crate) fn next_look(&self, key: &str, now_ms: i64) -> Option<i64> {
        let mut all = self.all();
        let lost = all.get_mut(key)?;
        // A look-up that came too early does not count.
        if now_ms >= lost.next_ms {
            let Some(pause_ms) = PAUSES_MS.get(lost.looks) else {
                all.remove(key);
                return None;
            };
            lost.looks += 1;
            lost.next_ms = now_ms + pause_ms;
        }
        Some(lost.next_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_create_needs_look_ups_with_pauses_before_the_next_create() {
        let lost = LostCreates::default();
        assert_eq!(lost.next_look("k", 0), None, "nothing was lost");
        lost.add("k", 0);
        assert_eq!(lost.next_look("k", 0), Some(1_000));
        assert_eq!(lost.next_look("k", 999), Some(1_000), "too early");
        assert_eq!(lost.next_look("k", 1_000), Some(5_000));
        assert_eq!(lost.next_look("other", 1_000), None);
        assert_eq!(lost.next_look("k", 5_000), None);
        lost.add("k", 6_000);
        assert_eq!(lost.next_look("k", 6_000), Some(7_000));
        lost.expect("k", 7_000);
        assert_eq!(lost.next_look("k", 7_000), Some(11_000), "the first look-up still counts");
        lost.remove("k");
        assert_eq!(lost.next_look("k", 6_000), None, "it was found");
        lost.add("old", 0);
        lost.add("new", AGE_MAX_MS);
        assert_eq!(lost.all().len(), 1);
    }
}
