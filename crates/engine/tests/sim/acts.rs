//! The actions of people and external systems in a run. The daemon's answers are remembered where they are promises;
//! its other effects are checked on the record afterwards.

use super::cover::Stretch;
use super::faults::Site;
use super::foreground::Foreground;
use super::life::STILL;
use super::story::Story;
use loopwright::clock::Clock as _;
use loopwright::proc::CancelToken;
use loopwright::spec::CheckedSpec;
use loopwright::store::{InboxKind, InboxRow, SignalRow};

impl Story {
    /// Performs one of the actions that are possible now.
    pub(super) fn act(&mut self) -> Result<(), String> {
        let may = |story: &Self, site| story.world.faults.strikes(site);
        if may(self, Site::CadenceEdited) {
            self.edit();
        }
        if may(self, Site::Reloads) {
            // An unanswered reload did not load; a later load makes up for it.
            drop(self.ask(|life| async move { life.daemon.reload().await }));
        }
        let unborn = if self.world.faults.may(Site::Pauses) { self.unborn_loop() } else { None };
        if unborn.is_some() || may(self, Site::Pauses) {
            self.pause_or_resume(unborn);
        }
        if self.may_stop() && (may(self, Site::Stops) || self.world.faults.is_disk_full() && self.is_at_work()) {
            self.stop_or_thaw()?;
        }
        if may(self, Site::Events) {
            self.event()?;
        }
        if may(self, Site::ByHand) {
            self.by_hand();
        }
        if may(self, Site::Foreground) {
            let (_, spec) = self.any_loop();
            // A running one is killed, wherever it is.
            self.foreground = None;
            self.foreground = Some(Foreground::start(&self.state, &self.world, spec)?);
        }
        self.answer_one()
    }

    fn any_loop(&mut self) -> (usize, CheckedSpec) {
        let specs = self.world.specs();
        let number = usize::try_from(self.dice.below(specs.len() as u64)).unwrap_or(0);
        (number, specs[number].clone())
    }

    /// A loop file changes; the daemon reloads it now, or at its next load.
    fn edit(&mut self) {
        let (number, _) = self.any_loop();
        let had: Vec<_> = self.stretches[number].iter().map(|stretch| stretch.every_ms).collect();
        let Some(spec) = self.world.edit(number, &had) else { return };
        let stretch = Stretch::new(&spec, &self.world, self.world.clock.now_ms());
        self.stretches[number].push(stretch);
        if self.dice.below(2) == 0 {
            drop(self.ask(|life| async move { life.daemon.reload().await }));
        }
    }

    /// A loop that is about to start a round, if there is one: commands about it at that time must not be lost in the
    /// start.
    fn unborn_loop(&mut self) -> Option<CheckedSpec> {
        let now = self.ask(|life| async move { life.daemon.snapshot().await.ok() })??;
        let unborn = now.running.iter().find(|running| running.round.is_none())?;
        self.world.specs().into_iter().find(|spec| *spec.name == *unborn.key.name)
    }

    fn pause_or_resume(&mut self, unborn: Option<CheckedSpec>) {
        // A loop that is about to start a round is more often paused than resumed.
        let most = if unborn.is_some() { 4 } else { 2 };
        let spec = unborn.unwrap_or_else(|| self.any_loop().1);
        let key = self.world.key(&spec);
        if self.dice.below(most) > 0 {
            let answer = self.ask(|life| async move { life.daemon.pause(&key, "ann", "a test").await });
            self.said.pause(&spec.name, &answer);
        } else {
            self.said.resume(&spec.name);
            drop(self.ask(|life| async move { life.daemon.resume(&key, "ann").await }));
        }
    }

    fn may_stop(&self) -> bool {
        !self.goes_far_back && self.world.faults.may(Site::Stops)
    }

    /// The machine has faults while a round works, which is when people stop everything.
    pub(super) fn is_in_trouble(&mut self) -> bool {
        self.may_stop() && self.is_at_work() && self.dice.quarter()
    }

    fn is_at_work(&self) -> bool {
        !self.life().world.own.at_work.rounds().is_empty()
    }

    /// P7: whatever the answer, a stop takes effect at once, even if it cannot be written.
    fn stop_or_thaw(&mut self) -> Result<(), String> {
        if self.world.faults.is_disk_full() {
            // Decisions about due loops wait to be written by then.
            self.life().settle(STILL)?;
        }
        if self.is_at_work() || self.dice.below(2) == 0 {
            let answer = self.ask(|life| async move { life.daemon.freeze("ann", "a test").await });
            self.said.stop(&answer);
            self.life().settle(STILL)?;
            let left = self.life().still_at_work();
            if !self.life().is_dead() && !left.is_empty() {
                return Err(format!("P7: everything was stopped ({answer:?}), and agents of {left:?} are at work"));
            }
        }
        if self.dice.below(2) == 0 {
            let answer = self.ask(|life| async move { life.daemon.thaw("ann").await.map(drop) });
            self.said.thaw(&answer);
        }
        Ok(())
    }

