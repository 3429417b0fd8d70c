//! Rooms: what a program that is started for a loop gets to see, and under which names. One builder makes the room of every
//! start, so that no start forgets a wall. It describes; `sandbox` builds, and which walls there are is decided in
//! [`crate::boundary`].
//!
//! Inside, everything lies at the same place in every round, so that build caches stay valid. Nothing of the state
//! directory, the user's repository or home is ever there, and no socket.

mod copy;
mod hide;
mod nested_names;
mod tools;

pub use tools::HiddenPaths;

use crate::caches::{CacheAccess, PackageCache};
use crate::egress::{EgressRoute, EgressRoutes};
use crate::proc::{self, Confinement, MountSource, SandboxMount, SandboxNetwork, SpawnRequest};
use crate::toolchains::{ShownPath, Toolchains};
use crate::workspace::{CheckoutFiles, CheckoutMethod, private_dir};
use loopwright_core::level::LoopLevel;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where things lie inside.
pub mod inside {
    /// The role's view of the repository; programs start here.
    pub const WORKSPACE: &str = "/workspace";
    /// HOME.
    pub const HOME: &str = "/home/loop";
    /// Temporary files.
    pub const TMP: &str = "/tmp";
    /// Where a role stages its outputs.
    pub const OUTBOX: &str = "/outbox";
    /// Where a checker puts its verdict.
    pub const SINK: &str = "/sink";
    /// The staged items as they were sealed.
    pub const ITEMS: &str = "/items";
    /// What a held-out check needs.
    pub const HELDOUT: &str = "/heldout";
    /// What the loop remembers.
    pub const STATE: &str = "/run/loopwright/state.json";
    /// The program that plays a scripted agent.
    pub const AGENT: &str = "/run/loopwright/agent";
    /// The port on 127.0.0.1 behind which the egress proxy is.
    pub const PROXY_PORT: u16 = 3128;
}

/// Whether the kernel holds what is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KernelIsolation {
    /// It does, or the program does not start.
    Kernel,
    /// It does not: programs have this user's whole reach.
    #[default]
    None,
}

/// What one start sees. The default has no walls and names everything as the host does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxView {
    confine: Option<Confinement>,
    shown_at: Vec<(PathBuf, PathBuf)>,
    program_path: Vec<PathBuf>,
    vars: BTreeMap<OsString, OsString>,
}

impl SandboxView {
    /// What the kernel holds a program in here to.
    #[must_use]
    pub fn confine(&self) -> Option<&Confinement> {
        self.confine.as_ref()
    }

    /// A path of the host as a program in here names it.
    #[must_use]
    pub fn inside_path(&self, host: &Path) -> PathBuf {
        let under = self.shown_at.iter().filter_map(|(from, to)| Some((from, to, host.strip_prefix(from).ok()?)));
        let nearest = under.max_by_key(|(from, ..)| from.components().count());
        match nearest {
            Some((_, to, rest)) if rest.as_os_str().is_empty() => to.clone(),
            Some((_, to, rest)) => to.join(rest),
            None => host.to_owned(),
        }
    }

    /// The environment every program in here starts from; HOME and temporary files are given as the host names them.
    #[must_use]
    pub fn env(&self, home: &Path, tmp: &Path) -> BTreeMap<OsString, OsString> {
        let mut env = proc::base_env(&self.inside_path(home), &self.inside_path(tmp), &self.program_path);
        env.extend(self.vars.iter().map(|(name, value)| (name.clone(), value.clone())));
        env
    }

    /// Puts a program into this room: `spawn` is as the host would start it, with an environment that is already as it is
    /// seen in here. Its own file is shown when nothing else shows it.
    #[must_use]
    pub fn confine_spawn(&self, mut spawn: SpawnRequest) -> SpawnRequest {
        let Some(mut confine) = self.confine.clone() else { return spawn };
        let path = spawn.env.get(OsStr::new("PATH")).map_or(OsStr::new(""), OsString::as_os_str);
        let program = self.inside_path(&spawn.program);
        if program == spawn.program {
            confine.mounts.extend(tools::program_mount(&confine, &program, path));
        }
        spawn.program = program;
        spawn.cwd = self.inside_path(&spawn.cwd);
        spawn.confine = Some(confine);
        spawn
    }

    /// Shows one more file or folder of the host for reading. Without walls it is seen where it is.
    #[must_use]
    pub fn with_path_shown(mut self, host: &Path, at: &str) -> Self {
        self.put(host, at, MountSource::ReadOnly(host.to_owned()));
        self
    }

