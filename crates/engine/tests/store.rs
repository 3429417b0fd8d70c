//! The store's tests: one list of cases for both databases, and what only files can suffer.

mod store {
    pub(crate) mod cases;
    pub(crate) mod child;
    mod files;
    pub(crate) mod place;
    mod postgres;
    pub(crate) mod rows;
}

use store::cases;
use store::place::Place;

/// Runs every case on both databases: a test each on SQLite, and one test for all on PostgreSQL, whose
/// start costs a second a process.
macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::cases::$case(super::Place::sqlite()).await;
            })*
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn every_case_holds_on_postgresql() {
            let mut failed = Vec::new();
            $(if tokio::spawn(cases::$case(Place::postgres())).await.is_err() {
                failed.push(stringify!($case));
            })*
            assert!(failed.is_empty(), "failed on PostgreSQL: {failed:?}");
        }
    };
}

suite! {
    appended_events_and_rows_read_back,
    rows_are_replaced_and_counters_added,
    writer_that_has_not_seen_the_latest_event_conflicts,
    failed_batch_leaves_nothing_behind,
    writer_with_a_stale_fence_is_refused,
    second_owner_is_refused_with_the_holders_pid_and_start,
    closed_store_can_be_owned_again,
    occurrence_starts_at_most_one_round,
    reservation_over_the_ceiling_rolls_the_whole_batch_back,
    twenty_reservations_at_once_never_pass_the_ceiling,
    question_is_answered_once,
    rounds_come_in_pages_newest_first,
    round_ids_are_found_by_prefix,
    fresh_chain_verifies_while_the_owner_writes,
    events_can_not_be_changed_or_deleted,
    event_edited_by_hand_is_found_with_its_round,
    event_deleted_by_hand_is_found,
    event_added_by_hand_is_found,
    event_cut_off_the_end_is_found,
    newer_schema_is_refused,
    reader_of_a_missing_store_is_told_so,
    reader_can_not_write,
    text_that_one_database_can_not_hold_is_refused_by_both,
    batch_over_a_limit_is_refused,
    item_without_its_round_is_refused,
    dropped_append_leaves_the_store_usable,
    every_scope_has_its_own_ceiling_and_names_it,
    raise_gives_room_for_its_day_or_its_round_only,
    costs_are_summed_by_group_with_accepted_rounds,
    money_that_does_not_add_up_is_found,
}
