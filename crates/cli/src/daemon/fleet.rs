//! The loops of a daemon: those of the repository it was started in and of those its user's configuration names.

use super::catalogue::{Catalogue, Change, Fallback};
use super::ground::Ground;
use super::teller::Teller;
use crate::context::{Absence, Context, Looked, LoopFile, Wanted, inputs};
use crate::error::CommandError;
use crate::view::time::now_ms;
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
use loopwright_core::spec::{CheckedSpec, ProbeSpec};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who starts rounds that are due, on record.
const ACTOR: &str = "daemon";

/// The loops.
#[derive(Clone)]
pub(crate) struct Repositories(Arc<Inner>);

struct Inner {
    cx: Context,
    /// Where catalogues keep what they know.
    shelves: PathBuf,
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
    pub(crate) fn new(cx: &Context, teller: &Arc<Teller>) -> Result<Self, CommandError> {
        let (state, _) = cx.state_dir()?;
        Ok(Self(Arc::new(Inner {
            cx: cx.twin().keeping_configuration(),
            shelves: state.join("shelf"),
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

    /// Reads what changed in all of them.
    fn read(&self, looked: Looked) -> Result<Loops, CommandError> {
        let mut known = self.known();
        self.part(&mut known, &looked);
        for Wanted { repo, place: at, only } in looked.wanted {
            let ground = self.ground(&repo);
            for problem in self.cx.broken_configuration() {
                self.trouble(format!("{problem}; its last good form stays in use"));
            }
            let catalogue = match known.entry(Arc::clone(&ground.repo)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => match Catalogue::new(repo.clone(), &self.shelves) {
                    Ok(new) => place.insert(new),
                    Err(error) => {
                        self.trouble(format!("make room for the last good loop files: {error}"));
                        continue;
                    }
                },
            };
            (catalogue.repo, catalogue.place, catalogue.only) = (repo, at, only);
            match catalogue.read(&ground, now_ms()) {
                Ok(changes) => changes.iter().for_each(|change| self.tell(change)),
                Err(error) => self.trouble(format!("{}{AS_BEFORE}", error.text)),
            }
            if let Some(text) = catalogue.unkept() {
                self.trouble(text);
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
            Change::Mended(file) => self.teller.say("mended", &format!("{file} can be used again")),
        }
    }

    /// The loop, checked, with its file.
    fn spec(&self, key: &LoopKey) -> Result<(UserRepo, String, CheckedSpec), CommandError> {
        let mut known = self.known();
        let gone = || CommandError::unknown(format!("the repository of {key} is not looked after any more"));
        let catalogue = known.get_mut(&key.repo).ok_or_else(gone)?;
        let (file, spec) = catalogue.spec(&key.name, now_ms()).map_err(CommandError::invalid)?;
        Ok((catalogue.repo.clone(), file, spec))
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
        let (repo, file, spec) = self.spec(key).map_err(told)?;
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
            let read = tokio::task::spawn_blocking(move || inner.read(looked)).await;
            let loops =
                read.map_err(|error| EngineError::Daemon(format!("read loop files: {error}")))?.map_err(told)?;
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
