//! Whether overlays can be had where the workspaces lie, found by making one: it takes the launcher, a kernel that lets a
//! user namespace mount overlays, and a file system that can hold an upper layer (another overlay, as in many
//! containers, cannot).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::folder::{marked_dir, private_dir, unique};
use super::{Files, Method, Workspaces};
use crate::proc::{Cancel, Confine, Cookie, How, Limits, Proc, Spawn};
use crate::seam::Seam;

/// What was found, by the folder of the workspaces: neither kernel nor file system changes under a running process.
static KNOWN: Mutex<BTreeMap<PathBuf, Method>> = Mutex::new(BTreeMap::new());

/// The script that changes and deletes something of the lower layer and adds something.
const SCRIPT: &str = "echo changed >changed && rm gone && mkdir -p new/folder";
const WALL: Duration = Duration::from_secs(10);

impl Workspaces {
    /// The best method for programs that run behind walls here. Tried once per process.
    pub async fn best_method(&self) -> Method {
        let known = |root: &Path| KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(root).copied();
        if let Some(method) = known(&self.root) {
            return method;
        }
        let place = self.root.join("trash").join(unique("probe"));
        let works = try_overlay(&place).await.unwrap_or(false);
        self.throw_away(&place);
        let method = if works { Method::Overlay } else { Method::Copy };
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(self.root.clone(), method);
        method
    }
}

/// Whether a program in an overlay sees its layers, and what it did is found in the upper one as the seal expects it.
async fn try_overlay(place: &Path) -> std::io::Result<bool> {
    marked_dir(place)?;
    let inside = |name: &str| place.join(name);
    let (low, upper) = (inside("low"), inside("upper"));
    for folder in [&low, &inside("top"), &upper, &inside("overlay")] {
        private_dir(folder)?;
    }
    fs::write(low.join("changed"), b"")?;
    fs::write(low.join("gone"), b"")?;
    super::folder::whiteout(&inside("top").join("hidden"))?;
    let files = Files::Overlay { lower: vec![inside("top"), low], upper: upper.clone(), work: inside("overlay") };
    let mut confine = Confine::default();
    confine.mount("/workspace", files.writable());
    let mut spawn = Spawn::new("/bin/sh", "/workspace", Cookie::new("probe"));
    spawn.args = ["-c".into(), SCRIPT.into()].into();
    spawn.env = [("PATH".into(), "/usr/bin:/bin".into())].into();
    spawn.limits = Limits { wall: Some(WALL), ..Limits::default() };
    spawn.confine = Some(confine);
    // A host that cannot is an answer here and no failure, so tests have no seam to hook.
    let ended = Proc::new(Seam::none()).run(spawn, &mut (), &Cancel::new(), |_| ()).await;
    let is_done = ended.is_ok_and(|ended| ended.how == How::Exited(0));
    let marked = fs::symlink_metadata(upper.join("gone"))
        .is_ok_and(|about| about.file_type().is_char_device() && about.rdev() == 0);
    Ok(is_done && marked && fs::read(upper.join("changed"))? == b"changed\n" && upper.join("new/folder").is_dir())
}
