//! What every store must do: one file per verb, then what holds across verbs.
//!
//! `lifecycle` walks THE table of `model::lifecycle`, so that a new transition is tested without a new test; `races`
//! uses real concurrency. Rows are brought into every state through verbs: a store is never looked into. Only a state that no
//! verb leads to yet is written by whoever brings the store ([`Fixture::placing`]).

pub mod put_jobs;
pub mod versions;
pub mod load;
pub mod fire;
pub mod claim;
pub mod leases;
pub mod pools;
pub mod overlaps;
pub mod complete;
pub mod cancel;
pub mod dead;
pub mod lifecycle;
pub mod idempotency;
pub mod listing;
pub mod stats;
pub mod prune;
pub mod records;
pub mod deliveries;
pub mod watches;
pub mod lives;
pub mod walk;
pub mod histories;
pub mod races;

use crate::clock::ManualClock;
use crate::generate as g;
use campanile_model::execution::Execution;
use campanile_model::job::Job;
use campanile_model::job::version::Change;
use campanile_model::lifecycle::State;
use campanile_model::shard::{self, ShardFence};
use campanile_model::store::{
    Applied, CancelVerdict, Claim, Claimed, Completion, Fire, FireBatch, FireVerdict, Fired, Granted, JobKey, JobWrite,
    Put, Skip, Store,
};
use campanile_model::{ExecutionId, JobId, TenantId, Timestamp};
use std::any::Any;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

