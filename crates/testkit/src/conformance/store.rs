//! What every store must do: one file per verb, then what holds across verbs.
//!
//! `lifecycle` walks THE table of `model::lifecycle`, so that a new transition is tested without a new test; `races`
//! uses real concurrency. Rows are brought into every state through verbs only: a store is never looked into.

pub mod put_jobs;
pub mod load;
pub mod fire;
pub mod claim;
pub mod complete;
pub mod cancel;
pub mod lifecycle;
pub mod idempotency;
pub mod listing;
pub mod races;

use crate::generate as g;
use campanile_model::execution::Execution;
use campanile_model::job::Job;
use campanile_model::shard::{self, ShardFence};
use campanile_model::store::{Claimed, Fire, FireBatch, FireVerdict, Fired, Granted, JobKey, JobWrite, Put, Store};
use campanile_model::{ExecutionId, JobId, TenantId, Timestamp};
use std::any::Any;
use std::ops::Deref;
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
                    a_deleted_job_frees_its_name_and_stays_readable_by_id,
                    a_stale_version_loses,
                    a_rename_onto_a_taken_name_loses,
                    a_foreign_or_missing_job_is_gone,
                    items_of_a_batch_are_judged_in_order_and_alone,
                    skips_are_recorded_with_the_write,
                    an_empty_batch_is_nothing,
                    status_counts_live_jobs,
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
                ]
            );
            $crate::store_facts!(
                fire,
                $make,
                [
                    an_execution_is_born_pending,
                    firing_twice_inserts_once,
                    an_older_epoch_fires_nothing,
                    a_missing_fence_fires_nothing,
                    manual_fires_need_no_fence,
                    a_newer_version_takes_its_instant_over,
                    what_was_skipped_for_another_reason_is_not_refired,
                    an_attempt_that_began_is_not_refired,
                    skips_are_fenced_and_recorded,
                    verdicts_keep_the_order_of_the_batch,
                ]
            );
            $crate::store_facts!(
                claim,
                $make,
                [
                    a_claim_grants_the_current_definition,
                    only_the_first_claim_wins,
                    nothing_starts_early,
                    a_wrong_attempt_loses,
                    a_changed_job_discards_what_was_made_ahead,
                    a_paused_job_discards_what_was_made_ahead,
                    an_instant_before_the_change_runs,
                    a_deleted_job_runs_nothing,
                    a_manual_fire_survives_a_change,
                    fences_grow,
                    a_lease_is_extended_by_its_holder_only,
                    expired_leases_and_lost_nodes_are_found,
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
                    the_same_completion_again_is_done,
                    another_completion_of_the_same_attempt_is_stale,
                    an_older_attempt_cannot_complete,
                    a_wrong_fence_cannot_complete,
                    an_unclaimed_success_is_one_write,
                    an_unclaimed_success_respects_the_guards_of_a_claim,
                    an_unclaimed_failure_is_refused,
                    attempts_are_listed_with_their_responses,
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
                ]
            );
            $crate::store_facts!(
                lifecycle,
                $make,
                [legal_events_apply_and_illegal_ones_change_nothing, old_fences_lose_in_every_state,]
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
                ]
            );
            $crate::store_facts!(
                races,
                $make,
                [
                    one_claimer_wins,
                    cancel_or_start_but_not_both,
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
    _keep: Box<dyn Any + Send + Sync>,
}

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
    pub fn new(store: Arc<dyn Store>, keep: impl Any + Send + Sync) -> Self {
        Self { store, _keep: Box::new(keep) }
    }

    /// Writes one job.
    pub async fn put(&self, write: JobWrite) -> Put {
        self.put_jobs(vec![write]).await.unwrap().remove(0)
    }

    /// Creates job number `n`.
    pub async fn job(&self, n: u64) -> Job {
        let job = g::job(n);
        assert_eq!(self.put(g::create(job.clone())).await, Put::Done);
        job
    }

    /// Creates jobs 1 to `n`.
    pub async fn jobs(&self, n: u64) -> Vec<Job> {
        let jobs: Vec<Job> = (1..=n).map(g::job).collect();
        let verdicts = self.put_jobs(jobs.iter().cloned().map(g::create).collect()).await.unwrap();
        assert!(verdicts.iter().all(|verdict| *verdict == Put::Done));
        jobs
    }

    /// Reads a job of the default tenant by id.
    pub async fn get_job(&self, id: JobId) -> Option<Job> {
        self.get_jobs(TenantId::DEFAULT, &[JobKey::Id(id)]).await.unwrap().remove(0)
    }

    /// Changes a job and returns its new version.
    pub async fn change(&self, job: &Job, now: Timestamp, change: impl FnOnce(&mut Job)) -> Job {
        let write = g::change(job, now, change);
        let changed = write.job.clone();
        assert_eq!(self.put(write).await, Put::Done);
        changed
    }

    /// Takes all shards over.
    pub async fn open_all(&self) -> Arc<[ShardFence]> {
        self.open_shards(&shard::all().collect::<Vec<_>>(), "suite").await.unwrap().into()
    }

    /// Fires as the owner of all shards.
    pub async fn fired(&self, fires: Vec<Fire>) -> Vec<Fired> {
        let fences = self.open_all().await;
        match self.fire(batch(fences, fires)).await.unwrap() {
            FireVerdict::Fired(fired) => fired,
            other => panic!("not fired: {other:?}"),
        }
    }

    /// Creates job number `n` and fires it for [`DUE`].
    pub async fn pending(&self, n: u64) -> (Job, ExecutionId) {
        let job = self.job(n).await;
        let fire = g::fire(&job, DUE);
        let execution = fire.dispatch.execution;
        assert_eq!(self.fired(vec![fire]).await, [Fired::New]);
        (job, execution)
    }

    /// Claims one execution.
    pub async fn claimed(&self, execution: ExecutionId, attempt: u32, now: Timestamp) -> Claimed {
        self.claim(vec![g::claim(execution, attempt, now)]).await.unwrap().remove(0)
    }

    /// Claims one execution that can be claimed.
    pub async fn granted(&self, execution: ExecutionId, attempt: u32, now: Timestamp) -> Granted {
        match self.claimed(execution, attempt, now).await {
            Claimed::Granted(granted) => *granted,
            other => panic!("not granted: {other:?}"),
        }
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
