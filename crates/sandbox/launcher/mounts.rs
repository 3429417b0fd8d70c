//! Mounts the entries of the plan: trees of the host, folders in memory, layers, small files.

use crate::confinement::{MountSource, SandboxMount};
use crate::report::{FailedStep, StepResult};
use crate::sys;
use crate::wire::{LaunchPlan, LaunchStep};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// The temporary path of a file that is mounted onto a place outside of the root's own memory.
const WAITING: &str = "/.file";

/// A copy of the host's mounts at one path, not attached yet.
pub struct MountTree {
    mounts: OwnedFd,
    is_folder: bool,
}

impl MountTree {
    pub fn open(path: &Path, attributes: u64) -> io::Result<Self> {
        let mounts = sys::clone_tree(path)?;
        sys::restrict_tree(&mounts, attributes)?;
        let mounts = File::from(mounts);
        let is_folder = mounts.metadata()?.is_dir();
        Ok(Self { mounts: mounts.into(), is_folder })
    }

    /// Attaches it at a path of the plan, whose parent folders may contain files of other programs.
    pub fn lay(&self, at: &Path) -> io::Result<()> {
        self.make(at)?;
        sys::attach(&self.mounts, &sys::open_place(at)?)
    }

    /// Attaches it at a path of the helper's own, where no other program writes.
    pub fn lay_own(&self, at: &Path) -> io::Result<()> {
        self.make(at)?;
        sys::attach_at(&self.mounts, at)
    }

    fn make(&self, at: &Path) -> io::Result<()> {
        if self.is_folder { make_folder(at) } else { make_file(at) }
    }
}

/// An entry of the plan whose sources on the host are open.
pub enum OpenedMount {
    Tree(MountTree),
    Layers {
        lower: Vec<OwnedFd>,
        changes: Option<(OwnedFd, OwnedFd)>,
    },
    /// No source on the host: the plan holds everything.
    Own,
}

pub fn open(plan: &LaunchPlan) -> StepResult<Vec<OpenedMount>> {
    plan.places.iter().enumerate().map(|(index, place)| open_one(place).at_place(LaunchStep::Source, index)).collect()
}

fn open_one(place: &SandboxMount) -> io::Result<OpenedMount> {
    check(&place.at)?;
    let kept = sys::ATTR_NOSUID | sys::ATTR_NODEV;
    Ok(match &place.what {
        MountSource::ReadOnly(path) => OpenedMount::Tree(MountTree::open(path, kept | sys::ATTR_RDONLY)?),
        MountSource::Writable(path) => OpenedMount::Tree(MountTree::open(path, kept)?),
        // A single read-only layer needs no overlay.
        MountSource::Layers(lower) if lower.len() == 1 => {
            OpenedMount::Tree(MountTree::open(&lower[0], kept | sys::ATTR_RDONLY)?)
        }
        MountSource::Layers(lower) => OpenedMount::Layers { lower: folders(lower)?, changes: None },
        MountSource::Overlay { lower, upper, work } => {
            OpenedMount::Layers { lower: folders(lower)?, changes: Some((folder(upper)?, folder(work)?)) }
        }
        MountSource::Memory(_) | MountSource::File(_) | MountSource::Pinned => OpenedMount::Own,
    })
}

/// The path must be absolute, below the root, and without `..` steps.
fn check(at: &Path) -> io::Result<()> {
    let mut parts = at.components();
    let absolute = parts.next() == Some(Component::RootDir);
    let mut count = 0;
    let plain = parts.all(|part| {
        count += 1;
        matches!(part, Component::Normal(_))
    });
    if absolute && plain && count > 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(sys::EINVAL)) }
}

fn folders(paths: &[PathBuf]) -> io::Result<Vec<OwnedFd>> {
    paths.iter().map(|path| folder(path)).collect()
}

fn folder(path: &Path) -> io::Result<OwnedFd> {
    sys::open_path(path, sys::O_DIRECTORY)
}

