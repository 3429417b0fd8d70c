//! Why no worker has taken an offered round yet, from the record alone.

use super::{CommandError, Store};
use loopwright::store::{KnownWorker, OfferPlace};

/// The reason why an offered round waits; `None` for a round that is not offered, or that a worker has taken.
pub(crate) async fn offered_text(store: &Store, round: &str) -> Result<Option<String>, CommandError> {
    let Some(offer) = store.offer(round).await?.filter(|offer| offer.worker.is_none()) else { return Ok(None) };
    let workers = store.workers().await?;
    Ok(Some(match serde_json::from_str::<OfferPlace>(&offer.place) {
        Ok(place) => format!("round {round} waits for {}: {}", place.needs.text(), gaps(&place, &workers)),
        Err(error) => format!("round {round} is offered to the workers, and its needs cannot be read: {error}"),
    }))
}

fn gaps(place: &OfferPlace, workers: &[KnownWorker]) -> String {
    let connected = || workers.iter().filter(|worker| worker.is_connected()).map(KnownWorker::member);
    if connected().any(|member| place.needs.gap(&member).is_none()) {
        return "one takes it when it has a free slot, the repository and the boundary of the round".to_owned();
    }
    let gap = |member| place.needs.gap(&member).map(|gap| format!("{} {}", member.name, gap.text()));
    let gaps: Vec<String> = connected().filter_map(gap).collect();
    if gaps.is_empty() { "no worker is connected".to_owned() } else { gaps.join("; ") }
}
