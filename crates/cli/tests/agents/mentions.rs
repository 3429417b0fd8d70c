//! A brief contains text that others wrote. A file name after an at sign in it is only text: no program may put the
//! content of that file into the brief, outside of the fence around the quoted text.

use crate::world::{MEND, World};

const LOOP: &str = ".loopwright/loops/mend.md";
const MARK: &str = "CONTENT-OF-THE-NAMED-FILE";

fn stays_a_word(maker: &str, checker: &str) {
    let Some(world) = World::new(maker, checker, MEND) else { return };
    let text = std::fs::read_to_string(world.repo.path().join(LOOP)).expect("the loop");
    world.repo.write(LOOP, text.replace("Mend it.", "Mend it. See @named.md, or ask ada@localhost."));
    world.repo.write("named.md", MARK).commit("a name");
    let json = world.run();
    assert_eq!(json["outcome"], "escalated", "{json:#}\n{}", world.transcripts());
    let log = world.model.log();
    assert!(log.iter().any(|request| request["body"].to_string().contains("named.md")), "both receive the name");
    for request in log {
        assert!(!request["body"].to_string().contains(MARK), "the file was put into the brief: {request}");
    }
}

#[test]
fn gemini_and_opencode_do_not_replace_a_name_by_its_file() {
    stays_a_word("gemini", "opencode");
}

#[test]
fn claude_and_codex_do_not_replace_a_name_by_its_file() {
    stays_a_word("claude", "codex");
}

#[test]
fn codex_and_claude_do_not_replace_a_name_by_its_file() {
    stays_a_word("codex", "claude");
}
