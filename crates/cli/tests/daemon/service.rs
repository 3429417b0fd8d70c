//! The files with which a system starts the daemon, and the messages about them.

use crate::world::World;
use expect_test::expect;

fn redacted(world: &World, text: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_loopwright");
    let program = std::env::var("LOOPWRIGHT_TEST_BINARY").unwrap_or_else(|_| binary.to_owned());
    world.env.redact(text).replace(&program, "$BINARY")
}

#[test]
fn the_systemd_unit_is_what_it_is_documented_to_be() {
    let world = World::new();
    let unit = world.run("--state /var/lib/lw service install --print").success().stdout();
    expect![[r##"
        # Written by `loopwright service install`; changes go into a drop-in: systemctl --user edit loopwright-abfa1403.service
        [Unit]
        Description=Loopwright: starts loops when they are due
        # The daemon may have to wait minutes for a database or for the lease of a lost machine: systemd never gives up.
        StartLimitIntervalSec=0

        [Service]
        Type=notify
        NotifyAccess=main
        ExecStart="$BINARY" "--state" "/var/lib/lw" "--repo" "$ROOT/repo" "up"
        ExecReload=/bin/kill -HUP $MAINPID
        WorkingDirectory=$ROOT/repo
        Environment="PATH=/usr/local/bin:/usr/bin:/bin"
        Environment="XDG_CONFIG_HOME=$ROOT/config"
        EnvironmentFile=-$ROOT/config/loopwright/environment
        Restart=on-failure
        RestartSec=10s
        # A person has to fix a wrong configuration.
        RestartPreventExitStatus=2
        # The daemon lets its rounds end; systemd kills the remaining processes.
        KillMode=mixed
        TimeoutStopSec=90s
        # Limits for agents need a part of the control group tree.
        Delegate=yes
        # A round that uses too much memory fails on its own.
        OOMPolicy=continue
        LimitNOFILE=65536
        UMask=0077
        NoNewPrivileges=yes

        [Install]
        WantedBy=default.target
    "##]].assert_eq(&redacted(&world, &unit));
}

/// systemd ignores a key that it does not know, with a warning in its log.
#[test]
fn systemd_of_this_machine_knows_every_key_of_the_unit() {
    let world = World::new();
    let file = world.env.root().join("loopwright.service");
    std::fs::write(&file, world.run("service install --print").success().stdout()).expect("a unit");
    let Ok(checked) = std::process::Command::new("systemd-analyze").args(["verify", "--user"]).arg(&file).output()
    else {
        return loopwright_testkit::skip("systemd-analyze is not installed");
    };
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    let about_unit: Vec<&str> = said.lines().filter(|line| line.contains("loopwright.service")).collect();
    assert!(!about_unit.iter().any(|line| line.contains("Unknown")), "{said}");
}

#[test]
fn the_launchd_agent_is_what_it_is_documented_to_be() {
    let world = World::new();
    let plist = world.run("--state /var/lib/lw service install --print --for launchd").success().stdout();
    expect![[r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0">
        <dict>
          <key>Label</key><string>dev.loopwright-abfa1403</string>
          <key>ProgramArguments</key>
          <array>
            <string>$BINARY</string>
            <string>--state</string>
            <string>/var/lib/lw</string>
            <string>--repo</string>
            <string>$ROOT/repo</string>
            <string>up</string>
          </array>
          <key>WorkingDirectory</key><string>$ROOT/repo</string>
          <key>EnvironmentVariables</key>
          <dict>
            <key>PATH</key><string>/usr/local/bin:/usr/bin:/bin</string>
            <key>XDG_CONFIG_HOME</key><string>$ROOT/config</string>
          </dict>
          <key>RunAtLoad</key><true/>
          <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
          <key>ThrottleInterval</key><integer>30</integer>
          <key>ExitTimeOut</key><integer>90</integer>
          <key>ProcessType</key><string>Background</string>
          <key>Umask</key><integer>63</integer>
          <key>StandardOutPath</key><string>/var/lib/lw/daemon.log</string>
          <key>StandardErrorPath</key><string>/var/lib/lw/daemon.log</string>
        </dict>
        </plist>
    "#]]
    .assert_eq(&redacted(&world, &plist));
}

#[test]
fn a_service_is_installed_shown_and_uninstalled_without_a_manager() {
    let world = World::new();
    assert_eq!(world.json("service status")["installed"], false);
    let printed = world.json("service install --print");
    assert!(printed["text"].as_str().is_some_and(|text| text.contains("ExecStart=")), "{printed}");
    assert_eq!(world.json("service status")["installed"], false);
    let installed = world.json("service install");
    let file = installed["file"].as_str().expect("a file").to_owned();
    assert!(file.starts_with(&*world.env.root().join("config/systemd/user").to_string_lossy()), "{file}");
    assert_eq!(installed["change"], "written");
    assert!(installed["next"][1].as_str().is_some_and(|line| line.starts_with("systemctl --user enable --now")));
    assert_eq!(world.json("service install")["change"], "unchanged");
    let status = world.json("service status");
    assert_eq!((status["installed"].as_bool(), status["current"].as_bool()), (Some(true), Some(true)));
    let page = world.run("service status").success().stdout();
    assert!(page.contains("no daemon runs") && page.contains("systemctl --user"), "{page}");
    assert_eq!(world.json("service uninstall")["change"], "removed");
    assert_eq!(world.json("service uninstall")["change"], "absent");
    assert!(!std::path::Path::new(&file).exists());
}

#[test]
fn a_manager_is_notified_when_the_daemon_is_ready_and_when_it_ends() {
    let mut world = World::new();
    let path = world.env.root().join("notify");
    let ear = std::os::unix::net::UnixDatagram::bind(&path).expect("it can be bound");
    ear.set_read_timeout(Some(crate::world::LONG)).expect("a timeout");
    world.env = world.env.with_env("NOTIFY_SOCKET", path.as_os_str());
    let heard = || {
        let mut text = [0; 256];
        let length = ear.recv(&mut text).expect("something came");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let daemon = world.up();
    assert_eq!(heard(), "READY=1\nSTATUS=2 loops");
    daemon.stop();
    assert!(heard().starts_with("STOPPING=1"));
}
