//! Canaries: a secret that a maker obtains is in no byte that stays, by any route. The tests search the state
//! directory, the user's repository and the local forge, including every git object and every encoding.

mod common;

use common::*;
use loopwright::agents::CommandAgent;
use loopwright::spec::ActionKind;
use loopwright::{AllowlistGate, KnownSecrets, LoopEngine, LoopLevel, LoopSpec, RoundOutcome, RoundReport};
use loopwright_testkit::wait;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CANARY: &str = "cnry-7Qx2/Kp9+Wm4vT8zR1nB6sLd";

/// The encodings to search for, as bytes.
fn spellings() -> Vec<(&'static str, Vec<u8>)> {
    let base64 = "Y25yeS03UXgyL0twOStXbTR2VDh6UjFuQjZzTGQ=";
    let wide = CANARY.bytes().flat_map(|byte| [byte, 0]).collect();
    vec![
        ("plain", CANARY.as_bytes().to_vec()),
        ("base64", base64.trim_end_matches('=').as_bytes().to_vec()),
        ("hex", CANARY.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes()),
        ("percent", CANARY.replace('/', "%2F").replace('+', "%2B").into_bytes()),
        ("reversed", CANARY.bytes().rev().collect()),
        ("wide", wide),
        ("first half", CANARY.as_bytes()[..16].to_vec()),
        ("second half", CANARY.as_bytes()[14..].to_vec()),
    ]
}

/// Runs a shell script as the maker of a trusting loop, with the canary in `$C`, its base64 in `$B` and its hex in
/// `$H`.
async fn round(world: &World, script: &str) -> RoundReport {
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let script = format!(
        "C='{CANARY}'; B=$(printf %s \"$C\" | base64 -w0); H={hex}; echo 'echo $(( $1 + $2 ))' > sum.sh\n{script}"
    );
    let maker = CommandAgent::new(&["sh".to_owned(), "-c".to_owned(), script]).expect("a command");
    let mut spec = LoopSpec { attempts: 1, ..mending(LoopLevel::L3Unattended) };
    spec.allow = vec![ActionKind::PullRequest];
    spec.secrets = vec!["FORGE_TOKEN".to_owned()];
    let mut settings = world.settings();
    let variable = ("FORGE_TOKEN".to_owned(), CANARY.to_owned());
    settings.known_secrets = KnownSecrets::from_environment([variable]);
    let builder = LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5)).with_local_forge();
    let builder = builder.with_gate(AllowlistGate::new(["pull-request"]));
    let engine = builder.build(settings, world.repo.path()).await.expect("the loop is built");
    let report = engine.run_once().await.expect("the round ends");
    engine.engine().close().await.expect("closes");
    report
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder { files(&entry.path(), found) } else { found.push(entry.path()) }
    }
}

/// Everything readable below a folder: names, bytes, and the inflated objects of every repository.
fn readable(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut paths = Vec::new();
    files(folder, &mut paths);
    let mut all = Vec::new();
    for path in paths {
        let name = path.to_string_lossy().into_owned();
        if path.ends_with("HEAD") && path.with_file_name("objects").is_dir() {
            all.push((format!("objects beside {name}"), objects(path.parent().expect("a folder"))));
        }
        let link = std::fs::read_link(&path).map(|target| target.to_string_lossy().into_owned().into_bytes());
        all.push((name.clone(), link.or_else(|_| std::fs::read(&path)).unwrap_or_default()));
        all.push((format!("the name of {name}"), name.into_bytes()));
    }
    all
}

