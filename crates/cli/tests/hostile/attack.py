"""The attacks of a hostile program: one attack for each function, grouped by the catalogue's numbers.

An attack returns its loot if it succeeds; it returns nothing, or raises, if it fails. Each runs in its own child process
with a deadline, so that an attack that is killed or hangs does not affect the others. Called as `attack.py NUMBER...`; the
targets are in `aim.json` beside it. The last line counts the failed attacks.
"""
import ctypes
import errno
import glob
import json
import os
import platform
import resource
import signal
import socket
import stat
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
AIM = json.load(open(os.path.join(HERE, "aim.json")))
ATTEMPTS = {}
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long

X86 = platform.machine() == "x86_64"
# name: (x86_64, generic table of newer architectures)
CALLS = {
    "io_uring_setup": (425, 425), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "unshare": (272, 97), "setns": (308, 268), "clone3": (435, 435), "clone": (56, 220), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "fsopen": (430, 430),
    "move_mount": (429, 429), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "reboot": (169, 142),
    "swapon": (167, 224), "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "sethostname": (170, 161), "syslog": (103, 116), "fanotify_init": (300, 262), "quotactl": (179, 60),
    "lookup_dcookie": (212, 18), "fspick": (433, 433), "fsconfig": (431, 431), "fsmount": (432, 432),
}
CLONE = {"NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000, "NEWUSER": 0x10000000,
         "NEWPID": 0x20000000, "NEWNET": 0x40000000, "NEWTIME": 0x80}


def attempt(*numbers):
    def note(function):
        for number in numbers:
            ATTEMPTS.setdefault(str(number), []).append(function)
        return function
    return note


def call(name, *words):
    """A system call by number; raises the kernel's error."""
    number = CALLS[name][0 if X86 else 1]
    return raw(number, *words)


def raw(number, *words):
    ctypes.set_errno(0)
    words = [ctypes.c_void_p(word) if isinstance(word, int) else word for word in words]
    answer = LIBC.syscall(ctypes.c_long(number), *words)
    if answer == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def peek(path):
    """Some content of a path."""
    about = os.stat(path)
    if stat.S_ISDIR(about.st_mode):
        return "listed %s" % os.listdir(path)[:3]
    if stat.S_ISREG(about.st_mode) or stat.S_ISCHR(about.st_mode):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        read = len(os.read(descriptor, 64))
        return "read %d bytes of %s" % (read, path) if read else None
    return "saw %s" % path


def first(found):
    """The first successful one of many tries."""
    for one in found:
        if one:
            return one
    return None


def quiet(function, *words):
    try:
        return function(*words)
    except OSError:
        return None


