//! Confined programs: the files they see, the files they can change, and how they start and end.

mod common;

use common::{ended, folder, limited, prints, python, sh, walled};
use loopwright_sandbox::{
    CancelToken, MountSource, OutputChannel, RunEnd, SpawnErrorKind, SpawnRequest, StdinFeed, StdinSource, TreeCookie,
    WatchFlow, run,
};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

#[tokio::test]
async fn program_sees_only_the_system_and_its_mounts() {
    let (dir, other) = (folder(), folder());
    fs::write(other.path().join("secret"), "s").expect("write");
    let script = format!(
        "ls -A / | tr '\\n' ' '; id -u; id -un; hostname; pwd; ls {} 2>&1; ls /root /etc/shadow /etc/ssl/private 2>&1 | wc -l",
        other.path().display()
    );
    let text = prints(walled(sh(&script), dir.path(), |_| ())).await;
    let mut lines = text.lines();
    let roots = lines.next().expect("a list of the root");
    for name in roots.split_whitespace().filter(|name| name.parse::<u32>().is_err()) {
        let known = "bin dev etc home lib lib32 lib64 libx32 nix gnu proc run sbin tmp usr var workspace";
        assert!(known.split(' ').any(|one| one == name), "{name} in {roots}");
    }
    assert!(roots.ends_with("1000"), "{roots}");
    assert_eq!(lines.next(), Some("loop"));
    assert_eq!(lines.next(), Some("loopwright"));
    assert_eq!(lines.next(), Some("/workspace"));
    assert!(lines.next().is_some_and(|line| line.contains("No such file")), "{text}");
    assert_eq!(lines.next().map(str::trim), Some("3"), "{text}");
}

#[tokio::test]
async fn program_changes_its_writable_places_and_no_others() {
    let (dir, fixed) = (folder(), folder());
    fs::write(fixed.path().join("kept"), "kept").expect("write");
    let script = "echo new > /workspace/new; echo x > /tmp/x && echo tmp; \
                  echo x > /fixed/kept; rm -f /fixed/kept; echo x > /fixed/made; mkdir /made; echo x > /usr/made; \
                  echo x > /etc/passwd; echo x > /given; chmod 777 /dev/null; touch /home/x; echo end";
    let text = prints(walled(sh(script), dir.path(), |confine| {
        confine.mount("/fixed", MountSource::ReadOnly(fixed.path().to_owned()));
        confine.mount("/given", MountSource::File(b"given".to_vec()));
        confine.mount("/workspace/deep/given", MountSource::File(b"deep".to_vec()));
    }))
    .await;
    assert!(text.starts_with("tmp\nend\n"), "{text}");
    assert_eq!(text.matches("Read-only file system").count(), 9, "{text}");
    assert_eq!(fs::read_to_string(dir.path().join("new")).expect("written"), "new\n");
    assert_eq!(fs::read_to_string(fixed.path().join("kept")).expect("kept"), "kept");
    assert_eq!(
        fs::read(dir.path().join("deep/given")).expect("the mount point"),
        b"",
        "the file itself is not outside"
    );
}

#[tokio::test]
async fn mounted_files_can_be_read_at_their_paths() {
    let dir = folder();
    let text = prints(walled(sh("cat /run/loopwright/a /workspace/b; echo x > /workspace/b"), dir.path(), |confine| {
        confine.mount("/run/loopwright/a", MountSource::File(b"one ".to_vec()));
        confine.mount("/workspace/b", MountSource::File(b"two ".to_vec()));
    }))
    .await;
    assert!(text.starts_with("one two ") && text.contains("Read-only"), "{text}");
}

