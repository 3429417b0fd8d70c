//! A provider's key that its owner rotates while the daemon runs.

use crate::world::{LONG, World};
use loopwright_testkit::wait;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A provider on loopback, and the keys that its requests had.
fn provider() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let known = Arc::clone(&keys);
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(stream.try_clone().expect("a stream")).lines().map_while(Result::ok);
            let head = lines.take_while(|line| !line.is_empty());
            let key =
                head.filter_map(|line| line.to_lowercase().strip_prefix("authorization: bearer ").map(str::to_owned));
            known.lock().expect("no test panicked here").extend(key);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
        }
    });
    (url, keys)
}

#[test]
fn key_that_changes_in_its_file_is_used_from_the_next_round_of_the_daemon_on() {
    let world = World::new();
    let (url, keys) = provider();
    let file = world.env.root().join("home/house.key");
    let folder = world.env.root().join("config/loopwright");
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = format!("providers: {{ house: {{ url: \"{url}\", key_file: ~/house.key, paths: [/chat/*] }} }}\n");
    std::fs::write(folder.join("config.yaml"), text).expect("a configuration");
    let ask = "curl -s -H \\\"authorization: Bearer $LOOPWRIGHT_PROVIDER_TOKEN\\\" -d '{}' $LOOPWRIGHT_PROVIDERS/house/chat/completions; \
               echo asked > $LOOPWRIGHT_OUTBOX/report.md";
    world.repo.write(
        ".loopwright/loops/ask.md",
        format!(
            "---\nname: ask\nintent: Ask.\nlevel: L1\nsandbox: off\ncheck: none\nagents: {{ maker: {{ use: command, run: [sh, \
             -c, \"{ask}\"] }} }}\n---\n# Maker\nAsk.\n"
        ),
    );
    world.repo.commit("a loop that asks");
    std::fs::write(&file, "first-key-of-the-house\n").expect("a key");
    let daemon = world.up();
    let asked = |times: usize| keys.lock().expect("no test panicked here").len() >= times;
    let first = world.run("run ask --json").transcript();
    wait::until(&format!("the provider is asked: {first}"), LONG, || asked(1));
    std::fs::write(&file, "second-key-of-the-house\n").expect("a key");
    let second = world.run("run ask --json").transcript();
    wait::until(&format!("the provider is asked again: {second}"), LONG, || asked(2));
    assert_eq!(*keys.lock().expect("no test panicked here"), ["first-key-of-the-house", "second-key-of-the-house"]);
    let said = daemon.stop();
    assert!(!said.contains("key-of-the-house"), "{said}");
}
