//! The loops of a daemon: those of the repository it was started in and of those its user's configuration names.

use super::catalogue::{Catalogue, Change, Fallback, Ground};
use super::shelf::Shelf;
use super::teller::Teller;
use crate::context::{Context, LoopFile, Wanted, inputs};
use crate::error::CommandError;
use loopwright::daemon::{Fleet, Loops, Prepared, Ready};
use loopwright::git::UserRepo;
use loopwright::probe::Work;
use loopwright::proc::Cancel;
use loopwright::round::{Bindings, RunRequest};
use loopwright::takeover::Rebind;
use loopwright::triggers::Watched;
use loopwright::{Engine, EngineError};
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{Limits, LoopKey};
use loopwright_core::round::Started;
use loopwright_core::spec::CheckedSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who starts rounds that are due, on record.
const ACTOR: &str = "daemon";

/// The loops.
#[derive(Clone)]
pub(crate) struct Repositories(Arc<Inner>);

struct Inner {
    cx: Context,
    state: PathBuf,
    teller: Arc<Teller>,
    shelf: Mutex<Shelf>,
    known: Mutex<BTreeMap<Arc<str>, Catalogue>>,
    /// What was told about repositories that cannot be had, so that it is told once.
    troubles: Mutex<BTreeSet<String>>,
}

impl Repositories {
    /// Those of a context.
    pub(crate) fn new(cx: &Context, teller: &Arc<Teller>) -> Result<Self, CommandError> {
        let failed = |error| CommandError::failed(format!("make room for the last good loop files: {error}"));
        let (state, _) = cx.state_dir()?;
        let shelf = Shelf::open(&state).map_err(failed)?;
        Ok(Self(Arc::new(Inner {
            cx: cx.twin(),
            state,
            teller: Arc::clone(teller),
            shelf: Mutex::new(shelf),
            known: Mutex::default(),
            troubles: Mutex::default(),
        })))
    }

    /// How many rounds may run at once.
    pub(crate) fn limits(&self) -> Result<Limits, CommandError> {
        self.0.cx.limits()
    }

    /// What is to be watched besides time: a daemon that watches anything else would wake up for nothing.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        let known = self.0.known();
        let of = |catalogue: &Catalogue| Watched { repo: catalogue.repo.clone(), loops: catalogue.watched() };
        known.values().map(of).filter(|watched| !watched.loops.is_empty()).collect()
    }

    /// The working copies that will be read. One that cannot be had now is told of when it is read.
    pub(crate) async fn places(&self) -> Vec<PathBuf> {
        let wanted = self.0.wanted().await.unwrap_or_default();
        wanted.into_iter().map(|wanted| wanted.repo.work_tree).collect()
    }

    /// The working copies that were read last.
    pub(crate) fn work_trees(&self) -> Vec<PathBuf> {
        self.0.known().values().map(|catalogue| catalogue.repo.work_tree.clone()).collect()
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Catalogue>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The repository around us or named by a flag, and those of the configuration; one that is not there is told of once.
    async fn wanted(&self) -> Result<Vec<Wanted>, CommandError> {
        let (wanted, troubles) = self.cx.wanted().await?;
        troubles.into_iter().for_each(|trouble| self.trouble(trouble));
        Ok(wanted)
    }

    fn trouble(&self, text: String) {
        let mut told = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(text.clone()) {
            self.teller.warn(&text);
        }
    }

    /// Reads what changed in all of them.
    fn read(&self, wanted: Vec<Wanted>) -> Result<Loops, CommandError> {
        let mut known = self.known();
        let ids: BTreeSet<&str> = wanted.iter().map(|one| one.repo.id.as_str()).collect();
        known.retain(|id, catalogue| {
            let stays = ids.contains(&**id);
            if !stays {
                let place = catalogue.repo.work_tree.display();
                self.teller.warn(&format!(
                    "the repository {place} is not there or not named any more: its loops start nothing"
                ));
            }
            stays
        });
        for Wanted { repo, only } in wanted {
            let ground = self.ground(&repo);
            let catalogue = known.entry(Arc::clone(&ground.repo)).or_insert_with(|| Catalogue::new(repo.clone()));
            (catalogue.repo, catalogue.only) = (repo, only);
            match catalogue.read(&ground, &self.shelf) {
                Ok(changes) => changes.iter().for_each(|change| self.tell(change)),
                Err(error) => self.trouble(error.text),
            }
        }
        self.tidy(&mut known);
        Ok(loops(&known))
    }

    /// A configuration that is wrong just now says nothing about who plays; the rounds themselves will say why.
    fn ground(&self, repo: &UserRepo) -> Ground {
        let agents = self.cx.config(Some(&repo.work_tree)).map(|effective| effective.config().agents.clone());
        let words: BTreeSet<&str> = agents.iter().flatten().map(|(_, agent)| agent.agent.word()).collect();
        let agents = words.into_iter().map(Arc::from).collect();
        Ground { repo: repo.id.as_str().into(), zone: self.cx.system_zone(), agents }
    }

    fn tell(&self, change: &Change) {
        match change {
            Change::Broken(problem, Fallback::LastGood) => {
                self.teller.warn(&format!("{problem}; its last good form stays in use"));
            }
            Change::Broken(problem, Fallback::Nothing) => self.teller.warn(&format!("{problem}; it is left out")),
            Change::Mended(file) => self.teller.say("mended", &format!("{file} can be used again")),
        }
    }

    /// Writes what was gathered, and begins a new shelf when this one holds much that is no longer needed.
    fn tidy(&self, known: &mut BTreeMap<Arc<str>, Catalogue>) {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = tidied(&mut shelf, &self.state, known) {
            self.trouble(format!("keep the last good loop files: {error}"));
        }
    }

    /// The loop, checked, with its file.
    fn spec(&self, key: &LoopKey) -> Result<(UserRepo, String, CheckedSpec), CommandError> {
        let known = self.known();
        let gone = || CommandError::unknown(format!("the repository of {key} is not looked after any more"));
        let catalogue = known.get(&key.repo).ok_or_else(gone)?;
        let (file, spec) = catalogue.spec(&key.name, &self.shelf).map_err(CommandError::invalid)?;
        Ok((catalogue.repo.clone(), file, spec))
    }

    fn ready(&self, engine: &Engine, key: &LoopKey) -> Result<(UserRepo, Ready), CommandError> {
        let (repo, file, spec) = self.spec(key)?;
        let spec = self.cx.with_configured_agents(spec, &repo)?;
        let bind = self.cx.bindings(&spec, &repo.work_tree)?;
        let engine = engine.lend(self.cx.settings(Some(&repo))?);
        let inputs = inputs::hashes(&repo, &LoopFile { file, spec: spec.clone() });
        let request = RunRequest { inputs, ..RunRequest::manual(spec, &repo.work_tree, ACTOR) };
        Ok((repo, Ready { engine, bind, request }))
    }
}

