//! `sync`: copies of skills, agents and workflows at the global places of agents.

use loopwright_testkit::TestEnv;

#[test]
fn copies_follow_the_repository_and_no_edit_is_ever_lost() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    let r = env.root().join("r");
    repo.write(".loopwright/skills/triage.md", "# Triage\nLook first.\n")
        .write(".loopwright/agents/judge.md", "Judge.\n");
    repo.write(".loopwright/workflows/attack.js", "run()\n").commit("first");
    let sync = |words: &[&str], code: i32| env.loopwright_in(&r, ["sync"].iter().chain(words)).code(code).stdout();
    let read = |path: &str| std::fs::read_to_string(env.home().join(path)).ok();
    let _ = sync(&["--check"], 11);
    let _ = sync(&["--dry-run"], 0);
    assert_eq!(read(".claude/agents/judge.md"), None, "a dry run writes nothing");
    let _ = sync(&[], 0);
    let _ = sync(&["--check"], 0);
    for place in [".claude/skills", ".agents/skills"] {
        let skill = read(&format!("{place}/triage/SKILL.md")).unwrap_or_default();
        assert!(skill.starts_with("---\nname: triage\ndescription: \"Triage\"\n---\n"), "{place}: {skill}");
    }
    assert_eq!(read(".claude/workflows/attack.js").as_deref(), Some("run()\n"));
    repo.write(".loopwright/agents/judge.md", "Judge well.\n");
    assert!(sync(&["--check"], 11).contains("outdated"));
    let _ = sync(&[], 0);
    assert_eq!(read(".claude/agents/judge.md").as_deref(), Some("Judge well.\n"));
    let edited = env.home().join(".claude/agents/judge.md");
    std::fs::write(&edited, "My own.\n").expect("a person edits it");
    assert!(sync(&[], 11).contains("edited"));
    repo.write(".loopwright/agents/judge.md", "Judge better.\n");
    assert!(sync(&[], 11).contains("conflict"));
    assert_eq!(read(".claude/agents/judge.md").as_deref(), Some("My own.\n"), "a conflict is never overwritten");
    let _ = sync(&["--uninstall"], 11);
    assert_eq!(read(".claude/agents/judge.md").as_deref(), Some("My own.\n"), "an edited copy stays");
    assert_eq!(read(".agents/skills/triage/SKILL.md"), None);
}

#[test]
fn copy_of_a_deleted_file_is_found_and_removed_unless_a_person_edited_it() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    let r = env.root().join("r");
    repo.write(".loopwright/skills/old.md", "# Old\n").write(".loopwright/agents/judge.md", "Judge.\n").commit("first");
    let sync = |words: &[&str], code: i32| env.loopwright_in(&r, ["sync"].iter().chain(words)).code(code).stdout();
    let _ = sync(&[], 0);
    repo.remove(".loopwright/skills/old.md").remove(".loopwright/agents/judge.md");
    let edited = env.home().join(".gemini/agents/judge.md");
    std::fs::write(&edited, "My own.\n").expect("a person edits it");
    assert_eq!(
        sync(&["--check"], 11).matches("deleted").count(),
        4,
        "two of the skill, two of the agent; the third copy of the agent was edited"
    );
    let removed = sync(&[], 11);
    assert!(removed.contains("0 written, 4 removed"), "{removed}");
    for place in [".claude/skills/old/SKILL.md", ".agents/skills/old/SKILL.md", ".claude/agents/judge.md"] {
        assert!(!env.home().join(place).exists(), "{place}");
    }
    assert_eq!(std::fs::read_to_string(&edited).ok().as_deref(), Some("My own.\n"));
    std::fs::remove_file(&edited).expect("the person removes it");
    let _ = sync(&[], 0);
    let _ = sync(&["--check"], 0);
}

/// The seed's installer shipped three of four agents, and its own check looked for the same three.
#[test]
fn file_of_another_origin_is_a_conflict_and_no_listed_file_is_left_out() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let repo = env.repo("r");
    for name in ["planner", "maker", "prover", "checker"] {
        repo.write(&format!(".loopwright/agents/{name}.md"), name);
    }
    repo.commit("first");
    let foreign = env.home().join(".claude/agents/maker.md");
    std::fs::create_dir_all(foreign.parent().expect("a folder")).expect("a folder can be made");
    std::fs::write(&foreign, "mine").expect("a file can be written");
    let json = env.loopwright_in(&env.root().join("r"), ["sync", "--json"]).code(11).json();
    let states: Vec<_> = json["copies"].as_array().expect("copies").iter().map(|copy| copy["state"].clone()).collect();
    assert_eq!((states.len(), states.iter().filter(|state| *state == "conflict").count()), (12, 1), "{json}");
    assert_eq!(std::fs::read_to_string(&foreign).ok().as_deref(), Some("mine"));
}
