//! Check: a fresh process on a read-only snapshot, without the maker's words. Its verdict comes through a sink that did not
//! exist while the maker lived, or is its last message for an agent that is listened to, and comes from nowhere else.

use super::make::{Turn, end_of};
use super::{Run, Trouble, isolate, workspace_trouble};
use crate::agents::{AgentOutcome, Invocation, VerdictSink};
use crate::git::Oid;
use crate::proc::Cookie;
use crate::room::{self, Papers, Room, Seat};
use crate::workspace::{Files, SnapshotKind};
use crate::{places, random, staging};
use loopwright_core::gate::GateStatus;
use loopwright_core::outbox::StagedItem;
use loopwright_core::prompt::AnswerWay;
use loopwright_core::round::{AgentStarted, Attempt, Checked, Event, Stage};
use loopwright_core::spec::Role;
use loopwright_core::verdict::{self, Evidence, Expected, Judgement, Malformed, Resolve, TreeChange, VerdictFile};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one cited file.
const BLOB_MAX: usize = 8 << 20;

impl Run<'_> {
    pub(super) async fn check(&mut self) -> Result<Event, Trouble> {
        self.has_time()?;
        let attempt = self.round.facts().attempt_number();
        let turn = self.turn(Role::Checker)?;
        self.stage(Stage::Check, format!("fresh checker with {}", turn.agent.name()));
        let desk = self.desk().await?;
        let (prompt, shown) = self.checker_brief(self.sealed_attempt()?, &desk.nonce, turn.answer_way()).await?;
        let mut invocation = self.checker_invocation(attempt, &turn, &desk, prompt)?;
        let (reserved, day) = (self.reservation(), self.today());
        let started = AgentStarted {
            attempt,
            agent: turn.agent.name().to_owned(),
            version: turn.agent.version().map(str::to_owned),
            model: invocation.model.clone(),
            cookie: invocation.cookie.as_str().to_owned(),
            reserved,
            day: Some(day.clone()),
            nonce: Some(desk.nonce.clone()),
            place: turn.place,
            left: turn.left,
        };
        self.start_agent(Event::CheckerStarted(started), reserved, day).await?;
        self.hold(&mut invocation);
        let starts = self.round.facts().attempt().map_or(1, |attempt| attempt.checker_starts);
        let (outcome, transcript, wall_ms) =
            self.invoke(&turn, &invocation, &format!("checker-{attempt}-{starts}")).await;
        let said = said(&desk, turn.answer_way(), outcome.as_ref().ok());
        let judgement = self.judge(&desk, said).await?;
        let cost = self.cost_of(&outcome, &invocation, reserved, wall_ms);
        Ok(Event::Checked(Box::new(Checked {
            attempt,
            end: self.explained(end_of(&outcome, self.engine.now_ms())?, cost.spend.amount()),
            judgement,
            spend: cost.spend,
            models: cost.models,
            counted: cost.counted,
            transcript,
            shown,
        })))
    }

    /// The checker's own folder: snapshot, sink, home. Made after the maker is dead, under a name nobody can guess.
    async fn desk(&self) -> Result<Desk, Trouble> {
        let workspace = self.workspace(Stage::Check)?;
        let attempt = self.sealed_attempt()?;
        let nonce = random::nonce().map_err(Trouble::Fatal)?;
        let folder = workspace.root.join(format!("check-{}", random::nonce().map_err(Trouble::Fatal)?));
        let desk = Desk {
            nonce,
            home: folder.join("home"),
            tmp: folder.join("tmp"),
            sink: folder.join("sink"),
            outbox: folder.join("outbox"),
            items: folder.join("items"),
            view: Files::Layers(Vec::new()),
        };
        for path in [&desk.home, &desk.tmp, &desk.sink, &desk.outbox, &desk.items] {
            places::make_dir(path).map_err(|error| Trouble::broke(Stage::Check, "desk", &error))?;
        }
        self.lay_out_items(&desk, &attempt.items)?;
        let commit = isolate::parse(attempt.commit.as_deref().unwrap_or_default())?;
        let view = self.spaces.snapshot(workspace, "check", &commit, SnapshotKind::ReadOnly, &[]).await;
        Ok(Desk { view: view.map_err(workspace_trouble(Stage::Check))?.files, ..desk })
    }

    fn lay_out_items(&self, desk: &Desk, items: &[StagedItem]) -> Result<(), Trouble> {
        for item in items {
            let written = self.engine.places.lay_out(&desk.items.join(&item.name), item.text().as_bytes());
            written.map_err(|error| Trouble::broke(Stage::Check, "desk", &error))?;
        }
        Ok(())
    }

    pub(super) fn sealed_attempt(&self) -> Result<&Attempt, Trouble> {
        let sealed = self.round.facts().attempt().filter(|attempt| attempt.candidate.is_some());
        sealed.ok_or_else(|| {
            Trouble::Broke(loopwright_core::round::Broke {
                stage: Stage::Check,
                code: "unsealed".to_owned(),
                text: "there is no sealed candidate".to_owned(),
            })
        })
    }

    fn checker_invocation(
        &self,
        attempt: u32,
        turn: &Turn,
        desk: &Desk,
        prompt: String,
    ) -> Result<Invocation, Trouble> {
        let workspace = self.workspace(Stage::Check)?;
        let sealed = self.sealed_attempt()?;
        let state_file = self.write_state_file(workspace, Role::Checker)?;
        let room = self.checker_room(desk, &state_file);
        Ok(Invocation {
            role: Role::Checker,
            loop_name: self.spec().name.clone(),
            round: self.id().to_owned(),
            attempt,
            prompt,
            workspace: room::place(&desk.view).to_owned(),
            outbox: desk.outbox.clone(),
            state_file,
            items: Some(desk.items.clone()),
            home: desk.home.clone(),
            tmp: desk.tmp.clone(),
            verdict: Some(VerdictSink {
                path: desk.verdict(),
                nonce: desk.nonce.clone(),
                tree: sealed.tree.clone().unwrap_or_default(),
                candidate: sealed.candidate.clone().unwrap_or_default(),
            }),
            model: turn.model(),
            tools: turn.tools(),
            endpoints: self.endpoints(turn)?,
            prices: Arc::clone(&self.engine.settings.prices),
            limits: self.agent_limits(),
            cookie: Cookie::new(&format!("lw-{}", self.id())),
            room,
        })
    }

    fn checker_room(&self, desk: &Desk, state: &Path) -> Room {
        let seat = Seat { files: &desk.view, home: &desk.home, tmp: &desk.tmp };
        let papers = Papers { outbox: &desk.outbox, state, items: Some(&desk.items), sink: Some(&desk.sink) };
        self.rooms.reader(seat, papers)
    }

    /// Judges what the checker said. Whatever is missing or strange there is never a pass.
    async fn judge(&self, desk: &Desk, said: Result<Option<Vec<u8>>, Malformed>) -> Result<Judgement, Trouble> {
        let sealed = self.sealed_attempt()?;
        let bytes = match said {
            Ok(bytes) => bytes,
            Err(malformed) => return Ok(Judgement::Malformed { why: malformed.0 }),
        };
        let change = if sealed.has_change() { TreeChange::Some } else { TreeChange::None };
        let passed = sealed.gates.iter().filter(|gate| gate.status == GateStatus::Passed);
        let expected = Expected {
            nonce: desk.nonce.clone(),
            tree: sealed.tree.clone().unwrap_or_default(),
            candidate: sealed.candidate.clone().unwrap_or_default(),
            dimensions: verdict::dimensions(&self.spec().rubric, change).into_iter().map(|(name, _)| name).collect(),
            threshold: self.spec().rubric.threshold,
            floor: self.spec().rubric.floor,
            gates: passed.map(|gate| gate.name.clone()).collect(),
        };
        let cited = self.cited(bytes.as_deref(), sealed).await?;
        Ok(verdict::judge(bytes.as_deref(), &expected, &cited))
    }

    /// Reads every file the verdict cites from the sealed tree, by object id.
    async fn cited(&self, bytes: Option<&[u8]>, sealed: &Attempt) -> Result<Cited, Trouble> {
        let tree: Oid = isolate::parse(sealed.tree.as_deref().unwrap_or_default())?;
        let mut files = HashMap::new();
        for path in cited_paths(bytes) {
            let blob = self.spaces.engine().read_blob(&tree, &path, BLOB_MAX).await;
            let blob = blob.map_err(|error| Trouble::broke(Stage::Check, "citation", &error))?;
            if let Some(text) = blob.and_then(|bytes| String::from_utf8(bytes).ok()) {
                files.insert(path, text);
            }
        }
        let items = sealed.items.iter().map(|item| (item.name.clone(), item.text())).collect();
        Ok(Cited { files, items })
    }
}

