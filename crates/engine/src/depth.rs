//! How deep folders may lie in each other where files are walked by their names. Nobody's project comes near, and a maker or
//! a set-up that makes an abyss gets an error instead of our stack, our descriptors or a name too long for the kernel.

use std::io;

/// Levels below the first folder; names of one letter reach the kernel's limit at twice as many.
const LEVELS_MAX: u32 = 1000;

/// How deep a folder lies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FolderDepth(u32);

impl FolderDepth {
    /// That of a folder in this one.
    ///
    /// # Errors
    /// When it is too deep.
    pub(crate) fn child(self) -> io::Result<Self> {
        let too_deep = || io::Error::other(format!("folders lie more than {LEVELS_MAX} deep in each other"));
        Some(Self(self.0 + 1)).filter(|depth| depth.0 <= LEVELS_MAX).ok_or_else(too_deep)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use std::path::Path;

    /// Makes folders in folders, each by its parent: their whole name is longer than the kernel takes.
    pub(crate) fn deep(root: &Path, levels: usize) {
        let open = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let mut parent = openat(CWD, root, open, Mode::empty()).expect("it is there");
        for _ in 0..levels {
            mkdirat(&parent, "d", Mode::RWXU).expect("a folder can be made");
            parent = openat(&parent, "d", open, Mode::empty()).expect("it was just made");
        }
    }
}
