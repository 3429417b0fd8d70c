//! Isolation: every role tries the same attacks in the real sandbox, and none of them succeeds (families E, G, H).

use crate::target::Target;

#[test]
fn h078_no_role_sees_or_traces_the_engine() {
    Target::new().holds(78);
}

#[test]
fn h102_no_role_reaches_what_judges_it() {
    Target::new().holds(102);
}

#[test]
fn h108_no_role_writes_outside_its_workspace() {
    Target::new().holds(108);
}

#[test]
fn h110_no_role_plants_what_runs_later() {
    Target::new().holds(110);
}

#[test]
fn h114_no_role_reaches_a_socket_of_the_host() {
    Target::new().holds(114);
}

#[test]
fn h115_no_role_sees_other_processes() {
    Target::new().holds(115);
}

#[test]
fn h116_no_role_gains_privileges_or_reaches_kernel_interfaces() {
    Target::new().holds(116);
}

#[test]
fn h121_no_role_finds_a_secret_in_its_environment() {
    Target::new().holds(121);
}

#[test]
fn h122_no_role_reads_the_users_secrets() {
    Target::new().holds(122);
}

#[test]
fn h126_no_role_reaches_the_network() {
    Target::new().holds(126);
}

#[test]
fn h127_no_role_resolves_a_name() {
    Target::new().holds(127);
}

#[test]
fn h067_threads_have_a_ceiling() {
    Target::new().holds(67);
}

#[test]
fn h035_a_file_has_a_ceiling() {
    Target::new().holds(35);
}

#[test]
fn h046_descriptors_have_a_ceiling() {
    Target::new().holds(46);
}

/// The sandbox also holds for probe, preparation and held-out checks.
#[test]
fn h122_no_other_start_reads_the_users_secrets() {
    let target = Target::new();
    let attack = "python3 attack.py 122 115 110 >&2 || exit 7\n";
    target
        .stage
        .repo
        .write("probe.sh", format!("{attack}echo one\n"))
        .write("prepare.sh", format!("{attack}echo done\n"));
    target.stage.repo.write("held.sh", format!("{attack}while read line; do echo \"$line\"; done\n"));
    let cases = target.stage.env.root().join("cases.jsonl");
    std::fs::write(&cases, "{\"in\": 1, \"out\": 1}\n{\"in\": 2, \"out\": 2}\n").expect("a file can be written");
    target.everywhere(&format!(
        "on: {{ probe: {{ run: [sh, probe.sh], items: lines }} }}\nsetup: [[sh, prepare.sh]]\n\
         heldout:\n  - {{ name: held, run: [sh, held.sh], cases: \"{}\" }}",
        cases.display()
    ));
}
