//! Measures the cost of the sandbox: `/bin/true` without and with it, in turns. Prints medians in microseconds.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example measures and prints")]

use loopwright_sandbox::{
    CancelToken, Confinement, MountSource, ResourceCeilings, SandboxNetwork, SpawnRequest, TreeCookie, probe, run,
};
use std::path::Path;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() {
    let root = std::env::args().nth(1).unwrap_or_else(|| "/tmp".to_owned());
    let root = tempfile::tempdir_in(root).expect("folder");
    for name in ["low", "upper", "work"] {
        std::fs::create_dir(root.path().join(name)).expect("folder");
    }
    let begun = Instant::now();
    let host = probe(root.path());
    println!("probe {:?}", begun.elapsed());
    host.findings.iter().for_each(|finding| println!("{finding:?}"));
    println!("enforces {} overlay {}", host.enforces(), host.supports_overlay());
    let none = ResourceCeilings { processes: None, memory: None, cpu_weight: None, ..ResourceCeilings::default() };
    let mut cases: Vec<(&str, Option<Confinement>, Vec<Duration>, Duration)> = vec![
        ("plain", None, vec![], Duration::ZERO),
        (
            "walls",
            Some(confine(root.path(), SandboxNetwork::None, ResourceCeilings::default())),
            vec![],
            Duration::ZERO,
        ),
        (
            "walls, host network",
            Some(confine(root.path(), SandboxNetwork::Host, ResourceCeilings::default())),
            vec![],
            Duration::ZERO,
        ),
        ("walls, no limits", Some(confine(root.path(), SandboxNetwork::None, none)), vec![], Duration::ZERO),
    ];
    for _ in 0..100 {
        for (_, confine, times, cpu) in &mut cases {
            let before = children_cpu();
            let mut spawn = SpawnRequest::new("/bin/true", "/", TreeCookie::new("bench"));
            spawn.confine = confine.clone();
            let begun = Instant::now();
            let end = run(spawn, &mut (), &CancelToken::new(), |_| ()).await.expect("starts");
            times.push(begun.elapsed());
            *cpu += children_cpu().saturating_sub(before);
            assert_eq!(end.code, Some(0));
        }
    }
    for (name, _, mut times, cpu) in cases {
        times.sort();
        println!(
            "{name}: median {:?} p90 {:?} min {:?} cpu of children {:?}",
            times[50],
            times[90],
            times[0],
            cpu / 100
        );
    }
}

fn confine(root: &Path, network: SandboxNetwork, resources: ResourceCeilings) -> Confinement {
    let at = |name: &str| root.join(name);
    let mut confine = Confinement { network, resources, ..Confinement::default() };
    confine.mount("/tmp", MountSource::Memory(64 << 20));
    confine.mount("/workspace", MountSource::Overlay { lower: vec![at("low")], upper: at("upper"), work: at("work") });
    confine
}

/// The processor time of ended children, which does not depend on the load of the host.
fn children_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is zeroed and the call fills it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let of = |time: libc::timeval| Duration::from_micros((time.tv_sec * 1_000_000 + time.tv_usec).unsigned_abs());
    of(usage.ru_utime) + of(usage.ru_stime)
}