/// Makes a module of tests of this suite: `store_suite!(sqlite, open().await)`. The expression is evaluated once per test,
/// may await, and gives a [`Fixture`] with an empty store.
#[macro_export]
macro_rules! store_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            $crate::store_facts!(
                put_jobs,
                $make,
                [
                    a_job_comes_back_as_it_was_written,
                    any_job_comes_back_as_it_was_written,
                    a_name_is_taken_once_per_tenant,
                    in_bulk_each_new_job_is_judged_alone,
                    a_deleted_job_frees_its_name_and_stays_readable_by_id,
                    a_stale_version_loses,
                    a_rename_onto_a_taken_name_loses,
                    a_foreign_or_missing_job_is_gone,
                    items_of_a_batch_are_judged_in_order_and_alone,
                    skips_are_recorded_with_the_change,
                    an_empty_batch_is_nothing,
                    status_counts_live_jobs,
                ]
            );
            $crate::store_facts!(
                versions,
                $make,
                [
                    a_change_counts_from_the_instant_of_the_store,
                    versions_are_kept_and_listed,
                    an_older_version_stays_due_for_what_it_owes,
                    a_deletion_takes_away_what_older_versions_owe,
                    an_instant_is_governed_by_the_version_in_force_at_it,
                    an_instant_before_the_changes_runs_as_it_was,
                    who_fired_before_a_change_is_looked_up,
                    who_has_seen_all_changes_is_believed,
                    what_another_version_took_over_is_not_claimed_for_the_older_one,
                    an_execution_runs_under_its_own_version_in_whole,
                    a_held_execution_keeps_its_version,
                    what_has_started_stays_with_its_version,
                    a_pause_ends_when_it_was_to_end,
                    a_version_keeps_the_name_it_had,
                    what_somebody_asked_for_runs_under_the_version_it_was_asked_under,
                    a_skip_never_covers_what_ran,
                ]
            );
            $crate::store_facts!(
                load,
                $make,
                [
                    due_jobs_come_in_the_order_of_their_cursors,
                    paused_deleted_and_finished_jobs_are_not_due,
                    due_pages_do_not_overlap,
                    what_is_written_between_due_pages_is_seen_in_its_place,
                    shards_are_separate,
                    changes_come_in_the_order_of_commits,
                    a_limit_of_zero_tells_the_newest_change,
                    cursors_only_move_forward_and_for_their_version,
                    cursors_need_the_current_epoch,
                    advancing_is_not_a_change,
                    waiting_executions_come_in_the_order_of_wake_at,
                    pauses_that_are_over_are_found,
                ]
            );
            $crate::store_facts!(
                fire,
                $make,
                [
                    an_execution_is_born_pending,
                    firing_twice_inserts_once,
                    many_fires_of_which_some_are_there_insert_the_others,
                    an_older_epoch_fires_nothing,
                    an_opening_that_is_late_takes_nothing,
                    a_missing_fence_fires_nothing,
                    fires_that_somebody_asked_for_need_no_fence,
                    a_fire_keeps_what_it_carries,
                    a_newer_version_takes_its_instant_over,
                    what_was_skipped_for_another_reason_is_not_refired,
                    a_backfill_does_not_take_over_what_is_about_to_run,
                    an_attempt_that_began_is_not_refired,
                    skips_are_fenced_and_recorded,
                    verdicts_keep_the_order_of_the_batch,
                ]
            );
            $crate::store_facts!(
                claim,
                $make,
                [
                    a_claim_grants_the_definition,
                    only_the_first_claim_wins,
                    nothing_starts_early,
                    a_wrong_attempt_loses,
                    a_changed_job_discards_what_was_made_ahead,
                    a_paused_job_discards_what_was_made_ahead,
                    an_instant_before_the_change_runs,
                    a_deleted_job_runs_nothing,
                    a_manual_fire_survives_a_change,
                    fences_grow,
                    a_claim_tells_what_came_before,
                    a_fire_starts_when_it_may,
                    a_time_limit_of_all_attempts_shortens_the_last,
                    a_backfill_runs_under_any_version,
                ]
            );
            $crate::store_facts!(
                leases,
                $make,
                [
                    a_lease_lasts_as_it_was_asked_for,
                    a_lease_is_extended_by_its_holder_only,
                    no_lease_goes_past_the_time_limit,
                    no_lease_is_extended_after_a_cancel,
                    progress_is_kept_and_the_next_attempt_gets_the_checkpoint,
                    logs_are_kept_in_order_and_bounded,
                    the_last_lines_come_with_the_completion,
                    leases_that_are_over_are_found,
                    attempts_of_nodes_that_are_gone_are_found,
                    a_running_attempt_is_read_whole,
                    what_waits_can_be_put_off,
                    what_was_put_off_can_be_refired,
                ]
            );
            $crate::store_facts!(
                pools,
                $make,
                [
                    no_more_run_than_there_are_slots,
                    a_paused_pool_starts_nothing,
                    a_limit_does_not_keep_what_must_not_run,
                    a_deferred_claim_takes_nothing,
                    counts_follow_every_state,
                    a_refire_moves_the_count,
                    counts_are_what_counting_gives_after_any_walk,
                    counts_are_what_counting_gives_under_concurrency,
                ]
            );
            $crate::store_facts!(
                overlaps,
                $make,
                [
                    allowed_runs_run_side_by_side,
                    skip_skips_while_another_run_is_not_over,
                    buffer_one_holds_one,
                    a_turn_does_not_start_a_run_before_its_instant,
                    buffer_all_holds_all_and_releases_in_order,
                    no_more_wait_than_the_limit,
                    a_batch_is_judged_in_its_order,
                    cancel_other_asks_and_waits,
                    cancel_other_ends_what_nobody_must_stop,
                    terminate_other_ends_and_starts,
                    policies_of_two_versions_meet,
                    a_newer_version_takes_over_what_waits,
                    a_cancel_releases_who_waits,
                    a_turn_passes_over_those_that_must_not_run,
                    a_claim_answers_whom_it_made_ready,
                    a_replayed_run_waits_for_its_turn,
                    a_released_run_keeps_its_turn,
                    a_hand_over_is_whole_or_not_at_all,
                    nobody_waits_for_ever_after_any_walk,
                ]
            );
            $crate::store_facts!(
                complete,
                $make,
                [
                    a_success_ends_it,
                    a_failure_waits_for_its_backoff,
                    a_final_failure_says_why,
                    a_snooze_burns_no_attempt,
                    a_release_burns_no_attempt_and_leaves_none,
                    losses_are_counted,
                    the_same_completion_again_is_done,
                    another_completion_of_the_same_attempt_is_stale,
                    an_older_attempt_cannot_complete,
                    a_wrong_fence_cannot_complete,
                    an_unclaimed_success_is_one_write,
                    an_unclaimed_success_respects_the_guards_of_a_claim,
                    an_unclaimed_failure_is_refused,
                    attempts_are_listed_with_their_responses,
                    responses_of_every_size_are_kept,
                ]
            );
            $crate::store_facts!(
                cancel,
                $make,
                [
                    a_waiting_execution_is_cancelled_and_never_starts,
                    a_running_attempt_loses_to_a_cancel,
                    a_final_state_cannot_be_cancelled,
                    other_tenants_cannot_cancel,
                    a_note_is_kept,
                    an_external_worker_is_asked_to_stop,
                    who_was_asked_to_stop_may_still_complete,
                    asking_never_prolongs,
                    who_was_asked_to_stop_is_not_tried_again,
                    a_nodes_attempt_ends_at_once,
                    a_fire_that_has_not_come_is_cancelled,
                    other_tenants_fires_are_left_alone,
                    an_answer_is_remembered_if_all_of_it_happened,
                ]
            );
            $crate::store_facts!(
                dead,
                $make,
                [
                    the_dead_are_grouped_by_what_they_died_of,
                    a_batch_of_deaths_grows_its_groups,
                    a_death_without_an_error_has_a_group_too,
                    a_replay_keeps_the_attempts,
                    a_replay_waits_for_other_runs,
                    a_replay_is_by_the_job_as_it_is_now,
                    a_replay_begins_the_total_time_anew,
                    only_the_dead_are_replayed_and_buried,
                    a_buried_execution_says_why,
                    a_poison_execution_dies_whatever_its_policy,
                ]
            );
            $crate::store_facts!(
                lifecycle,
                $make,
                [
                    legal_events_apply_and_illegal_ones_change_nothing,
                    old_fences_lose_in_every_state,
                    every_state_is_listed_counted_and_handed_out_by_the_table,
                ]
            );
            $crate::store_facts!(
                idempotency,
                $make,
                [
                    the_same_request_gets_the_same_answer,
                    another_request_under_the_key_is_refused,
                    a_refused_write_remembers_nothing,
                    keys_of_tenants_and_scopes_are_separate,
                    an_expired_key_is_free,
                    a_key_of_a_late_resume_is_remembered,
                    forgotten_keys_are_free_and_counted,
                    two_items_of_a_batch_share_a_key,
                    manual_fires_remember_their_answers,
                    an_answer_can_be_recalled_until_it_expires,
                    a_cancel_remembers_its_answer,
                ]
            );
            $crate::store_facts!(
                listing,
                $make,
                [
                    job_pages_are_the_whole_and_disjoint,
                    jobs_are_filtered,
                    execution_pages_are_the_whole_and_disjoint,
                    executions_are_filtered,
                    pages_stay_disjoint_under_inserts,
                    tenants_see_only_their_own,
                    the_history_of_a_job_is_complete,
                    filtered_pages_are_what_testing_everything_gives,
                    a_page_looks_at_a_bounded_number_of_rows,
                    skips_are_listed_by_window,
                ]
            );
            $crate::store_facts!(stats, $make, [rollups_add_up_to_what_happened, rollups_are_filtered,]);
            $crate::store_facts!(
                prune,
                $make,
                [
                    what_is_left_is_what_the_rules_leave,
                    everything_goes_with_an_execution,
                    what_the_cursor_has_not_passed_is_kept,
                    what_ends_late_is_pruned_as_well,
                    deliveries_rollups_and_skips_go_by_age,
                    what_ran_is_cut_out_of_the_skips_around_it,
                    what_ran_during_a_pause_is_not_skipped_when_it_ends,
                    a_skip_that_is_written_again_does_not_cover_what_ran,
                    versions_are_kept_as_long_as_their_executions,
                ]
            );
            $crate::store_facts!(
                records,
                $make,
                [
                    a_record_comes_back_as_it_was_written,
                    a_record_is_guarded_by_its_version,
                    records_are_listed_last_ones_first,
                    a_record_is_forgotten_once,
                ]
            );
            $crate::store_facts!(
                deliveries,
                $make,
                [
                    what_happens_to_an_execution_is_told,
                    nothing_is_told_of_what_did_not_happen,
                    events_and_states_agree_when_raced,
                    endpoints_hear_what_they_want,
                    deliveries_are_loaded_until_they_end,
                    a_delivery_can_be_replayed,
                    deliveries_are_listed_and_forgotten,
                    recovery_is_told_once_per_failure,
                ]
            );
            $crate::store_facts!(
                watches,
                $make,
                [
                    a_start_that_does_not_come_is_late,
                    an_end_that_does_not_come_is_late,
                    watches_break_in_order_and_within_the_limit,
                    a_newer_version_brings_its_own_expectations,
                    what_is_discarded_is_not_late,
                    a_job_must_succeed_in_every_period,
                    success_is_expected_of_active_jobs,
                    success_is_expected_while_a_job_may_fire,
                ]
            );
            $crate::store_facts!(
                races,
                $make,
                [
                    one_claimer_wins,
                    cancel_or_start_but_not_both,
                    histories_are_linearizable,
                    one_completion_wins,
                    one_creator_of_a_name_wins,
                    one_key_makes_one_job,
                    a_takeover_cuts_the_old_owner_off,
                    abandoned_calls_leave_the_store_working,
                ]
            );
        }
    };
}