def put(path, text="hostile\n"):
    """Writes a file; creates no parent folder, which would only prove that this root is private."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o755)
    os.write(descriptor, text.encode())
    os.close(descriptor)
    return "wrote %s" % path


def could_write(path):
    """Whether a file of the system could be changed, without changing it: this test must not damage the machine."""
    if os.path.lexists(path):
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        os.unlink(path)
    return "could write %s" % path


def confined(function):
    """Tried only if this is not the host itself: on the host it might work."""
    def guarded():
        if open("/proc/self/uid_map").read().split() == ["0", "0", "4294967295"]:
            return "not tried: nothing confines this program"
        return function()
    guarded.__name__ = function.__name__
    return guarded


# ---- 122: the user's files ----------------------------------------------------------------------------------------

@attempt(122)
def files_of_the_home_folder():
    return first(quiet(peek, path) for path in AIM["home_files"])


@attempt(122)
def the_home_folder_itself():
    return quiet(peek, AIM["home"])


@attempt(122)
def another_repository():
    return first(quiet(peek, path) for path in AIM["other_files"])


@attempt(122)
def the_engines_state():
    names = ["", "store.db", "store.db-wal", "evidence", "transcripts", "workspaces", "reports", "forge", "bases", "engine.git"]
    paths = [os.path.join(AIM["state"], name) for name in names]
    return first(quiet(peek, path) for path in paths + glob.glob(AIM["state"] + "/*") + glob.glob(AIM["state"] + "/*/*"))


@attempt(122)
def the_users_checkout():
    return first(quiet(peek, os.path.join(AIM["repo"], name)) for name in ["", ".git", ".git/config", "calc.sh"])


@attempt(122)
def secrets_of_the_system():
    paths = ["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/sudoers", "/etc/ssl/private", "/etc/krb5.keytab",
             "/var/lib/cloud", "/var/lib/docker", "/var/log", "/var/spool", "/var/backups", "/boot", "/mnt", "/media", "/srv"]
    return first(quiet(peek, path) for path in paths + glob.glob("/etc/ssh/ssh_host_*_key"))


@attempt(122)
def the_machines_other_homes():
    """Toolchains may be mounted from below a home folder, so the folder may exist, but no other content of it."""
    told = [path for home in glob.glob("/home/*") + ["/root"] for path in glob.glob(home + "/.*") + glob.glob(home + "/*")]
    private = (".ssh", ".aws", ".config", ".netrc", ".claude", ".codex", ".npmrc", ".gnupg", ".docker", ".kube",
               ".bash_history", ".git-credentials", ".pypirc", ".mozilla")
    own = os.environ.get("HOME", "")
    return first(path for path in told if os.path.basename(path) in private and not path.startswith(own + "/"))


@attempt(122)
def credentials_beside_toolchains():
    paths = ["/root/.cargo/credentials.toml", "/root/.cargo/credentials", "/root/.m2/settings.xml", "/root/.gradle"]
    return first(quiet(peek, path) for path in paths)


@attempt(122)
def held_out_files():
    return first(quiet(peek, path) for path in AIM.get("heldout", []))


@attempt(122)
def a_file_by_its_handle():
    """Handles name files of a whole file system, whichever part of it is mounted."""
    if not X86:
        return None
    handle = struct.pack("Ii8s", 8, 1, struct.pack("II", 2, 0))
    descriptor = call("open_by_handle_at", os.open("/workspace" if os.path.isdir("/workspace") else ".", os.O_RDONLY),
                      ctypes.create_string_buffer(handle), os.O_RDONLY)
    return "opened by handle: %d" % descriptor


# ---- 115: other processes, and what they reveal --------------------------------------------------------------------

@attempt(115, 121)
def own_environment():
    words = ("CANARY", "TOKEN", "SECRET", "API_KEY", "PASSWORD", "SSH_AUTH", "CREDENTIAL")
    return first(name for name in os.environ if any(word in name.upper() for word in words))


@attempt(115)
def environments_of_all_processes():
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ"):
        data = quiet(lambda path=path: open(path, "rb").read())
        if data and b"LW_CANARY" in data:
            return "found in %s" % path
    return None


@attempt(115, 78)
def the_engine_among_all_processes():
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        words = (quiet(lambda path=path: open(path, "rb").read()) or b"").split(b"\0")
        if words[1:3] == [b"run", b"fix"]:
            return "saw %s: %s" % (path, words[:3])
    return None


@attempt(115, 78)
def memory_of_the_first_process():
    pid = 1 if os.getpid() != 1 else os.getppid()
    maps = open("/proc/%d/maps" % pid).readline()
    memory = os.open("/proc/%d/mem" % pid, os.O_RDWR)
    return "opened memory %d, maps %r" % (memory, maps)


@attempt(115)
def links_of_the_first_process():
    return first(quiet(peek, "/proc/1/%s%s" % (name, rest)) for name in ("root", "cwd")
                 for rest in (AIM["home"], AIM["state"], "/../../.." + AIM["home"]))


@attempt(115)
def descriptors_of_other_processes():
    mine = {os.getpid(), os.getppid()}
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        if int(path.split("/")[2]) in mine:
            continue
        target = quiet(os.readlink, path) or ""
        if target.startswith(AIM["root"]) and quiet(peek, path):
            return "%s is %s" % (path, target)
    return None


def inherited():
    """The descriptors that were open before this program opened any; the list's own is closed when it is checked."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
    return {number: target for number in numbers for target in [quiet(os.readlink, "/proc/self/fd/%d" % number)] if target}


INHERITED = inherited()


