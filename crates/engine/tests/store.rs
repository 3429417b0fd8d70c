//! The store's tests: one list of cases for both databases, and failures that only files can have.

mod store {
    pub(crate) mod autonomy;
    pub(crate) mod cases;
    pub(crate) mod child;
    mod files;
    pub(crate) mod offers;
    pub(crate) mod place;
    mod postgres;
    pub(crate) mod rows;
    pub(crate) mod tasks;
    pub(crate) mod time;
}

use store::place::Place;
use store::{autonomy, cases, offers, tasks, time};

/// Runs every case on both databases: one test for each on SQLite, and one test for all on PostgreSQL, whose start
/// costs a second for each process.
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
    cases::appended_events_and_rows_are_read_again,
    cases::rows_are_replaced_and_counters_added,
    cases::writer_that_has_not_seen_the_latest_event_conflicts,
    cases::failed_batch_leaves_nothing_behind,
    cases::writer_with_a_stale_fence_is_refused,
    cases::round_of_a_living_process_is_refused_to_others_by_name,
    cases::several_processes_write_side_by_side,
    cases::second_round_of_a_loop_or_lock_is_refused_between_processes,
    cases::one_process_schedules_and_is_fenced_when_another_does,
    cases::loop_is_renamed_only_while_nothing_writes_about_it,
    cases::unknown_word_in_a_column_is_damage,
    cases::unknown_word_of_any_typed_column_is_damage_and_never_read_as_another_one,
    cases::closed_store_can_be_opened_again,
    cases::occurrence_starts_at_most_one_round,
    cases::reservation_over_the_ceiling_rolls_the_whole_batch_back,
    cases::twenty_reservations_at_once_never_exceed_the_ceiling,
    cases::question_is_answered_once,
    cases::rounds_come_in_pages_newest_first,
    cases::round_ids_are_found_by_prefix,
    cases::fresh_chain_verifies_while_the_owner_writes,
    cases::events_can_not_be_changed_or_deleted,
    cases::manually_edited_event_is_found_with_its_round,
    cases::manually_deleted_event_is_found,
    cases::manually_removed_round_is_found,
    cases::manually_cut_tail_of_a_round_is_found_by_its_checkpoint,
    cases::manually_changed_or_cut_checkpoint_is_found,
    cases::manually_added_event_is_found,
    cases::event_removed_from_the_end_is_found,
    cases::newer_schema_is_refused,
    cases::reader_of_a_missing_store_gets_an_error,
    cases::reader_can_not_write,
    cases::text_that_one_database_can_not_hold_is_refused_by_both,
    cases::batch_over_a_limit_is_refused,
    cases::item_without_its_round_is_refused,
    cases::dropped_append_leaves_the_store_usable,
    cases::every_scope_has_its_own_ceiling_and_names_it,
    cases::raise_counts_for_its_day_or_its_round_only,
    cases::costs_are_summed_by_group_with_accepted_rounds,
    cases::money_that_does_not_add_up_is_found,
    autonomy::fate_of_work_moves_once_and_only_from_where_it_was,
    autonomy::levels_and_calibrations_are_read_again_in_order,
    autonomy::only_unattended_rounds_over_their_budget_are_breaches,
    offers::offered_round_is_taken_by_one_of_many_workers,
    offers::offered_round_keeps_its_loop_and_locks_and_no_process_takes_it_over,
    offers::worker_that_is_drained_full_replaced_or_stopped_takes_nothing,
    offers::offers_go_out_by_priority_and_only_to_free_slots,
    offers::offer_is_withdrawn_or_made_again_only_by_the_one_that_is_first,
    offers::worker_whose_process_is_gone_is_not_connected,
    tasks::task_changes_only_from_the_version_it_was_decided_on,
    tasks::dependencies_change_only_from_the_version_they_were_decided_on,
    time::loop_file_texts_are_replaced_and_removed,
    time::rows_of_time_are_read_again,
    time::receipts_come_in_pages_newest_first,
    time::occurrence_has_one_receipt,
    time::signal_is_stored_once_and_taken_once,
    time::start_raises_the_mark_and_undoes_no_pause,
    time::mark_goes_back_only_with_another_cadence,
    time::thousands_of_rows_are_one_batch,
    time::rows_without_a_round_need_no_event,
    time::pruning_keeps_open_and_waiting_rows,
    time::receipt_of_a_start_without_its_round_is_found,
    time::forgetting_is_for_one_loop,
    time::latest_time_is_that_of_the_last_event_or_receipt,
    time::time_that_a_person_rejected_is_no_longer_the_latest,
    time::question_about_a_loop_needs_no_round,
}
