//! The table: which bug, where it was seen, what it does, and which test catches it.
//!
//! To add one: plant it by `campanile_model::fault::planted(Bug("name"))` where it would really live, add a row, and run
//! `cargo xtask zoo name` and `cargo xtask docs`.

/// A bug and its catcher.
pub struct Row {
    /// The name by which it is planted.
    pub bug: &'static str,
    /// The sketch that has it, or a project and the number in its tracker.
    pub seen: &'static str,
    /// What it does.
    pub does: &'static str,
    /// The folder below `crates/`.
    pub package: &'static str,
    /// Its tests: `lib` for those beside the code, otherwise the name of a file in `tests/`.
    pub target: &'static str,
    /// The test, as `--exact` takes it.
    pub test: &'static str,
}

impl Row {
    /// The tests that catch it: of a rule that all stores share, one through each of them.
    pub fn catchers(&self) -> Vec<Catcher> {
        let of = |target, test| Catcher { package: self.package, target, test };
        match self.target == EVERY_STORE.1 {
            false => vec![of(self.target, self.test.to_owned())],
            true => vec![
                of(SQLITE.1, format!("sqlite_store::{}", self.test)),
                of(POSTGRES.1, format!("postgres_store::{}", self.test)),
            ],
        }
    }
}

/// A test that catches a bug.
#[derive(Clone, PartialEq, Eq)]
pub struct Catcher {
    /// As in `Row`.
    pub package: &'static str,
    /// As in `Row`, but never `EVERY_STORE`.
    pub target: &'static str,
    /// As in `Row`.
    pub test: String,
}

/// The package in a folder below `crates/`.
pub fn package_in(folder: &str) -> String {
    match folder {
        "node" => "campanile".to_owned(),
        folder => format!("campanile-{folder}"),
    }
}

impl Catcher {
    /// Whether it needs a database server.
    pub fn needs_postgres(&self) -> bool {
        self.package == "queue" && self.target != "lib"
            || self.target.contains("postgres")
            || self.test.contains("postgres")
    }
}

const fn row(
    bug: &'static str,
    seen: &'static str,
    (package, target): (&'static str, &'static str),
    does: &'static str,
    test: &'static str,
) -> Row {
    Row { bug, seen, does, package, target, test }
}

const MODEL: (&str, &str) = ("model", "lib");
const ENGINE: (&str, &str) = ("engine", "lib");
const ENGINE_WHOLE: (&str, &str) = ("engine", "engine");
const ENGINE_WORKERS: (&str, &str) = ("engine", "workers");
const STORE: (&str, &str) = ("store", "lib");
const SQLITE: (&str, &str) = ("store", "conformance");
const POSTGRES: (&str, &str) = ("store", "conformance_postgres");
/// The conformance suite of every store: the bug is in a rule that they share.
const EVERY_STORE: (&str, &str) = ("store", "every store");
const LOST_COMMIT: (&str, &str) = ("store", "postgres_lost_commit");
const POSTGRES_JOBS: (&str, &str) = ("store", "postgres_jobs");
const POSTGRES_RACES: (&str, &str) = ("store", "postgres_races");
const CLUSTER: (&str, &str) = ("cluster", "postgres");
const ACTIONS: (&str, &str) = ("actions", "lib");
const SIM: (&str, &str) = ("sim", "simulation");
const VERSIONS: (&str, &str) = ("node", "versions");
const WEBHOOK: (&str, &str) = ("actions", "webhook");

