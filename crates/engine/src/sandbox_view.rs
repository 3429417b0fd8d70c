//! Sandbox views: what a program of a loop sees, and under which paths. One builder makes the view of every start, so
//! that no start misses a restriction. This module only describes the view: `sandbox` builds it, and
//! [`crate::boundary`] decides whether the kernel enforces it.
//!
//! Inside, every path is the same in every round, so that build caches stay valid. A view never includes the state
//! directory, the user's repository or home, or a socket.

mod copy;
mod hide;
mod machine;
mod nested_names;
mod tools;

pub(crate) use copy::copy_tree;
pub use machine::MachineProfile;
pub use tools::HiddenPaths;
pub(crate) use tools::is_system;

use crate::caches::{CacheAccess, PackageCache};
use crate::egress::{BUNDLE_INSIDE, CERTIFICATE_VARIABLES, EgressRoute, EgressRoutes};
use crate::proc::{self, Confinement, MountSource, SandboxMount, SandboxNetwork, SpawnRequest};
use crate::toolchains::{ShownPath, Toolchains};
use crate::workspace::{CheckoutFiles, CheckoutMethod, ExternalContent, WorkspaceOptions, private_dir};
use loopwright_core::level::LoopLevel;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The paths inside a view.
pub mod inside {
    /// The role's view of the repository, and the working directory of programs.
    pub const WORKSPACE: &str = "/workspace";
    /// HOME.
    pub const HOME: &str = "/home/loop";
    /// Temporary files.
    pub const TMP: &str = "/tmp";
    /// The role's staged outputs.
    pub const OUTBOX: &str = "/outbox";
    /// The checker's verdict.
    pub const SINK: &str = "/sink";
    /// The staged items as they were sealed.
    pub const ITEMS: &str = "/items";
    /// The files of a held-out check.
    pub const HELDOUT: &str = "/heldout";
    /// The loop's memory.
    pub const STATE: &str = "/run/loopwright/state.json";
    /// The program that runs a scripted agent.
    pub const AGENT: &str = "/run/loopwright/agent";
}

/// The system's list of certificate authorities, where distributions keep it; every sandbox shows these files.
const SYSTEM_CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Whether the kernel confines programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KernelIsolation {
    /// It does, or the program does not start.
    Kernel,
    /// It does not: programs have all rights of this user.
    #[default]
    None,
}

/// The view of one start. The default is not confined and uses the host's paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxView {
    confine: Option<Confinement>,
    shown_at: Vec<(PathBuf, PathBuf)>,
    program_path: Vec<PathBuf>,
    vars: BTreeMap<OsString, OsString>,
    machine: Option<MachineProfile>,
}

impl SandboxView {
    /// The restrictions that the kernel enforces.
    #[must_use]
    pub fn confine(&self) -> Option<&Confinement> {
        self.confine.as_ref()
    }

    /// A host path as a program inside sees it.
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

