//! Measures what walls cost: `/bin/true` without and with them, in turns. Prints medians in microseconds.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example measures and prints")]

use loopwright_sandbox::{Cancel, Confine, Cookie, Network, Resources, Spawn, What, probe, run};
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
    println!("enforces {} overlay {}", host.enforces(), host.overlay());
    let none = Resources { processes: None, memory: None, cpu_weight: None, ..Resources::default() };
    let mut cases: Vec<(&str, Option<Confine>, Vec<Duration>)> = vec![
        ("plain", None, vec![]),
        ("walls", Some(confine(root.path(), Network::None, Resources::default())), vec![]),
        ("walls, host network", Some(confine(root.path(), Network::Host, Resources::default())), vec![]),
        ("walls, no limits", Some(confine(root.path(), Network::None, none)), vec![]),
    ];
    for _ in 0..100 {
        for (_, confine, times) in &mut cases {
            let mut spawn = Spawn::new("/bin/true", "/", Cookie::new("bench"));
            spawn.confine = confine.clone();
            let begun = Instant::now();
            let end = run(spawn, &mut (), &Cancel::new(), |_| ()).await.expect("starts");
            times.push(begun.elapsed());
            assert_eq!(end.code, Some(0));
        }
    }
    for (name, _, mut times) in cases {
        times.sort();
        println!("{name}: median {:?} p90 {:?} min {:?}", times[50], times[90], times[0]);
    }
}

fn confine(root: &Path, network: Network, resources: Resources) -> Confine {
    let at = |name: &str| root.join(name);
    let mut confine = Confine { network, resources, ..Confine::default() };
    confine.mount("/tmp", What::Memory(64 << 20));
    confine.mount("/workspace", What::Overlay { lower: vec![at("low")], upper: at("upper"), work: at("work") });
    confine
}