/// The zoo, in the order in which a job travels.
#[rustfmt::skip]
pub const ZOO: &[Row] = &[
    // When it is due.
    row("next-stands-still", "prefect#5957", MODEL,
        "at a gap of the clock, the next fire after a fire is that fire",
        "schedule::tests::clock_changes_with_the_default_policy"),
    row("gap-skipped", "dragonmantank/cron-expression#202", MODEL,
        "a time that the clock skips does not fire at all",
        "schedule::tests::clock_changes_with_the_default_policy"),
    row("fold-doubled", "rundeck#6879", MODEL,
        "a nightly job runs twice when the clock goes back",
        "schedule::tests::clock_changes_with_the_default_policy"),
    row("repeated-hour-skipped", "zslayton/cron#145", MODEL,
        "an hourly job leaves the repeated hour out",
        "schedule::tests::clock_changes_with_the_default_policy"),
    row("change-of-an-hour", "elizaOS#11100", MODEL,
        "every change of the clock is taken to be an hour; Lord Howe has half of one",
        "schedule::tests::clock_changes_with_the_default_policy"),
    row("impossible-date", "cron-utils#310, cron-parser#115", MODEL,
        "a date that no year has is accepted and looked for",
        "schedule::tests::plans_round_trip_through_their_text"),
    row("step-of-zero", "glide-mq#56", MODEL,
        "a step of zero is accepted",
        "schedule::cron::tests::refused_with_position_and_hint"),
    row("seconds-misread", "django-absurd#40", MODEL,
        "of six fields the seconds are read as minutes",
        "schedule::tests::plain_expressions_in_utc"),
    row("restart-shifts-the-phase", "hertzbeat#4328", MODEL,
        "a period counts from whenever it was looked at, so a restart moves it",
        "schedule::tests::every_is_aligned_to_the_epoch"),
    row("old-zone-rules", "balrog#1095", ENGINE_WHOLE,
        "stored instants are kept though their zone has other rules now",
        "a_new_zone_database_moves_the_jobs_whose_next_fire_it_changes"),
    row("no-spread", "test-infra#12148", ("model", "spread"),
        "everything fires at the full hour",
        "jobs_are_spread_over_the_whole_width"),
    row("hundred-missed", "kubernetes#42649", MODEL,
        "after more than a hundred missed starts a job never runs again",
        "catch_up::tests::a_year_of_seconds_is_decided_at_once"),
    row("catch-up-burst", "OpenLiberty#10563", ("engine", "overlap"),
        "everything that was missed starts at once",
        "missed_fires_drip_one_by_one"),
    // The wheel.
    row("wheel-modulo", "S6, rpc-perf#180", ENGINE,
        "a job an hour and five seconds away fires in five seconds",
        "wheel::tests::an_hour_and_five_seconds_is_not_five_seconds"),
    row("one-slot-per-tick", "S6", ENGINE,
        "a tick that comes late moves the pointer by one slot all the same",
        "wheel::tests::pops_in_the_order_of_time"),
    row("timer-behind-the-cursor", "cadence#1415", ENGINE,
        "a timer that is set behind the position that was read is lost",
        "dispatch::tests::a_clock_that_went_back_does_not_release_early"),
    row("passed-by-the-loader", "temporal#5377", ENGINE,
        "a job that comes due while its cursor lags is never loaded",
        "planner::tests::a_parked_job_is_armed_when_the_horizon_reaches_it_before_its_cursor_is_flushed"),
    row("cancelled-timers-kept", "Hystrix#1976", ENGINE,
        "timers of what is gone stay in memory until they are due",
        "planner::tests::jobs_that_come_and_go_leave_no_trace"),
    row("sleeps-by-the-wall-clock", "quartznet#3148", ENGINE_WHOLE,
        "a clock that was set back by an hour makes the scheduler sleep for an hour",
        "a_clock_that_was_set_back_and_right_again_holds_nothing_up"),
    // Fire.
    row("id-from-the-clock", "S2", ENGINE_WHOLE,
        "the id has the current time in it: firing again makes another execution",
        "a_change_just_before_the_instant_runs_the_new_version_once"),
    row("id-concatenated", "S2", MODEL,
        "fields of an id run into each other: a1 and 2 is a and 12",
        "ids::tests::fields_do_not_run_into_each_other"),
    row("pop-then-register", "S7, rq#580", ENGINE,
        "a fire is off the list before it is durable: a failure in between loses it",
        "planner::tests::what_could_not_be_written_is_planned_again"),
    row("epoch-by-memory", "S10", EVERY_STORE,
        "an epoch is compared with the newest that was seen here, not with the newest there is",
        "fire::an_older_epoch_fires_nothing"),
    row("epoch-not-held", "oban#1488", STORE,
        "an epoch is true when it is read, and not when the fire commits",
        "postgres::shards::tests::a_take_over_waits_for_a_fire_and_refuses_the_next"),
    row("fired-again-after-restart", "airflow#23520", EVERY_STORE,
        "after a restart, what ran already is fired again",
        "fire::an_attempt_that_began_is_not_refired"),
    row("work-of-the-dead-scheduler", "airflow#13542", ENGINE_WHOLE,
        "what an earlier owner had on its way is nobody's",
        "what_waits_at_a_restart_is_dispatched_by_the_next_owner"),
    row("load-by-instant", "leapmux#287", POSTGRES,
        "of many jobs due at one instant, those that a page has no room for are passed over",
        "postgres_store::load::due_pages_do_not_overlap"),
    row("outbox-by-cursor", "S13, kamu-cli#1398", POSTGRES_JOBS,
        "changes are read by numbers that are not in the order of commits: a slow one is never read",
        "whoever_reads_changes_by_number_misses_none"),
    // Claim and run.
    row("claim-by-insert", "S1", EVERY_STORE,
        "a claim inserts the row, finds it there, and takes it for somebody else's: nothing ever runs",
        "claim::only_the_first_claim_wins"),
    row("claim-of-any-attempt", "quartz#29", EVERY_STORE,
        "a message of an earlier attempt claims a later one",
        "claim::a_wrong_attempt_loses"),
    row("starts-after-cancel", "rq#1669", EVERY_STORE,
        "what was cancelled while it was queued starts all the same",
        "cancel::a_waiting_execution_is_cancelled_and_never_starts"),
    row("rows-not-compared", "not seen yet", POSTGRES_RACES,
        "a row that was read without a lock is written whatever happened to it since",
        "what_changes_between_reading_and_writing_is_judged_again"),
    row("lost-with-its-receiver", "asynq#55", ("queue", "lib"),
        "what was popped for a receiver that is gone is gone too",
        "memory::tests::what_was_laid_down_for_one_who_gave_up_goes_to_the_next_who_wants_it_in_its_order"),
    row("near-to-nobody", "not seen yet", ("queue", "near"),
        "what a node kept to itself while it was alone stays there when others come",
        "others_get_what_was_near_when_they_come"),
    row("left-to-the-reaper", "not seen yet", ("engine", "lost_messages"),
        "what a node kept to itself while it was alone waits for the reaper after its crash",
        "what_a_node_that_was_alone_kept_to_itself_is_published_by_the_next_at_once"),
    row("deliveries-in-the-message", "S14, pipeshub#3037", ENGINE_WORKERS,
        "deliveries are counted in the message, which a crash delivers as it was: poison for ever",
        "an_execution_that_kills_its_workers_is_poison"),
    row("compared-by-worker-name", "S12", EVERY_STORE,
        "the same name is taken for the same attempt",
        "leases::a_lease_is_extended_by_its_holder_only"),
    row("rescued-alive", "hexpm#1825", EVERY_STORE,
        "a job is rescued by the time since its start, although it lives and says so",
        "leases::a_lease_is_extended_by_its_holder_only"),
    row("backoff-overflow", "librefang#8199", MODEL,
        "the wait before a late attempt overflows",
        "retry::tests::no_attempt_and_no_delay_overflows"),
    row("no-jitter", "rails#31872", MODEL,
        "what failed together is tried again together",
        "retry::tests::what_failed_together_is_not_tried_again_together"),
    // Complete, cancel, reap.
    row("rescuer-overwrites", "river#1302", EVERY_STORE,
        "a rescuer that saw it running writes over its success",
        "complete::another_completion_of_the_same_attempt_is_stale"),
    row("success-over-cancelled", "trinity#681", EVERY_STORE,
        "a completion that comes after a cancel wins",
        "cancel::a_running_attempt_loses_to_a_cancel"),
    row("cancel-lost-and-confirmed", "dbos-transact-py#767", EVERY_STORE,
        "a cancel that came too late is confirmed",
        "cancel::a_final_state_cannot_be_cancelled"),
    row("rescuer-that-never-comes", "river#1258", ENGINE_WORKERS,
        "there is a rescuer, and work stays running for months",
        "a_silent_worker_loses_its_execution_within_the_lease_and_a_second"),
    row("node-is-its-host", "oban#862, oban-py#32", ENGINE_WHOLE,
        "a node that was started again is taken for the one that died: its work is never rescued",
        "a_restart_goes_on_where_it_was_and_retries_what_was_running"),
    row("lease-by-the-wall-clock", "etcd#12291", ENGINE,
        "a jump of the clock ends the leases of those who live",
        "reap::tests::leases_do_not_end_while_nobody_could_prolong_them"),
    // The database.
    row("acknowledged-before-the-disk", "NATS 2.12.1 (Jepsen)", STORE,
        "a write is acknowledged before it is synced",
        "sqlite::tests::the_file_is_as_durable_as_promised"),
    row("commit-taken-for-done", "Akka.Management#3402", LOST_COMMIT,
        "a commit that was not answered is told as done",
        "a_fire_happens_once"),
    row("commit-taken-for-lost", "found here", LOST_COMMIT,
        "a commit that was not answered is done again",
        "a_claim_happens_once"),
    row("number-of-another-life", "found here", LOST_COMMIT,
        "after a crash of the server, another transaction's number is taken for ours",
        "a_number_that_is_given_again_proves_nothing"),
    row("transaction-left-open", "sqlx#4385, windmill#10823", POSTGRES_JOBS,
        "a connection goes back to its pool with a transaction open",
        "one_bad_write_does_not_fail_the_others"),
    // Who owns what.
    row("lock-taken-again", "S8", CLUSTER,
        "a lock is taken with every beat and released once: nobody else ever gets it",
        "three_nodes_share_the_shards_evenly_and_know_each_other"),
    row("lock-kept-by-the-pool", "S8, heym#436", CLUSTER,
        "a connection goes back to its pool, and the locks with it",
        "who_leaves_is_gone_at_once"),
    row("locks-outlive-the-session", "prometheus-postgresql-adapter#91", CLUSTER,
        "the session is gone, and its locks are believed to be held",
        "whose_connection_is_cut_loses_its_shards_and_gets_them_back"),
    row("lease-fails-open", "S11", CLUSTER,
        "nobody answers, so the owner goes on",
        "who_gets_no_answer_stops_before_its_lease_is_over"),
    // The API.
    row("page-by-instant", "superplane#6627", SQLITE,
        "of rows of one instant, those that a page has no room for are on no page",
        "sqlite_store::listing::execution_pages_are_the_whole_and_disjoint"),
    row("cursor-of-another-list", "trigger.dev#3852", ("server", "lib"),
        "a position in one list is taken for one in another",
        "cursor::tests::a_cursor_is_good_for_its_list_filter_and_key_only"),
    row("limit-by-declaration", "vector#25488", ("server", "connections"),
        "a limit is compared with what the client declares, not with what it sends",
        "a_chunked_body_ends_at_the_limit"),
    row("key-in-flight", "gofastr#198", EVERY_STORE,
        "two requests under one key are both carried out",
        "races::one_key_makes_one_job"),
    row("keys-of-all-tenants", "nestjs-agentic#126", EVERY_STORE,
        "a tenant gets the answer that another one's key has",
        "idempotency::keys_of_tenants_and_scopes_are_separate"),
    row("key-without-body", "hono-idempotency#126", EVERY_STORE,
        "another request under a used key gets the answer of the first",
        "idempotency::another_request_under_the_key_is_refused"),
    row("refusal-kept", "Truxify#2869", EVERY_STORE,
        "a refusal is remembered as the answer",
        "idempotency::a_refused_write_remembers_nothing"),
    row("tenant-not-compared", "optio#575", EVERY_STORE,
        "a tenant cancels what another one runs",
        "cancel::other_tenants_cannot_cancel"),
    // Where webhooks go.
    row("redirect-followed", "formbricks#7877", WEBHOOK,
        "a vetted URL sends us into our own network",
        "redirects_are_not_followed"),
    row("rebinding", "mlflow#24179", ACTIONS,
        "a name is checked, and looked up again to connect",
        "guard::resolver::tests::one_bad_address_spoils_the_name"),
    row("mapped-address", "sim#4467", ACTIONS,
        "an IPv4 address within an IPv6 one is not seen",
        "guard::tests::every_address_has_its_verdict"),
    row("tunnel-address", "plunk#449", ACTIONS,
        "nor is one in a tunnel's address",
        "guard::tests::every_address_has_its_verdict"),
    row("metadata-is-private", "OmniRoute#3281", ACTIONS,
        "whoever may reach private networks may read the cloud's credentials",
        "guard::resolver::tests::metadata_is_refused_even_where_private_is_allowed"),
    row("guard-off-by-default", "n8n#28035", WEBHOOK,
        "the guard is there, and off",
        "private_targets_see_no_packet_in_production"),
    // Which version governs an instant.
    row("newest-governs", "found here", EVERY_STORE,
        "a pause before an instant is forgotten when the job is resumed after it, and the instant runs",
        "versions::an_instant_is_governed_by_the_version_in_force_at_it"),
    row("change-takes-away", "found here", EVERY_STORE,
        "what was due before a change and has not fired yet is never fired",
        "versions::an_older_version_stays_due_for_what_it_owes"),
    row("skip-over-what-ran", "found here", EVERY_STORE,
        "a skip says of what ran that it did not",
        "versions::a_skip_never_covers_what_ran"),
    row("attempt-takes-the-newest", "found here", EVERY_STORE,
        "an execution that was fired before a change runs by the definition after it",
        "versions::an_execution_runs_under_its_own_version_in_whole"),
    row("counts-from-the-caller", "found here", EVERY_STORE,
        "a change counts from when its caller sent it: what ran between that and the write was off the schedule",
        "versions::a_change_counts_from_the_instant_of_the_store"),
    row("pruned-is-skipped", "found here", EVERY_STORE,
        "what was filled in during a pause, and is no longer kept, did not run according to the skip that the end of the pause writes",
        "prune::what_ran_during_a_pause_is_not_skipped_when_it_ends"),
    // The same through the binary: one node, and three on PostgreSQL.
    row("attempt-takes-the-newest", "found here", VERSIONS,
        "a worker gets the new payload, and the second call of a webhook goes to the new URL",
        "an_execution_runs_under_its_own_version_in_the_embedded_store"),
    row("attempt-takes-the-newest", "found here", VERSIONS,
        "a worker gets the new payload, and the second call of a webhook goes to the new URL",
        "an_execution_runs_under_its_own_version_on_postgresql"),
    row("counts-from-the-caller", "found here", VERSIONS,
        "runs off the schedule and while paused, around the instants of changes",
        "changes_close_to_instants_are_exact_in_the_embedded_store"),
    row("counts-from-the-caller", "found here", VERSIONS,
        "runs off the schedule and while paused, around the instants of changes",
        "changes_close_to_instants_are_exact_on_postgresql"),
    // Guards of the stores, which the whole engine shows too.
    row("epoch_unchecked", "S10", EVERY_STORE,
        "a node fires for shards that it has lost",
        "fire::an_older_epoch_fires_nothing"),
    row("claim_unguarded", "rq#580", EVERY_STORE,
        "an execution that runs is claimed again",
        "claim::only_the_first_claim_wins"),
    row("early_unguarded", "found here", EVERY_STORE,
        "a clock that is ahead starts what is not due",
        "claim::nothing_starts_early"),
    row("fence_unchecked", "S12", EVERY_STORE,
        "the outcome of a lost attempt is taken for that of the next",
        "complete::a_wrong_fence_cannot_complete"),
    // The whole engine, from a seed.
    row("epoch_unchecked", "S10", SIM, "a node fires for shards that it has lost", "seeds"),
    row("claim_unguarded", "rq#580", SIM, "an execution that runs is claimed again", "seeds"),
    row("early_unguarded", "found here", SIM, "a clock that is ahead starts what is not due", "seeds"),
    row("newest-governs", "found here", SIM, "the version in force at an instant is not asked", "seeds"),
    row("change-takes-away", "found here", SIM, "what was due before a change is never fired", "seeds"),
    row("fence_unchecked", "S12", SIM, "the outcome of a lost attempt is taken for that of the next", "seeds"),
    row("orphans_not_reaped", "airflow#13542", SIM, "what a dead node ran stays running", "seeds"),
    row("lost_not_republished", "temporal#459", SIM, "a lost message is never sent again", "seeds"),
    row("unknown_fire_is_done", "found here", SIM, "a fire whose commit was not answered counts as done", "seeds"),
    row("unknown_outcome_is_recorded", "found here", SIM, "an outcome whose commit was not answered counts as recorded", "seeds"),
    row("claim_not_given_back", "river#1258", SIM, "an attempt that a lost claim has begun runs for ever", "seeds"),
    row("refused_batch_not_undone", "found here", SIM, "a batch refused for one shard is lost for all of them", "seeds"),
    row("cursor_before_commit", "cadence#1415", SIM, "a cursor passes fires that are not written yet", "seeds"),
];

/// What cannot be planted yet: the bug, what it does, and when it can.
pub const LATER: &[(&str, &str, &str)] = &[
    ("S3", "two parents end together, both see no child that is ready, and the child is lost", "with dependent jobs"),
    ("S4", "a name in a subquery hides the outer one: any waiting edge blocks every graph", "with dependent jobs"),
    ("S5", "the state of an edge belongs to the job: the second pass starts satisfied", "with dependent jobs"),
    ("S9", "under load the checks of dependencies are left out, and children are lost", "with dependent jobs"),
    ("confluent-kafka-python#552", "a long job exceeds the poll interval, and a second consumer gets it", "with Kafka"),
    ("runmq#19", "a dead letter could not be published, and its message was acknowledged", "with Kafka"),
    ("sidekiq#5558", "a cache that is full or fails over loses what was queued", "with Redis"),
    ("etcd#15247", "an old leader revokes leases after it has stepped down", "with etcd"),
];