    /// The environment that every program inside starts from. The arguments are host paths.
    #[must_use]
    pub fn env(&self, home: &Path, tmp: &Path) -> BTreeMap<OsString, OsString> {
        let mut env = proc::base_env(&self.inside_path(home), &self.inside_path(tmp), &self.program_path);
        env.extend(self.vars.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(machine) = &self.machine {
            machine.adapt(&mut env);
        }
        env
    }

    /// Confines a program to this view. `spawn` has host paths, except for its environment, which is already as seen
    /// inside. The program's own file is mounted if no other mount shows it.
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

    /// Shows one more file or folder of the host, read-only. Without confinement it keeps its host path.
    #[must_use]
    pub fn with_path_shown(mut self, host: &Path, at: &str) -> Self {
        self.put(host, at, MountSource::ReadOnly(host.to_owned()));
        self
    }

    /// Shows one more folder of the host, writable. Without confinement it keeps its host path.
    #[must_use]
    pub(crate) fn with_path_writable(mut self, host: &Path, at: &str) -> Self {
        self.put(host, at, MountSource::Writable(host.to_owned()));
        self
    }

    /// The same view with these folders of its workspace read-only. Without confinement nothing can be mounted.
    #[must_use]
    pub(crate) fn with_folders_locked(mut self, files: &CheckoutFiles, folders: &[String]) -> Self {
        let workspace = self.machine.as_ref().map(|machine| machine.workspace.clone());
        let (Some(confine), Some(workspace)) = (&mut self.confine, workspace) else { return self };
        for folder in folders {
            if let Some(what) = files.folder_read_only(Path::new(folder)) {
                confine.mount(workspace.join(folder), what);
            }
        }
        self
    }

    /// The same view with these files of its workspace read-only, at paths that nothing inside can rename. A file that is
    /// not a plain file is left as it is. Without confinement nothing can be mounted.
    #[must_use]
    pub(crate) fn with_files_locked(mut self, files: &CheckoutFiles, paths: &[String]) -> Self {
        let workspace = self.machine.as_ref().map(|machine| machine.workspace.clone());
        let (Some(confine), Some(workspace)) = (&mut self.confine, workspace) else { return self };
        let locked: Vec<_> =
            paths.iter().filter_map(|path| Some((path, files.file_read_only(Path::new(path))?))).collect();
        let folders = locked.iter().flat_map(|(path, _)| Path::new(path).ancestors().skip(1));
        // In order of their paths, so that a folder comes before the folders in it.
        for folder in folders.filter(|folder| !folder.as_os_str().is_empty()).collect::<BTreeSet<_>>() {
            confine.mount(workspace.join(folder), MountSource::Pinned);
        }
        for (path, file) in locked {
            confine.mount(workspace.join(path), file);
        }
        self
    }

    /// The same view without the names in `top` at the top of the workspace, and without those in `below` in all folders
    /// below it, where they exist. `home` is the host path of the start's HOME. Without confinement nothing can be
    /// hidden: see [`SandboxView::visible_names`].
    ///
    /// # Errors
    /// When a name is a link that leads out of the workspace, when there are too many below the top, or when the empty
    /// folder to mount over them cannot be made.
    pub(crate) fn with_names_hidden(mut self, top: &[&str], below: &[&str], home: &Path) -> Result<Self, String> {
        let Some(confine) = &mut self.confine else { return Ok(self) };
        let mut paths: Vec<PathBuf> = top.iter().map(PathBuf::from).collect();
        if !below.is_empty() {
            let found = nested_names::find(&hide::layers(confine), below)?;
            // Nothing can be mounted inside a folder that is hidden already.
            paths.extend(found.into_iter().filter(|path| !top.iter().any(|place| path.starts_with(place))));
        }
        let empty = beside(home, "empty");
        let mounts = hide::mounts(confine, &paths, &empty)?;
        if !mounts.is_empty() {
            private_dir(&empty).map_err(|error| format!("make `{}`: {error}", empty.display()))?;
        }
        confine.mounts.extend(mounts);
        Ok(self)
    }

    /// Whether the kernel makes the workspace read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        let mounts = self.confine.iter().flat_map(|confine| &confine.mounts);
        let workspace = mounts.into_iter().find(|mount| mount.at == Path::new(inside::WORKSPACE));
        workspace.is_some_and(|mount| matches!(mount.what, MountSource::ReadOnly(_) | MountSource::Layers(_)))
    }

    /// The names at the top of the workspace that should be hidden but are visible.
    pub(crate) fn visible_names<'n>(&self, names: &[&'n str], workspace: &Path) -> Vec<&'n str> {
        if self.confine.is_some() { Vec::new() } else { hide::existing(workspace, names) }
    }

    /// The first of these names below the top that should be hidden but is visible.
    pub(crate) fn visible_below(&self, names: &[&str], workspace: &Path) -> Option<PathBuf> {
        let found = if self.confine.is_some() { Ok(Vec::new()) } else { nested_names::find(&[workspace], names) };
        found.unwrap_or_default().into_iter().next()
    }

    fn put(&mut self, host: &Path, at: impl AsRef<Path>, what: MountSource) {
        if let Some(confine) = &mut self.confine {
            let at = at.as_ref();
            confine.mount(at, what);
            self.shown_at.push((host.to_owned(), at.to_owned()));
        }
    }
}

/// A folder beside a HOME, for the layers of overlays.
fn beside(home: &Path, name: &str) -> PathBuf {
    let folder = format!("{}-layers", home.file_name().unwrap_or_default().to_string_lossy());
    home.with_file_name(folder).join(name)
}

/// An overlay with a private top layer. Its folders are made here because each start has its own; if one cannot be
/// made, the program does not start.
fn overlay(lower: Vec<PathBuf>, upper: PathBuf, work: PathBuf) -> MountSource {
    for folder in [&upper, &work] {
        let _ = private_dir(folder);
    }
    MountSource::Overlay { lower, upper, work }
}

/// The output of a set-up: files that base does not have, and a HOME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupLayer {
    /// Files in addition to base's.
    pub work: PathBuf,
    /// The HOME of the set-up.
    pub home: PathBuf,
}

/// The folders of a program: its files, its HOME, its temporary files.
#[derive(Debug, Clone, Copy)]
pub struct ProgramFolders<'a> {
    /// The view of the repository.
    pub files: &'a CheckoutFiles,
    /// HOME.
    pub home: &'a Path,
    /// Temporary files.
    pub tmp: &'a Path,
}

