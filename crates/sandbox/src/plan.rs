//! Converts a [`SpawnRequest`] and its [`Confinement`] to the plan for the helper. It starts nothing.

use crate::confinement::{Confinement, ResourceCeilings};
use crate::launch;
use crate::seccomp;
use crate::spawn::{COOKIE_VAR, SpawnRequest};
use crate::wire::{LaunchPlan, LaunchTask};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The size of `/dev/shm`, in bytes, which otherwise only a memory limit of the whole tree would bound.
const SHARED_MEMORY: u64 = 512 << 20;

/// The plan for a program.
pub(crate) fn for_program(spawn: &SpawnRequest, confine: &Confinement, bounds: MemoryBound) -> io::Result<LaunchPlan> {
    let mut plan = LaunchPlan { act: LaunchTask::Execute, ..for_probe(confine, bounds)? };
    plan.argv = [spawn.program.as_os_str()]
        .into_iter()
        .chain(spawn.args.iter().map(OsString::as_os_str))
        .map(|arg| launch::c_string(arg).map(std::ffi::CString::into_bytes))
        .collect::<io::Result<_>>()?;
    let mut env = spawn.env.clone();
    if confine.identity.shows_cookie {
        env.insert(COOKIE_VAR.into(), spawn.cookie.as_str().into());
    }
    plan.env =
        env.iter().map(|(name, value)| Ok(launch::env_pair(name, value)?.into_bytes())).collect::<io::Result<_>>()?;
    plan.path = spawn.env.get(std::ffi::OsStr::new("PATH")).map(|path| path.as_bytes().to_vec()).unwrap_or_default();
    plan.cwd = spawn.cwd.clone();
    Ok(plan)
}

/// The plan for a sandbox without a program, for the probe.
pub(crate) fn for_probe(confine: &Confinement, bounds: MemoryBound) -> io::Result<LaunchPlan> {
    Ok(LaunchPlan {
        act: LaunchTask::Look,
        cwd: PathBuf::from("/"),
        network: confine.network.clone(),
        places: confine.mounts.clone(),
        rlimits: rlimits(&confine.resources, bounds),
        filters: seccomp::programs()?,
        identity: confine.identity.clone(),
        shared_memory: confine.resources.memory.map_or(SHARED_MEMORY, |memory| memory.min(SHARED_MEMORY)),
        ..LaunchPlan::default()
    })
}

/// The mechanism that bounds memory, which both a control group and a limit of single processes could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryBound {
    /// A control group bounds the memory of the whole tree.
    Group,
    /// There is no group, so at least each process is bounded.
    EachProcess,
}

fn rlimits(resources: &ResourceCeilings, bounds: MemoryBound) -> Vec<(u64, u64)> {
    // One byte and not zero: a host that pipes core files into a program ignores a limit of 0, but does not write a
    // core file with a limit of 1.
    const CORE_NEVER: u64 = 1;
    let each = if bounds == MemoryBound::EachProcess { resources.memory } else { None };
    let all = [
        (libc::RLIMIT_CORE, Some(CORE_NEVER)),
        (libc::RLIMIT_FSIZE, resources.file),
        (libc::RLIMIT_NOFILE, resources.files_open),
        (libc::RLIMIT_NPROC, resources.processes),
        (libc::RLIMIT_DATA, each),
    ];
    all.into_iter().filter_map(|(resource, ceiling)| Some((resource.into(), ceiling?))).collect()
}
