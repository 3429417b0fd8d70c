//! The system calls that a confined program may not make. This file builds the filter programs; the helper installs
//! them.
//!
//! The filter lists refused calls, not allowed ones: builds use nearly all others, and the other restrictions do not
//! depend on it. It refuses calls that reach rarely used parts of the kernel, other processes, or out of the
//! namespaces. Refused calls fail with EPERM, so that programs fall back as they do in containers.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, sock_filter,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are refused with any arguments.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Rarely used parts of the kernel.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    libc::SYS_nfsservctl,
    // Keyrings, which are not namespaced.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Namespaces and mounts.
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_open_by_handle_at,
    // The host.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_kexec_file_load,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

const OPEN_TREE_ATTR: libc::c_long = 467;
const FCHMODAT2: libc::c_long = 452;

/// Every flag that creates a namespace; the last is only for `unshare`.
const NEW_NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
const CLONE_NEWTIME: i32 = 0x80;

/// The programs in the helper's format, built once.
pub(crate) fn programs() -> io::Result<Vec<Vec<u8>>> {
    static BUILT: OnceLock<Result<Vec<Vec<u8>>, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| error.to_string()));
    built.clone().map_err(io::Error::other)
}

fn build() -> Result<Vec<Vec<u8>>, BackendError> {
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    let main: BpfProgram = SeccompFilter::new(rules()?, SeccompAction::Allow, refuse, arch)?.try_into()?;
    Ok(vec![bytes(&main), bytes(&entry())])
}

fn bytes(program: &[sock_filter]) -> Vec<u8> {
    let one = |step: &sock_filter| {
        let [code_low, code_high] = step.code.to_ne_bytes();
        let [k0, k1, k2, k3] = step.k.to_ne_bytes();
        [code_low, code_high, step.jt, step.jf, k0, k1, k2, k3]
    };
    program.iter().flat_map(one).collect()
}

fn rules() -> Result<Rules, BackendError> {
    let always = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new()));
    let mut rules: Rules = always.collect();
    rules.insert(libc::SYS_clone, any_flag(0, &NEW_NAMESPACES)?);
    rules.insert(libc::SYS_unshare, any_flag(0, &[&NEW_NAMESPACES[..], &[CLONE_NEWTIME]].concat())?);
    rules.insert(libc::SYS_socket, sockets()?);
    rules.insert(libc::SYS_socketpair, vec![rule(vec![is_not(0, libc::AF_UNIX)?])?]);
    let orders = [TIOCSTI, TIOCLINUX, EXT4_MOVE_EXTENTS].map(|order| rule(vec![is(1, order)?]));
    rules.insert(libc::SYS_ioctl, orders.into_iter().collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_personality, vec![rule(vec![is_not(0, 0)?, is_not(0, -1)?])?]);
    modes(&mut rules)?;
    Ok(rules)
}

const TIOCSTI: i32 = 0x5412;
const TIOCLINUX: i32 = 0x541c;
/// Exchanges the content of two files on ext4 and leaves all of their times as they were (observed on Linux 6.18), so
/// that a changed file looks untouched.
const EXT4_MOVE_EXTENTS: i32 = 0xc028_660f_u32.cast_signed();

/// Unix sockets, and the two ordinary kinds of internet sockets. Of netlink only the routing table, which name lookups
/// use.
fn sockets() -> Result<Vec<SeccompRule>, BackendError> {
    const KNOWN: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let mut rules = vec![
        rule(KNOWN.iter().map(|family| is_not(0, *family)).collect::<Result<_, _>>()?)?,
        rule(vec![is(0, libc::AF_NETLINK)?, is_not(2, 0)?])?,
    ];
    for family in [libc::AF_INET, libc::AF_INET6] {
        // The low four bits are the kind: 1 is a stream and 2 is datagrams.
        for (mask, value) in [(0x3, 0), (0x3, 3), (0x4, 4), (0x8, 8)] {
            rules.push(rule(vec![is(0, family)?, masked(1, mask, value)?])?);
        }
        let others = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP].iter().map(|protocol| is_not(2, *protocol));
        rules.push(rule([is(0, family)].into_iter().chain(others).collect::<Result<_, _>>()?)?);
    }
    Ok(rules)
}