/// Asks a loop's probe before there is a round, so that "no work" costs a receipt and nothing else. A probe that breaks is
/// asked again by the round, which records how.
async fn probed(repo: &UserRepo, mut ready: Ready) -> Result<Prepared, EngineError> {
    if ready.request.spec.on.probe.is_none() {
        return Ok(ready.into());
    }
    match ready.engine.probe_only(&ready.request.spec, repo, &Cancel::new()).await? {
        Work::None => Ok(Prepared::NoWork),
        Work::Items(items) => {
            ready.request.found = items;
            Ok(ready.into())
        }
        Work::Failed(_) => Ok(ready.into()),
    }
}

fn tidied(shelf: &mut Shelf, state: &Path, known: &mut BTreeMap<Arc<str>, Catalogue>) -> std::io::Result<()> {
    shelf.flush()?;
    if shelf.is_full() {
        let mut new = Shelf::open(state)?;
        known.values_mut().try_for_each(|catalogue| catalogue.move_to(shelf, &mut new))?;
        new.flush()?;
        *shelf = new;
    }
    Ok(())
}

fn loops(known: &BTreeMap<Arc<str>, Catalogue>) -> Loops {
    let entries = known.values().flat_map(Catalogue::entries).collect();
    let after = known.values().flat_map(Catalogue::after);
    Loops { entries, after: after.map(|(entry, name)| (entry.key.clone(), name.into())).collect() }
}

impl Fleet for Repositories {
    fn load(&self) -> BoxFuture<'_, Result<Loops, EngineError>> {
        Box::pin(async move {
            let wanted = self.0.wanted().await.map_err(told)?;
            let inner = Arc::clone(&self.0);
            let read = tokio::task::spawn_blocking(move || inner.read(wanted)).await;
            read.map_err(|error| EngineError::Daemon(format!("read loop files: {error}")))?.map_err(told)
        })
    }

    fn prepare<'a>(&'a self, engine: &'a Engine, key: &'a LoopKey) -> BoxFuture<'a, Result<Prepared, EngineError>> {
        Box::pin(async move {
            let (repo, ready) = self.0.ready(engine, key).map_err(told)?;
            probed(&repo, ready).await
        })
    }
}

impl Rebind for Repositories {
    fn rebind(&self, engine: &Engine, started: &Started) -> (Engine, Bindings) {
        self.0.cx.rebound(engine, started)
    }
}

fn told(error: CommandError) -> EngineError {
    EngineError::Daemon(error.text)
}