/// Makes a module of tests of one file of the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! store_facts {
    ($file:ident, $make:expr, $facts:tt) => {
        mod $file {
            #[allow(unused_imports)]
            use super::super::*;
            use $crate::conformance::store::$file as suite;
            $crate::facts!($make, $facts);
        }
    };
}

/// An empty store, and whatever must live as long as it does.
pub struct Fixture {
    store: Arc<dyn Store>,
    /// Says when changes of jobs count.
    pub clock: ManualClock,
    place: Option<Place>,
    _keep: Box<dyn Any + Send + Sync>,
}

/// Writes the state of an execution past all verbs, and counts it there.
type Place = Box<dyn Fn(ExecutionId, State) -> Placed + Send + Sync>;
/// The end of that.
pub type Placed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Deref for Fixture {
    type Target = Arc<dyn Store>;

    fn deref(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

/// The instant at which the suite's executions are due.
pub const DUE: Timestamp = g::at(60_000);

impl Fixture {
    /// A store and what it lives in, such as a directory.
    ///
    /// The clock is what the store was given to say when changes of jobs count; it stands at [`g::START`].
    pub fn new(store: Arc<dyn Store>, clock: ManualClock, keep: impl Any + Send + Sync) -> Self {
        Self { store, clock, place: None, _keep: Box::new(keep) }
    }

    /// The same, with a way to write the state of an execution past all verbs.
    pub fn placing(self, place: impl Fn(ExecutionId, State) -> Placed + Send + Sync + 'static) -> Self {
        Self { place: Some(Box::new(place)), ..self }
    }

    /// Writes the state of an execution past all verbs.
    pub async fn place(&self, id: ExecutionId, state: State) {
        let place = self.place.as_ref().expect("no verb leads to this state, and the fixture cannot place it");
        place(id, state).await;
    }

    pub async fn put(&self, write: JobWrite) -> Put {
        self.put_jobs(vec![write]).await.unwrap().remove(0)
    }

    /// Writes one job, and returns it as it is now.
    pub async fn done(&self, write: JobWrite) -> Job {
        match self.put(write).await {
            Put::Done(job) => *job,
            other => panic!("not written: {other:?}"),
        }
    }

    /// Creates a job as this one was created: at [`g::START`].
    pub async fn create(&self, job: &Job) -> Job {
        self.clock.set(g::START);
        self.done(g::create(job)).await
    }

    /// Creates job number `n`.
    pub async fn job(&self, n: u64) -> Job {
        self.create(&g::job(n)).await
    }

    /// Creates jobs 1 to `n`.
    pub async fn jobs(&self, n: u64) -> Vec<Job> {
        let jobs: Vec<Job> = (1..=n).map(g::job).collect();
        let verdicts = self.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done(_))));
        jobs
    }

    /// Reads a job of the default tenant by id.
    pub async fn get_job(&self, id: JobId) -> Option<Job> {
        self.get_jobs(TenantId::DEFAULT, &[JobKey::Id(id)]).await.unwrap().remove(0)
    }

    /// Changes a job at `now`, and returns its new version.
    pub async fn change(&self, job: &Job, now: Timestamp, change: Change) -> Job {
        self.clock.set(now);
        self.done(g::change(job, change)).await
    }

    /// Takes all shards over.
    pub async fn open_all(&self) -> Arc<[ShardFence]> {
        self.seize_shards(&shard::all().collect::<Vec<_>>(), "suite").await.unwrap().into()
    }

    /// Fires as the owner of all shards.
    pub async fn fired(&self, fires: Vec<Fire>) -> Vec<Fired> {
        let fences = self.open_all().await;
        match self.fire(batch(fences, fires)).await.unwrap() {
            FireVerdict::Fired(fired) => fired.verdicts,
            other => panic!("not fired: {other:?}"),
        }
    }

    /// Records skips, as the owner of all shards.
    pub async fn skipped(&self, skips: &[Skip]) {
        let fences = self.open_all().await;
        let verdict = self.fire(FireBatch { skips: skips.to_vec(), ..batch(fences, Vec::new()) }).await.unwrap();
        assert!(matches!(verdict, FireVerdict::Fired(_)));
    }

    /// Creates job number `n` and fires it for [`DUE`].
    pub async fn pending(&self, n: u64) -> (Job, ExecutionId) {
        let job = self.job(n).await;
        let fire = g::fire(&job, DUE);
        let execution = fire.dispatch.execution;
        assert_eq!(self.fired(vec![fire]).await, [Fired::New]);
        (job, execution)
    }

    pub async fn claimed(&self, execution: ExecutionId, attempt: u32, now: Timestamp) -> Claimed {
        let found = self.get_executions(TenantId::DEFAULT, &[execution]).await.unwrap().remove(0);
        self.claimed_as(found.map_or(1, |found| found.job_version), execution, attempt, now).await
    }

    /// Claims one execution as what a version fired.
    pub async fn claimed_as(&self, version: u32, execution: ExecutionId, attempt: u32, now: Timestamp) -> Claimed {
        let claim = Claim { job_version: version, ..g::claim(execution, attempt, now) };
        self.claim(vec![claim]).await.unwrap().verdicts.remove(0)
    }

    /// Claims one execution that can be claimed.
    pub async fn granted(&self, execution: ExecutionId, attempt: u32, now: Timestamp) -> Granted {
        match self.claimed(execution, attempt, now).await {
            Claimed::Granted(granted) => *granted,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub async fn completed(&self, completion: Completion) -> Applied {
        self.complete(vec![completion]).await.unwrap().verdicts.remove(0)
    }

    /// Cancels one execution, waiting for nobody.
    pub async fn cancelled(&self, execution: ExecutionId, now: Timestamp) -> CancelVerdict {
        self.cancel(g::cancel(&[execution], now)).await.unwrap().verdicts.remove(0)
    }

    /// Reads an execution of the default tenant.
    pub async fn execution(&self, id: ExecutionId) -> Execution {
        self.get_executions(TenantId::DEFAULT, &[id]).await.unwrap().remove(0).expect("the execution exists")
    }
}

/// Fires with nothing else.
pub fn batch(fences: Arc<[ShardFence]>, fires: Vec<Fire>) -> FireBatch {
    FireBatch { fences, fires, skips: Vec::new(), now: g::at(50_000), idempotency: None }
}