/// No set-user-id files and no devices: a deletion mark of an overlay looks like a device. Files inside belong to the
/// engine's user outside, so a set-user-id file would give every user on the host the engine user's rights.
fn modes(rules: &mut Rules) -> Result<(), BackendError> {
    let bits: &[u32] = if rustix::process::geteuid().is_root() { &[0o4000, 0o2000] } else { &[0o4000] };
    let set_user = |argument: u8| -> Result<Vec<SeccompRule>, BackendError> {
        bits.iter().map(|bits| rule(vec![masked(argument, *bits, (*bits).into())?])).collect()
    };
    let device = |argument: u8| -> Result<Vec<SeccompRule>, BackendError> {
        let kinds = [libc::S_IFCHR, libc::S_IFBLK];
        kinds.iter().map(|kind| rule(vec![masked(argument, libc::S_IFMT, u64::from(*kind))?])).collect()
    };
    // The mode only matters if a file is created; otherwise the argument is undefined.
    let made = |flags: u8, mode: u8| -> Result<_, BackendError> {
        let mut all = Vec::new();
        for flag in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(i32::cast_unsigned) {
            for bits in bits {
                let making = masked(flags, flag, flag.into())?;
                all.push(rule(vec![making, masked(mode, *bits, (*bits).into())?])?);
            }
        }
        Ok(all)
    };
    rules.insert(libc::SYS_fchmod, set_user(1)?);
    rules.insert(libc::SYS_fchmodat, set_user(2)?);
    rules.insert(FCHMODAT2, set_user(2)?);
    rules.insert(libc::SYS_openat, made(2, 3)?);
    rules.insert(libc::SYS_mknodat, [device(2)?, set_user(2)?].concat());
    #[cfg(target_arch = "x86_64")]
    {
        rules.insert(libc::SYS_chmod, set_user(1)?);
        rules.insert(libc::SYS_open, made(1, 2)?);
        rules.insert(libc::SYS_creat, set_user(1)?);
        rules.insert(libc::SYS_mknod, [device(1)?, set_user(1)?].concat());
    }
    Ok(())
}

fn any_flag(argument: u8, flags: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    flags
        .iter()
        .map(|flag| rule(vec![masked(argument, flag.cast_unsigned(), u64::from(flag.cast_unsigned()))?]))
        .collect()
}

fn rule(conditions: Vec<Condition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

fn is(argument: u8, value: i32) -> Result<Condition, BackendError> {
    Condition::new(argument, Len::Dword, Op::Eq, value.cast_unsigned().into())
}

fn is_not(argument: u8, value: i32) -> Result<Condition, BackendError> {
    Condition::new(argument, Len::Dword, Op::Ne, value.cast_unsigned().into())
}

fn masked(argument: u8, mask: u32, value: u64) -> Result<Condition, BackendError> {
    Condition::new(argument, Len::Dword, Op::MaskedEq(mask.into()), value)
}

/// Rules that the crate cannot express: calls with x32 numbers, which mean other calls, end the program. `clone3` and
/// `openat2`, whose arguments no filter can read, return ENOSYS, so that libraries use `clone` and `openat`.
fn entry() -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const AT_LEAST: u16 = 0x35;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const ERRNO: u32 = 0x0005_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const CLONE3: u32 = 435;
    const OPENAT2: u32 = 437;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD, 0, 0, 0),
        step(AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, KILL_PROCESS),
        step(EQUAL, 1, 0, CLONE3),
        step(EQUAL, 0, 1, OPENAT2),
        step(RETURN, 0, 0, ERRNO | libc::ENOSYS.cast_unsigned()),
        step(RETURN, 0, 0, ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_built_and_small_enough_for_the_kernel() {
        const INSTRUCTIONS_MAX: usize = 4096;
        let programs = programs().expect("a filter for this architecture");
        assert!(programs.iter().all(|program| program.len() % 8 == 0 && program.len() / 8 <= INSTRUCTIONS_MAX));
    }
}