@attempt(115, 108)
def inherited_descriptors():
    return ", ".join("%d is %s" % one for one in INHERITED.items())


@attempt(115)
def places_named_by_the_mount_table():
    words = {word for line in open("/proc/self/mountinfo") for field in line.split() for word in field.replace("=", ",").replace(":", ",").split(",")}
    return first(quiet(peek, word) for word in words if word.startswith(AIM["root"]))


@attempt(115)
def the_kernels_memory():
    return first(quiet(peek, path) for path in ("/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kmsg", "/dev/kmsg"))


# ---- 108, 110: writing elsewhere ----------------------------------------------------------------------------------

@attempt(108)
def absolute_paths():
    paths = [AIM["root"] + "/planted", AIM["home"] + "/planted", AIM["state"] + "/planted", AIM["repo"] + "/planted",
             AIM["repo"] + "/.git/hooks/post-commit", AIM["repo"] + "/.git/config", AIM["repo"] + "/calc.sh",
             AIM["other_files"][0], AIM["state"] + "/store.db"]
    return first(quiet(put, path) for path in paths)


@attempt(108)
def objects_of_the_users_repository():
    found = glob.glob(AIM["repo"] + "/.git/objects/??/*") + glob.glob(AIM["state"] + "/**/objects/??/*", recursive=True)
    return first(quiet(lambda path=path: os.chmod(path, 0o644) or put(path)) for path in found[:200])


@attempt(108)
def through_a_link():
    os.symlink(AIM["home"], "way-out")
    os.symlink("/", "way-up")
    try:
        return quiet(put, "way-out/planted") or quiet(put, "way-up" + AIM["home"] + "/planted")
    finally:
        os.unlink("way-out"), os.unlink("way-up")


@attempt(108)
def through_a_hard_link():
    targets = [AIM["repo"] + "/calc.sh", AIM["home_files"][0], "/etc/passwd", "/usr/bin/env"]
    for target in targets:
        try:
            os.link(target, "hard")
        except OSError:
            continue
        try:
            return quiet(could_write, "hard")
        finally:
            os.unlink("hard")
    return None


@attempt(108)
def through_the_working_folder():
    for ups in range(1, 12):
        for start in ("/proc/self/cwd/", "/proc/self/root/", "./", "/proc/thread-self/cwd/"):
            got = quiet(put, start + "../" * ups + AIM["root"].lstrip("/") + "/planted")
            if got:
                return got
    return None


@attempt(108)
def through_a_folder_that_moved():
    os.makedirs("moving/deep/er", exist_ok=True)
    inner = os.open("moving/deep/er", os.O_RDONLY)
    os.rename("moving/deep/er", "moved-er")
    try:
        for ups in range(1, 10):
            path = "../" * ups + AIM["root"].lstrip("/") + "/planted"
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=inner))
                return "wrote %s" % path
            except OSError:
                pass
    finally:
        os.rmdir("moved-er"), os.rmdir("moving/deep"), os.rmdir("moving")
    return None


@attempt(108)
def the_system():
    paths = ["/etc/passwd", "/etc/planted", "/usr/bin/planted", "/usr/lib/planted", "/lib/planted", "/bin/planted",
             "/sbin/planted", "/planted", "/var/planted", "/opt/planted", "/root/planted", "/home/planted", "/run/planted",
             "/dev/planted", "/etc/ld.so.preload", "/etc/profile.d/planted.sh"]
    return first(quiet(could_write, path) for path in paths)


@attempt(108)
def modes_and_owners_of_the_system():
    """The system's files belong to the user that root maps to inside."""
    for path in ("/usr/bin/env", "/usr/bin", "/etc/passwd", "/usr/lib"):
        mode = os.stat(path).st_mode & 0o7777
        for name, words in (("chmod", (path, mode)), ("chown", (path, -1, -1))):
            try:
                getattr(os, name)(*words)
                return "%s %s" % (name, path)
            except OSError:
                pass
    return None


@attempt(108)
def the_running_program():
    return quiet(could_write, os.path.realpath("/proc/self/exe"))


