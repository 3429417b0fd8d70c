//! The mounts and writable paths of each view, checked on its description. The `sandbox` crate tests the
//! enforcement.

use super::*;
use loopwright_core::level::LoopLevel::{L1Report, L2Assisted, L3Unattended};
use std::fs;

struct World {
    folder: tempfile::TempDir,
    files: CheckoutFiles,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let files = CheckoutFiles::Folder(folder.path().join("round/work"));
        let world = Self { folder, files };
        for name in
            ["round/work", "round/home", "round/tmp", "round/outbox", "round/sink", "round/items", "state", "repo"]
        {
            fs::create_dir_all(world.at(name)).expect("a folder can be made");
        }
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn keep_out(&self) -> HiddenPaths {
        HiddenPaths { whole: vec![self.at("state"), self.at("repo")], around: vec![self.at("user")] }
    }

    fn rooms(&self, walls: KernelIsolation, extra: &[&str]) -> SandboxViews {
        let extra: Vec<_> = extra.iter().map(|name| self.at(name)).collect();
        extra.iter().for_each(|dir| fs::create_dir_all(dir).expect("a folder can be made"));
        SandboxViews::new(walls, tools(&extra, &self.keep_out()))
    }

    fn maker(&self, rooms: &SandboxViews, level: LoopLevel) -> SandboxView {
        let (home, tmp, outbox, state) =
            (self.at("round/home"), self.at("round/tmp"), self.at("round/outbox"), self.at("s"));
        let papers = RolePaths { outbox: &outbox, state: &state, items: None, sink: None };
        rooms.maker(ProgramFolders { files: &self.files, home: &home, tmp: &tmp }, papers, level)
    }

    fn checker(&self, rooms: &SandboxViews) -> SandboxView {
        let round = |name: &str| self.at("round").join(name);
        let (outbox, items, sink, state) = (round("outbox"), round("items"), round("sink"), self.at("s"));
        let papers = RolePaths { outbox: &outbox, state: &state, items: Some(&items), sink: Some(&sink) };
        rooms.reader(ProgramFolders { files: &self.files, home: &round("home"), tmp: &round("tmp") }, papers)
    }
}

fn tools(path: &[PathBuf], keep_out: &HiddenPaths) -> Toolchains {
    let ground = crate::path_roots::PathRoots { repo: "/nowhere".into(), home: None };
    crate::toolchains::detect(&ground, path, &[], keep_out).expect("nothing was declared")
}

fn writable(room: &SandboxView) -> Vec<String> {
    let confine = room.confine().expect("the view is confined");
    let can = |mount: &&SandboxMount| {
        matches!(mount.what, MountSource::Writable(_) | MountSource::Overlay { .. } | MountSource::Memory(_))
    };
    confine.mounts.iter().filter(can).map(|mount| mount.at.display().to_string()).collect()
}

#[test]
fn every_path_keeps_its_name_without_confinement() {
    let world = World::new();
    let room = world.maker(&world.rooms(KernelIsolation::None, &["tools"]), L2Assisted);
    assert_eq!(room.inside_path(&world.at("round/work/a")), world.at("round/work/a"));
    assert_eq!(room.confine(), None);
    let spawn = SpawnRequest::new("sh", world.at("round/work"), crate::proc::TreeCookie::new("t"));
    let entered = room.confine_spawn(spawn.clone());
    assert_eq!((entered.cwd, entered.confine), (spawn.cwd, None));
    let path = room.env(&world.at("round/home"), &world.at("round/tmp"))[OsStr::new("PATH")].clone();
    let first = world.at("tools").display().to_string();
    assert!(path.to_string_lossy().starts_with(&format!("{first}:")), "{path:?}");
}

#[test]
fn maker_writes_its_workspace_except_at_l1() {
    let world = World::new();
    let rooms = world.rooms(KernelIsolation::Kernel, &[]);
    for level in [L2Assisted, L3Unattended] {
        assert_eq!(writable(&world.maker(&rooms, level)), ["/workspace", "/home/loop", "/tmp", "/outbox"]);
    }
    assert_eq!(writable(&world.maker(&rooms, L1Report)), ["/home/loop", "/tmp", "/outbox"]);
}

#[test]
fn checker_writes_its_sink_and_no_file_of_the_candidate() {
    let world = World::new();
    let room = world.checker(&world.rooms(KernelIsolation::Kernel, &[]));
    assert_eq!(writable(&room), ["/home/loop", "/tmp", "/outbox", "/sink"]);
    assert_eq!(room.inside_path(&world.at("round/sink/verdict.json")), Path::new("/sink/verdict.json"));
    assert_eq!(room.inside_path(&world.at("round/items/report.md")), Path::new("/items/report.md"));
    assert_eq!(room.inside_path(&world.at("s")), Path::new(inside::STATE));
    assert_eq!(room.inside_path(Path::new("/usr/bin/env")), Path::new("/usr/bin/env"));
}

