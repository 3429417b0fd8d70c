//! Acknowledgements of the daemon, which must be on record after any crash: pauses, the global stop, stored events.

use super::fleet::World;
use loopwright::EngineError;
use loopwright::daemon::STOP_FLAG;
use loopwright::round::SignalNovelty;
use loopwright::store::{FlagRow, ScheduleRow, SignalRow, Store, StoreError};
use std::collections::BTreeSet;

/// The acknowledged state, where no later request may have changed it.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Loops that are paused.
    paused: BTreeSet<String>,
    /// Whether everything is stopped.
    is_stopped: Option<bool>,
    /// Stored events, by loop and key.
    heard: BTreeSet<(String, String)>,
}

/// The answer; `None` if the daemon did not answer.
pub(crate) type Answer<T> = Option<Result<T, EngineError>>;

impl Said {
    pub(crate) fn pause(&mut self, loop_name: &str, answer: &Answer<()>) {
        if let Some(Ok(())) = answer {
            self.paused.insert(loop_name.to_owned());
        }
    }

    /// The state is unknown from now on: the breaker may pause it again at once.
    pub(crate) fn resume(&mut self, loop_name: &str) {
        self.paused.remove(loop_name);
    }

    pub(crate) fn stop(&mut self, answer: &Answer<()>) {
        self.is_stopped = matches!(answer, Some(Ok(()))).then_some(true);
    }

    pub(crate) fn thaw(&mut self, answer: &Answer<()>) {
        self.is_stopped = matches!(answer, Some(Ok(()))).then_some(false);
    }

    /// Whether a global stop was acknowledged.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped == Some(true)
    }

    /// Records a stored event; the same event is new only once.
    pub(crate) fn hear(&mut self, signal: &SignalRow, answer: &Answer<SignalNovelty>) -> Result<(), String> {
        let key = (signal.loop_name.clone(), signal.key.clone());
        match answer {
            Some(Ok(SignalNovelty::First)) if self.heard.contains(&key) => {
                Err(format!("P1: {key:?} is heard a second time"))
            }
            Some(Ok(_)) => {
                self.heard.insert(key);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// P2: an acknowledged change is never lost.
    pub(crate) async fn holds(&self, store: &Store, world: &World) -> Result<(), String> {
        let rows = store.schedules().await.map_err(unread)?;
        self.stands(&rows, &store.flags().await.map_err(unread)?)?;
        for (name, key) in &self.heard {
            if store.signal(&world.ground.repo_id, name, key).await.map_err(unread)?.is_none() {
                return Err(format!("P2: the event {key} of {name} was acknowledged and is lost"));
            }
        }
        Ok(())
    }

    /// The same for pauses and stops, which may come and go; a lost event stays lost.
    pub(crate) fn stands(&self, rows: &[ScheduleRow], flags: &[FlagRow]) -> Result<(), String> {
        for name in &self.paused {
            let row = rows.iter().find(|row| row.loop_name == *name);
            if row.is_none_or(|row| row.paused_ms.is_none()) {
                return Err(format!("P2: the pause of {name} was acknowledged and is lost: {row:?}"));
            }
        }
        let is_stopped = flags.iter().any(|flag| flag.name == STOP_FLAG);
        if self.is_stopped.is_some_and(|said| said != is_stopped) {
            return Err(format!("P2: a stop or thaw was acknowledged and is lost; stopped is {is_stopped}"));
        }
        Ok(())
    }
}

fn unread(why: StoreError) -> String {
    format!("the store cannot be read: {why}")
}