@attempt(108)
def settings_of_the_kernel():
    paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
             "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/proc/sys/net/ipv4/ip_forward", "/proc/1/oom_score_adj",
             "/proc/self/uid_map", "/proc/self/setgroups", "/sys/kernel/uevent_helper", "/sys/power/state"]
    for path in paths:
        try:
            # Opened only: a test must not change the machine, even without a sandbox.
            os.close(os.open(path, os.O_WRONLY))
            return "opened %s" % path
        except OSError:
            pass
    return None


@attempt(108)
def control_groups():
    for path in glob.glob("/sys/fs/cgroup/*") + ["/sys/fs/cgroup"]:
        if os.access(path, os.W_OK):
            return "could write %s" % path
    return None


@attempt(110)
def files_that_run_when_the_user_logs_in():
    names = [".bashrc", ".profile", ".zshrc", ".bash_profile", ".gitconfig", ".ssh/authorized_keys", ".ssh/config",
             ".config/systemd/user/planted.service", ".config/autostart/planted.desktop", ".local/bin/planted", ".vimrc",
             ".npmrc", ".cargo/config.toml", ".claude/settings.json", ".codex/config.toml", ".config/git/config"]
    return first(quiet(put, os.path.join(AIM["home"], name)) for name in names)


@attempt(110)
def files_that_the_system_runs():
    paths = ["/etc/cron.d/planted", "/etc/crontab", "/var/spool/cron/crontabs/root", "/etc/cron.daily/planted",
             "/etc/systemd/system/planted.service", "/usr/lib/systemd/system/planted.service", "/etc/init.d/planted",
             "/run/systemd/system/planted.service", "/etc/ld.so.conf.d/planted.conf"]
    return first(quiet(could_write, path) for path in paths)


@attempt(110)
def folders_of_programs():
    own = (os.environ.get("HOME", "/-") + "/", "/tmp/", "/workspace")
    folders = os.environ.get("PATH", "").split(":") + ["/usr/local/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]
    folders += AIM.get("toolchains", [])
    return first(quiet(could_write, os.path.join(folder, "planted")) for folder in folders if folder and not (folder + "/").startswith(own))


# ---- 114: sockets of the host -------------------------------------------------------------------------------------

def reach(address):
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(3)
    link.connect(address)
    return "connected to %r" % address


@attempt(114)
def an_agents_socket():
    return first(quiet(reach, path) for path in AIM["sockets"])


@attempt(114)
def sockets_of_services():
    uid = os.getuid()
    paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
             "/run/dbus/system_bus_socket", "/run/user/%d/bus" % uid, "/run/user/0/bus", "/run/systemd/private",
             "/run/systemd/journal/socket", "/run/systemd/journal/stdout", "/dev/log", "/tmp/.X11-unix/X0",
             "/run/nscd/socket", "/run/systemd/notify", "/run/postgresql/.s.PGSQL.5432"]
    return first(quiet(reach, path) for path in paths)


@attempt(114)
def abstract_sockets():
    names = ["\0" + name for name in AIM["abstract"]] + ["\0/tmp/.X11-unix/X0", "\0/tmp/dbus"]
    return first(quiet(reach, name) for name in names)


@attempt(114)
def our_own_sockets():
    found = glob.glob(AIM["state"] + "/**/*.sock", recursive=True) + glob.glob(AIM["state"] + "/**/sock*", recursive=True)
    return first(quiet(reach, path) for path in found)


@attempt(114)
@confined
def any_socket_in_sight():
    for top in ("/run", "/tmp", "/dev", "/var", "/home", "/workspace", "/outbox", "/sink", "/etc", "/opt", "/srv"):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                about = quiet(os.lstat, path)
                if about and stat.S_ISSOCK(about.st_mode) and quiet(reach, path):
                    return "connected to %s" % path
    return None


@attempt(114)
def addresses_of_agents_in_the_environment():
    names = ["SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
             "DOCKER_HOST", "KUBECONFIG", "XDG_RUNTIME_DIR"]
    return first(name for name in names if name in os.environ)


# ---- 126, 127: the network ----------------------------------------------------------------------------------------