/// The paths of a role besides its files.
#[derive(Debug, Clone, Copy)]
pub struct RolePaths<'a> {
    /// The folder for staged outputs.
    pub outbox: &'a Path,
    /// The loop's memory, read-only.
    pub state: &'a Path,
    /// The sealed items, read-only.
    pub items: Option<&'a Path>,
    /// The folder for a checker's verdict.
    pub sink: Option<&'a Path>,
}

/// Builds the sandbox views of one round.
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
    external: ExternalContent,
}

impl SandboxViews {
    /// Views with this isolation. Programs find those of the system and of the toolchains, which are mounted read-only.
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

    /// Adds the routes to the network.
    #[must_use]
    pub fn with_routes(mut self, ways: &EgressRoutes) -> Self {
        self.roles = ways.roles.clone();
        self.gates = ways.gates.clone();
        self.own = ways.own.clone();
        self
    }

    /// The route of a gate: its own, or the one of all gates.
    #[must_use]
    pub fn gate_route(&self, name: &str) -> &EgressRoute {
        self.own.get(name).unwrap_or(&self.gates)
    }

    /// Adds shared caches.
    #[must_use]
    pub fn with_caches(mut self, caches: Vec<PackageCache>) -> Self {
        self.caches = caches;
        self
    }

    /// Adds the output of a set-up: its HOME becomes the lower layer of every HOME, and its writes to caches the lower
    /// layer of each cache.
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

    /// Sets how checkouts and HOMEs are made.
    #[must_use]
    pub fn with_method(mut self, method: CheckoutMethod) -> Self {
        self.method = method;
        self
    }

    /// Sets the content of submodules and large files that checkouts include.
    #[must_use]
    pub fn with_external(mut self, external: ExternalContent) -> Self {
        self.external = external;
        self
    }

    /// The options of a workspace for programs in these views.
    #[must_use]
    pub fn workspace_options(&self) -> WorkspaceOptions {
        WorkspaceOptions {
            method: self.method,
            extra_lower: self.extra_lower(),
            external: self.external,
            withheld: None,
        }
    }

    /// How checkouts and HOMEs are made.
    #[must_use]
    pub fn method(&self) -> CheckoutMethod {
        self.method
    }

    /// The output of a set-up, if there was one; its folder is named after everything it depends on.
    #[must_use]
    pub fn layer(&self) -> Option<&SetupLayer> {
        self.layer.as_ref()
    }

    /// The output of a set-up as a layer for overlays; a copied checkout gets it by [`SandboxViews::copy_setup_layer`].
    #[must_use]
    pub fn extra_lower(&self) -> Vec<PathBuf> {
        let layer = self.layer.as_ref().filter(|_| self.method == CheckoutMethod::Overlay);
        layer.map(|layer| layer.work.clone()).into_iter().collect()
    }