    /// The same room with something empty over these names at the top of the workspace, where they exist. `home` is the HOME
    /// of the start, as the host names it. Without walls nothing can be hidden: see [`SandboxView::visible_names`].
    ///
    /// # Errors
    /// When one of them is a link that leads out of the workspace, or the folder to lay over cannot be made.
    pub(crate) fn with_names_hidden(mut self, names: &[&str], home: &Path) -> Result<Self, String> {
        let Some(confine) = &mut self.confine else { return Ok(self) };
        let empty = beside(home, "empty");
        let mounts = hide::mounts(confine, names, &empty)?;
        if !mounts.is_empty() {
            private_dir(&empty).map_err(|error| format!("make `{}`: {error}", empty.display()))?;
        }
        confine.mounts.extend(mounts);
        Ok(self)
    }

    /// The same for every file of these names in a folder below the top.
    ///
    /// # Errors
    /// As above, and when there are too many.
    pub(crate) fn with_names_hidden_below(mut self, names: &[&str], home: &Path) -> Result<Self, String> {
        let Some(confine) = &mut self.confine else { return Ok(self) };
        let found = nested_names::find(&hide::layers(confine), names)?;
        let empty = beside(home, "empty");
        let mounts = hide::mounts(confine, &found, &empty)?;
        if !mounts.is_empty() {
            private_dir(&empty).map_err(|error| format!("make `{}`: {error}", empty.display()))?;
        }
        let new: Vec<_> = mounts.into_iter().filter(|new| confine.mounts.iter().all(|old| old.at != new.at)).collect();
        confine.mounts.extend(new);
        Ok(self)
    }

    /// Whether the kernel keeps programs in here from changing the workspace.
    pub(crate) fn is_read_only(&self) -> bool {
        let mounts = self.confine.iter().flat_map(|confine| &confine.mounts);
        let workspace = mounts.into_iter().find(|mount| mount.at == Path::new(inside::WORKSPACE));
        workspace.is_some_and(|mount| matches!(mount.what, MountSource::ReadOnly(_) | MountSource::Layers(_)))
    }

    /// Which of these names at the top of the workspace a program in here sees although they were to be hidden.
    pub(crate) fn visible_names<'n>(&self, names: &[&'n str], workspace: &Path) -> Vec<&'n str> {
        if self.confine.is_some() { Vec::new() } else { hide::existing(workspace, names) }
    }

    /// The first of these names below the top that a program in here sees although it was to be hidden.
    pub(crate) fn visible_below(&self, names: &[&str], workspace: &Path) -> Option<PathBuf> {
        let found = if self.confine.is_some() { Ok(Vec::new()) } else { nested_names::find(&[workspace], names) };
        found.unwrap_or_default().into_iter().next()
    }

    fn put(&mut self, host: &Path, at: &str, what: MountSource) {
        if let Some(confine) = &mut self.confine {
            confine.mount(at, what);
            self.shown_at.push((host.to_owned(), PathBuf::from(at)));
        }
    }
}

/// A folder beside a HOME, for what the kernel lays over and under it.
fn beside(home: &Path, name: &str) -> PathBuf {
    let folder = format!("{}-layers", home.file_name().unwrap_or_default().to_string_lossy());
    home.with_file_name(folder).join(name)
}

/// Layers with a private one on top. Its folders are made here because each start has its own; one that cannot be made
/// keeps the program from starting.
fn overlay(lower: Vec<PathBuf>, upper: PathBuf, work: PathBuf) -> MountSource {
    for folder in [&upper, &work] {
        let _ = private_dir(folder);
    }
    MountSource::Overlay { lower, upper, work }
}

/// What a set-up made: files that base does not have, and a HOME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupLayer {
    /// Files beside base's.
    pub work: PathBuf,
    /// The HOME it worked in.
    pub home: PathBuf,
}

/// Where a program sits: its files, its HOME, its folder for temporary files.
#[derive(Debug, Clone, Copy)]
pub struct ProgramFolders<'a> {
    /// Its view of the repository.
    pub files: &'a CheckoutFiles,
    /// Its HOME.
    pub home: &'a Path,
    /// Its temporary files.
    pub tmp: &'a Path,
}

/// What a role is handed besides its files.
#[derive(Debug, Clone, Copy)]
pub struct RolePaths<'a> {
    /// Where it stages its outputs.
    pub outbox: &'a Path,
    /// What the loop remembers, for reading.
    pub state: &'a Path,
    /// The sealed items, for reading.
    pub items: Option<&'a Path>,
    /// The folder in which a checker puts its verdict.
    pub sink: Option<&'a Path>,
}

/// Makes the rooms of one round.
#[derive(Debug, Clone, Default)]
pub struct SandboxViews {
    walls: KernelIsolation,
    roles: EgressRoute,
    gates: EgressRoute,
    own: BTreeMap<String, EgressRoute>,
    path: Vec<PathBuf>,
    vars: BTreeMap<OsString, OsString>,
    mounts: Vec<SandboxMount>,
    left_out: Vec<String>,
    caches: Vec<PackageCache>,
    layer: Option<SetupLayer>,
    method: CheckoutMethod,
}