#[tokio::test]
async fn changes_of_an_overlay_are_in_its_upper_folder_only() {
    let root = folder();
    let at = |name: &str| root.path().join(name);
    for name in ["low", "low/replaced", "upper", "work"] {
        fs::create_dir(at(name)).expect("folder");
    }
    for name in ["low/gone", "low/changed", "low/replaced/old"] {
        fs::write(at(name), "base").expect("file");
    }
    let script = "rm -f gone; echo new >> changed; rm -r replaced; mkdir replaced; echo x > replaced/new; echo made > made; sync; ls -A";
    for _ in 0..2 {
        let mut spawn = walled(sh(script), root.path(), |confine| {
            confine.mounts.retain(|mount| mount.at != Path::new("/workspace"));
            let (lower, upper, work) = (vec![at("low")], at("upper"), at("work"));
            confine.mount("/workspace", MountSource::Overlay { lower, upper, work });
        });
        spawn.args[1] = script.into();
        let text = prints(spawn).await;
        assert!(text.ends_with("changed\nmade\nreplaced\n"), "{text}");
    }
    assert_eq!(fs::read_to_string(at("low/gone")).expect("untouched"), "base");
    assert_eq!(fs::read_to_string(at("low/changed")).expect("untouched"), "base");
    let gone = fs::symlink_metadata(at("upper/gone")).expect("a mark");
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    assert_eq!(fs::read_to_string(at("upper/changed")).expect("copied up"), "basenew\nnew\n");
    let mut mark = [0_u8; 8];
    let length = rustix_getxattr(&at("upper/replaced"), "user.overlay.opaque", &mut mark);
    assert_eq!(&mark[..length], b"y");
    assert_eq!(fs::read_dir(at("work")).expect("readable").count(), 0, "the kernel's own leavings are gone");
}

fn rustix_getxattr(path: &Path, name: &str, value: &mut [u8]) -> usize {
    rustix::fs::getxattr(path, name, value).expect("the attribute")
}

#[tokio::test]
async fn layers_are_seen_as_one_and_cannot_be_changed() {
    let root = folder();
    for (layer, name) in [("a", "top"), ("b", "top"), ("b", "below"), ("c", "lowest")] {
        fs::create_dir_all(root.path().join(layer)).expect("folder");
        fs::write(root.path().join(layer).join(name), layer).expect("file");
    }
    let layers = |names: &[&str]| MountSource::Layers(names.iter().map(|name| root.path().join(name)).collect());
    let text = prints(walled(
        sh("cat /l/top /l/below /l/lowest /one/lowest; echo x > /l/top; echo x > /one/x"),
        root.path(),
        |confine| {
            confine.mount("/l", layers(&["a", "b", "c"]));
            confine.mount("/one", layers(&["c"]));
        },
    ))
    .await;
    assert!(text.starts_with("abcc"), "{text}");
    assert_eq!(text.matches("Read-only").count(), 2, "{text}");
}

#[tokio::test]
async fn exit_codes_and_signals_are_reported() {
    let dir = folder();
    for (script, how) in [
        ("exit 0", RunEnd::Exited(0)),
        ("exit 37", RunEnd::Exited(37)),
        ("kill -SEGV $$", RunEnd::Signaled(11)),
        ("kill -KILL $$", RunEnd::Signaled(9)),
        ("kill -TERM $$", RunEnd::Signaled(15)),
    ] {
        let end = ended(walled(sh(script), dir.path(), |_| ())).await;
        assert_eq!((end.how, end.killed, end.leaky), (how, 0, false), "{script}");
    }
}

#[tokio::test]
async fn input_and_both_outputs_work_inside_the_sandbox() {
    let dir = folder();
    let mut spawn = walled(sh("cat; echo err >&2"), dir.path(), |_| ());
    spawn.stdin = StdinSource::Bytes(b"a\0b".to_vec());
    let end = ended(spawn).await;
    assert_eq!(end.stdout.complete_bytes().as_deref(), Some(b"a\0b".as_slice()));
    assert_eq!(end.stderr.to_lossy_string(), "err\n");
}

