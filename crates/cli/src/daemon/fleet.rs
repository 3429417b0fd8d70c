//! The loops of a daemon: those of the repository it was started in and of those its user's configuration names.

use super::catalogue::{Catalogue, Change, Fallback, FoundLoop};
use super::ground::Ground;
use super::teller::Teller;
use crate::context::{Absence, Context, Looked, LoopFile, Wanted, inputs};
use crate::error::CommandError;
use loopwright::daemon::{Fleet, Loops, Prepared, Ready};
use loopwright::git::UserRepo;
use loopwright::probe::Work;
use loopwright::proc::Cancel;
use loopwright::round::{Bindings, RunRequest};
use loopwright::store::{Change as StoreChange, LoopFileRow};
use loopwright::takeover::Rebind;
use loopwright::triggers::Watched;
use loopwright::{Engine, EngineError};
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{Limits, LoopKey};
use loopwright_core::round::Started;
use loopwright_core::spec::{CheckedSpec, ProbeSpec, read_loop_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who starts rounds that are due, on record.
const ACTOR: &str = "daemon";

/// The most texts that are saved in one transaction.
const ROWS_MAX: usize = 4_000;

/// The loops.
#[derive(Clone)]
pub(crate) struct Repositories(Arc<Inner>);

struct Inner {
    cx: Context,
    /// Its store keeps the last good texts of loop files.
    engine: Engine,
    teller: Arc<Teller>,
    known: Mutex<BTreeMap<Arc<str>, Catalogue>>,
    /// Repositories that were found and not read yet.
    found: Mutex<Option<Looked>>,
    /// What was told about repositories and folders that cannot be had, so that it is told once for as long as it is so.
    troubles: Mutex<Troubles>,
}

/// What goes wrong, in the last reading and in this one.
#[derive(Default)]
struct Troubles {
    before: BTreeSet<String>,
    now: BTreeSet<String>,
}

/// What is said of loops whose files cannot be read.
const AS_BEFORE: &str = "; its loops stay as they were read last";

impl Repositories {
    /// Those of a context.
    pub(crate) fn new(cx: &Context, teller: &Arc<Teller>, engine: &Engine) -> Result<Self, CommandError> {
        let (state, _) = cx.state_dir()?;
        // Versions before 0.2 kept the last good texts there; the store has them now, and a folder that stays harms nobody.
        let _ = std::fs::remove_dir_all(state.join("shelf"));
        Ok(Self(Arc::new(Inner {
            cx: cx.twin().keeping_configuration(),
            engine: engine.clone(),
            teller: Arc::clone(teller),
            known: Mutex::default(),
            found: Mutex::default(),
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

    /// The working copies that will be read next. One that cannot be had now is told of when it is read.
    pub(crate) async fn places(&self) -> Vec<PathBuf> {
        let Ok(looked) = self.0.wanted().await else { return Vec::new() };
        let places = looked.wanted.iter().map(|wanted| wanted.repo.work_tree.clone()).collect();
        *self.0.found() = Some(looked);
        places
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

    fn found(&self) -> MutexGuard<'_, Option<Looked>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The repository around us or named by a flag, and those of the configuration.
    async fn wanted(&self) -> Result<Looked, CommandError> {
        self.cx.wanted().await
    }

    fn trouble(&self, text: String) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if !troubles.before.contains(&text) && !troubles.now.contains(&text) {
            self.teller.warn(&text);
        }
        troubles.now.insert(text);
    }

    /// Lets go of repositories that are gone or not named any more. One that cannot be read keeps its loops: nobody took them
    /// away.
    fn part(&self, known: &mut BTreeMap<Arc<str>, Catalogue>, looked: &Looked) {
        let ids: BTreeSet<&str> = looked.wanted.iter().map(|one| one.repo.id.as_str()).collect();
        let unreadable = looked.missing.iter().filter(|missing| missing.how == Absence::Unreadable);
        let places: BTreeSet<&PathBuf> = unreadable.map(|missing| &missing.place).collect();
        for missing in &looked.missing {
            let is_kept = places.contains(&missing.place) && known.values().any(|one| one.place == missing.place);
            self.trouble(format!("{}{}", missing.text, if is_kept { AS_BEFORE } else { "" }));
        }
        known.retain(|id, catalogue| {
            let stays = ids.contains(&**id) || places.contains(&catalogue.place);
            if !stays {
                let place = catalogue.repo.work_tree.display();
                self.teller.warn(&format!(
                    "the repository {place} is not there or not named any more: its loops start nothing"
                ));
            }
            stays
        });
    }

    /// The texts that the store has of repositories that were not read yet.
    async fn stored(&self, looked: &Looked) -> Result<BTreeMap<String, Vec<LoopFileRow>>, EngineError> {
        let new = |id: &str| !self.known().contains_key(id);
        let mut stored = BTreeMap::new();
        for Wanted { repo, .. } in looked.wanted.iter().filter(|wanted| new(&wanted.repo.id)) {
            stored.insert(repo.id.clone(), self.engine.store().loop_files(&repo.id, None).await?);
        }
        Ok(stored)
    }

    /// Writes the texts that the store does not have yet. A failure is reported, and the next reading tries again.
    async fn save(&self) {
        let rows: Vec<LoopFileRow> = self.known().values().flat_map(Catalogue::unsaved).collect();
        for part in rows.chunks(ROWS_MAX) {
            let changes = part.iter().cloned().map(StoreChange::LoopFile).collect();
            if let Err(error) = self.engine.keep_rows(changes).await {
                self.teller.warn(&format!("save the last good loop files: {error}"));
                return;
            }
        }
        self.known().values_mut().for_each(Catalogue::saved);
    }

    /// Reads what changed in all of them.
    fn read(&self, looked: Looked, mut stored: BTreeMap<String, Vec<LoopFileRow>>) -> Result<Loops, CommandError> {
        let mut known = self.known();
        self.part(&mut known, &looked);
        for Wanted { repo, place: at, only } in looked.wanted {
            let ground = self.ground(&repo);
            for problem in self.cx.broken_configuration() {
                self.trouble(format!("{problem}; its last good form stays in use"));
            }
            let texts = stored.remove(&repo.id).unwrap_or_default();
            let new = || Catalogue::new(repo.clone(), texts);
            let catalogue = known.entry(Arc::clone(&ground.repo)).or_insert_with(new);
            (catalogue.repo, catalogue.place, catalogue.only) = (repo, at, only);
            match catalogue.read(&ground) {
                Ok(changes) => changes.iter().for_each(|change| self.tell(change)),
                Err(error) => self.trouble(format!("{}{AS_BEFORE}", error.text)),
            }
        }
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.before = std::mem::take(&mut troubles.now);
        Ok(loops(&known))
    }

    /// A configuration that is wrong just now says nothing about who plays; the rounds themselves will say why.
    fn ground(&self, repo: &UserRepo) -> Ground {
        let agents = self.cx.config(Some(&repo.work_tree)).map(|effective| effective.config().agents.clone());
        let words: BTreeSet<&str> = agents.iter().flatten().map(|(_, agent)| agent.agent.word()).collect();
        let agents = words.into_iter().map(Arc::from).collect();
        Ground::new(&repo.id, self.cx.system_zone(), agents)
    }

    fn tell(&self, change: &Change) {
        match change {
            Change::Broken(problem, Fallback::LastGood) => {
                self.teller.warn(&format!("{problem}; its last good form stays in use"));
            }
            Change::Broken(problem, Fallback::Nothing) => self.teller.warn(&format!("{problem}; it is left out")),
            Change::Fixed(file) => self.teller.say("fixed", &format!("{file} can be used again")),
        }
    }

    /// The loop, checked, with its file.
    async fn spec(&self, key: &LoopKey) -> Result<(UserRepo, String, CheckedSpec), CommandError> {
        let (repo, (shown, found)) = self.find(key)?;
        let file = match found {
            FoundLoop::Current(spec) => return Ok((repo, shown, *spec)),
            FoundLoop::LastGood(file) => file,
        };
        let text = self.engine.store().loop_files(&repo.id, Some(&file)).await?.pop().and_then(|row| row.text);
        let text = text.ok_or_else(|| CommandError::invalid(format!("{shown}: its last good form was not saved")))?;
        match read_loop_file(&shown, text.as_bytes()) {
            Ok(spec) => Ok((repo, shown, spec)),
            Err(problems) => Err(CommandError::invalid(format!("{shown}: {problems}"))),
        }
    }

    fn find(&self, key: &LoopKey) -> Result<(UserRepo, (String, FoundLoop)), CommandError> {
        let known = self.known();
        let gone = || CommandError::unknown(format!("the repository of {key} is not looked after any more"));
        let catalogue = known.get(&key.repo).ok_or_else(gone)?;
        Ok((catalogue.repo.clone(), catalogue.find(&key.name).map_err(CommandError::invalid)?))
    }

    fn ready(&self, engine: &Engine, repo: &UserRepo, file: String, spec: CheckedSpec) -> Result<Ready, CommandError> {
        let spec = self.cx.with_configured_agents(spec, repo)?;
        let bind = self.cx.bindings(&spec, &repo.work_tree)?;
        let engine = engine.lend(self.cx.settings(Some(repo))?);
        let inputs = inputs::hashes(repo, &LoopFile { file, spec: spec.clone() });
        let request = RunRequest { inputs, ..RunRequest::manual(spec, &repo.work_tree, ACTOR) };
        Ok(Ready { engine, bind, request })
    }

    /// Asks a loop's probe before there is a round, so that "no work" costs a receipt and nothing else; a question that needs
    /// no program is asked before anything else is looked up.
    async fn prepare(&self, engine: &Engine, key: &LoopKey) -> Result<Prepared, EngineError> {
        let (repo, file, spec) = self.spec(key).await.map_err(told)?;
        let is_asked_first = match &spec.on.probe {
            Some(ProbeSpec::Named(name)) => name != NEEDS_A_PROGRAM,
            Some(ProbeSpec::Ask(ask)) => ask.probe != NEEDS_A_PROGRAM,
            Some(ProbeSpec::Run { .. }) | None => false,
        };
        let mut found = None;
        if is_asked_first {
            found = match engine.probe_only(&spec, &repo, &Cancel::new()).await? {
                Work::None => return Ok(Prepared::NoWork),
                work => Some(work),
            };
        }
        let ready = self.ready(engine, &repo, file, spec).map_err(told)?;
        match found {
            Some(found) => Ok(ready.with_work(found)),
            None => ready.probed(&repo).await,
        }
    }
}

/// The built-in probe that starts a program.
const NEEDS_A_PROGRAM: &str = "outdated";

fn loops(known: &BTreeMap<Arc<str>, Catalogue>) -> Loops {
    let entries = known.values().flat_map(Catalogue::entries).collect();
    let after = known.values().flat_map(Catalogue::after);
    let after = after.map(|(entry, name)| (entry.key.clone(), name.into())).collect();
    Loops { entries, after, limits: None }
}

impl Fleet for Repositories {
    fn load(&self) -> BoxFuture<'_, Result<Loops, EngineError>> {
        Box::pin(async move {
            let found = self.0.found().take();
            let looked = match found {
                Some(found) => found,
                None => self.0.wanted().await.map_err(told)?,
            };
            let (inner, limits) = (Arc::clone(&self.0), Some(self.limits().map_err(told)?));
            let stored = self.0.stored(&looked).await?;
            let read = tokio::task::spawn_blocking(move || inner.read(looked, stored)).await;
            let loops =
                read.map_err(|error| EngineError::Daemon(format!("read loop files: {error}")))?.map_err(told)?;
            self.0.save().await;
            Ok(Loops { limits, ..loops })
        })
    }

    fn prepare<'a>(&'a self, engine: &'a Engine, key: &'a LoopKey) -> BoxFuture<'a, Result<Prepared, EngineError>> {
        Box::pin(self.0.prepare(engine, key))
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