impl SandboxViews {
    /// Rooms with these walls. Programs find those of the system and of the toolchains, which are shown for reading.
    #[must_use]
    pub fn new(walls: KernelIsolation, tools: Toolchains) -> Self {
        let mut rooms = Self { walls, path: tools.everything, vars: tools.env, ..Self::default() };
        if walls == KernelIsolation::Kernel {
            let mount = |shown: ShownPath| SandboxMount { at: shown.at, what: MountSource::ReadOnly(shown.host) };
            rooms.mounts = tools.shown.into_iter().map(mount).collect();
            rooms.path = tools.path;
            rooms.left_out = tools.left_out;
        }
        rooms
    }

    /// The same, with ways to the network.
    #[must_use]
    pub fn with_routes(mut self, ways: &EgressRoutes) -> Self {
        self.roles = ways.roles().clone();
        self.gates = ways.gates().clone();
        self.own = ways.gate_routes().clone();
        self
    }

    /// The way of a gate: its own, or that of all gates.
    #[must_use]
    pub fn gate_route(&self, name: &str) -> &EgressRoute {
        self.own.get(name).unwrap_or(&self.gates)
    }

    /// The same, with one more thing of the host for reading at its own path, such as a toolchain or a cache.
    #[must_use]
    pub fn with_path_shown(mut self, host: &Path) -> Self {
        let shown = SandboxMount { at: host.to_owned(), what: MountSource::ReadOnly(tools::real(host)) };
        if self.walls == KernelIsolation::Kernel && !self.mounts.contains(&shown) {
            self.mounts.push(shown);
        }
        self
    }

    /// The same, with caches that programs share.
    #[must_use]
    pub fn with_caches(mut self, caches: Vec<PackageCache>) -> Self {
        self.caches = caches;
        self
    }

    /// The same, over what a set-up made: its HOME lies below every HOME, and what it wrote to caches below theirs.
    #[must_use]
    pub fn with_setup_layer(mut self, layer: SetupLayer) -> Self {
        for (at, cache) in self.caches.iter_mut().enumerate() {
            let written = beside(&layer.home, &format!("cache-{at}"));
            if written.is_dir() {
                cache.layers.insert(0, written);
            }
        }
        self.layer = Some(layer);
        self
    }

    /// The same, with checkouts and HOMEs made this way.
    #[must_use]
    pub fn with_method(mut self, method: CheckoutMethod) -> Self {
        self.method = method;
        self
    }

    /// How checkouts and HOMEs are made.
    #[must_use]
    pub fn method(&self) -> CheckoutMethod {
        self.method
    }

    /// What a set-up made, if there was one; its folder is named after everything it depends on.
    #[must_use]
    pub fn layer(&self) -> Option<&SetupLayer> {
        self.layer.as_ref()
    }

    /// What a set-up made, as a layer for overlays; a copy gets it by [`SandboxViews::copy_setup_layer`].
    #[must_use]
    pub fn extra_lower(&self) -> Vec<PathBuf> {
        let layer = self.layer.as_ref().filter(|_| self.method == CheckoutMethod::Overlay);
        layer.map(|layer| layer.work.clone()).into_iter().collect()
    }

