//! Probe: asks the free question before any agent is started. Exit 0 is work, 1 is none, anything else is a failure.

use super::{Run, Trouble, workspace_trouble};
use crate::proc::{Cookie, How, Limits, Spawn};
use crate::room::{self, Seat};
use crate::workspace::{Making, SnapshotKind};
use loopwright_core::round::{Event, Item, Probed, Stage};
use loopwright_core::spec::{ItemsForm, ProbeSpec};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a probe may take.
const WALL: Duration = Duration::from_secs(120);
/// Items looked at.
const ITEMS_MAX: usize = 1000;
/// Bytes of an item's key.
const KEY_MAX: usize = 200;

impl Run<'_> {
    pub(super) async fn probe(&mut self) -> Result<Event, Trouble> {
        let Some(probe) = self.spec().on.probe.clone() else {
            return Ok(Event::Probed(Probed::Work { items: Vec::new() }));
        };
        let ProbeSpec::Run { run, items, .. } = probe else {
            return Ok(failed("built-in probes are not part of this build; name a command"));
        };
        self.stage(Stage::Probe, run.join(" "));
        let base = self.pin_base().await?;
        let name = self.spec().name.clone();
        let id = self.id().to_owned();
        self.warm(&base, Stage::Probe).await?;
        let extra = self.rooms.extra_lower();
        let making = Making { method: self.rooms.method(), extra_lower: extra.clone(), ..Making::default() };
        let space = self.spaces.create(&name, &id, &base, &making).await;
        let space = space.map_err(workspace_trouble(Stage::Probe))?;
        let view = self.spaces.snapshot(&space, "probe", &base, SnapshotKind::ReadOnly, &extra).await;
        let view = view.map_err(workspace_trouble(Stage::Probe))?;
        let seat = Seat { files: &view.files, home: &space.home, tmp: &space.tmp };
        let answer = self.ask_probe(&run, items, seat).await?;
        self.settle_items(answer).await
    }

    async fn pin_base(&self) -> Result<crate::git::Oid, Trouble> {
        if let Some(head) = &self.head {
            return Ok(head.commit.clone());
        }
        let head = self.engine.git.head(&self.repo, self.spec().base.as_deref()).await;
        Ok(head.map_err(|error| Trouble::broke(Stage::Probe, "base", &error))?.commit)
    }

    async fn ask_probe(&self, run: &[String], form: ItemsForm, seat: Seat<'_>) -> Result<Probed, Trouble> {
        let Some((program, args)) = run.split_first() else { return Ok(Probed::Nothing) };
        let room = self.rooms.probe(seat);
        let cookie = Cookie::new(&format!("lw-{}-probe", self.id()));
        let mut spawn = Spawn::new(program, room::place(seat.files), cookie);
        spawn.args = args.iter().map(Into::into).collect();
        spawn.env = room.env(seat.home, seat.tmp);
        spawn.limits = Limits { wall: Some(WALL), ..Limits::default() };
        let spawn = room.enter(spawn);
        let ended = match self.engine.proc.run(spawn, &mut (), self.cancel, |_| ()).await {
            Ok(ended) => ended,
            Err(error) => return Ok(Probed::Failed { text: super::chain(&error) }),
        };
        match ended.how {
            // Half an answer would lose items, and its seam would pass for one.
            How::Exited(0) => Ok(match (form, ended.stdout.whole()) {
                (ItemsForm::None, _) => Probed::Work { items: Vec::new() },
                (_, Some(whole)) => read_items(form, &String::from_utf8_lossy(&whole)),
                (_, None) => Probed::Failed { text: "the probe printed more than is read".to_owned() },
            }),
            How::Exited(1) => Ok(Probed::Nothing),
            How::Cancelled => Err(Trouble::Stopped),
            how => Ok(Probed::Failed {
                text: format!("the probe ended as {how:?}: {}", last_line(&ended.stderr.to_lossy_string())),
            }),
        }
    }

    /// Leaves out what is done, given up or waiting: the engine, not the model, decides what is processed.
    async fn settle_items(&mut self, answer: Probed) -> Result<Event, Trouble> {
        let Probed::Work { items } = answer else { return Ok(Event::Probed(answer)) };
        if items.is_empty() {
            return Ok(Event::Probed(Probed::Work { items }));
        }
        let started = &self.round.facts().started;
        for item in items {
            let row = self.engine.store().item(&started.repo, &started.spec.name, &item.key).await?;
            if row.as_ref().is_none_or(|row| row.state == "failed") {
                self.item_failures = row.map_or(0, |row| row.failures);
                return Ok(Event::Probed(Probed::Work { items: vec![item] }));
            }
        }
        Ok(Event::Probed(Probed::Nothing))
    }
}

fn failed(text: &str) -> Event {
    Event::Probed(Probed::Failed { text: text.to_owned() })
}

fn last_line(text: &str) -> String {
    text.lines().next_back().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Reads a probe's output; a key that is too long, empty or said twice makes the whole answer a failure or a repeat.
fn read_items(form: ItemsForm, text: &str) -> Probed {
    let items = match form {
        ItemsForm::None => return Probed::Work { items: Vec::new() },
        ItemsForm::Lines => lines(text),
        ItemsForm::Json => match serde_json::from_str::<Vec<Item>>(text) {
            Ok(items) => items,
            Err(error) => {
                return Probed::Failed { text: format!("the probe's items are not JSON as documented: {error}") };
            }
        },
    };
    if items.len() > ITEMS_MAX || items.iter().any(|item| item.key.is_empty() || item.key.len() > KEY_MAX) {
        return Probed::Failed {
            text: format!("a probe gives at most {ITEMS_MAX} items with keys of 1 to {KEY_MAX} bytes"),
        };
    }
    let mut seen = BTreeSet::new();
    let items: Vec<_> = items.into_iter().filter(|item| seen.insert(item.key.clone())).collect();
    if items.is_empty() { Probed::Nothing } else { Probed::Work { items } }
}

fn lines(text: &str) -> Vec<Item> {
    let keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
    keys.map(|key| Item { key: key.to_owned(), title: None, data: None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_by_form_and_said_once() {
        let keys = |probed| match probed {
            Probed::Work { items } => items.into_iter().map(|item| item.key).collect::<Vec<_>>().join(","),
            Probed::Nothing => "nothing".to_owned(),
            Probed::Failed { .. } => "failed".to_owned(),
        };
        assert_eq!(keys(read_items(ItemsForm::Lines, "a\n\n b \na\n")), "a,b");
        assert_eq!(keys(read_items(ItemsForm::Lines, "\n")), "nothing");
        assert_eq!(keys(read_items(ItemsForm::None, "anything")), "");
        assert_eq!(keys(read_items(ItemsForm::Json, r#"[{"key":"pr:4@a","title":"t"}]"#)), "pr:4@a");
        assert_eq!(keys(read_items(ItemsForm::Json, "{}")), "failed");
        assert_eq!(keys(read_items(ItemsForm::Lines, &"x".repeat(201))), "failed");
    }
}