def knock(family, address):
    link = socket.socket(family, socket.SOCK_STREAM)
    link.settimeout(3)
    try:
        link.connect(address)
    except TimeoutError:
        return "a way, but no answer from %s" % (address,)
    return "connected to %s" % (address,)


@attempt(126)
def the_hosts_loopback():
    port = AIM["tcp"]
    return first(quiet(knock, socket.AF_INET, (name, port)) for name in ("127.0.0.1", "0.0.0.0", "127.1.2.3"))


@attempt(126)
def the_hosts_loopback_by_the_newer_protocol():
    port = AIM["tcp6"]
    tries = [("::1", port), ("::", port), ("::ffff:127.0.0.1", AIM["tcp"])]
    return first(quiet(knock, socket.AF_INET6, address) for address in tries)


@attempt(126)
def the_hosts_own_addresses():
    return first(quiet(knock, socket.AF_INET, (name, AIM["tcp"])) for name in AIM["addresses"])


@attempt(126)
def the_world():
    """Addresses reserved for documentation: no host answers, but without isolation there is a route."""
    tries = [(socket.AF_INET, ("192.0.2.1", 443)), (socket.AF_INET6, ("2001:db8::1", 443)), (socket.AF_INET, ("169.254.169.254", 80))]
    return first(quiet(knock, *one) for one in tries)


@attempt(126)
def datagrams():
    for family, address in ((socket.AF_INET, ("127.0.0.1", AIM["udp"])), (socket.AF_INET, ("192.0.2.1", 53)), (socket.AF_INET6, ("::1", AIM["udp"]))):
        link = quiet(socket.socket, family, socket.SOCK_DGRAM)
        if link and quiet(link.sendto, b"hostile", address) and address[0] == "192.0.2.1":
            return "sent to %s" % (address,)
    # The test checks whether the host's own socket received one.
    return None


@attempt(126)
def interfaces():
    names = {line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line}
    return " ".join(names - {"lo"})


@attempt(126)
def sockets_below_the_protocols():
    tries = [("raw", socket.AF_INET, socket.SOCK_RAW, 1), ("raw6", socket.AF_INET6, socket.SOCK_RAW, 58),
             ("packet", 17, socket.SOCK_RAW, 0), ("packet datagram", 17, socket.SOCK_DGRAM, 0), ("vsock", 40, socket.SOCK_STREAM, 0),
             ("alg", 38, socket.SOCK_SEQPACKET, 0), ("xdp", 44, socket.SOCK_RAW, 0), ("can", 29, socket.SOCK_RAW, 1),
             ("bluetooth", 31, socket.SOCK_RAW, 1), ("tipc", 30, socket.SOCK_RDM, 0), ("rds", 21, socket.SOCK_SEQPACKET, 0),
             ("key", 15, socket.SOCK_RAW, 2), ("kcm", 41, socket.SOCK_DGRAM, 0), ("qipcrtr", 42, socket.SOCK_DGRAM, 0)]
    for name, family, kind, protocol in tries:
        if quiet(socket.socket, family, kind, protocol):
            return "a %s socket" % name
    return None


@attempt(127)
def names_are_not_resolved():
    # A name that does not exist: even a resolver that answers cannot make this leave the zone reserved for tests.
    found = quiet(socket.getaddrinfo, "loopwright.invalid", 80)
    servers = [line.split()[1] for line in (quiet(lambda: open("/etc/resolv.conf").readlines()) or []) if line.startswith("nameserver")]
    for server in servers + ["127.0.0.53", "127.0.0.1"]:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        if quiet(knock, family, (server, 53)):
            return "a name server at %s by TCP" % server
        if ask(family, server):
            return "a name server at %s by UDP" % server
    return found


def ask(family, server):
    link = socket.socket(family, socket.SOCK_DGRAM)
    link.settimeout(1)
    question = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\x0aloopwright\x07invalid\x00" + struct.pack(">HH", 1, 1)
    try:
        link.connect((server, 53))
        link.send(question)
        return link.recv(512)
    except OSError:
        return None


# ---- 116: privileges and kernel interfaces ------------------------------------------------------------------------

