//! The targets of attackers: a user's home full of secrets, other repositories, the engine's own state, sockets of the
//! host; and the check of all of them after a round in which every role ran `attack.py`.

use crate::stage::{FIX, PASS_STEPS, Round, Stage, TESTS, files};
use loopwright_testkit::{Canary, TreeDigest, Tripwires, tripwires};
use std::fs;
use std::path::{Path, PathBuf};

const ATTACK: &str = include_str!("attack.py");

/// Files of a home folder that hold secrets.
const HOME_FILES: [&str; 28] = [
    ".ssh/id_ed25519",
    ".ssh/config",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".config/gcloud/credentials.db",
    ".config/loopwright/config.yaml",
    ".config/google-chrome/Default/Login Data",
    ".mozilla/firefox/x.default/logins.json",
    ".local/share/keyrings/login.keyring",
    ".password-store/all.gpg",
    ".gnupg/private-keys-v1.d/a.key",
    ".netrc",
    ".git-credentials",
    ".gitconfig",
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".docker/config.json",
    ".kube/config",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".bash_history",
    ".bashrc",
    "notes/private.txt",
];

/// A stage with targets worth attacking.
pub(crate) struct Target {
    pub(crate) stage: Stage,
    pub(crate) canary: Canary,
    pub(crate) wires: Tripwires,
    other: PathBuf,
    home: TreeDigest,
}

impl Target {
    /// Plants a secret in every place, sets up the tripwires, and puts the attack into base.
    pub(crate) fn new() -> Self {
        Self::on(Stage::new())
    }

    /// The same on a given stage.
    pub(crate) fn on(stage: Stage) -> Self {
        let canary = Canary::new();
        let secret = format!("secret = {}\n", canary.value());
        let stage = stage.with_env("LW_CANARY_ENV", canary.value()).with_env("LW_CANARY_API_KEY", canary.value());
        for name in HOME_FILES {
            plant(&stage.env.home().join(name), &secret);
        }
        let other = stage.env.root().join("other-project");
        plant(&other.join(".env"), &secret);
        let wires = Tripwires::listen(&stage.env.home());
        let home = TreeDigest::of_folder(&stage.env.home());
        let target = Self { stage, canary, wires, other, home };
        target.stage.repo.write("attack.py", ATTACK).write("aim.json", target.aim().to_string());
        target
    }

    fn aim(&self) -> serde_json::Value {
        let env = &self.stage.env;
        let home_files: Vec<PathBuf> = HOME_FILES.iter().map(|name| env.home().join(name)).collect();
        serde_json::json!({
            "root": env.root(), "home": env.home(), "state": env.state(), "repo": self.stage.repo.path(),
            "home_files": home_files, "other_files": [self.other.join(".env")],
            "tcp": self.wires.tcp(), "tcp6": self.wires.tcp6(), "udp": self.wires.udp(),
            "addresses": tripwires::own_address(), "sockets": [self.wires.path()], "abstract": [self.wires.name()],
            "threads": 8192, "file": 4_u64 << 30, "descriptors": 32 << 10,
        })
    }

    /// Runs one round in which maker, gate and checker each try the catalogue's attacks of a number; all attacks must
    /// fail.
    #[track_caller]
    pub(crate) fn holds(self, number: u32) {
        let gate = format!("{{ name: attack, run: [python3, attack.py, \"{number}\"] }}");
        let target = Self { stage: self.stage.gates(&[TESTS, &gate]), ..self };
        let attack = attack(number);
        let round = target.stage.script(&format!("@ maker\n{FIX}{attack}\n@ checker\n{attack}\n{PASS_STEPS}\n"));
        let attack_log = attack_log(&target.stage.state());
        assert_eq!(round.json["outcome"], "shipped", "{}\n{}", broken(&attack_log), round.story());
        // Maker and checker report in their transcripts; the gate has reported by its exit code.
        assert_eq!(held(&attack_log), 2, "every role tried and was held:\n{attack_log}");
        let _ = target.examine(round).ships();
    }

    /// Runs one honest round of a loop whose other programs attack; each fails its round if an attack succeeded.
    #[track_caller]
    pub(crate) fn everywhere(self, front: &str) {
        let target = Self { stage: self.stage.with(front), ..self };
        let round = target.stage.script(&format!("@ maker\n{FIX}@ checker\n{PASS_STEPS}\n"));
        assert_eq!(round.json["outcome"], "shipped", "{}\n{}", attack_log(&target.stage.state()), round.story());
        let _ = target.examine(round).ships();
    }

    /// Checks what no round may do to the user's files, whatever it delivered.
    #[track_caller]
    pub(crate) fn examine(&self, round: Round) -> Round {
        self.wires.assert_untouched();
        self.home.assert_untouched(&TreeDigest::of_folder(&self.stage.env.home()));
        assert!(!self.stage.env.root().join("planted").exists(), "a file was planted in the user's folder");
        assert_eq!(files(&self.other).len(), 1, "a file was planted in another repository");
        self.canary.assert_nowhere(&self.stage.state());
        self.canary.assert_nowhere(self.stage.repo.path());
        for (name, bytes) in [("stdout", &round.output.stdout), ("stderr", &round.output.stderr)] {
            assert!(!self.canary.is_in(bytes), "a planted secret turned up in {name}");
        }
        round
    }
}

/// A step that attacks, and ends its role at once if an attack succeeded.
pub(crate) fn attack(number: u32) -> String {
    format!("run sh -c \"python3 attack.py {number} || kill -9 $PPID\"")
}

fn plant(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
    fs::write(path, text).expect("a file can be written");
}

/// The transcripts of roles and the output of gates.
pub(crate) fn attack_log(state: &Path) -> String {
    let kept = ["transcripts", "evidence"].iter().flat_map(|name| files(&state.join(name)));
    kept.map(|file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned() + "\n").collect()
}

/// The successful attacks.
fn broken(attack_log: &str) -> String {
    attack_log.lines().filter(|line| line.contains("BROKE")).map(|line| format!("{line}\n")).collect()
}

/// The number of attackers that reported in transcripts that every attack failed.
fn held(attack_log: &str) -> usize {
    let counts = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), [some, "of", all, "held"] if some == all && *all != "0")
    };
    attack_log.lines().filter(counts).count()
}

#[test]
fn attacks_succeed_without_a_sandbox() {
    let target = Target::new();
    target.stage.commit("@ maker\nsay nothing\n");
    let python = |number: u32| {
        let mut command = std::process::Command::new("python3");
        command
            .current_dir(target.stage.repo.path())
            .arg("attack.py")
            .arg(number.to_string())
            .env("LW_CANARY_ENV", "x");
        let output = command.output().expect("python starts");
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let table: [(u32, &[&str]); 6] = [
        (122, &["files_of_the_home_folder", "the_home_folder_itself", "another_repository", "the_users_checkout"]),
        (115, &["own_environment", "environments_of_all_processes"]),
        (114, &["an_agents_socket", "abstract_sockets"]),
        (126, &["the_hosts_loopback", "the_hosts_loopback_by_the_newer_protocol"]),
        (108, &["absolute_paths", "through_a_link", "through_the_working_folder", "through_a_folder_that_moved"]),
        (110, &["files_that_run_when_the_user_logs_in"]),
    ];
    for (number, names) in table {
        let attack_log = python(number);
        for name in names {
            assert!(attack_log.contains(&format!("{name}: BROKE")), "{name} is no attack:\n{attack_log}");
        }
    }
    assert!(!target.wires.touched().is_empty(), "the wires see nobody");
}
