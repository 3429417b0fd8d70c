//! Pause, resume, the global stop and its end while no daemon runs. They write the same rows and events as a daemon, so
//! that the next daemon finds them.

use super::ThawReport;
use super::open;
use super::persist::{self, PendingRows};
use super::requests::STOP_FLAG;
use super::stop::StopFile;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::{FlagRow, NewEvent, RowChange};
use loopwright_core::dispatch::{
    ConcurrencyLimits, DispatchCommand, DispatchInput, Dispatcher, FleetFreeze, LoopEntry, LoopKey, LoopPause,
    LoopStanding,
};

impl Engine {
    /// Pauses a loop: it does not start by itself from now on. `fingerprint` is its cadence's, for a loop that has no
    /// standing yet.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn pause_loop(&self, key: &LoopKey, fingerprint: &str, by: &str, why: &str) -> Result<(), EngineError> {
        let now_ms = self.now_ms();
        let row = self.store.schedule(&key.repo, &key.name).await?;
        let standing =
            row.map_or_else(|| LoopStanding::new(key.clone(), fingerprint, now_ms), persist::standing_from_row);
        let paused = LoopPause { since_ms: now_ms, by: by.to_owned(), why: why.to_owned() };
        let standing = LoopStanding { paused: Some(paused), ..standing };
        let changes = vec![RowChange::Schedule(persist::schedule_row(&standing))];
        self.write_offline(persist::loop_event("loop-paused", Some(key), by, why), changes).await
    }

    /// Resumes a paused loop and clears its failures and delays; returns whether it was paused or delayed. Due times in
    /// the meantime get their receipts, as far as `entry` describes them.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn resume_loop(&self, key: &LoopKey, entry: Option<LoopEntry>, by: &str) -> Result<bool, EngineError> {
        let now_ms = self.now_ms();
        let row = self.store.schedule(&key.repo, &key.name).await?;
        let waits = |standing: &LoopStanding| standing.wait.as_ref().is_some_and(|wait| wait.until_ms > now_ms);
        let is_held = |standing: &LoopStanding| standing.paused.is_some() || waits(standing);
        let Some(standing) = row.map(persist::standing_from_row).filter(is_held) else { return Ok(false) };
        let fresh = LoopStanding { paused: None, streak: 0, signature: None, wait: None, ..standing.clone() };
        let mut kept = rows_for_pause(standing, entry, key, now_ms);
        if kept.is_empty() {
            kept.extend(persist::batch_rows(Vec::new(), vec![fresh], &[]));
        }
        if let Some(last) = kept.last_mut() {
            last.event = Some(persist::loop_event("loop-resumed", Some(key), by, ""));
            last.answered = Some(persist::pause_question_id(key));
        }
        for keeping in kept {
            persist::write_rows(self.clone(), keeping).await?;
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
        let file = StopFile::in_state_dir(&self.state_dir);
        let was_there = file.exists();
        file.write(&self.state_dir, why)?;
        self.write_offline(persist::loop_event("all-stopped", None, by, why), vec![RowChange::Flag(flag)]).await?;
        // The flag stops all machines, and `thaw` on another one removes it. It would not remove this file.
        if self.store.is_leased() && !was_there { file.remove() } else { Ok(()) }
    }

    /// The global stop, if there is one: by the flag in the store, or by the file.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn global_stop(&self) -> Result<Option<FleetFreeze>, EngineError> {
        let flag = self.store.flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
        let file = StopFile::in_state_dir(&self.state_dir);
        Ok(flag.map(open::freeze_from_flag).or_else(|| open::freeze_from_file(&file, self.now_ms())))
    }

    /// Ends the global stop, and accepts a clock that was rejected as implausible; returns which of the two there was.
    /// Each of these loops gets one receipt for its due times under the stop before the stop ends, so that no later
    /// start catches up on them.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn thaw_all(&self, entries: Vec<LoopEntry>, by: &str) -> Result<ThawReport, EngineError> {
        let file = StopFile::in_state_dir(&self.state_dir);
        let frozen = self.global_stop().await?;
        let was_stopped = frozen.is_some();
        let mut dispatcher = open::load_dispatcher(self, ConcurrencyLimits::default(), frozen).await?;
        let now_ms = self.now_ms();
        let clock = dispatcher.clock_behind(now_ms).map(|ahead_ms| (ahead_ms, by.to_owned()));
        let thawed = ThawReport { was_stopped, was_clock_behind: clock.is_some() };
        if !thawed.has_effect() {
            return Ok(thawed);
        }
        let mut commands = dispatcher.step(now_ms, DispatchInput::Loops(entries));
        // By ending a stop, a person also confirms a clock that was rejected as implausible. Nothing is started here.
        commands.extend(dispatcher.step(now_ms, DispatchInput::Thaw));
        for keeping in rows_of_commands(commands) {
            persist::write_rows(self.clone(), keeping).await?;
        }
        file.remove()?;
        let changes = vec![RowChange::FlagGone { name: STOP_FLAG.to_owned() }];
        let event = Some(persist::loop_event("thawed", None, by, ""));
        persist::write_rows(self.clone(), PendingRows { changes, event, clock, ..PendingRows::default() }).await?;
        Ok(thawed)
    }

    async fn write_offline(&self, event: NewEvent, changes: Vec<RowChange>) -> Result<(), EngineError> {
        let keeping = PendingRows { changes, event: Some(event), ..PendingRows::default() };
        Ok(persist::write_rows(self.clone(), keeping).await.map(drop)?)
    }
}

/// The dispatcher's rows for the time in which a loop was paused, and for the end of the pause.
fn rows_for_pause(standing: LoopStanding, entry: Option<LoopEntry>, key: &LoopKey, now_ms: i64) -> Vec<PendingRows> {
    let mut dispatcher = Dispatcher::new(ConcurrencyLimits::default(), vec![standing], Vec::new(), None, 0);
    let mut commands =
        entry.map(|entry| dispatcher.step(now_ms, DispatchInput::Loops(vec![entry]))).unwrap_or_default();
    commands.extend(dispatcher.step(now_ms, DispatchInput::Resume { key: key.clone() }));
    rows_of_commands(commands)
}

/// The rows that these commands ask to write.
fn rows_of_commands(commands: Vec<DispatchCommand>) -> Vec<PendingRows> {
    let kept = commands.into_iter().filter_map(|command| match command {
        DispatchCommand::Persist { receipts, standings, taken } => {
            Some(persist::batch_rows(receipts, standings, &taken))
        }
        _ => None,
    });
    kept.flatten().collect()
}