#[tokio::test]
async fn input_feed_works_inside_the_sandbox() {
    let (dir, feed) = (folder(), StdinFeed::new(100));
    let mut spawn = walled(sh("echo ready; read -r line; echo got $line; cat; echo end"), dir.path(), |_| ());
    spawn.stdin = StdinSource::Feed(feed.clone());
    let mut watch = common::OnLine::new(move |_: &str| {
        feed.send(b"one\ntwo\n").expect("there is room");
        feed.close();
        WatchFlow::Continue
    });
    let end = run(limited(spawn, |_| ()), &mut watch, &CancelToken::new(), |_| ()).await.expect("sh starts");
    assert_eq!((end.how, end.stdout.to_lossy_string().as_str()), (RunEnd::Exited(0), "ready\ngot one\ntwo\nend\n"));
}

#[tokio::test]
async fn environment_is_only_the_given_one_and_the_cookie() {
    let dir = folder();
    let mut spawn = walled(common::command("env", &[]), dir.path(), |_| ());
    spawn.cookie = TreeCookie::from_recorded("recorded".to_owned());
    assert_eq!(prints(spawn).await, "LOOPWRIGHT_COOKIE=recorded\nPATH=/usr/local/bin:/usr/bin:/bin\n");
}

#[tokio::test]
async fn impossible_starts_start_nothing_and_report_the_reason() {
    let dir = folder();
    fs::write(dir.path().join("plain"), "no program").expect("write");
    let missing = |at: &str, what: MountSource| {
        let at = at.to_owned();
        walled(sh("touch /workspace/started"), dir.path(), move |confine| confine.mount(at, what))
    };
    let mut elsewhere = walled(sh(":"), dir.path(), |_| ());
    elsewhere.cwd = "/no/such/folder".into();
    let program = |name: &str| walled(SpawnRequest::new(name, "/", TreeCookie::new("t")), dir.path(), |_| ());
    let cases = [
        (program("/no/such/program"), SpawnErrorKind::NotFound, "/no/such/program"),
        (program("no-such-program"), SpawnErrorKind::NotFound, "no-such-program"),
        (program("./plain"), SpawnErrorKind::NotExecutable, "plain"),
        (program("/workspace"), SpawnErrorKind::NotExecutable, "start"),
        (elsewhere, SpawnErrorKind::Cwd, "/no/such/folder"),
        (
            missing("/x", MountSource::ReadOnly("/no/such/source".into())),
            SpawnErrorKind::Boundary,
            "open the source of the mount `/x`",
        ),
        (missing("/usr/x/y", MountSource::Memory(1 << 20)), SpawnErrorKind::Boundary, "mount `/usr/x/y`"),
        (missing("/a/../../x", MountSource::Memory(1 << 20)), SpawnErrorKind::Boundary, "Invalid argument"),
        (missing("relative", MountSource::Memory(1 << 20)), SpawnErrorKind::Boundary, "Invalid argument"),
    ];
    for (spawn, kind, part) in cases {
        let error = run(spawn, &mut (), &CancelToken::new(), |_| panic!("started")).await.expect_err("cannot start");
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(!dir.path().join("started").exists());
}

#[tokio::test]
async fn mount_point_behind_a_symbolic_link_is_refused() {
    let dir = folder();
    std::os::unix::fs::symlink("/usr", dir.path().join("link")).expect("link");
    let spawn =
        walled(sh(":"), dir.path(), |confine| confine.mount("/workspace/link/lib", MountSource::Memory(1 << 20)));
    let error = run(spawn, &mut (), &CancelToken::new(), |_| ()).await.expect_err("cannot start");
    assert_eq!(error.kind, SpawnErrorKind::Boundary, "{error}");
}

#[tokio::test]
async fn ordinary_tools_run_inside() {
    let dir = folder();
    let script = "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --format=%s; \
                  awk 'BEGIN{print 1+1}'; echo a | tee f | wc -c; openssl version | cut -c1-7; perl -e 'print 7*6, \"\\n\"'";
    let mut spawn = walled(sh(script), dir.path(), |_| ());
    spawn.env.insert("HOME".into(), "/tmp".into());
    assert_eq!(prints(spawn).await.replace("OpenSSL\n", ""), "x\n2\n2\n42\n");
    let _ = limited(python(""), |_| ());
}

/// A program's files belong to the engine's user outside, and no other user may get that user's rights.
#[tokio::test]
async fn no_call_makes_a_file_that_runs_as_its_owner() {
    let dir = folder();
    let script = "import os, stat\n\
        tries = {'chmod': lambda: (open('f', 'w').close(), os.chmod('f', 0o4755)), \
                 'open': lambda: os.open('f', os.O_CREAT | os.O_WRONLY, 0o4755), \
                 'temporary': lambda: os.link('/proc/self/fd/%d' % os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755), 'f'), \
                 'mknod': lambda: os.mknod('f', stat.S_IFREG | 0o4755)}\n\
        for name, make in tries.items():\n\
        \x20   try:\n        make()\n    except PermissionError:\n        pass\n\
        \x20   if os.path.exists('f'):\n        print(name, os.stat('f').st_mode & 0o4000)\n        os.unlink('f')\n\
        print('end', os.stat(os.open('plain', os.O_CREAT | os.O_WRONLY, 0o755)).st_mode & 0o7777)";
    let text = prints(walled(python(script), dir.path(), |_| ())).await;
    assert_eq!(text, format!("chmod 0\nend {}\n", 0o755));
}

#[tokio::test]
async fn process_that_closed_the_pipes_is_ended_at_once_and_writes_nothing_later() {
    let dir = folder();
    let script = "(sleep 0.5; echo late > late) > /dev/null 2>&1 < /dev/null & echo done";
    let ended = ended(walled(sh(script), dir.path(), |_| ())).await;
    assert_eq!((ended.stdout.to_lossy_string().as_str(), ended.leaky), ("done\n", false));
    assert!(ended.wall < std::time::Duration::from_millis(400), "{:?}", ended.wall);
    assert!(!dir.path().join("late").exists());
}

/// A program whose own child tries to write to its output: through the output in `/proc`, and through its memory.
const SPOKEN_FOR: &str = "\
import os, subprocess, sys
child = r'''
import os
def tried(name, how):
    try:
        os.write(os.open(f'/proc/{os.getppid()}/{name}', how), b'forged\\n')
    except OSError as error:
        print(name, error.strerror)
tried('fd/1', os.O_WRONLY)
tried('fd/2', os.O_WRONLY)
tried('mem', os.O_RDWR)
'''
said = subprocess.run([sys.executable, '-c', child], stdout=subprocess.PIPE).stdout
print('real', said.decode().split(chr(10)))
";

#[tokio::test]
async fn only_the_program_itself_writes_to_a_private_output() {
    let dir = folder();
    let open = prints(walled(python(SPOKEN_FOR), dir.path(), |_| ())).await;
    assert!(open.contains("forged\n"), "a pipe can be opened again: {open}");
    let private = SpawnRequest { output: OutputChannel::Private, ..python(SPOKEN_FOR) };
    let text = prints(walled(private, dir.path(), |_| ())).await;
    assert_eq!(
        text,
        "real ['fd/1 No such device or address', 'fd/2 No such device or address', 'mem Read-only file system', '']\n"
    );
}

#[tokio::test]
async fn private_output_is_complete_and_ends_with_the_program() {
    let dir = folder();
    let spawn =
        limited(python("import sys\nfor n in range(60000): print(f'line {n}')"), |limits| limits.keep_tail = 20);
    let ended = ended(walled(SpawnRequest { output: OutputChannel::Private, ..spawn }, dir.path(), |_| ())).await;
    assert_eq!((ended.how, ended.leaky), (RunEnd::Exited(0), false));
    assert!(ended.stdout.to_lossy_string().ends_with("line 59999\n"), "{}", ended.stdout.to_lossy_string());
}
