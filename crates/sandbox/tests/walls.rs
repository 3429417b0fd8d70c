//! Actions that a confined program must not be able to do, tried from the inside. Each attempt reports its result, and
//! all must have been refused.

mod common;

use common::{command, ended, folder, prints, python, sh, walled};
use loopwright_sandbox::{MountSource, SandboxNetwork};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

/// Makes system calls by number, and prints the results: `name errno`, or `name ok`.
const CALLS: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *args):
    result = libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    print(name, "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)
"#;

#[tokio::test]
async fn the_time_since_the_start_of_the_machine_is_that_of_its_identity() {
    if !Path::new("/proc/self/ns/time").exists() {
        // This kernel has no time namespaces.
        return;
    }
    let dir = folder();
    let ahead = |confine: &mut loopwright_sandbox::Confinement| confine.identity.uptime_ahead = 40_000_000;
    let text = prints(walled(sh("cut -d. -f1 /proc/uptime"), dir.path(), ahead)).await;
    assert!(text.trim().parse::<u64>().expect("seconds") >= 40_000_000, "{text}");
}

async fn calls(script: &str) -> String {
    let dir = folder();
    prints(walled(python(&format!("{CALLS}{script}")), dir.path(), |_| ())).await
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn dangerous_calls_are_refused() {
    let text = calls(
        r#"
null = ctypes.c_char_p(None)
call("ptrace", 101, 0, 0, 0, 0)
call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
call("pidfd_getfd", 438, 0, 0, 0)
call("io_uring_setup", 425, 8, ctypes.create_string_buffer(256))
call("bpf", 321, 0, 0, 0)
call("perf_event_open", 298, 0, 0, -1, -1, 0)
call("userfaultfd", 323, 0)
call("keyctl", 250, 0, -3, 1)
call("add_key", 248, b"user", b"x", b"y", 1, -3)
call("request_key", 249, b"user", b"x", 0, 0)
call("unshare-user", 272, 0x10000000)
call("unshare-time", 272, 0x80)
call("setns", 308, 0, 0)
call("clone-user", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone-mount", 56, 0x20000 | 17, 0, 0, 0, 0)
call("mount", 165, b"tmpfs", b"/tmp", b"tmpfs", 0, 0)
call("umount", 166, b"/proc", 2)
call("pivot_root", 155, b"/", b"/")
call("chroot", 161, b"/tmp")
call("open_tree", 428, -100, b"/", 1)
call("move_mount", 429, -100, b"/", -100, b"/tmp", 0)
call("fsopen", 430, b"tmpfs", 0)
call("mount_setattr", 442, -100, b"/", 0, ctypes.create_string_buffer(32), 32)
call("open_by_handle_at", 304, -100, 0, 0)
call("kexec_load", 246, 0, 0, 0, 0)
call("init_module", 175, 0, 0, 0)
call("swapon", 167, b"/x", 0)
call("reboot", 169, 0, 0, 0, 0)
call("settimeofday", 164, ctypes.create_string_buffer(16), 0)
call("clock_settime", 227, 0, ctypes.create_string_buffer(16))
call("quotactl", 179, 0, 0, 0, 0)
call("sethostname", 170, b"x", 1)
call("personality", 135, 0x0400000)
call("iopl", 172, 3)
call("mknod-whiteout", 133, b"/workspace/w", 0o020666, 0)
call("socket-packet", 41, 17, 3, 0)
call("socket-raw", 41, 2, 3, 1)
call("socket-raw6", 41, 10, 3, 58)
call("socket-vsock", 41, 40, 1, 0)
call("socket-netlink-audit", 41, 16, 3, 9)
call("socket-alg", 41, 38, 5, 0)
call("socket-bluetooth", 41, 31, 1, 0)
call("socket-sctp", 41, 2, 1, 132)
call("socketpair-inet", 53, 2, 1, 0, ctypes.create_string_buffer(8))
call("TIOCSTI", 16, 0, 0x5412, b"x")
call("TIOCSTI-high", 16, 0, 0x100005412, b"x")
call("TIOCLINUX", 16, 0, 0x541c, b"x")
call("EXT4_IOC_MOVE_EXT", 16, 0, 0xc028660f, ctypes.create_string_buffer(40))
"#,
    )
    .await;
    let allowed: Vec<&str> = text.lines().filter(|line| !line.ends_with(" EPERM")).collect();
    assert_eq!((allowed, text.lines().count()), (Vec::new(), 48), "{text}");
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn ordinary_calls_still_work_and_unreadable_ones_do_not_exist() {
    let text = calls(
        r#"
call("clone3", 435, ctypes.create_string_buffer(88), 88)
call("socket-unix", 41, 1, 1, 0)
call("socket-tcp", 41, 2, 1 | 0o2000000, 6)
call("socket-udp6", 41, 10, 2, 0)
call("socket-route", 41, 16, 3, 0)
call("socketpair", 53, 1, 1, 0, ctypes.create_string_buffer(8))
call("personality", 135, 0xffffffff)
call("unshare-files", 272, 0x400)
call("memfd", 319, b"x", 0)
import threading
thread = threading.Thread(target=print, args=("thread ok",)); thread.start(); thread.join()
import subprocess
print("child", subprocess.run(["true"]).returncode)
os.openpty(); print("pty ok")
"#,
    )
    .await;
    let expected = "clone3 ENOSYS\nsocket-unix ok\nsocket-tcp ok\nsocket-udp6 ok\nsocket-route ok\nsocketpair ok\n\
                    personality ok\nunshare-files ok\nmemfd ok\nthread ok\nchild 0\npty ok\n";
    assert_eq!(text, expected);
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn calls_of_other_kinds_end_the_program() {
    let dir = folder();
    let x32 = format!("{CALLS}\ncall('getpid', 0x40000000 | 39)");
    let end = ended(walled(python(&x32), dir.path(), |_| ())).await;
    assert_eq!(end.how, loopwright_sandbox::RunEnd::Signaled(31), "{:?}", end.stdout);
}

#[tokio::test]
async fn kernel_settings_cannot_be_changed_not_even_by_root() {
    let dir = folder();
    let script = "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/drop_caches \
                  /proc/sysrq-trigger /proc/self/oom_score_adj /proc/self/uid_map /proc/sys/user/max_user_namespaces \
                  /proc/irq/default_smp_affinity; do (echo 1 > $f) 2>/dev/null && echo wrote $f; done; \
                  find /proc/sys -writable -type f -exec sh -c 'cat $1 > $1' x {} \\; 2>&1 | grep -vc Read-only; \
                  cat /proc/kcore /proc/keys /proc/timer_list /proc/kmsg 2>/dev/null | wc -c; ls /proc/bus /proc/fs | grep -v : | tr -d '\\n'";
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("readable");
    let text = prints(walled(sh(script), dir.path(), |_| ())).await;
    assert_eq!(text, "0\n0\n");
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").expect("readable"), before);
}

#[tokio::test]
async fn other_processes_are_invisible_and_init_cannot_be_entered_or_harmed() {
    let dir = folder();
    let script = format!(
        "test $(ls /proc | grep -c '^[0-9]') -le 5 && echo few; ls /proc/{} 2>&1 | grep -c 'No such'; \
         cat /proc/1/environ /proc/1/maps /proc/1/mem 2>&1 | grep -c 'denied'; readlink /proc/1/root /proc/1/cwd /proc/1/exe /proc/1/fd/1 | wc -l; \
         kill -9 1; kill -TERM 1; kill -STOP 1; kill -9 -1; echo alive; tr '\\0' ' ' < /proc/1/cmdline",
        std::process::id()
    );
    let text = prints(walled(sh(&script), dir.path(), |_| ())).await;
    // Init, two shells, `ls` and `grep`.
    assert!(text.starts_with("few\n1\n3\n0\n"), "{text}");
    // Landlock refuses signals to init; without it the kernel ignores them. `kill -1` spares the caller.
    assert!(text.contains("alive\n"), "{text}");
}

#[tokio::test]
async fn no_path_leads_out() {
    let (dir, outside) = (folder(), folder());
    let canary = outside.path().join("canary");
    fs::write(&canary, "untouched").expect("write");
    let script = format!(
        "for p in {0} /proc/self/root{0} /proc/1/root{0} /proc/self/cwd/..{0} /workspace/../../..{0} /old_root{0}; do \
         (echo x > $p) 2>/dev/null && echo wrote $p; cat $p 2>/dev/null; done; \
         ln -s {0} link; (echo x > link) 2>/dev/null; cat link 2>/dev/null; ln {0} hard 2>/dev/null; \
         mkdir m; mount --bind / m 2>/dev/null && echo mounted; chroot m 2>/dev/null && echo rooted; \
         unshare -Urm true 2>/dev/null && echo nested; nsenter -t 1 -m true 2>/dev/null && echo entered; echo end",
        canary.display()
    );
    assert_eq!(prints(walled(sh(&script), dir.path(), |_| ())).await, "end\n");
    assert_eq!(fs::read_to_string(&canary).expect("still there"), "untouched");
}

#[tokio::test]
async fn programs_with_a_set_user_id_gain_nothing() {
    let dir = folder();
    let text = prints(walled(sh("ls -l /usr/bin/su | cut -c1-4; su -c id 2>&1 | grep -c uid=0; grep -h NoNewPrivs /proc/self/status; grep -h CapBnd /proc/self/status"), dir.path(), |_| ())).await;
    assert_eq!(text, "-rws\n0\nNoNewPrivs:\t1\nCapBnd:\t0000000000000000\n");
}

/// Connects and resolves names, in every way that a program would.
const REACH: &str = r#"
import socket, sys
def attempt(name, what):
    try: what(); print(name, "reached")
    except OSError as error: print(name, "no")
port = int(sys.argv[1])
attempt("tcp-host", lambda: socket.create_connection(("127.0.0.1", port), 2))
attempt("tcp-out", lambda: socket.create_connection(("192.0.2.1", 80), 2))
attempt("tcp6-out", lambda: socket.create_connection(("2001:db8::1", 80), 2))
attempt("udp-out", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
attempt("name", lambda: socket.getaddrinfo("example.org", 80))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0" + sys.argv[2]))
attempt("path", lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[3]))
attempt("self", lambda: socket.create_server(("127.0.0.1", 0)))
print(socket.gethostbyname("localhost"))
"#;

#[tokio::test]
async fn network_and_sockets_of_the_host_cannot_be_reached() {
    let (dir, sockets) = (folder(), folder());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let name = format!("loopwright-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("a socket");
    let path = sockets.path().join("s");
    let _path = UnixListener::bind(&path).expect("a socket");
    let spawn = command("python3", &["-c", REACH, &port, &name, path.to_str().expect("plain")]);
    let text = prints(walled(spawn, dir.path(), |_| ())).await;
    let expected =
        "tcp-host no\ntcp-out no\ntcp6-out no\nudp-out no\nname no\nabstract no\npath no\nself reached\n127.0.0.1\n";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn host_network_works_if_it_is_given() {
    let dir = folder();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let spawn = command("python3", &["-c", REACH, &port, "none", "/none"]);
    let text = prints(walled(spawn, dir.path(), |confine| confine.network = SandboxNetwork::Host)).await;
    assert!(text.starts_with("tcp-host reached\n"), "{text}");
}

/// Answers every connection with its input reversed, after the input ended: half-close must be forwarded.
fn echo_backwards(at: &Path) {
    let listener = UnixListener::bind(at).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut said = Vec::new();
                stream.read_to_end(&mut said).expect("readable");
                said.reverse();
                stream.write_all(&said).expect("writable");
            });
        }
    });
}

#[tokio::test]
async fn port_forwarder_passes_bytes_both_ways_and_is_the_only_way() {
    let (dir, sockets) = (folder(), folder());
    let socket = sockets.path().join("proxy");
    echo_backwards(&socket);
    let script = r#"
import os, socket, threading
def talk(text):
    s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(text); s.shutdown(socket.SHUT_WR)
    out = b""
    while chunk := s.recv(65536): out += chunk
    return out
print(talk(b"abc").decode())
big = os.urandom(3 << 20)
print(talk(big) == big[::-1])
done = []
threads = [threading.Thread(target=lambda i=i: done.append(talk(b"%d" % i) == (b"%d" % i)[::-1])) for i in range(300)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(done), all(done))
"#;
    let network = SandboxNetwork::Door { socket, port: 3128 };
    let text = prints(walled(python(script), dir.path(), |confine| confine.network = network)).await;
    assert_eq!(text, "cba\nTrue\n300 True\n");
}

#[tokio::test]
async fn port_forwarder_to_a_missing_socket_prevents_the_start() {
    let dir = folder();
    let network = SandboxNetwork::Door { socket: dir.path().join("missing"), port: 3128 };
    let spawn = walled(sh(":"), dir.path(), |confine| confine.network = network);
    let error = loopwright_sandbox::run(spawn, &mut (), &loopwright_sandbox::CancelToken::new(), |_| ())
        .await
        .expect_err("no door");
    assert!(error.to_string().contains("open the forwarded port"), "{error}");
}

#[tokio::test]
async fn processes_memory_and_file_sizes_are_bounded() {
    let dir = folder();
    let bomb = "n = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(1000)\n    n += 1\nexcept OSError: print(n < most)";
    let small = |spawn| {
        walled(spawn, dir.path(), |confine| {
            confine.resources.processes = Some(64);
            confine.resources.file = Some(1 << 20);
            confine.resources.memory = Some(256 << 20);
        })
    };
    // The kernel does not apply the process limit to root: until the control group is entered, a moment after the
    // start, root can have 300 more. The limit applies to an ordinary user from the start.
    let (at_first, entered) = match rustix::process::geteuid().is_root() {
        true => {
            (364, "while all(l.endswith(':/\\n') for l in open('/proc/self/cgroup') if 'pids' in l): time.sleep(0.01)")
        }
        false => (64, ""),
    };
    for (wait, most) in [("", at_first), (entered, 64)] {
        let end = ended(small(python(&format!("import os, time\nmost = {most}\n{wait}\n{bomb}")))).await;
        assert_eq!(end.stdout.to_lossy_string(), "True\n", "{end:?}");
        assert!(end.killed > 10, "{}", end.killed);
    }
    let end = ended(small(sh("head -c 2000000 /dev/zero > big; ulimit -c; wc -c < big"))).await;
    assert_eq!(end.stdout.to_lossy_string().trim(), "0\n1048576", "{end:?}");
    let end =
        ended(small(python("x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('had it')")))
            .await;
    assert_eq!(end.stdout.to_lossy_string(), "", "{:?}", end.how);
}

#[tokio::test]
async fn tree_that_fills_the_disk_is_ended() {
    let dir = folder();
    let spawn = walled(
        sh("echo x > a; sleep 2; exec 3<>b; rm b; head -c 60000000 /dev/zero >&3; sleep 1000"),
        dir.path(),
        |confine| {
            confine.resources.disk = Some(32 << 20);
        },
    );
    let end = ended(spawn).await;
    assert_eq!(end.how, loopwright_sandbox::RunEnd::Disk, "{end:?}");
}

#[tokio::test]
async fn memory_mounts_have_the_given_size() {
    let dir = folder();
    let script = "head -c 4000000 /dev/zero > /small/x; wc -c < /small/x; head -c 1000000000 /dev/zero > /dev/shm/x; wc -c < /dev/shm/x";
    let text =
        prints(walled(sh(script), dir.path(), |confine| confine.mount("/small", MountSource::Memory(1 << 20)))).await;
    assert!(text.starts_with("1048576\n536870912\n"), "{text}");
}