@attempt(116)
def marks_of_confinement():
    told = dict(line.split(":", 1) for line in open("/proc/self/status"))
    wanted = {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16, "CapPrm": "0" * 16, "CapInh": "0" * 16, "CapBnd": "0" * 16, "CapAmb": "0" * 16}
    return ", ".join("%s is %s" % (name, told[name].strip()) for name, value in wanted.items() if told[name].strip() != value)


@attempt(116)
@confined
def being_root():
    for name, words in (("setuid", (0,)), ("setgid", (0,)), ("setgroups", ([0],)), ("setresuid", (0, 0, 0))):
        try:
            getattr(os, name)(*words)
            return name
        except OSError:
            pass
    return "already root" if os.geteuid() == 0 else None


@attempt(116)
def programs_that_give_rights():
    """A set-user-id program of the system must not change who runs it."""
    for path in ("/usr/bin/su", "/bin/su", "/usr/bin/sudo", "/usr/bin/newgrp", "/usr/bin/passwd", "/usr/bin/chsh", "/usr/bin/mount", "/bin/ping"):
        about = quiet(os.stat, path)
        if about and about.st_mode & stat.S_ISUID and not os.statvfs(path).f_flag & os.ST_NOSUID and "NoNewPrivs:\t0" in open("/proc/self/status").read():
            return "%s would run as user %d" % (path, about.st_uid)
    return None


def namespace(kind):
    def go():
        call("unshare", CLONE[kind])
        return "a new namespace: " + kind
    go.__name__ = "a_namespace_of_its_own_%s" % kind.lower()
    return go


for kind in CLONE:
    attempt(116)(confined(namespace(kind)))


@attempt(116)
@confined
def a_namespace_by_cloning():
    child = call("clone", CLONE["NEWUSER"] | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return "cloned into a new user namespace"


@attempt(116)
@confined
def a_namespace_by_the_newer_clone():
    words = struct.pack("QQQQQQQQ", CLONE["NEWUSER"], 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    child = call("clone3", ctypes.create_string_buffer(words), len(words))
    if child == 0:
        os._exit(0)
    return "cloned into a new user namespace"


@attempt(116)
@confined
def namespaces_of_the_first_process():
    for path in glob.glob("/proc/1/ns/*"):
        descriptor = quiet(os.open, path, os.O_RDONLY)
        if descriptor is not None and quiet(lambda: call("setns", descriptor, 0) or True):
            return "entered %s" % path
    return None


def door(name, *words):
    def go():
        return "%s answered %d" % (name, call(name, *words))
    go.__name__ = name
    return go


BUFFER = ctypes.create_string_buffer(4096)
NAME = ctypes.create_string_buffer(b"tmpfs")
PLACE = ctypes.create_string_buffer(b"/tmp")
for one in (
    ("io_uring_setup", 4, BUFFER), ("keyctl", 0, -3 & 0xFFFFFFFF, 1), ("add_key", ctypes.create_string_buffer(b"user"), NAME, NAME, 5, -3 & 0xFFFFFFFF),
    ("request_key", ctypes.create_string_buffer(b"user"), NAME, 0, 0), ("bpf", 5, BUFFER, 48), ("userfaultfd", 1),
    ("mount", NAME, PLACE, NAME, 0, 0), ("umount2", PLACE, 2), ("chroot", PLACE), ("open_tree", -100 & 0xFFFFFFFFFFFFFFFF, PLACE, 1),
    ("fsopen", NAME, 0), ("fspick", -100 & 0xFFFFFFFFFFFFFFFF, PLACE, 0), ("swapon", PLACE, 0), ("acct", PLACE),
    ("sethostname", NAME, 5), ("fanotify_init", 0, 0), ("finit_module", 0, NAME, 0), ("kexec_load", 0, 0, 0, 0),
    ("pivot_root", PLACE, PLACE), ("perf_event_open", ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0) + b"\0" * 112), 0, -1 & 0xFFFFFFFFFFFFFFFF, -1 & 0xFFFFFFFFFFFFFFFF, 0),
):
    attempt(116)(confined(door(*one)))


