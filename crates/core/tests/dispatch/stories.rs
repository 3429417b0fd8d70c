//! Decision tables of the dispatcher, as histories.

use super::story::tell;
use expect_test::{Expect, expect};

#[track_caller]
fn check(script: &str, expected: Expect) {
    expected.assert_eq(&tell(script));
}

#[test]
fn start_of_a_process_fires_nothing() {
    check(
        "loop a every=1h
         08:20 load
         08:20 why a
         09:00 wake
         09:00 started a
         09:05 why a
         09:10 end a shipped
         09:10 crash
         09:10 load
         09:10 why a",
        expect![[r#"
            08:20 load
                  a mark 08:20
            08:20 why a
                  idle, next due at 09:00 (`every 1h`) [idle]
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:05 why a
                  running round r1 since 09:00 [running]
                  → `loopwright stop r1` ends it
            09:10 end a shipped
            09:10 crash
            09:10 load
            09:10 why a
                  idle, next due at 10:00 (`every 1h`) [idle]
        "#]],
    );
}

#[test]
fn missed_runs_of_a_night_become_one_round_and_the_receipt_counts_them() {
    check(
        "loop once every=1h
         loop skip every=1h catch_up=skip
         loop all every=1h catch_up=2
         20:30 load
         1d05:59 crash
         1d05:59 load
         1d06:00 wake",
        expect![[r#"
            20:30 load
                  all mark 20:30
                  once mark 20:30
                  skip mark 20:30
            1d05:59 crash
            1d05:59 load
                  all 21:00 to 1d03:00 (7) missed: more than 2 were waiting (`catch_up`)
                  once 21:00 to 1d04:00 (8) coalesced: a later occurrence replaces it
                  skip 21:00 to 1d05:00 (9) missed: was due while no scheduler was running (`catch_up: skip`)
                  all mark 1d03:00
                  once mark 1d04:00
                  skip mark 1d05:00
                  START all 1d04:00 started: due, made up for: it should have started at 1d04:00
                  START once 1d05:00 started: due, made up for: it should have started at 1d05:00
            1d06:00 wake
                at 1d06:00
                  START skip 1d06:00 started: due
        "#]],
    );
}

#[test]
fn clock_ten_years_ahead_costs_one_receipt_and_one_note() {
    check(
        "loop a every=1m
         10:00 load
         3650d10:00 wake",
        expect![[r#"
            10:00 load
                  a mark 10:00
            3650d10:00 wake
                at 3650d10:00
                  a 10:01 to 3650d09:59 (5255999) coalesced: a later occurrence replaces it
                  a mark 3650d09:59
                  TELL gap from 10:01 to 3650d10:00
                  START a 3650d10:00 started: due
        "#]],
    );
}

#[test]
fn a_clock_that_goes_back_an_hour_repeats_nothing() {
    check(
        "loop a every=30m
         09:45 load
         10:00 wake
         10:00 started a
         10:01 end a shipped
         09:20 wake
         09:30 wake
         10:00 wake
         10:30 wake",
        expect![[r#"
            09:45 load
                  a mark 09:45
            10:00 wake
                at 10:00
                  START a 10:00 started: due
            10:00 started a
            10:01 end a shipped
            09:20 wake
            09:30 wake
            10:00 wake
            10:30 wake
                at 10:30
                  START a 10:30 started: due
        "#]],
    );
}

#[test]
fn clock_far_in_the_past_is_not_trusted_until_it_is_right_or_a_person_accepts_it() {
    check(
        "loop a every=1h
         10d10:30 load
         10d11:00 wake
         10d11:00 started a
         10d11:01 end a shipped
         09:30 crash
         09:30 load
         10:00 wake
         10:00 why a
         10:30 thaw
         10:30 why a
         11:00 wake",
        expect![[r#"
            10d10:30 load
                  a mark 10d10:30
            10d11:00 wake
                at 10d11:00
                  START a 10d11:00 started: due
            10d11:00 started a
            10d11:01 end a shipped
            09:30 crash
            09:30 load
                  TELL clock at 09:30 behind 10d11:01
            10:00 wake
            10:00 why a
                  the clock says 10:00, but the last recorded moment is 10d11:01: nothing is scheduled by a clock that is behind [waiting]
                  → set the clock, or accept it with `loopwright thaw`; `loopwright run` works
            10:30 thaw
                  a mark 10:30, given up
                  a 10:00 missed: was due while the clock was behind the last recorded moment
                  a mark 10:30
            10:30 why a
                  idle, next due at 11:00 (`every 1h`) [idle]
            11:00 wake
                at 11:00
                  START a 11:00 started: due
        "#]],
    );
}

#[test]
fn due_times_under_a_clock_that_was_set_back_have_receipts_after_a_thaw() {
    check(
        "loop a every=1m
         1d10:00 load
         08:00 wake
         08:30 wake
         09:11 thaw
         09:12 wake",
        expect![[r#"
            1d10:00 load
                  a mark 1d10:00
            08:00 wake
                at 08:00
                  TELL clock at 08:00 behind 1d10:00
            08:30 wake
            09:11 thaw
                  a mark 09:11, given up
                  a 08:00 to 09:11 (72) missed: was due while the clock was behind the last recorded moment
                  a mark 09:11
            09:12 wake
                at 09:12
                  START a 09:12 started: due
        "#]],
    );
}

#[test]
fn accepted_clock_rewinds_loops_that_are_not_loaded_or_are_starting() {
    check(
        "loop a every=1h
         loop dropped every=1h
         loop missing every=1h
         10d10:30 load
         gone dropped
         10d10:40 load
         gone missing
         10d10:45 crash
         10d10:45 load
         10d11:00 wake
         10:20 wake
         10:30 thaw
         10:31 started a
         10:32 end a shipped
         loop dropped every=1h
         loop missing every=1h
         10:40 load
         10:41 why a
         11:00 wake",
        expect![[r#"
            10d10:30 load
                  a mark 10d10:30
                  dropped mark 10d10:30
                  missing mark 10d10:30
            10d10:40 load
                  dropped mark 10d10:30, given up
            10d10:45 crash
            10d10:45 load
            10d11:00 wake
                at 10d11:00
                  START a 10d11:00 started: due
            10:20 wake
                at 10:20
                  TELL clock at 10:20 behind 10d11:00
            10:30 thaw
                  dropped mark 10:30
                  missing mark 10:30, given up
                  dropped mark 10:30, given up
                  missing mark 10:30
            10:31 started a
                  a mark 10:31, given up
                  a mark 10:31
            10:32 end a shipped
            10:40 load
                  dropped mark 10:40
            10:41 why a
                  idle, next due at 11:00 (`every 1h`) [idle]
            11:00 wake
                at 11:00
                  START a 11:00 started: due
                  START dropped 11:00 started: due
                  START missing 11:00 started: due
        "#]],
    );
}

#[test]
fn wait_from_a_clock_that_was_ahead_ends_when_the_clock_is_accepted() {
    check(
        "loop a hears=push
         09:00 load
         10d11:00 manual a
         10d11:01 end a failed
         10:30 thaw
         10:31 signal a push:main:1",
        expect![[r#"
            09:00 load
                  a mark 09:00
            10d11:00 manual a
            10d11:01 end a failed
                  a mark 09:00, 1 failed, waits until 10d11:02
            10:30 thaw
                  a mark 09:00, 1 failed
                  TELL clock at 10:30 behind 10d11:01
            10:31 signal a push:main:1
                  START a push:main:1 started: an event
        "#]],
    );
}

#[test]
fn limits_that_change_count_from_the_next_start_on() {
    check(
        "limits total=1
         loop a every=1h agent=claude
         loop b every=1h agent=claude
         loop c every=1h agent=claude
         09:30 load
         10:00 wake
         10:00 started a
         10:01 limits total=9 claude=1
         10:02 limits total=9 claude=2
         10:02 started b
         10:03 limits total=1
         10:04 end a shipped
         10:05 why c
         10:06 end b shipped",
        expect![[r#"
            09:30 load
                  a mark 09:30
                  b mark 09:30
                  c mark 09:30
            10:00 wake
                at 10:00
                  START a 10:00 started: due
            10:00 started a
            10:01 limits total=9 claude=1
            10:02 limits total=9 claude=2
                  START b 10:00 started: due, made up for: it should have started at 10:00
            10:02 started b
            10:03 limits total=1
            10:04 end a shipped
            10:05 why c
                  due since 10:00, waiting for one of the slots of this machine (1), held by round r2 of `b` (since 10:02) [waiting]
                  → a round ends, or the limit is raised in the configuration; a higher `priority` goes first
            10:06 end b shipped
                  START c 10:00 started: due, made up for: it should have started at 10:00
        "#]],
    );
}

#[test]
fn an_edited_cadence_is_not_applied_to_the_past() {
    check(
        "loop a every=1h
         10:30 load
         loop a every=10m
         12:35 crash
         12:35 load
         12:40 wake",
        expect![[r#"
            10:30 load
                  a mark 10:30
            12:35 crash
            12:35 load
                  a mark 12:35
            12:40 wake
                at 12:40
                  START a 12:40 started: due
        "#]],
    );
}

#[test]
fn occurrence_that_waited_when_the_cadence_was_edited_is_resolved() {
    check(
        "limits total=1
         loop a every=1h
         loop b every=1h
         08:30 load
         09:00 wake
         09:00 started a
         loop b every=2h
         09:10 load
         loop b every=2h priority=5
         09:11 load",
        expect![[r#"
            08:30 load
                  a mark 08:30
                  b mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:10 load
                  b 09:00 missed: the cadence was edited while it waited
                  b mark 09:10
            09:11 load
        "#]],
    );
}

#[test]
fn a_loop_that_was_paused_for_a_month_does_not_burst() {
    check(
        "loop a daily=08:00
         07:00 load
         07:30 pause a too noisy
         07:31 why a
         1d08:00 until
         30d09:00 wake
         30d09:00 resume a
         30d09:00 why a
         31d08:00 wake",
        expect![[r#"
            07:00 load
                  a mark 07:00
            07:30 pause a too noisy
                  a mark 07:00, paused by ann
            07:31 why a
                  paused since 07:30 by ann: too noisy [paused]
                  → `loopwright resume a` lets it start again
            1d08:00 until
                at 08:00
                  a 08:00 paused: paused by ann: too noisy
                  a mark 08:00, paused by ann
                at 1d08:00
                  a 1d08:00 paused: paused by ann: too noisy
                  a mark 1d08:00, paused by ann
            30d09:00 wake
                at 30d09:00
                  a 2d08:00 to 30d08:00 (29) paused: paused by ann: too noisy
                  a mark 30d08:00, paused by ann
                  TELL gap from 2d08:00 to 30d09:00
            30d09:00 resume a
                  a mark 30d08:00
            30d09:00 why a
                  idle, next due at 31d08:00 (`daily 08:00`) [idle]
            31d08:00 wake
                at 31d08:00
                  START a 31d08:00 started: due
        "#]],
    );
}

#[test]
fn a_round_longer_than_its_cadence_skips_queues_or_is_cancelled() {
    check(
        "loop skip every=10m
         loop queue every=10m overlap=queue
         loop cancel every=10m overlap=cancel
         08:55 load
         09:00 wake
         09:00 started skip
         09:00 started queue
         09:00 started cancel
         09:10 wake
         09:20 wake
         09:21 why queue
         09:25 end queue shipped
         09:25 end skip shipped
         09:25 end cancel cancelled",
        expect![[r#"
            08:55 load
                  cancel mark 08:55
                  queue mark 08:55
                  skip mark 08:55
            09:00 wake
                at 09:00
                  START cancel 09:00 started: due
                  START queue 09:00 started: due
                  START skip 09:00 started: due
            09:00 started skip
            09:00 started queue
            09:00 started cancel
            09:10 wake
                at 09:10
                  skip 09:10 overlap: round r1 was still running
                  skip mark 09:10
                  CANCEL r3: the loop is due again (`overlap: cancel`)
            09:20 wake
                at 09:20
                  cancel 09:10 coalesced: a later occurrence replaces it
                  queue 09:10 coalesced: a later occurrence replaces it
                  skip 09:20 overlap: round r1 was still running
                  cancel mark 09:10
                  queue mark 09:10
                  skip mark 09:20
            09:21 why queue
                  running round r2 since 09:00; one more occurrence waits for its end [running]
                  → `loopwright stop r2` ends it
            09:25 end queue shipped
                  START queue 09:20 started: due, made up for: it should have started at 09:20
            09:25 end skip shipped
            09:25 end cancel cancelled
                  START cancel 09:20 started: due, made up for: it should have started at 09:20
        "#]],
    );
}

#[test]
fn slots_go_by_priority_then_by_time_then_by_name() {
    check(
        "limits total=1
         loop b every=1h
         loop a every=1h
         loop urgent every=1h priority=10
         loop early every=30m
         08:20 load
         08:30 wake
         08:30 started early
         09:00 wake
         09:00 why a
         09:01 end early shipped
         09:01 started urgent
         09:02 end urgent shipped
         09:02 started a
         09:03 end a shipped
         09:03 why early",
        expect![[r#"
            08:20 load
                  a mark 08:20
                  b mark 08:20
                  early mark 08:20
                  urgent mark 08:20
            08:30 wake
                at 08:30
                  START early 08:30 started: due
            08:30 started early
            09:00 wake
                at 09:00
                  early 09:00 overlap: round r1 was still running
                  early mark 09:00
            09:00 why a
                  due since 09:00, waiting for one of the slots of this machine (1), held by round r1 of `early` (since 08:30) [waiting]
                  → a round ends, or the limit is raised in the configuration; a higher `priority` goes first
            09:01 end early shipped
                  START urgent 09:00 started: due
            09:01 started urgent
            09:02 end urgent shipped
                  START a 09:00 started: due, made up for: it should have started at 09:00
            09:02 started a
            09:03 end a shipped
                  START b 09:00 started: due, made up for: it should have started at 09:00
            09:03 why early
                  idle, next due at 09:30 (`every 30m`) [idle]
        "#]],
    );
}

#[test]
fn limits_of_a_repository_and_of_an_agent_do_not_hold_up_others() {
    check(
        "limits total=9 repo=1 claude=1
         loop x/a every=1h agent=claude
         loop x/b every=1h
         loop y/c every=1h agent=claude
         loop z/d every=1h
         08:30 load
         09:00 wake
         09:00 why x/b
         09:00 why y/c
         09:00 started x/a
         09:01 end x/a shipped",
        expect![[r#"
            08:30 load
                  a mark 08:30
                  b mark 08:30
                  c mark 08:30
                  d mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
                  START d 09:00 started: due
            09:00 why x/b
                  due since 09:00, waiting for one of the slots of repository `x` (1), held by a starting round of `a` (since 09:00) [waiting]
                  → a round ends, or the limit is raised in the configuration; a higher `priority` goes first
            09:00 why y/c
                  due since 09:00, waiting for one of the slots of agent `claude` (1), held by a starting round of `a` (since 09:00) [waiting]
                  → a round with claude ends, or the limit of claude is raised in the configuration
            09:00 started x/a
            09:01 end x/a shipped
                  START b 09:00 started: due
                  START c 09:00 started: due
        "#]],
    );
}

#[test]
fn a_lock_is_held_by_one_round_and_says_by_which_and_until_when() {
    check(
        "loop a every=1h locks=branch:main wall=30m
         loop b every=1h locks=branch:main,gpu
         08:30 load
         09:00 wake
         09:00 started a
         09:05 why b
         09:35 wake
         09:40 end a shipped",
        expect![[r#"
            08:30 load
                  a mark 08:30
                  b mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:05 why b
                  due since 09:00, waiting for the lock `branch:main`, held by round r1 of `a` (since 09:00, until 09:30 at the latest) [waiting]
                  → its end, or `loopwright stop r1`
            09:35 wake
                at 09:35
                  TELL a stalled in Some("r1")
            09:40 end a shipped
                  START b 09:00 started: due, made up for: it should have started at 09:00
        "#]],
    );
}

#[test]
fn path_below_a_locked_one_waits_and_a_path_beside_it_does_not() {
    check(
        "loop wide every=1h locks=path:src/ wall=30m
         loop deep every=1h locks=path:src/a.rs
         loop globs every=1h locks=path:src/**/*.rs
         loop beside every=1h locks=path:srcs
         limits total=9
         08:00 load
         08:10 manual wide
         09:00 wake
         09:00 started beside
         09:01 why deep
         09:02 why globs
         09:10 end wide shipped
         09:10 started deep
         09:11 why globs
         09:12 end deep shipped",
        expect![[r#"
            08:00 load
                  beside mark 08:00
                  deep mark 08:00
                  globs mark 08:00
                  wide mark 08:00
            08:10 manual wide
            09:00 wake
                at 09:00
                  wide 09:00 overlap: round r1 was still running
                  wide mark 09:00
                  TELL gap from 08:45 to 09:00
                  TELL wide stalled in Some("r1")
                  START beside 09:00 started: due
            09:00 started beside
            09:01 why deep
                  due since 09:00, waiting for the lock `path:src/a.rs`: `path:src/` conflicts with it and is held by round r1 of `wide` (since 08:10, until 08:40 at the latest) [waiting]
                  → its end, or `loopwright stop r1`
            09:02 why globs
                  due since 09:00, waiting for the lock `path:src/**/*.rs`: `path:src/` conflicts with it and is held by round r1 of `wide` (since 08:10, until 08:40 at the latest) [waiting]
                  → its end, or `loopwright stop r1`
            09:10 end wide shipped
                  START deep 09:00 started: due, made up for: it should have started at 09:00
            09:10 started deep
            09:11 why globs
                  due since 09:00, waiting for the lock `path:src/**/*.rs`: `path:src/a.rs` conflicts with it and is held by round r3 of `deep` (since 09:10) [waiting]
                  → its end, or `loopwright stop r3`
            09:12 end deep shipped
                  START globs 09:00 started: due, made up for: it should have started at 09:00
        "#]],
    );
}

#[test]
fn item_is_worked_on_by_one_round_at_a_time_among_loops_that_lock_it() {
    check(
        "loop a every=1h locks=item wall=30m
         loop b every=1h locks=item
         loop c every=1h locks=issue:12
         loop d every=1h
         limits total=9
         08:00 load
         08:01 signal a webhook:1 item=issue-12@x
         08:01 started a
         08:02 signal d webhook:2 item=issue-12@y
         08:03 signal b webhook:3 item=issue-12@y
         08:04 why b
         09:00 wake
         09:01 why c
         09:02 end a shipped",
        expect![[r#"
            08:00 load
                  a mark 08:00
                  b mark 08:00
                  c mark 08:00
                  d mark 08:00
            08:01 signal a webhook:1 item=issue-12@x
                  START a webhook:1 started: an event about issue-12@x
            08:01 started a
            08:02 signal d webhook:2 item=issue-12@y
                  START d webhook:2 started: an event about issue-12@y
            08:03 signal b webhook:3 item=issue-12@y
            08:04 why b
                  due since 08:03, waiting for the lock `issue:12`, held by round r1 of `a` (since 08:01, until 08:31 at the latest) [waiting]
                  → its end, or `loopwright stop r1`
            09:00 wake
                at 09:00
                  a 09:00 overlap: round r1 was still running
                  a mark 09:00
                  TELL gap from 08:36 to 09:00
                  TELL a stalled in Some("r1")
            09:01 why c
                  due since 09:00, waiting for the lock `issue:12`, held by round r1 of `a` (since 08:01, until 08:31 at the latest) [waiting]
                  → its end, or `loopwright stop r1`
            09:02 end a shipped
                  START b webhook:3 started: an event about issue-12@y
        "#]],
    );
}

#[test]
fn start_whose_probe_finds_items_of_another_round_takes_the_rest_or_waits() {
    check(
        "loop a every=1h locks=item
         loop b every=1h locks=item
         limits total=9
         08:00 load
         09:00 wake
         09:00 claim a issue-1@x
         09:00 started a
         09:00 claim b issue-1@x issue-2@x
         09:01 failed b
         10:00 wake
         10:00 claim b issue-1@y
         10:01 why b
         10:02 end a shipped
         10:03 claim b issue-1@y",
        expect![[r#"
            08:00 load
                  a mark 08:00
                  b mark 08:00
            09:00 wake
                at 09:00
                  START a 09:00 started: due
                  START b 09:00 started: due
            09:00 claim a issue-1@x
                  GRANTED issue-1@x
            09:00 started a
            09:00 claim b issue-1@x issue-2@x
                  GRANTED issue-2@x
            09:01 failed b
                  b 09:00 failed: no agent
                  b mark 09:00, 1 failed, waits until 09:02
            10:00 wake
                at 10:00
                  a 10:00 overlap: round r1 was still running
                  a mark 10:00
                  START b 10:00 started: due
            10:00 claim b issue-1@y
                  WITHHELD
            10:01 why b
                  due since 10:00, waiting for the lock `issue:1`, held by round r1 of `a` (since 09:00) [waiting]
                  → its end, or `loopwright stop r1`
            10:02 end a shipped
                  START b 10:00 started: due, made up for: it should have started at 10:00
            10:03 claim b issue-1@y
                  GRANTED issue-1@y
        "#]],
    );
}

#[test]
fn loop_with_two_locks_is_not_starved_by_loops_with_one() {
    check(
        "loop one every=10m locks=x overlap=queue
         loop two every=10m locks=y overlap=queue
         loop both every=10m locks=x,y overlap=queue
         08:55 load
         08:55 manual one
         08:56 manual two
         09:00 wake
         09:04 end one shipped
         09:04 started one
         09:12 end two shipped
         09:12 why both
         09:14 end one shipped
         09:14 why two",
        expect![[r#"
            08:55 load
                  both mark 08:55
                  one mark 08:55
                  two mark 08:55
            08:55 manual one
            08:56 manual two
            09:00 wake
            09:04 end one shipped
                  START one 09:00 started: due, made up for: it should have started at 09:00
            09:04 started one
            09:12 end two shipped
                  both 09:00 coalesced: a later occurrence replaces it
                  two 09:00 coalesced: a later occurrence replaces it
                  both mark 09:00
                  two mark 09:00
            09:12 why both
                  due since 09:00, waiting for the lock `x`, held by round r3 of `one` (since 09:04) [waiting]
                  → its end, or `loopwright stop r3`
            09:14 end one shipped
                  START both 09:10 started: due, made up for: it should have started at 09:10
            09:14 why two
                  due since 09:00, waiting for the lock `y`, held by a starting round of `both` (since 09:14) [waiting]
        "#]],
    );
}

#[test]
fn quiet_hours_skip_due_times_and_delay_signals_and_pending_occurrences() {
    check(
        "limits total=1
         loop a every=1h quiet=22:00-06:00 hears=push
         loop other every=1d
         20:30 load
         20:50 manual other
         21:00 wake
         22:00 wake
         22:10 end other shipped
         22:10 why a
         22:30 signal a push:main:1
         23:00 wake
         1d06:00 until",
        expect![[r#"
            20:30 load
                  a mark 20:30
                  other mark 20:30
            20:50 manual other
            21:00 wake
            22:00 wake
            22:10 end other shipped
            22:10 why a
                  due, waiting for quiet hours to end at 1d06:00 [waiting]
                  → `loopwright run a` runs it now
            22:30 signal a push:main:1
            23:00 wake
            1d06:00 until
                at 1d00:00
                  START other 1d00:00 started: due
                at 1d06:00
                  a 21:00 coalesced: a later occurrence replaces it
                  a 22:00 to 1d05:00 (8) quiet: inside quiet hours until 1d06:00
                  a mark 1d05:00
        "#]],
    );
}

/// The jitter of a loop never changes, so a loop whose jitter led into quiet hours would never start.
#[test]
fn start_that_jitter_delays_into_quiet_hours_waits_for_their_end() {
    check(
        "loop a daily=21:59 quiet=22:00-06:00 jitter=6h
         20:00 load
         1d07:00 until",
        expect![[r#"
            20:00 load
                  a mark 20:00
            1d07:00 until
                at 1d06:00
                  START a 21:59 started: due, made up for: it should have started at 1d02:43:50
        "#]],
    );
}

#[test]
fn grace_decides_how_late_an_occurrence_without_catching_up_may_start() {
    check(
        "loop minute every=1h catch_up=skip
         loop none every=1h catch_up=skip grace=1s
         loop long every=1h catch_up=skip grace=10m
         08:30 load
         09:01 wake",
        expect![[r#"
            08:30 load
                  long mark 08:30
                  minute mark 08:30
                  none mark 08:30
            09:01 wake
                at 09:01
                  none 09:00 missed: was due while no scheduler was running (`catch_up: skip`)
                  none mark 09:00
                  START long 09:00 started: due
                  START minute 09:00 started: due
        "#]],
    );
}

#[test]
fn loop_that_takes_several_items_a_round_takes_those_that_waited_longest_together() {
    check(
        "loop a batch=2
         08:00 load
         08:01 manual a
         08:02 signal a issue:1 item=7
         08:02 signal a issue:2 item=8
         08:03 signal a issue:3 item=7
         08:03 signal a issue:4 item=9
         08:04 why a
         08:05 end a shipped
         08:05 started a
         08:06 end a shipped",
        expect![[r#"
            08:00 load
                  a mark 08:00
            08:01 manual a
            08:02 signal a issue:1 item=7
            08:02 signal a issue:2 item=8
            08:03 signal a issue:3 item=7
            08:03 signal a issue:4 item=9
            08:04 why a
                  running round r1 since 08:01; 2 more occurrences wait for its end [running]
                  → `loopwright stop r1` ends it
            08:05 end a shipped
                  START a issue:1 to 08:03 (3) started: 3 events about 7 and 1 more
            08:05 started a
            08:06 end a shipped
                  START a issue:4 started: an event about 9
        "#]],
    );
}

#[test]
fn signals_without_an_item_are_one_round_and_items_are_one_each() {
    check(
        "loop a hears=webhook
         08:00 load
         08:00 why a
         08:01 signal a webhook:1
         08:01 started a
         08:02 signal a webhook:2
         08:02 signal a webhook:3
         08:02 signal a issue:1 item=7
         08:02 signal a issue:2 item=8
         08:02 signal a issue:3 item=7
         08:03 why a
         08:05 end a shipped
         08:05 started a
         08:06 end a shipped
         08:06 started a
         08:07 crash
         08:07 load
         08:08 end a shipped
         08:08 nowork a
         08:09 why a",
        expect![[r#"
            08:00 load
                  a mark 08:00
            08:00 why a
                  idle, waits for webhook [idle]
            08:01 signal a webhook:1
                  START a webhook:1 started: an event
            08:01 started a
            08:02 signal a webhook:2
            08:02 signal a webhook:3
            08:02 signal a issue:1 item=7
            08:02 signal a issue:2 item=8
            08:02 signal a issue:3 item=7
            08:03 why a
                  running round r1 since 08:01; 3 more occurrences wait for its end [running]
                  → `loopwright stop r1` ends it
            08:05 end a shipped
                  START a webhook:2 to 08:02 (2) started: 2 events in one round
            08:05 started a
            08:06 end a shipped
                  START a issue:1 to 08:02 (2) started: 2 events about 7
            08:06 started a
            08:07 crash
            08:07 load
            08:08 end a shipped
                  START a issue:2 started: an event about 8
            08:08 nowork a
                  a issue:2 no-work: the probe found nothing to do
            08:09 why a
                  idle, waits for webhook [idle]
        "#]],
    );
}

#[test]
fn a_start_that_fails_is_tried_again_and_then_given_up() {
    // Long because it contains the whole history.
    check(
        "loop a every=1h
         08:30 load
         09:00 wake
         09:00 failed a retry=09:01
         09:00 why a
         09:01 wake
         09:01 failed a
         09:01 why a
         10:00 wake
         10:00 failed a
         11:00 wake
         11:00 failed a
         11:00 why a
         12:00 wake
         12:10 resume a
         13:00 wake",
        expect![[r#"
            08:30 load
                  a mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 failed a retry=09:01
            09:00 why a
                  due since 09:00, the start did not succeed and is tried again at 09:01 [waiting]
            09:01 wake
                at 09:01
                  START a 09:00 started: due
            09:01 failed a
                  a 09:00 failed: no agent
                  a mark 09:00, 1 failed, waits until 09:02
            09:01 why a
                  backing off until 09:02: could not be started, 1 in a row; due after that at 10:00 [cooling-down]
                  → `loopwright resume a` ends the wait, `loopwright run a` runs it now
            10:00 wake
                at 10:00
                  START a 10:00 started: due
            10:00 failed a
                  a 10:00 failed: no agent
                  a mark 10:00, 2 failed, waits until 10:02
            11:00 wake
                at 11:00
                  START a 11:00 started: due
            11:00 failed a
                  a 11:00 failed: no agent
                  a mark 11:00, paused by breaker, 3 failed
                  ASK about a: could not be started in the same way 3 times in a row
            11:00 why a
                  paused since 11:00 by breaker: could not be started in the same way 3 times in a row [paused]
                  → `loopwright resume a` lets it start again
            12:00 wake
                at 12:00
                  a 12:00 paused: paused by breaker: could not be started in the same way 3 times in a row
                  a mark 12:00, paused by breaker, 3 failed
            12:10 resume a
                  a mark 12:00
            13:00 wake
                at 13:00
                  START a 13:00 started: due
        "#]],
    );
}

#[test]
fn failures_back_off_and_a_provider_limit_delays_the_loop() {
    check(
        "loop a every=10m
         08:55 load
         09:00 wake
         09:00 started a
         09:01 end a failed
         09:01 why a
         09:10 wake
         09:10 started a
         09:11 end a rate-limited retry=09:45
         09:12 why a
         09:20 until
         09:40 until
         09:46 until
         09:50 wake",
        expect![[r#"
            08:55 load
                  a mark 08:55
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:01 end a failed
                  a mark 09:00, 1 failed, waits until 09:02
            09:01 why a
                  backing off until 09:02: ended failed, 1 in a row; due after that at 09:10 [cooling-down]
                  → `loopwright resume a` ends the wait, `loopwright run a` runs it now
            09:10 wake
                at 09:10
                  START a 09:10 started: due
            09:10 started a
            09:11 end a rate-limited retry=09:45
                  a mark 09:10, 1 failed, waits until 09:45:13
                  TELL a limited until 09:45:13
            09:12 why a
                  backing off until 09:45:13: the provider's limit resets at 09:45; due after that at 09:50 [cooling-down]
                  → `loopwright resume a` ends the wait, `loopwright run a` runs it now
            09:20 until
                at 09:20
                  a 09:20 backoff: backing off until 09:45:13: the provider's limit resets at 09:45
                  a mark 09:20, 1 failed, waits until 09:45:13
            09:40 until
                at 09:30
                  a 09:30 backoff: backing off until 09:45:13: the provider's limit resets at 09:45
                  a mark 09:30, 1 failed, waits until 09:45:13
                at 09:40
                  a 09:40 backoff: backing off until 09:45:13: the provider's limit resets at 09:45
                  a mark 09:40, 1 failed, waits until 09:45:13
            09:46 until
            09:50 wake
                at 09:50
                  START a 09:50 started: due
        "#]],
    );
}

#[test]
fn the_same_failure_three_times_pauses_the_loop_and_asks() {
    check(
        "loop a every=1h overlap=queue
         08:30 load
         09:00 wake
         09:00 started a
         09:01 end a rejected sig=tests
         10:00 wake
         10:00 started a
         10:01 end a rejected sig=tests
         11:00 wake
         11:00 started a
         12:00 wake
         12:01 end a rejected sig=tests
         12:02 why a
         13:00 wake",
        expect![[r#"
            08:30 load
                  a mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:01 end a rejected sig=tests
                  a mark 09:00, 1 failed
            10:00 wake
                at 10:00
                  START a 10:00 started: due
            10:00 started a
            10:01 end a rejected sig=tests
                  a mark 10:00, 2 failed
            11:00 wake
                at 11:00
                  START a 11:00 started: due
            11:00 started a
            12:00 wake
            12:01 end a rejected sig=tests
                  a 12:00 paused: paused by breaker: ended rejected in the same way 3 times in a row
                  a mark 12:00, paused by breaker, 3 failed
                  ASK about a: ended rejected in the same way 3 times in a row
            12:02 why a
                  paused since 12:01 by breaker: ended rejected in the same way 3 times in a row [paused]
                  → `loopwright resume a` lets it start again
            13:00 wake
                at 13:00
                  a 13:00 paused: paused by breaker: ended rejected in the same way 3 times in a row
                  a mark 13:00, paused by breaker, 3 failed
        "#]],
    );
}

#[test]
fn open_proposals_hold_back_new_ones() {
    check(
        "loop a every=1h open_max=2 hears=push
         08:30 load
         09:00 wake
         09:00 started a
         09:01 end a escalated open=2
         10:00 wake
         10:01 signal a push:main:1
         10:01 why a
         10:05 open a 1",
        expect![[r#"
            08:30 load
                  a mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:01 end a escalated open=2
            10:00 wake
                at 10:00
                  a 10:00 open-max: 2 proposals are open, at most 2 may be
                  a mark 10:00
            10:01 signal a push:main:1
            10:01 why a
                  2 proposals are open and the loop may have 2: nothing new is started [waiting]
                  → decide on what is in `loopwright inbox`, or raise `open_max` in the loop file
            10:05 open a 1
                  START a push:main:1 started: an event
        "#]],
    );
}

#[test]
fn the_global_stop_cancels_and_survives_a_restart() {
    check(
        "loop a every=1h
         loop b every=1h
         08:30 load
         09:00 wake
         09:00 started a
         09:10 freeze holiday
         09:10 started b
         09:11 end a cancelled
         09:11 end b cancelled
         10:00 wake
         10:10 crash
         10:10 load
         11:00 wake
         11:00 why a
         11:10 thaw
         12:00 wake",
        expect![[r#"
            08:30 load
                  a mark 08:30
                  b mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
                  START b 09:00 started: due
            09:00 started a
            09:10 freeze holiday
                  CANCEL r1: everything is stopped by ann: holiday
            09:10 started b
                  CANCEL r2: everything is stopped by ann: holiday
            09:11 end a cancelled
            09:11 end b cancelled
            10:00 wake
                at 10:00
                  a 10:00 stopped: everything is stopped by ann: holiday
                  b 10:00 stopped: everything is stopped by ann: holiday
                  a mark 10:00
                  b mark 10:00
            10:10 crash
            10:10 load
            11:00 wake
                at 11:00
                  a 11:00 stopped: everything is stopped by ann: holiday
                  b 11:00 stopped: everything is stopped by ann: holiday
                  a mark 11:00
                  b mark 11:00
            11:00 why a
                  everything is stopped since 09:10 by ann: holiday [stopped]
                  → `loopwright thaw` lets everything start again
            11:10 thaw
            12:00 wake
                at 12:00
                  START a 12:00 started: due
                  START b 12:00 started: due
        "#]],
    );
}

#[test]
fn crash_between_decision_and_start_loses_nothing_and_doubles_nothing() {
    check(
        "loop a every=1h
         08:30 load
         09:00 wake
         09:00 crash
         09:00 load
         09:00 started a
         09:01 crash
         09:01 load
         09:02 end a interrupted
         09:02 why a",
        expect![[r#"
            08:30 load
                  a mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 crash
            09:00 load
                  START a 09:00 started: due
            09:00 started a
            09:01 crash
            09:01 load
            09:02 end a interrupted
            09:02 why a
                  idle, next due at 10:00 (`every 1h`) [idle]
        "#]],
    );
}

#[test]
fn a_pause_during_a_start_stays() {
    check(
        "loop a every=1h catch_up=3
         08:30 load
         11:10 crash
         11:10 load
         11:11 pause a enough
         11:12 started a
         11:13 end a shipped",
        expect![[r#"
            08:30 load
                  a mark 08:30
            11:10 crash
            11:10 load
                  START a 09:00 started: due, made up for: it should have started at 09:00
            11:11 pause a enough
                  a mark 08:30, paused by ann
            11:12 started a
                  a 10:00 to 11:00 (2) paused: paused by ann: enough
                  a mark 11:00, paused by ann
            11:13 end a shipped
        "#]],
    );
}

#[test]
fn manual_round_takes_the_loops_place() {
    check(
        "loop a every=1h
         08:30 load
         08:59 manual a
         09:00 wake
         09:01 end a shipped
         09:01 why a",
        expect![[r#"
            08:30 load
                  a mark 08:30
            08:59 manual a
            09:00 wake
                at 09:00
                  a 09:00 overlap: round r1 was still running
                  a mark 09:00
            09:01 end a shipped
            09:01 why a
                  idle, next due at 10:00 (`every 1h`) [idle]
        "#]],
    );
}

#[test]
fn loop_that_is_removed_and_added_again_starts_over() {
    check(
        "limits total=1
         loop a every=1h
         loop b every=1h
         08:30 load
         09:00 wake
         09:00 started a
         gone b
         09:10 load
         09:10 why b
         loop b every=1h
         3d09:10 load
         3d09:10 why b",
        expect![[r#"
            08:30 load
                  a mark 08:30
                  b mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:10 load
                  b 09:00 stopped: the loop was taken away while it waited
                  b mark 09:00, given up
            09:10 why b
                  no loop of that name is registered [invalid]
                  → `loopwright status` lists the loops there are
            3d09:10 load
                  a 10:00 to 3d09:00 (72) overlap: round r1 was still running
                  a mark 3d09:00
                  b mark 3d09:10
                  TELL gap from 10:00 to 3d09:10
            3d09:10 why b
                  idle, next due at 3d10:00 (`every 1h`) [idle]
        "#]],
    );
}

#[test]
fn draining_starts_nothing_and_the_next_process_finds_pending_occurrences() {
    check(
        "limits total=1
         loop a every=1h
         loop b every=1h
         08:30 load
         09:00 wake
         09:00 started a
         09:01 drain
         09:02 end a shipped
         09:02 why b
         09:03 crash
         09:03 load",
        expect![[r#"
            08:30 load
                  a mark 08:30
                  b mark 08:30
            09:00 wake
                at 09:00
                  START a 09:00 started: due
            09:00 started a
            09:01 drain
            09:02 end a shipped
            09:02 why b
                  the daemon is shutting down and starts nothing more [stopped]
                  → `loopwright up` starts a daemon
            09:03 crash
            09:03 load
                  START b 09:00 started: due, made up for: it should have started at 09:00
        "#]],
    );
}

#[test]
fn loop_explains_why_it_never_runs() {
    check(
        "loop hand
         loop over every=1h until=2026-11-16T09:00:00Z
         08:30 load
         08:30 why hand
         08:30 why over
         09:00 wake
         09:00 started over
         09:01 end over shipped
         09:01 why over
         09:01 why missing",
        expect![[r#"
            08:30 load
                  hand mark 08:30
                  over mark 08:30
            08:30 why hand
                  it has no cadence and no event triggers: it runs only when started manually [idle]
                  → `loopwright run hand` runs it now
            08:30 why over
                  idle, next due at 09:00 (`every 1h`) [idle]
            09:00 wake
                at 09:00
                  START over 09:00 started: due
            09:00 started over
            09:01 end over shipped
            09:01 why over
                  its cadence has ended: nothing is due any more [idle]
                  → `loopwright run over` runs it now
            09:01 why missing
                  no loop of that name is registered [invalid]
                  → `loopwright status` lists the loops there are
        "#]],
    );
}