#[test]
fn only_setup_has_the_hosts_network() {
    let world = World::new();
    let door = SandboxNetwork::Door { socket: world.at("door"), port: crate::egress::PORT };
    let mut rooms = world.rooms(KernelIsolation::Kernel, &[]);
    let route = EgressRoute { network: door.clone(), ..EgressRoute::default() };
    rooms.roles = route.clone();
    rooms.own.insert("curious".to_owned(), route);
    let (home, tmp) = (world.at("round/home"), world.at("round/tmp"));
    let seat = ProgramFolders { files: &world.files, home: &home, tmp: &tmp };
    let network = |room: &SandboxView| room.confine().expect("the view is confined").network.clone();
    assert_eq!(network(&world.maker(&rooms, L2Assisted)), door);
    assert_eq!(network(&rooms.probe(seat)), door);
    assert_eq!(
        network(&rooms.gate(seat, rooms.gate_route("tests"), &MachineProfile::first(None))),
        SandboxNetwork::None
    );
    assert_eq!(network(&rooms.gate(seat, rooms.gate_route("curious"), &MachineProfile::first(None))), door);
    assert_eq!(network(&rooms.setup(seat)), SandboxNetwork::Host);
    assert_eq!(writable(&rooms.probe(seat)), ["/home/loop", "/tmp"]);
}

#[test]
fn folder_with_hidden_paths_is_left_out_with_a_reason() {
    let world = World::new();
    let rooms = world.rooms(KernelIsolation::Kernel, &["user/bin", "user", "", "state/bin", "repo/bin"]);
    assert_eq!(rooms.path(), [world.at("user/bin")]);
    assert_eq!(rooms.left_out().len(), 4, "{:?}", rooms.left_out());
    let shown: Vec<_> = rooms.mounts.iter().map(|mount| mount.at.clone()).collect();
    assert_eq!(shown, [world.at("user/bin")]);
    let system = tools(&["/".into(), "/usr/local/games".into(), "/proc".into()], &HiddenPaths::default());
    let system = SandboxViews::new(KernelIsolation::Kernel, system);
    assert_eq!((system.path(), system.mounts.len()), (&[PathBuf::from("/usr/local/games")][..], 0));
}

#[test]
fn folder_with_a_socket_is_left_out() {
    let world = World::new();
    fs::create_dir_all(world.at("tools")).expect("a folder can be made");
    let _open = std::os::unix::net::UnixListener::bind(world.at("tools/agent.sock")).expect("a socket can be made");
    assert_eq!(world.rooms(KernelIsolation::Kernel, &["tools"]).path(), Vec::<PathBuf>::new());
}

#[test]
fn rust_toolchains_come_with_their_variables() {
    let world = World::new();
    fs::create_dir_all(world.at("user/.rustup")).expect("a folder can be made");
    let rooms = world.rooms(KernelIsolation::Kernel, &["user/.cargo/bin"]);
    let env = world.maker(&rooms, L2Assisted).env(&world.at("round/home"), &world.at("round/tmp"));
    assert_eq!(env[OsStr::new("RUSTUP_HOME")], world.at("user/.rustup").canonicalize().expect("it is there"));
    assert_eq!(env[OsStr::new("HOME")], inside::HOME);
    assert_eq!(env[OsStr::new("TMPDIR")], inside::TMP);
}

#[test]
fn program_outside_all_mounts_is_shown_alone() {
    let world = World::new();
    fs::create_dir_all(world.at("user")).expect("a folder can be made");
    fs::write(world.at("user/agent"), "#!/bin/sh\n").expect("a file can be written");
    let room = world.maker(&world.rooms(KernelIsolation::Kernel, &[]), L2Assisted);
    let before = room.confine().expect("the view is confined").mounts.len();
    let shown = |program: PathBuf| {
        let spawn = SpawnRequest::new(program, world.at("round/work"), crate::proc::TreeCookie::new("t"));
        let confine = room.confine_spawn(spawn).confine.expect("the view is confined");
        confine.mounts[before..].iter().map(|mount| mount.at.clone()).collect::<Vec<_>>()
    };
    assert_eq!(shown(world.at("user/agent")), [world.at("user/agent")]);
    assert_eq!(shown("/bin/sh".into()), Vec::<PathBuf>::new());
    assert_eq!(shown("./agent".into()), Vec::<PathBuf>::new());
    assert_eq!(shown(world.at("round/work/agent")), Vec::<PathBuf>::new());
}
