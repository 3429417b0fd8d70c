//! Levels: a loop that may only report only reports, whatever its maker does (family G and the contract's levels).

use crate::stage::{FIX, Stage, delivered};

fn reporting() -> Stage {
    Stage::new().level("L1").output("report").gates(&[])
}

/// A checker that passes a report.
const READ: &str = "@ checker\nverdict pass correctness=5@item:report.md:1 scope=5@item:report.md:1\n";

#[test]
fn maker_at_l1_cannot_write_files_and_its_report_is_kept() {
    let stage = reporting();
    let attempts = "try write calc.sh x\ntry delete README.md\ntry write .github/workflows/x.yml x\n\
        run sh -c \"touch calc.sh || echo held\"\n";
    let script = format!("@ maker\n{attempts}stage report.md \"All well.\\n\"\n{READ}");
    let round = stage.script(&script).ends("reported", "report-only");
    assert!(round.report().contains("All well."), "{}", round.report());
    assert_eq!(round.json["changes"].as_array().map(Vec::len), Some(0), "{}", round.story());
    let said = stage.env.loopwright_in(stage.repo.path(), ["logs", &round.id()]).success().stdout();
    assert!(said.contains("Read-only file system") && said.contains("held"), "{said}");
}

#[test]
fn maker_at_l1_that_writes_files_without_a_sandbox_is_refused_and_its_files_are_gone() {
    let stage = reporting().with("sandbox: off");
    stage.maker(&format!("{FIX}stage report.md \"All well.\\n\"")).ends("refused", "write-at-l1");
    let stage = reporting().with("sandbox: off");
    stage.maker("write .github/workflows/x.yml x").ends("refused", "write-at-l1");
}

#[test]
fn report_at_l1_is_kept_and_nothing_leaves() {
    let stage = reporting();
    let round = stage.script(&format!("@ maker\nstage report.md \"All well.\\n\"\n{READ}"));
    let round = round.ends("reported", "report-only");
    assert!(round.report().contains("All well."));
}

#[test]
fn last_words_at_l1_are_the_report() {
    let stage = reporting();
    let round = stage.script(&format!("@ maker\nsay Nothing is wrong here.\n{READ}"));
    assert!(round.ends("reported", "report-only").report().contains("Nothing is wrong here."));
}

#[test]
fn other_kinds_at_l1_become_part_of_the_report_and_leave_nowhere() {
    let stage = reporting();
    let script = format!(
        "@ maker\nstage report.md \"All well.\\n\"\nstage issue-comment-7.md \"Please merge.\\n\"\n\
         stage slack.md \"Hello all.\\n\"\nstage pr-approve-3.md \"Fine.\\n\"\n{READ}"
    );
    let round = stage.script(&script).ends("reported", "report-only");
    let report = round.report();
    assert!(
        report.contains("All well.") && report.contains("Please merge.") && report.contains("Hello all."),
        "{report}"
    );
}

#[test]
fn unknown_file_at_l1_still_refuses_the_batch() {
    reporting().maker("stage report.md \"All well.\\n\"\nstage deploy.sh x").ends("refused", "bad-outbox");
}

#[test]
fn checkers_rejection_at_l1_is_rejected_and_the_report_is_kept() {
    let stage = reporting();
    let script = "@ maker\nstage report.md \"All well.\\n\"\n@ checker\n\
        verdict fail correctness=1@item:report.md:1 scope=1@item:report.md:1\n";
    let round = stage.script(script).ends("rejected", "checker-rejected");
    assert!(round.report().contains("All well."), "{}", round.report());
}

#[test]
fn fine_work_at_l2_waits_for_a_human() {
    Stage::new().level("L2").maker(FIX).ends("escalated", "level");
}

#[test]
fn dry_run_at_l3_sends_nothing() {
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{}", crate::stage::PASS));
    let before = stage.repo.tree_digest();
    let ran = stage.env.loopwright_in(stage.repo.path(), ["run", "fix", "--dry-run", "--json"]).success();
    assert_eq!(ran.json()["outcome"], "reported", "{}", ran.stdout());
    assert_eq!(delivered(&stage.state().join("forge")), Vec::<String>::new());
    before.assert_untouched(&stage.repo.tree_digest());
}

#[test]
fn loop_at_l3_without_a_gate_that_can_fail_does_not_start() {
    for gates in [&[][..], &["{ name: tests, run: [\"true\"] }"]] {
        let stage = Stage::new().gates(gates);
        stage.commit(&format!("@ maker\n{FIX}{}", crate::stage::PASS));
        let ran = stage.env.loopwright_in(stage.repo.path(), ["run", "fix", "--json"]).code(2);
        assert!(ran.json()["error"]["text"].is_string(), "{}", ran.stdout());
    }
}

#[test]
fn loop_above_l1_without_a_checker_does_not_start() {
    let stage = Stage::new().with("check: none");
    stage.commit(&format!("@ maker\n{FIX}"));
    let _ = stage.env.loopwright_in(stage.repo.path(), ["run", "fix", "--json"]).code(2);
}

#[test]
fn h084_gate_script_that_is_not_in_base_does_not_start() {
    let stage = Stage::new().gates(&["{ name: tests, run: [sh, new.sh] }"]);
    stage.commit(&format!("@ maker\n{FIX}{}", crate::stage::PASS));
    stage.repo.write("new.sh", "exit 0\n");
    let _ = stage.env.loopwright_in(stage.repo.path(), ["run", "fix", "--json"]).code(2);
}

#[test]
fn every_report_names_the_boundary() {
    let stage = Stage::new();
    let round = stage.maker(FIX).ships();
    assert_eq!(round.json["boundary"]["level"], "kernel", "{}", round.story());
    let open = Stage::new().with("sandbox: off").maker(FIX).ships();
    assert_eq!(open.json["boundary"]["level"], "off", "{}", open.story());
}

/// A host without user namespaces, simulated in a namespace whose own limit of further ones is zero: the machine keeps
/// its settings.
#[test]
fn h117_a_host_that_cannot_isolate_agents_starts_none_above_l1() {
    const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let stage = Stage::new();
    stage.commit(&format!("@ maker\n{FIX}{}", crate::stage::PASS));
    let inner = stage.env.command(stage.repo.path());
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", WITHOUT, "sh"]).arg(inner.get_program());
    command.args(["run", "fix", "--json"]).current_dir(stage.repo.path()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().expect("unshare starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(15), "{printed}");
    assert!(printed.contains("doctor"), "{printed}");
    assert_eq!(delivered(&stage.state().join("forge")), Vec::<String>::new());
}
