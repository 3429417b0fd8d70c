//! P6: nothing is reserved for rounds that have ended, the sums of days and of rounds are equal, and every agent that
//! started is charged for.

use super::fleet::World;
use loopwright::store::{RoundRow, SpendScope, Store, StoreError};

fn unread(why: StoreError) -> String {
    format!("the store cannot be read: {why}")
}

pub(crate) async fn adds_up(store: &Store, world: &World, rounds: &[RoundRow]) -> Result<(), String> {
    let days = world.days.lock().expect("no one panics with it").clone();
    let (mut tokens, mut micros) = (0, 0);
    for day in days {
        let spend = store.spend(SpendScope::Fleet, "", "", &day).await.map_err(unread)?;
        if spend.reserved_micros != 0 || spend.reserved_tokens != 0 {
            return Err(format!("P6: {spend:?} is still held back on {day}"));
        }
        tokens += spend.settled_tokens;
        micros += spend.settled_micros;
    }
    let sum_of = |of: fn(&RoundRow) -> i64| rounds.iter().map(of).sum::<i64>();
    let (of_tokens, of_micros) = (sum_of(|round| round.spend_tokens), sum_of(|round| round.spend_micros));
    if (tokens, micros) != (of_tokens, of_micros) {
        let days = (tokens, micros);
        return Err(format!("P6: the days have {days:?} tokens and micros, the rounds {:?}", (of_tokens, of_micros)));
    }
    for round in rounds {
        let events = store.events(&round.id).await.map_err(unread)?;
        let is_started = events.iter().any(|event| event.kind.ends_with("er-started"));
        if is_started && round.spend_tokens == 0 && round.spend_micros == 0 {
            return Err(format!("P6: an agent was started and nothing was charged: {round:?}"));
        }
    }
    Ok(())
}
