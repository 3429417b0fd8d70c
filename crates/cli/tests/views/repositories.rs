//! Lists with several repositories: loops of one name stay apart, `--repo` filters, and every page has the user's clock.

use super::fixture::{FIX, Place};
use loopwright_testkit::{TestEnv, TestRepo};

/// Two repositories whose loops have the same name and have each run once.
fn two_repositories(env: TestEnv) -> (Place, TestRepo) {
    let place = Place::with_env(env);
    let second = place.env.repo("second");
    for file in ["calc.sh", ".loopwright/loops/fix.md"] {
        second.write(file, place.repo.read(file));
    }
    let script = FIX.replace("usage input=1200 output=300", "usage input=12000 output=3000");
    second.write(".loopwright/fix.script", script).commit("first");
    place.round("fix", 10);
    drop(place.env.loopwright_in(second.path(), ["run", "fix"]).code(10));
    (place, second)
}

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
}

#[test]
fn costs_keep_loops_of_one_name_apart_and_are_restricted_to_a_repository() {
    let (place, second) = two_repositories(env());
    let all = place.env.loopwright(["costs"]).success().stdout();
    assert!(all.contains("repo/fix") && all.contains("second/fix"), "{all}");
    let groups = place.env.loopwright(["costs", "--json"]).success().json();
    let repos: Vec<_> = groups["groups"].as_array().expect("groups").iter().map(|group| &group["repo"]).collect();
    assert_eq!(repos.len(), 2, "{groups:#}");
    assert!(repos[0].as_str().is_some_and(|repo| repo.starts_with("second-")), "the most expensive first: {groups:#}");
    let path = second.path().display().to_string();
    let one = place.env.loopwright(["costs", "--repo", &path]).success().stdout();
    assert!(one.lines().any(|line| line.starts_with("fix ")) && !one.contains("/fix"), "one repository: {one}");
    assert_eq!(place.env.loopwright(["costs", "--json", "--repo", &path]).success().json()["total"]["rounds"], 1);
}

#[test]
fn digest_keeps_loops_of_one_name_apart_and_is_restricted_to_a_repository() {
    let (place, second) = two_repositories(env());
    let all = place.env.loopwright(["digest"]).success().stdout();
    for part in ["| repo/fix | ", "| second/fix | ", "- repo/fix: ", "- second/fix: ", "### second/fix escalated"] {
        assert!(all.contains(part), "{part} in {all}");
    }
    let one = place.env.loopwright(["digest", "--repo", &second.path().display().to_string()]).success().stdout();
    assert!(one.contains("1 round, ") && one.contains("- fix: ") && !one.contains("second/fix"), "{one}");
}

#[test]
fn digest_has_the_clock_of_the_users_zone() {
    let place = Place::with_env(env().with_env("TZ", "Asia/Tokyo"));
    place.add("nightly", "L1", "on: { daily: \"03:00\" }\ncheck: none", "@ maker\nsay x\n").repo.commit("second");
    place.ends("run fix", 10);
    let page = place.run("digest").success().stdout();
    let since = page.lines().next().expect("a title");
    assert!(since.starts_with("# Report since ") && since.ends_with(" JST"), "{since}");
    assert!(page.contains(" 03:00:00 JST: nightly ("), "{page}");
}