    /// Puts what a set-up made into a seat that has no layers, and answers with it. Nothing is done where there are some.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy_setup_layer(&self, seat: ProgramFolders<'_>) -> std::io::Result<Option<&SetupLayer>> {
        let Some(layer) = self.layer.as_ref().filter(|_| self.method == CheckoutMethod::Copy) else { return Ok(None) };
        copy::tree(&layer.home, seat.home)?;
        if let CheckoutFiles::Folder(folder) = seat.files {
            copy::tree(&layer.work, folder)?;
        }
        Ok(Some(layer))
    }

    /// What the programs in these rooms depend on, as text to be hashed: which tools there are, and when they changed.
    #[must_use]
    pub fn fingerprint_lines(&self) -> Vec<String> {
        let changed = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let mounts = self.mounts.iter().map(|mount| format!("{mount:?} {:?}", changed(&mount.at)));
        let vars = self.vars.iter().map(|(name, value)| format!("{name:?}={value:?}"));
        let caches = self.caches.iter().map(|cache| format!("{cache:?}"));
        mounts.chain(vars).chain(caches).chain([format!("{:?}", self.path)]).collect()
    }

    /// Whether the kernel holds what is started in these rooms.
    #[must_use]
    pub fn isolation(&self) -> KernelIsolation {
        self.walls
    }

    /// Folders in which programs are found, besides the system's.
    #[must_use]
    pub fn path(&self) -> &[PathBuf] {
        &self.path
    }

    /// Folders that were asked for and are not shown, each with its reason.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// A maker's: its workspace can be changed, except at L1.
    #[must_use]
    pub fn maker(&self, seat: ProgramFolders<'_>, papers: RolePaths<'_>, level: LoopLevel) -> SandboxView {
        let files = if level.maker_may_write() { seat.files.writable() } else { seat.files.read_only() };
        self.role(seat, files, papers)
    }

    /// That of a role which only looks: checker, planner, attacker, prover. It writes to its outbox and its sink.
    #[must_use]
    pub fn reader(&self, seat: ProgramFolders<'_>, papers: RolePaths<'_>) -> SandboxView {
        self.role(seat, seat.files.read_only(), papers)
    }

    /// A gate's: it may change its checkout, which nobody uses after it.
    #[must_use]
    pub fn gate(&self, seat: ProgramFolders<'_>, way: &EgressRoute) -> SandboxView {
        self.base_view(seat, seat.files.writable(), way)
    }

    /// A probe's: it looks at base, with the loop's network.
    #[must_use]
    pub fn probe(&self, seat: ProgramFolders<'_>) -> SandboxView {
        self.base_view(seat, seat.files.read_only(), &self.roles)
    }

    /// That of trusted preparation on base, with the host's network and nothing of a maker's present.
    #[must_use]
    pub fn setup(&self, seat: ProgramFolders<'_>) -> SandboxView {
        self.base_view(seat, seat.files.writable(), &SandboxNetwork::Host.into())
    }

    fn role(&self, seat: ProgramFolders<'_>, files: MountSource, papers: RolePaths<'_>) -> SandboxView {
        let mut room = self.base_view(seat, files, &self.roles);
        room.put(papers.outbox, inside::OUTBOX, MountSource::Writable(papers.outbox.to_owned()));
        room.put(papers.state, inside::STATE, MountSource::ReadOnly(papers.state.to_owned()));
        if let Some(items) = papers.items {
            room.put(items, inside::ITEMS, MountSource::ReadOnly(items.to_owned()));
        }
        if let Some(sink) = papers.sink {
            room.put(sink, inside::SINK, MountSource::Writable(sink.to_owned()));
        }
        room
    }

    /// What all rooms have. Tools come last: one may lie below a private place, such as `/tmp`.
    fn base_view(&self, seat: ProgramFolders<'_>, files: MountSource, way: &EgressRoute) -> SandboxView {
        let mut room =
            SandboxView { program_path: self.path.clone(), vars: self.vars.clone(), ..SandboxView::default() };
        room.vars.extend(way.vars.iter().map(|(name, value)| (name.into(), value.into())));
        if self.walls == KernelIsolation::None {
            return room;
        }
        room.confine = Some(Confinement { network: way.network.clone(), ..Confinement::default() });
        room.put(host_folder(seat.files), inside::WORKSPACE, files);
        room.put(seat.home, inside::HOME, self.home(seat.home));
        room.put(seat.tmp, inside::TMP, MountSource::Writable(seat.tmp.to_owned()));
        if let Some(confine) = &mut room.confine {
            confine.mounts.extend(self.caches.iter().enumerate().map(|(at, cache)| self.cache(at, cache, seat.home)));
            confine.mounts.extend(self.mounts.iter().cloned());
            confine.mounts.extend(way.mounts());
        }
        room
    }

    /// A HOME: private, over what a set-up left in its own.
    fn home(&self, home: &Path) -> MountSource {
        match &self.layer {
            Some(layer) if self.method == CheckoutMethod::Overlay => {
                overlay(vec![layer.home.clone()], home.to_owned(), beside(home, "work"))
            }
            Some(_) | None => MountSource::Writable(home.to_owned()),
        }
    }

    fn cache(&self, at: usize, cache: &PackageCache, home: &Path) -> SandboxMount {
        let what = match (cache.access, self.method, cache.layers.as_slice()) {
            (CacheAccess::Private, CheckoutMethod::Overlay, layers) => {
                let [upper, work] = ["cache", "work"].map(|kind| beside(home, &format!("{kind}-{at}")));
                overlay(layers.to_vec(), upper, work)
            }
            (_, _, [only]) => MountSource::ReadOnly(only.clone()),
            (_, _, layers) => MountSource::Layers(layers.to_vec()),
        };
        SandboxMount { at: cache.at.clone(), what }
    }
}

/// The folder of the host by which a checkout goes; with layers it does not hold all of its files.
#[must_use]
pub fn host_folder(files: &CheckoutFiles) -> &Path {
    match files {
        CheckoutFiles::Folder(path) | CheckoutFiles::Overlay { upper: path, .. } => path,
        CheckoutFiles::Layers(layers) => layers.first().map_or(Path::new(inside::WORKSPACE), PathBuf::as_path),
    }
}

#[cfg(test)]
mod tests;
