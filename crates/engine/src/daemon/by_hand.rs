//! Pause, resume, the global stop and its end where no daemon runs: the same rows and events as a daemon writes, so that the
//! next one finds them.

use super::Thawed;
use super::keep::{self, Keeping};
use super::letters::STOP_FLAG;
use super::open;
use super::stop::StopFile;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::{Change, FlagRow, NewEvent};
use loopwright_core::dispatch::{Command, Dispatcher, Entry, Input, Limits, LoopKey, Paused, Standing};

impl Engine {
    /// Nothing of the loop starts by itself from now on. `fingerprint` is its cadence's, for a loop that never stood anywhere.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn pause_loop(&self, key: &LoopKey, fingerprint: &str, by: &str, why: &str) -> Result<(), EngineError> {
        let now_ms = self.now_ms();
        let row = self.store.schedule(&key.repo, &key.name).await?;
        let standing = row.map_or_else(|| Standing::new(key.clone(), fingerprint, now_ms), keep::standing);
        let paused = Paused { since_ms: now_ms, by: by.to_owned(), why: why.to_owned() };
        let standing = Standing { paused: Some(paused), ..standing };
        let changes = vec![Change::Schedule(keep::schedule_row(&standing))];
        self.keep_by_hand(keep::event("loop-paused", Some(key), by, why), changes).await
    }

    /// The loop starts by itself again, its failures and waits forgotten; says whether it was paused or waited. What was due
    /// meanwhile gets its receipts, as far as `entry` says what that was.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn resume_loop(&self, key: &LoopKey, entry: Option<Entry>, by: &str) -> Result<bool, EngineError> {
        let now_ms = self.now_ms();
        let row = self.store.schedule(&key.repo, &key.name).await?;
        let waits = |standing: &Standing| standing.wait.as_ref().is_some_and(|wait| wait.until_ms > now_ms);
        let is_held = |standing: &Standing| standing.paused.is_some() || waits(standing);
        let Some(standing) = row.map(keep::standing).filter(is_held) else { return Ok(false) };
        let fresh = Standing { paused: None, streak: 0, signature: None, wait: None, ..standing.clone() };
        let mut kept = meanwhile(standing, entry, key, now_ms);
        if kept.is_empty() {
            kept.extend(keep::keepings(Vec::new(), vec![fresh], &[]));
        }
        if let Some(last) = kept.last_mut() {
            last.event = Some(keep::event("loop-resumed", Some(key), by, ""));
            last.answered = Some(keep::question_id(key));
        }
        for keeping in kept {
            keep::write(self.clone(), keeping).await?;
        }
        Ok(true)
    }

    /// The global stop: nothing starts by itself until [`Engine::thaw_all`].
    ///
    /// # Errors
    /// When neither the file nor the row can be written.
    pub async fn stop_all(&self, by: &str, why: &str) -> Result<(), EngineError> {
        let flag =
            FlagRow { name: STOP_FLAG.to_owned(), at_ms: self.now_ms(), actor: by.to_owned(), why: why.to_owned() };
        StopFile::of(&self.places).write(&self.places, why)?;
        self.keep_by_hand(keep::event("all-stopped", None, by, why), vec![Change::Flag(flag)]).await
    }

    /// Ends the global stop, and takes a clock as it is that was not believed; says which there was. What was due of
    /// these loops under it gets its receipts, one each, before the stop is gone: no later start finds it and makes up for it.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn thaw_all(&self, entries: Vec<Entry>, by: &str) -> Result<Thawed, EngineError> {
        let file = StopFile::of(&self.places);
        let flag = self.store.flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
        let frozen = flag.map(open::frozen_by).or_else(|| open::frozen_by_file(&file, self.now_ms()));
        let was_stopped = frozen.is_some();
        let mut dispatcher = open::dispatcher(self, Limits::default(), frozen).await?;
        let now_ms = self.now_ms();
        let clock = dispatcher.disbelieved_by(now_ms).map(|ahead_ms| (ahead_ms, by.to_owned()));
        let thawed = Thawed { was_stopped, was_clock_behind: clock.is_some() };
        if !thawed.is_something() {
            return Ok(thawed);
        }
        let mut commands = dispatcher.step(now_ms, Input::Loops(entries));
        // The end of a stop is also a person's word for a clock that was not believed. Nothing is started here.
        commands.extend(dispatcher.step(now_ms, Input::Thaw));
        for keeping in kept(commands) {
            keep::write(self.clone(), keeping).await?;
        }
        file.remove()?;
        let changes = vec![Change::FlagGone { name: STOP_FLAG.to_owned() }];
        let event = Some(keep::event("thawed", None, by, ""));
        keep::write(self.clone(), Keeping { changes, event, clock, ..Keeping::default() }).await?;
        Ok(thawed)
    }

    async fn keep_by_hand(&self, event: NewEvent, changes: Vec<Change>) -> Result<(), EngineError> {
        let keeping = Keeping { changes, event: Some(event), ..Keeping::default() };
        Ok(keep::write(self.clone(), keeping).await.map(drop)?)
    }
}

/// What the dispatcher wants kept of the time in which a loop was paused, and of its end.
fn meanwhile(standing: Standing, entry: Option<Entry>, key: &LoopKey, now_ms: i64) -> Vec<Keeping> {
    let mut dispatcher = Dispatcher::new(Limits::default(), vec![standing], Vec::new(), None, 0);
    let mut commands = entry.map(|entry| dispatcher.step(now_ms, Input::Loops(vec![entry]))).unwrap_or_default();
    commands.extend(dispatcher.step(now_ms, Input::Resume { key: key.clone() }));
    kept(commands)
}

/// What is to be written of commands.
fn kept(commands: Vec<Command>) -> Vec<Keeping> {
    let kept = commands.into_iter().filter_map(|command| match command {
        Command::Keep { receipts, standings, taken } => Some(keep::keepings(receipts, standings, &taken)),
        _ => None,
    });
    kept.flatten().collect()
}