#[expect(clippy::disallowed_methods, reason = "the test looks with git's own eyes")]
fn objects(git_dir: &Path) -> Vec<u8> {
    let mut command = std::process::Command::new("git");
    command.arg("--git-dir").arg(git_dir).args(["cat-file", "--batch-all-objects", "--batch", "--unordered"]);
    let output = command.env_clear().env("PATH", "/usr/bin:/bin").output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn sightings(world: &World) -> Vec<String> {
    let mut seen = Vec::new();
    for (name, bytes) in [world.state(), world.repo.path().to_owned()].iter().flat_map(|folder| readable(folder)) {
        for (spelling, needle) in spellings() {
            if bytes.windows(needle.len()).any(|part| part == needle) {
                seen.push(format!("{spelling} in {name}"));
            }
        }
    }
    seen
}

/// Waits for removals in the background first.
async fn nowhere(world: &World, way: &str) {
    let trash = || {
        let mut paths = Vec::new();
        files(&world.state().join("workspaces"), &mut paths);
        paths.iter().all(|path| !path.components().any(|part| part.as_os_str() == "trash"))
    };
    wait::until("the trash is empty", Duration::from_secs(20), trash);
    assert_eq!(sightings(world), Vec::<String>::new(), "{way}");
}

/// Routes into a candidate; each one gets the round refused.
const CAUGHT: [(&str, &str); 14] = [
    ("file", "echo \"key = $C\" > config.txt"),
    ("base64 in a file", "printf '%s' \"user:$C\" | base64 -w 20 > blob.txt"),
    ("hex in a file", "echo \"$H\" > blob.txt"),
    ("reversed in a file", "printf %s \"$C\" | rev > blob.txt"),
    ("binary", "printf '\\000\\377\\001%s\\000\\377' \"$C\" > logo.png"),
    ("lockfile", "mkdir -p a/b; echo \"integrity = \\\"$C\\\"\" > a/b/package-lock.json"),
    ("name", "mkdir -p d; : > \"d/$(printf %s \"$C\" | tr / _).txt\""),
    ("link", "ln -s \"x/$C\" link"),
    ("literals", "printf 'k = \"%.12s\" +\\n  \"%s\"\\n' \"$C\" \"$(printf %s \"$C\" | cut -c13-)\" > k.js"),
    ("pieces", "i=1; while [ $i -le 28 ]; do printf %s \"$C\" | cut -c$i-$((i+8)) > part$i.txt; i=$((i+9)); done"),
    ("long line", "head -c 300000 /dev/zero | tr '\\0' x > big.min.js; printf %s \"$C\" >> big.min.js"),
    ("pull request", "printf 'A title\\n\\nsee %s\\n' \"$C\" > \"$LOOPWRIGHT_OUTBOX/pull-request.md\""),
    ("title in base64", "printf 'see %s\\n\\nbody\\n' \"$B\" > \"$LOOPWRIGHT_OUTBOX/pull-request.md\""),
    ("text of the request", "printf 'A title\\n\\n%s\\n' \"$H\" > PR_BODY.md"),
];

#[tokio::test]
async fn a_secret_in_a_candidate_refuses_the_round_and_leaves_no_byte() {
    for (way, script) in CAUGHT {
        let world = World::new();
        let report = round(&world, script).await;
        assert_eq!(report.outcome, Some(RoundOutcome::Refused), "{way}: {:?}", report.reasons);
        let said = format!("{report:?}");
        assert!(report.reasons.iter().any(|reason| reason.code == "secrets"), "{way}: {said}");
        assert!(!said.contains(CANARY), "{way}");
        nowhere(&world, way).await;
    }
}

/// Routes that reach no candidate; the round continues, and the secret is removed from its outputs.
const CLEANED: [(&str, &str); 7] = [
    ("words", "echo \"the key is $C\"; echo \"$B $H\""),
    ("errors", "echo \"the key is $C\" >&2"),
    ("words over lines", "printf %s \"$C\" | cut -c1-13; printf %s \"$C\" | cut -c14-"),
    ("words over pieces", "head -c 8180 /dev/zero | tr '\\0' x; printf '%s\\n' \"$C\"; printf '%s' \"$B\""),
    ("words and errors in turn", "printf 'a %s\\n' \"$C\"; printf 'b %s\\n' \"$C\" >&2; printf 'c \\377 %s\\n' \"$C\""),
    ("commit", "git add -A; git -c user.name=x -c user.email=x@x commit -qm \"$C\" || true"),
    ("home", "echo \"$C\" > \"$HOME/.netrc\"; echo \"$C\" > \"$TMPDIR/x\""),
];

#[tokio::test]
async fn secret_in_an_agents_output_is_stored_nowhere() {
    for (way, script) in CLEANED {
        let world = World::new();
        let report = round(&world, script).await;
        assert_eq!(report.outcome, Some(RoundOutcome::Shipped), "{way}: {:?}", report.reasons);
        nowhere(&world, way).await;
    }
}

#[tokio::test]
async fn secret_that_a_gate_prints_is_stored_nowhere() {
    let world = World::new();
    world
        .repo
        .write("check.sh", "echo \"with $FORGE_TOKEN\"; echo \"$FORGE_TOKEN\" | base64 >&2; exit 1\n")
        .commit("loud");
    let report = round(&world, "true").await;
    assert!(report.gates.iter().any(|gate| gate.excerpt.contains("[known-value]")), "{:?}", report.gates);
    assert_ne!(report.outcome, Some(RoundOutcome::Shipped), "{:?}", report.reasons);
    nowhere(&world, "gate").await;
}

#[tokio::test]
async fn honest_work_beside_a_known_secret_ships() {
    let world = World::new();
    let script = "printf '# Notes\\n\\nThe token is read from FORGE_TOKEN at start; cnry is a prefix.\\n' > NOTES.md";
    let report = round(&world, script).await;
    assert_eq!(report.outcome, Some(RoundOutcome::Shipped), "{:?}", report.reasons);
}
