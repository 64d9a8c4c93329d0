//! Every bound in one file. Beyond them, input is refused with an error that names the limit.

/// Largest payload of a job, in bytes of JSON text.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// Largest request body: a batch of jobs with small payloads, or one job with the largest payload.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Largest body of a request that carries one job.
pub const JOB_REQUEST_BYTES_MAX: usize = 512 * 1024;
/// Largest total size of a request's header lines.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Deepest nesting of JSON input.
pub const JSON_DEPTH_MAX: usize = 128;
/// Longest name of a job or pool, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
/// Longest description of a job, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 2 * 1024;
/// Most tags on a job.
pub const TAGS_MAX: usize = 64;
/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 128;
/// Most attempts of an execution.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Longest delay between attempts: a week.
pub const BACKOFF_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// Longest time limit of an attempt: a day.
pub const TIMEOUT_MS_MAX: u64 = 24 * 3_600_000;
/// Time limit of an attempt where the job sets none.
pub const TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// Widest spread of a job's fires: an hour.
pub const SPREAD_MS_MAX: u64 = 3_600_000;
/// Jobs in one batch request.
pub const BATCH_JOBS_MAX: usize = 1_000;
/// Items on one page of a list.
pub const PAGE_ITEMS_MAX: usize = 500;
/// Items on one page where the caller sets none.
pub const PAGE_ITEMS_DEFAULT: usize = 50;
/// Fires in one preview.
pub const PREVIEW_FIRES_MAX: usize = 1_000;
/// Longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// How long an idempotency key is remembered: a day.
pub const IDEMPOTENCY_MS: u64 = 24 * 3_600_000;
/// What is kept of an action's response, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Longest error message kept with an attempt, in bytes.
pub const ERROR_BYTES_MAX: usize = 4 * 1024;
/// A fire later than this falls under the job's catch-up policy; up to this it is merely late.
pub const MISFIRE_GRACE_MS: u64 = 10_000;
/// Missed fires turned into executions by one catch-up decision; more follow in the next one.
pub const CATCH_UP_FIRES_MAX: usize = 1_000;
/// Oldest missed fire that is caught up, where the job sets no `max_age`: a day.
pub const CATCH_UP_AGE_MS_DEFAULT: u64 = 24 * 3_600_000;
/// How far ahead of their instant executions are made durable at most.
pub const LEAD_MS_MAX: u64 = 120_000;
/// How far ahead of their instant executions are made durable always.
pub const LEAD_MS_MIN: u64 = 250;
/// How far ahead the wheel is loaded.
pub const HORIZON_MS: u64 = 3_600_000;
/// Items in one write of fires; a store may want fewer claims or outcomes in one (`Path::write_rows_max`).
pub const WRITE_ITEMS_MAX: usize = 4_096;
/// Rows on one page of the loader.
pub const LOAD_ROWS_MAX: usize = 16_384;
/// Executions waiting in a memory queue, beyond which firing pauses.
pub const QUEUE_ITEMS_MAX: usize = 10_000_000;
/// Actions that one node runs at the same time.
pub const SLOTS_MAX: usize = 10_000;
/// Shards; fixed for life.
pub const SHARDS: u16 = 256;
/// Attempts lost with their runner after which an execution is poison, whatever its retry policy says.
pub const LOSSES_MAX: u32 = 5;
/// How long a worker keeps an execution without a heartbeat.
pub const LEASE_MS: u64 = 30_000;
/// How often a worker should send a heartbeat.
pub const HEARTBEAT_MS: u64 = 10_000;
/// What a worker gets beyond an attempt's time limit to stop it and to say so.
pub const TIMEOUT_GRACE_MS: u64 = 10_000;
/// How long a running attempt gets to stop after it was asked to.
pub const CANCEL_GRACE_MS: u64 = 20_000;
/// Executions in one claim, heartbeat or completion of a worker.
pub const PULL_ITEMS_MAX: usize = 1_000;
/// Payloads in one claim of a worker, in bytes together; what is beyond is given back. One execution is always answered.
pub const PULL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest wait of a worker's claim.
pub const PULL_WAIT_MS_MAX: u64 = 60_000;
/// Longest name of a worker, in bytes.
pub const WORKER_BYTES_MAX: usize = 200;
/// Workers that a node remembers.
pub const WORKERS_MAX: usize = 10_000;
/// Handlers or pools that one worker may name.
pub const WORKER_NAMES_MAX: usize = 256;
/// Largest checkpoint, in bytes of JSON text.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;
/// Largest result of a worker, in bytes of JSON text.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Longest line of a log, in bytes; longer ones are cut.
pub const LOG_LINE_BYTES_MAX: usize = 4 * 1024;
/// Lines kept per execution; later ones are dropped.
pub const LOG_LINES_MAX: usize = 10_000;
/// Lines in one heartbeat.
pub const LOG_LINES_PER_BEAT_MAX: usize = 1_000;
/// Most blackouts of a job.
pub const BLACKOUTS_MAX: usize = 100;
/// Shortest drip between missed fires.
pub const DRIP_MS_MIN: u64 = 10;
/// Executions that wait behind one run of their job under `buffer_all`; further ones are skipped.
pub const BUFFERED_MAX: usize = 1_000;
/// Executions kept in each final state, where nobody says otherwise.
pub const KEPT_MAX: u64 = 50_000_000;
/// Rows that one page of a filtered list looks at; the next page goes on where it stopped.
pub const SCAN_ROWS_MAX: usize = 50_000;
/// Endpoints of a tenant.
pub const ENDPOINTS_MAX: usize = 64;
/// Tries of a notification.
pub const DELIVERY_TRIES_MAX: u32 = 18;
/// Pools and targets of a tenant that have limits.
pub const CAPACITIES_MAX: usize = 10_000;
/// Operations at work at the same time.
pub const OPERATIONS_MAX: usize = 16;
/// Fires of one backfill.
pub const BACKFILL_FIRES_MAX: usize = 100_000;
/// Executions of one operation that may be open at the same time.
pub const OPERATION_OPEN_MAX: usize = 1_000;