    /// An external event happens, and is delivered once or twice.
    fn event(&mut self) -> Result<(), String> {
        let (_, spec) = self.any_loop();
        self.event_of(&spec.name)
    }

    fn event_of(&mut self, loop_name: &str) -> Result<(), String> {
        self.signals += 1;
        let signal = SignalRow {
            repo: self.world.ground.repo_id.clone(),
            loop_name: loop_name.to_owned(),
            key: format!("webhook:github:{}", self.signals),
            trigger: "webhook".to_owned(),
            at_ms: self.world.clock.now_ms(),
            item: self.dice.quarter().then(|| format!("item-{}", self.signals % 3)),
            title: None,
            data: None,
            taken_ms: None,
        };
        let times = if self.world.faults.strikes(Site::EventsTwice) { 2 } else { 1 };
        for _ in 0..times {
            let again = signal.clone();
            let answer = self.ask(|life| async move { life.daemon.signal(again).await });
            self.said.hear(&signal, &answer)?;
        }
        Ok(())
    }

    /// A person starts a round beside the daemon.
    fn by_hand(&mut self) {
        let (_, spec) = self.any_loop();
        self.by_hand_of(&spec.name);
    }

    fn by_hand_of(&self, loop_name: &str) {
        let Some(spec) = self.world.specs().into_iter().find(|spec| spec.name == loop_name) else { return };
        let (engine, world) = (self.life().engine.clone(), self.life().world.clone());
        let request = world.request(spec);
        self.life().beside(async move {
            // Busy is an answer too.
            drop(engine.run(request, &world.bindings(), &CancelToken::new()).await);
        });
    }

    fn questions(&self) -> Vec<InboxRow> {
        let asked = self.life().look(self.life().engine.store().inbox(100));
        asked.unwrap_or_default().into_iter().filter(|row| row.kind.word() != "loop-paused").collect()
    }

    /// A person answers a question now and then, more often while the loop is at work again.
    fn answer_one(&mut self) -> Result<(), String> {
        let Some(question) = self.questions().into_iter().next() else { return Ok(()) };
        let is_at_work = self.life().world.own.at_work.has(&question.loop_name);
        let may_kill = self.world.faults.may_kill();
        if is_at_work && may_kill {
            // Two rounds of one loop are left, the answered one and the running one, and a third one waits.
            self.event_of(&question.loop_name)?;
            self.life().world.own.door.doom();
        }
        if is_at_work || self.dice.below(3) == 0 {
            self.answer(question);
        } else if may_kill {
            self.by_hand_of(&question.loop_name);
        }
        Ok(())
    }

    pub(super) fn answer_all(&mut self) {
        for question in self.questions() {
            self.answer(question);
        }
    }

    /// Approves or denies; an approval is sometimes sent twice at once.
    fn answer(&mut self, question: InboxRow) {
        let (engine, world) = (self.life().engine.clone(), self.life().world.clone());
        let (likes_it, is_twice) = (self.dice.below(3) > 0, self.dice.quarter());
        let is_yes = match question.kind {
            // A person who is asked whether an item arrived looks at the forge.
            InboxKind::InDoubt => self.is_on_the_forge(&question.round),
            _ => likes_it,
        };
        let candidate = question.candidate.clone().unwrap_or_default();
        self.life().beside(async move {
            let bind = world.bindings();
            let yes = || engine.approve(&question.round, &candidate, "ann", &bind);
            if !is_yes {
                drop(engine.deny(&question.round, "ann", "no", &bind).await);
            } else if is_twice {
                drop(tokio::join!(yes(), yes()));
            } else {
                drop(yes().await);
            }
        });
    }

    fn is_on_the_forge(&self, round: &str) -> bool {
        let pulls = self.state.join("forge").join(&self.world.ground.repo_id).join("pulls");
        let mut pages = std::fs::read_dir(pulls).into_iter().flatten().flatten();
        pages.any(|page| std::fs::read_to_string(page.path()).is_ok_and(|text| text.contains(round)))
    }

    /// Ends all stops and pauses.
    pub(super) fn release(&mut self) {
        let answer = self.ask(|life| async move { life.daemon.thaw("ann").await.map(drop) });
        self.said.thaw(&answer);
        for spec in self.world.specs() {
            let key = self.world.key(&spec);
            self.said.resume(&spec.name);
            drop(self.ask(|life| async move { life.daemon.resume(&key, "ann").await }));
        }
    }
}
