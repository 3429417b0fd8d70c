//! The store's tests: one list of cases for both databases, and what only files can suffer.

mod store {
    pub(crate) mod cases;
    pub(crate) mod child;
    mod files;
    pub(crate) mod place;
    mod postgres;
    pub(crate) mod rows;
    pub(crate) mod time;
}

use store::place::Place;
use store::{cases, time};

/// Runs every case on both databases: a test each on SQLite, and one test for all on PostgreSQL, whose
/// start costs a second a process.
macro_rules! suite {
    ($($of:ident::$case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::$of::$case(super::Place::sqlite()).await;
            })*
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn every_case_holds_on_postgresql() {
            let mut failed = Vec::new();
            $(if tokio::spawn($of::$case(Place::postgres())).await.is_err() {
                failed.push(stringify!($case));
            })*
            assert!(failed.is_empty(), "failed on PostgreSQL: {failed:?}");
        }
    };
}

suite! {
    cases::appended_events_and_rows_read_back,
    cases::rows_are_replaced_and_counters_added,
    cases::writer_that_has_not_seen_the_latest_event_conflicts,
    cases::failed_batch_leaves_nothing_behind,
    cases::writer_with_a_stale_fence_is_refused,
    cases::round_of_a_living_process_is_refused_to_others_by_name,
    cases::several_processes_write_side_by_side,
    cases::second_round_of_a_loop_or_lock_is_refused_between_processes,
    cases::one_process_schedules_and_is_fenced_when_another_does,
    cases::word_that_no_version_knows_is_damage,
    cases::closed_store_can_be_opened_again,
    cases::occurrence_starts_at_most_one_round,
    cases::reservation_over_the_ceiling_rolls_the_whole_batch_back,
    cases::twenty_reservations_at_once_never_pass_the_ceiling,
    cases::question_is_answered_once,
    cases::rounds_come_in_pages_newest_first,
    cases::round_ids_are_found_by_prefix,
    cases::fresh_chain_verifies_while_the_owner_writes,
    cases::events_can_not_be_changed_or_deleted,
    cases::event_edited_by_hand_is_found_with_its_round,
    cases::event_deleted_by_hand_is_found,
    cases::round_removed_by_hand_is_found,
    cases::tail_of_a_round_cut_by_hand_is_found_by_its_checkpoint,
    cases::checkpoint_changed_or_cut_by_hand_is_found,
    cases::event_added_by_hand_is_found,
    cases::event_cut_off_the_end_is_found,
    cases::newer_schema_is_refused,
    cases::reader_of_a_missing_store_is_told_so,
    cases::reader_can_not_write,
    cases::text_that_one_database_can_not_hold_is_refused_by_both,
    cases::batch_over_a_limit_is_refused,
    cases::item_without_its_round_is_refused,
    cases::dropped_append_leaves_the_store_usable,
    cases::every_scope_has_its_own_ceiling_and_names_it,
    cases::raise_gives_room_for_its_day_or_its_round_only,
    cases::costs_are_summed_by_group_with_accepted_rounds,
    cases::money_that_does_not_add_up_is_found,
    time::loop_file_texts_are_replaced_and_removed,
    time::rows_of_time_read_back,
    time::receipts_come_in_pages_newest_first,
    time::occurrence_has_one_receipt,
    time::signal_is_heard_once_and_taken_once,
    time::birth_raises_the_mark_and_undoes_no_pause,
    time::mark_goes_back_only_with_another_cadence,
    time::thousands_of_rows_are_one_batch,
    time::rows_without_a_round_need_no_event,
    time::pruning_keeps_what_is_open_or_waits,
    time::start_that_is_said_and_has_no_round_is_found,
    time::forgetting_is_for_one_loop,
    time::latest_moment_is_that_of_the_last_event_or_receipt,
    time::moment_that_a_person_did_not_believe_is_not_the_latest_any_more,
    time::question_about_a_loop_needs_no_round,
}