/// The verdict as the checker gave it: in its sink, or as its last message.
fn said(desk: &Desk, way: AnswerWay, outcome: Option<&AgentOutcome>) -> Result<Option<Vec<u8>>, Malformed> {
    match way {
        AnswerWay::File => Ok(staging::read_sink(&desk.verdict(), verdict::BYTES_MAX as u64)),
        AnswerWay::Message => {
            let answer = outcome.and_then(|outcome| outcome.told.answer.as_deref()).unwrap_or_default();
            Ok(verdict::in_answer(answer)?.map(|document| document.as_bytes().to_vec()))
        }
    }
}

/// The files a readable verdict cites; an unreadable one cites none.
fn cited_paths(bytes: Option<&[u8]>) -> BTreeSet<String> {
    let Some(Ok(file)) = bytes.map(VerdictFile::parse) else { return BTreeSet::new() };
    let evidence = file.scores.into_iter().flat_map(|score| score.evidence);
    let paths = evidence.filter_map(|evidence| match evidence {
        Evidence::Line { path, .. } => Some(path),
        Evidence::Gate { .. } | Evidence::Item { .. } => None,
    });
    paths.collect()
}

/// Where one checker sits.
struct Desk {
    nonce: String,
    home: PathBuf,
    tmp: PathBuf,
    sink: PathBuf,
    outbox: PathBuf,
    items: PathBuf,
    view: Files,
}

impl Desk {
    fn verdict(&self) -> PathBuf {
        Path::new(&self.sink).join("verdict.json")
    }
}

/// What the verdict cites, as it was sealed.
struct Cited {
    files: HashMap<String, String>,
    items: HashMap<String, String>,
}

fn line_of(text: Option<&String>, line: u32) -> Option<String> {
    let index = usize::try_from(line.checked_sub(1)?).ok()?;
    text?.lines().nth(index).map(str::to_owned)
}

impl Resolve for Cited {
    fn line(&self, path: &str, line: u32) -> Option<String> {
        line_of(self.files.get(path), line)
    }

    fn item_line(&self, item: &str, line: u32) -> Option<String> {
        line_of(self.items.get(item), line)
    }
}