    /// Copies the output of a set-up to folders that have no layers, and returns it. Does nothing if they have layers.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy_setup_layer(&self, seat: ProgramFolders<'_>) -> std::io::Result<Option<&SetupLayer>> {
        let Some(layer) = self.layer.as_ref().filter(|_| self.method == CheckoutMethod::Copy) else { return Ok(None) };
        copy_tree(&layer.home, seat.home)?;
        if let CheckoutFiles::Folder(folder) = seat.files {
            copy_tree(&layer.work, folder)?;
        }
        Ok(Some(layer))
    }

    /// Everything that programs in these views depend on, as text to hash: the tools, and when they changed.
    #[must_use]
    pub fn fingerprint_lines(&self) -> Vec<String> {
        let changed = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let mounts = self.mounts.iter().map(|mount| format!("{mount:?} {:?}", changed(&mount.at)));
        let vars = self.vars.iter().map(|(name, value)| format!("{name:?}={value:?}"));
        let caches = self.caches.iter().map(|cache| format!("{cache:?}"));
        let external = (self.external != ExternalContent::default()).then(|| format!("{:?}", self.external));
        mounts.chain(vars).chain(caches).chain([format!("{:?}", self.path)]).chain(external).collect()
    }

    /// Whether the kernel confines programs in these views.
    #[must_use]
    pub fn isolation(&self) -> KernelIsolation {
        self.walls
    }

    /// Folders of programs besides the system's.
    #[must_use]
    pub fn path(&self) -> &[PathBuf] {
        &self.path
    }

    /// Requested folders that are not shown, each with its reason.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The maker's view: its workspace is writable, except at L1.
    #[must_use]
    pub fn maker(&self, seat: ProgramFolders<'_>, papers: RolePaths<'_>, level: LoopLevel) -> SandboxView {
        let files = if level.maker_may_write() { seat.files.writable() } else { seat.files.read_only() };
        self.role(seat, files, papers)
    }

    /// The view of a role that only reads: checker, planner, attacker, prover. It writes to its outbox and its sink.
    #[must_use]
    pub fn reader(&self, seat: ProgramFolders<'_>, papers: RolePaths<'_>) -> SandboxView {
        self.role(seat, seat.files.read_only(), papers)
    }

    /// A gate's view on a machine: the gate may change its checkout, which has no later user.
    #[must_use]
    pub fn gate(&self, seat: ProgramFolders<'_>, way: &EgressRoute, machine: &MachineProfile) -> SandboxView {
        let mut view = self.machine_view(seat, seat.files.writable(), way, machine);
        view.machine = Some(machine.clone());
        view
    }

    /// A probe's view: base, read-only, with the loop's network.
    #[must_use]
    pub fn probe(&self, seat: ProgramFolders<'_>) -> SandboxView {
        self.base_view(seat, seat.files.read_only(), &self.roles)
    }

    /// The view of trusted preparation on base, with the host's network and no file of a maker.
    #[must_use]
    pub fn setup(&self, seat: ProgramFolders<'_>) -> SandboxView {
        let host = EgressRoute { network: SandboxNetwork::Host, ..EgressRoute::default() };
        let mut view = self.base_view(seat, seat.files.writable(), &host);
        // pip, npm and others bring their own list of authorities. Behind a private registry only the system's list is
        // complete, and the settings that would name it are not shown inside, because they often hold tokens.
        if let Some(bundle) = SYSTEM_CERTIFICATES.iter().find(|path| Path::new(path).is_file()) {
            view.vars.extend(CERTIFICATE_VARIABLES.map(|name| (name.into(), (*bundle).into())));
        }
        view
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

    fn base_view(&self, seat: ProgramFolders<'_>, files: MountSource, way: &EgressRoute) -> SandboxView {
        self.machine_view(seat, files, way, &MachineProfile::of_roles())
    }

    /// The part that all views share. Tools come last: one may lie below a private folder, such as `/tmp`.
    fn machine_view(
        &self,
        seat: ProgramFolders<'_>,
        files: MountSource,
        way: &EgressRoute,
        machine: &MachineProfile,
    ) -> SandboxView {
        let mut room =
            SandboxView { program_path: self.path.clone(), vars: self.vars.clone(), ..SandboxView::default() };
        room.vars.extend(way.vars.iter().map(|(name, value)| (name.into(), value.into())));
        if self.walls == KernelIsolation::None {
            return room;
        }
        let identity = machine.identity.clone();
        room.confine = Some(Confinement { network: way.network.clone(), identity, ..Confinement::default() });
        room.put(host_folder(seat.files), &machine.workspace, files);
        room.put(seat.home, &machine.home, self.home(seat.home));
        room.put(seat.tmp, inside::TMP, MountSource::Writable(seat.tmp.to_owned()));
        if let Some(confine) = &mut room.confine {
            let cache = |(at, cache)| self.cache(at, cache, seat.home, machine);
            confine.mounts.extend(self.caches.iter().enumerate().map(cache));
            confine.mounts.extend(self.mounts.iter().cloned());
            let shown =
                |host: &PathBuf| SandboxMount { at: BUNDLE_INSIDE.into(), what: MountSource::ReadOnly(host.clone()) };
            confine.mounts.extend(way.bundle.as_ref().map(shown));
        }
        room
    }

    /// A HOME: private, over the HOME of a set-up.
    fn home(&self, home: &Path) -> MountSource {
        match &self.layer {
            Some(layer) if self.method == CheckoutMethod::Overlay => {
                overlay(vec![layer.home.clone()], home.to_owned(), beside(home, "work"))
            }
            Some(_) | None => MountSource::Writable(home.to_owned()),
        }
    }

    fn cache(&self, at: usize, cache: &PackageCache, home: &Path, machine: &MachineProfile) -> SandboxMount {
        let what = match (cache.access, self.method, cache.layers.as_slice()) {
            (CacheAccess::Private, CheckoutMethod::Overlay, layers) => {
                let [upper, work] = ["cache", "work"].map(|kind| beside(home, &format!("{kind}-{at}")));
                overlay(layers.to_vec(), upper, work)
            }
            (_, _, [only]) => MountSource::ReadOnly(only.clone()),
            (_, _, layers) => MountSource::Layers(layers.to_vec()),
        };
        SandboxMount { at: machine.in_home(&cache.at), what }
    }
}

/// The host folder of a checkout; an overlay's folder does not hold all of its files.
#[must_use]
pub fn host_folder(files: &CheckoutFiles) -> &Path {
    match files {
        CheckoutFiles::Folder(path) | CheckoutFiles::Overlay { upper: path, .. } => path,
        CheckoutFiles::Layers(layers) => layers.first().map_or(Path::new(inside::WORKSPACE), PathBuf::as_path),
    }
}

#[cfg(test)]
mod tests;