@attempt(116)
@confined
def a_file_system_remounted():
    for path in (b"/", b"/usr", b"/workspace", b"/etc"):
        if quiet(lambda: call("mount", 0, ctypes.create_string_buffer(path), 0, 0x1020, 0) == 0):
            return "remounted %r" % path
    return None


@attempt(116, 78)
def tracing_a_child():
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        # PTRACE_ATTACH
        return "attached: %d" % call("ptrace", 16, child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)


@attempt(116, 78)
def memory_of_a_relative():
    local, remote = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    vector = struct.pack("QQ", ctypes.addressof(local), 8)
    other = struct.pack("QQ", ctypes.addressof(remote), 8)
    got = call("process_vm_readv", os.getppid(), ctypes.create_string_buffer(vector), 1, ctypes.create_string_buffer(other), 1, 0)
    return "read %d bytes" % got


@attempt(116)
@confined
def devices():
    for kind, major, minor in ((stat.S_IFCHR, 1, 1), (stat.S_IFBLK, 8, 0), (stat.S_IFCHR, 10, 229), (stat.S_IFCHR, 5, 1)):
        for folder in (".", "/tmp", os.environ.get("HOME", ".")):
            path = os.path.join(folder, "node")
            if quiet(lambda: os.mknod(path, kind | 0o666, os.makedev(major, minor)) or True):
                os.unlink(path)
                return "made a device %d:%d in %s" % (major, minor, folder)
    return None


@attempt(116)
@confined
def devices_of_the_host():
    return first(quiet(lambda path=path: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK)) or path) for path in
                 ["/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/loop-control", "/dev/vsock", "/dev/vhost-vsock", "/dev/uinput"]
                 + glob.glob("/dev/sd*") + glob.glob("/dev/vd*") + glob.glob("/dev/nvme*") + glob.glob("/dev/dm-*") + glob.glob("/dev/snd/*"))


@attempt(116)
def a_program_that_runs_as_its_owner():
    """Outside, files created in here belong to the engine's user; no other user may gain that user's rights."""
    tries = {
        "chmod": lambda path: (os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755)), os.chmod(path, 0o4755)),
        "fchmod": lambda path: os.fchmod(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755), 0o4755),
        "open": lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755)),
        "mknod": lambda path: os.mknod(path, stat.S_IFREG | 0o4755),
    }
    for folder in (".", os.environ.get("HOME", "."), os.environ.get("LOOPWRIGHT_OUTBOX", ".")):
        for name, make in tries.items():
            path = os.path.join(folder, "as-owner")
            quiet(make, path)
            about = quiet(os.stat, path)
            if about:
                os.unlink(path)
            if about and about.st_mode & (stat.S_ISUID):
                return "made with %s in %s" % (name, folder)
    return None


@attempt(116)
def words_typed_into_a_terminal():
    """Also with bits set that the kernel ignores and a careless filter compares."""
    master, other = os.openpty()
    for descriptor in (master, other):
        for request in (0x5412, 0x5412 | 1 << 32, 0x541C, 0x541C | 1 << 32):
            letter = ctypes.create_string_buffer(b"x")
            if LIBC.syscall(ctypes.c_long(16 if X86 else 29), ctypes.c_long(descriptor), ctypes.c_ulong(request), letter) == 0:
                return "typed with request %#x" % request
    return None


@attempt(116)
def calls_of_another_architecture():
    """The numbers of 32-bit programs, or of x32, must not bypass the filter."""
    if not X86:
        return None
    got = quiet(lambda: raw(0x40000000 | 250, 0, -3 & 0xFFFFFFFF, 1))
    if got is not None:
        return "x32 keyctl answered %d" % got
    import mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # mov eax, 288 (keyctl); xor ebx, ebx; mov ecx, -3; mov edx, 1; int 0x80; ret, with rbx kept
    page.write(b"\x53\xb8\x20\x01\x00\x00\x31\xdb\xb9\xfd\xff\xff\xff\xba\x01\x00\x00\x00\xcd\x80\x5b\xc3")
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    return "keyctl of 32 bits answered %d" % answer if answer >= 0 else None


