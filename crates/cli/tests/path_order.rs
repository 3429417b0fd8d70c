//! `PATH` inside the sandbox has the user's order: a shim that the user's shell finds first is found first by the probe,
//! the maker and the gates, and the version file of the repository acts as outside.

use loopwright_testkit::{TRUSTED_PATH, TestEnv};
use std::os::unix::fs::PermissionsExt as _;

/// A shim as version managers install them: it reads the version file of the folder that it runs in.
const SHIM: &str = "#!/bin/sh\ncase $1 in --items) echo \"shim-$(cat .python-version)\" ;; *) echo \"$0 $(cat .python-version)\" ;; esac\n";

/// Python itself would fail in the gate: the name is not defined.
const LOOP: &str = "---\nname: look\nintent: Look.\nlevel: L2\non: { every: 1h, probe: { run: [python3, --items], items: lines } }\n\
                    agents: { maker: { use: command, run: [sh, -c, \"python3 > found\"] } }\n\
                    gates: [{ name: shim, run: [python3, -c, no_such_name] }]\noutput: [pull-request]\n---\n# Maker\nLook.\n";

#[test]
fn shim_before_the_system_is_the_program_inside_for_probe_maker_and_gate() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let bin = env.home().join(".pyenv/shims");
    std::fs::create_dir_all(&bin).expect("a folder");
    std::fs::write(bin.join("python3"), SHIM).expect("a shim");
    std::fs::set_permissions(bin.join("python3"), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let env = env.with_env("PATH", format!("{}:{TRUSTED_PATH}", bin.display()));
    let repo = env.repo("r");
    repo.write(".python-version", "3.9.9\n").write(".loopwright/loops/look.md", LOOP).commit("first");
    let ran = env.loopwright_in(repo.path(), ["run", "look", "--json"]);
    let round = ran.json();
    assert_eq!(round["item"], "shim-3.9.9", "{round:#}");
    assert_eq!(round["gates"][0]["status"], "passed", "{round:#}");
}
