//! A limit on how deep folders may be nested where the engine walks files by name. Real projects stay far below it. A
//! maker or a set-up that nests folders without end causes an error, and does not exhaust the engine's stack, its
//! descriptors or the kernel's path length.

use std::io;

/// Levels below the first folder; with names of one letter the kernel's limit is twice as many.
const LEVELS_MAX: u32 = 1000;

/// The depth of a folder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FolderDepth(u32);

impl FolderDepth {
    /// The depth of a folder in this one.
    ///
    /// # Errors
    /// When it is too deep.
    pub(crate) fn child(self) -> io::Result<Self> {
        let too_deep = || io::Error::other(format!("folders are nested more than {LEVELS_MAX} levels deep"));
        Some(Self(self.0 + 1)).filter(|depth| depth.0 <= LEVELS_MAX).ok_or_else(too_deep)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use std::path::Path;

    /// Creates nested folders, each relative to its parent: their full path is longer than the kernel accepts.
    pub(crate) fn deep(root: &Path, levels: usize) {
        let open = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let mut parent = openat(CWD, root, open, Mode::empty()).expect("it is there");
        for _ in 0..levels {
            mkdirat(&parent, "d", Mode::RWXU).expect("a folder can be made");
            parent = openat(&parent, "d", open, Mode::empty()).expect("it was just made");
        }
    }
}