@attempt(116)
def ceilings_raised():
    for name in ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE"):
        kind = getattr(resource, name)
        soft, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY and name != "RLIMIT_NPROC":
            return "%s has no ceiling" % name
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1))
            return "raised %s above %d" % (name, hard)
        except (ValueError, OSError, OverflowError):
            pass
    return None


@attempt(116)
@confined
def a_better_place_in_the_queue():
    try:
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)
        return "a higher priority"
    except OSError:
        pass
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return "real time"


# ---- 102: gates and checks ---------------------------------------------------------------------------------------

ROLE = os.environ.get("LOOPWRIGHT_ROLE", "gate")


@attempt(102)
def places_of_other_roles():
    """The verdict's path exists for the checker only, held-out files for no role here, the outbox not for gates."""
    others = {"maker": ["/sink", "/items", "/heldout"], "gate": ["/sink", "/items", "/heldout", "/outbox"], "checker": ["/heldout"]}[ROLE]
    return first(quiet(peek, path) for path in others)


@attempt(102)
def words_of_other_roles():
    names = {"maker": ["NONCE", "VERDICT", "TREE", "CANDIDATE", "ITEMS"], "gate": ["NONCE", "VERDICT", "TREE", "CANDIDATE", "OUTBOX", "ITEMS"], "checker": []}[ROLE]
    return first(name for name in names if "LOOPWRIGHT_" + name in os.environ)


@attempt(102)
def what_is_only_to_be_read():
    paths = ["/run/loopwright/state.json", os.environ.get("LOOPWRIGHT_STATE", "/-"), "/run/loopwright/agent", "/run/loopwright/planted",
             "/items/planted", "/planted", "/home/planted", "/heldout/planted"]
    if ROLE == "checker":
        paths += ["calc.sh", "planted", ".git/planted", "tests/planted"]
    return first(quiet(could_write, path) for path in paths)


@attempt(102)
def places_taken_before_their_owner_comes():
    for path in ("/sink", "/items", "/heldout", "/run/loopwright/verdict"):
        if not os.path.lexists(path) and quiet(lambda: os.mkdir(path) or True):
            os.rmdir(path)
            return "made %s" % path
    return None


# ---- 67, 69, 35: using the host up ---------------------------------------------------------------------------------

@attempt(67)
def threads_without_end():
    threading.stack_size(64 << 10)
    wait, count = threading.Event(), 0
    try:
        while count < AIM["threads"]:
            threading.Thread(target=wait.wait, daemon=True).start()
            count += 1
    except RuntimeError:
        return None
    return "%d threads" % count


@attempt(35)
def a_file_without_end():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("huge.bin", "wb") as file:
        try:
            file.truncate(AIM["file"] + 1)
            return "a file of %d bytes" % os.path.getsize("huge.bin")
        finally:
            os.unlink("huge.bin")


@attempt(46)
def descriptors_without_end():
    kept = []
    try:
        while len(kept) < AIM["descriptors"]:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        return None if error.errno == errno.EMFILE else str(error)
    return "%d descriptors" % len(kept)


# ---- running them --------------------------------------------------------------------------------------------------

def run(function):
    """Tries in a child process: the result, and whether the attack failed."""
    sys.stdout.flush()
    near, far = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(near)
        signal.alarm(20)
        try:
            got = function()
            told = ("BROKE %s" % (got,)) if got else "held"
        except BaseException as error:
            told = "held %s" % error
        os.write(far, told.replace("\n", " ").encode()[:400])
        os._exit(0)
    os.close(far)
    told = b""
    while True:
        more = os.read(near, 4096)
        if not more:
            break
        told += more
    _, status = os.waitpid(child, 0)
    if told:
        return told.decode("utf-8", "replace")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSYS, signal.SIGKILL):
        return "held killed by %s" % signal.Signals(os.WTERMSIG(status)).name
    return "BROKE said nothing, status %d" % status


def main():
    wanted = [function for number in sys.argv[1:] for function in ATTEMPTS[number]]
    broken = 0
    for function in wanted:
        told = run(function)
        broken += told.startswith("BROKE")
        print("%s: %s" % (function.__name__, told))
    print("%d of %d held" % (len(wanted) - broken, len(wanted)))
    sys.exit(1 if broken or not wanted else 0)


main()