pub fn lay(plan: &LaunchPlan, opened: Vec<OpenedMount>) -> StepResult {
    let both = plan.places.iter().zip(opened).enumerate();
    both.into_iter().try_for_each(|(index, (place, opened))| lay_one(place, &opened).at_place(LaunchStep::Place, index))
}

fn lay_one(place: &SandboxMount, opened: &OpenedMount) -> io::Result<()> {
    match (opened, &place.what) {
        (OpenedMount::Tree(tree), _) => tree.lay(&place.at),
        (OpenedMount::Layers { lower, changes }, _) => {
            lay_new(place, c"overlay", &overlay_options(lower, changes.as_ref())?)
        }
        (OpenedMount::Own, MountSource::Memory(size)) => {
            lay_new(place, c"tmpfs", &sys::c_string(format!("mode=1777,size={size}").as_bytes())?)
        }
        (OpenedMount::Own, MountSource::File(content)) => lay_file(&place.at, content),
        (OpenedMount::Own, MountSource::Pinned) => pin(&place.at),
        (OpenedMount::Own, _) => Err(io::Error::from_raw_os_error(sys::EINVAL)),
    }
}

fn lay_new(place: &SandboxMount, kind: &std::ffi::CStr, options: &CString) -> io::Result<()> {
    make_folder(&place.at)?;
    let target = name_of(&sys::open_place(&place.at)?)?;
    sys::mount_new(kind, &target.1, sys::MS_NOSUID | sys::MS_NODEV, options)
}

/// The path of an open descriptor, together with a copy that keeps it open. The path is short, has no character with a
/// meaning in mount options, and refers to exactly the opened file.
fn name_of(fd: &OwnedFd) -> io::Result<(OwnedFd, CString)> {
    let fd = fd.try_clone()?;
    let name = sys::c_string(format!("/proc/self/fd/{}", fd.as_raw_fd()).as_bytes())?;
    Ok((fd, name))
}

/// `volatile`: a round's writes need not survive a power loss, and without it the kernel flushes the whole file system
/// at every unmount. `userxattr`: the only attributes that a user namespace may write.
fn overlay_options(lower: &[OwnedFd], changes: Option<&(OwnedFd, OwnedFd)>) -> io::Result<CString> {
    let name = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lower: Vec<String> = lower.iter().map(name).collect();
    let mut options = format!("userxattr,index=off,lowerdir={}", lower.join(":"));
    if let Some((upper, work)) = changes {
        options += &format!(",volatile,upperdir={},workdir={}", name(upper), name(work));
    }
    sys::c_string(options.as_bytes())
}

/// Written in place if the path is in the root's own memory, which later becomes read-only as a whole; mounted onto the
/// path if it is in a folder of the host.
fn lay_file(at: &Path, content: &[u8]) -> io::Result<()> {
    make_file(at)?;
    if fs::symlink_metadata(at)?.dev() == fs::metadata("/")?.dev() {
        // Opened without following links, so this is the file that was just created.
        drop(sys::open_place(at)?);
        return write_read_only(at, content);
    }
    let waiting = Path::new(WAITING);
    write_read_only(waiting, content)?;
    let tree = MountTree::open(waiting, sys::ATTR_RDONLY | sys::ATTR_NOSUID | sys::ATTR_NODEV)?;
    sys::attach(&tree.mounts, &sys::open_place(at)?)?;
    fs::remove_file(waiting)
}

/// A mount point cannot be renamed or removed.
fn pin(at: &Path) -> io::Result<()> {
    let place = sys::open_place(at)?;
    let (_open, name) = name_of(&place)?;
    let name = name.into_string().map_err(|_| io::Error::from_raw_os_error(sys::EINVAL))?;
    let tree = MountTree::open(Path::new(&name), sys::ATTR_NOSUID | sys::ATTR_NODEV)?;
    sys::attach(&tree.mounts, &place)
}

fn write_read_only(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o444))
}

pub fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Creates an empty file as a mount point, unless the path exists.
pub fn make_file(path: &Path) -> io::Result<()> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), make_folder)?;
            File::create_new(path).map(drop)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}
