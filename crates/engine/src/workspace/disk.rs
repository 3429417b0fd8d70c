//! The free disk space, and the share that must stay free: on a full disk the store could not write its next row.

use std::path::Path;

use super::{WorkspaceError, io};

const FLOOR_MIN: u64 = 64 << 20;
const FLOOR_MAX: u64 = 1 << 30;

/// Two percent of the file system, at least 64 MiB and at most 1 GiB.
fn floor_of(total: u64) -> u64 {
    (total / 50).clamp(FLOOR_MIN, FLOOR_MAX)
}

/// Fails when the file system of a folder has too little free space.
pub(super) fn has_room(path: &Path) -> Result<(), WorkspaceError> {
    let about = rustix::fs::statvfs(path).map_err(|errno| io("measure", path)(errno.into()))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let floor = floor_of(about.f_blocks.saturating_mul(about.f_frsize));
    if free < floor {
        return Err(WorkspaceError::Full { path: path.to_owned(), free, floor });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_a_share_between_two_bounds() {
        assert_eq!(floor_of(1 << 30), FLOOR_MIN);
        assert_eq!(floor_of(20 << 30), (20 << 30) / 50);
        assert_eq!(floor_of(1 << 40), FLOOR_MAX);
    }
}
