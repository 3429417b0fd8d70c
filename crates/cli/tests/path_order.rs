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

/// Version managers read different files; each shim prints the content of its own.
#[test]
fn each_version_file_acts_inside_as_outside_and_check_asks_the_shim() {
    for (folder, program, file, version) in [
        (".fnm/bin", "node", ".nvmrc", "v20.9.9"),
        (".asdf/shims", "ruby", ".tool-versions", "ruby 3.9.9"),
        (".cargo/bin", "cargo", "rust-toolchain.toml", "[toolchain] # 1.99.9"),
    ] {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
        let bin = env.home().join(folder);
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::write(bin.join(program), format!("#!/bin/sh\nread version < {file}; echo \"shim $version\"\n"))
            .expect("a shim");
        std::fs::set_permissions(bin.join(program), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let env = env.with_env("PATH", format!("{}:{TRUSTED_PATH}", bin.display()));
        let repo = env.repo("r");
        let gate = format!("[sh, -c, \"{program} | tee seen; grep -qF 'shim {version}' seen\"]");
        let text = LOOP.replace("on: { every: 1h, probe: { run: [python3, --items], items: lines } }\n", "");
        let text = text.replace("python3 > found", &format!("{program} > found")).replace(
            "{ name: shim, run: [python3, -c, no_such_name] }",
            &format!("{{ name: shim, run: {gate} }}, {{ name: version, run: [{program}, show] }}"),
        );
        repo.write(file, format!("{version}\n")).write(".loopwright/loops/look.md", text).commit("first");
        let round = env.loopwright_in(repo.path(), ["run", "look", "--json"]).json();
        assert_eq!(round["gates"][0]["status"], "passed", "{file}: {round:#}");
        let id = round["round"].as_str().expect("an id").to_owned();
        let made = env.loopwright_in(repo.path(), ["diff", &id]).success().stdout();
        assert!(made.contains(&format!("+shim {version}")), "the maker has the same program: {made}");
        let shown = env.loopwright_in(repo.path(), ["check", "look"]).success().stdout();
        let line = format!("gate `version` runs {} (shim {version})", bin.join(program).display());
        assert!(shown.contains(&line), "{line} in {shown}");
    }
}
