-- Timestamps are milliseconds since the Unix epoch, UTC. Ids are 16 bytes. States, kinds and reasons are the codes of
-- `model`; durations of 64 bits are stored bit for bit. Views and indexes that hold only some states are not here but in
-- `states.sql`.

CREATE TABLE tenants (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO tenants (id, name) VALUES (1, 'default');

-- Numbers that grow: change_seq, fence; the count of live jobs; and limits, which grows whenever limits of pools or targets are
-- written, so that a node sees at a glance whether it knows them.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('change_seq', 0), ('last_change', 0), ('fence', 0), ('live_jobs', 0), ('limits', 0);

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE shards (
    shard INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL
) STRICT;

-- The newest version of every job. `plan` and `firing` are what the wheel needs; `definition` is the whole document
-- (`definition.rs`), and may be large, so that it comes last: a scan for the wheel never touches overflow pages. `name` and `tags`
-- stand in the document too, and here for the queries. A table with row ids, unlike the others: its rows are wide, and the inner
-- pages of a table without them hold whole rows.
CREATE TABLE jobs (
    id           BLOB NOT NULL UNIQUE,
    tenant       INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    next_fire_at INTEGER,
    fires_left   INTEGER,
    plan         TEXT NOT NULL,
    firing       TEXT NOT NULL,
    change_seq   INTEGER NOT NULL,
    name         TEXT NOT NULL,
    tags         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    effective_at INTEGER NOT NULL,
    paused_until INTEGER,
    definition   TEXT NOT NULL
) STRICT;
-- Cursors by slots of 2^18 ms (four minutes), and within a slot by job. In the order of instants, every job of a batch
-- would touch a page of its own; so, jobs that were created together lie together, and the reader sorts a slot.
CREATE INDEX jobs_due ON jobs (next_fire_at >> 18, id, next_fire_at) WHERE next_fire_at IS NOT NULL;
CREATE INDEX jobs_changed ON jobs (change_seq);
CREATE INDEX jobs_resumable ON jobs (paused_until) WHERE paused_until IS NOT NULL;

-- Versions that another one has followed. Each governs the instants after `effective_at`, up to and including `ended_at`. One that has
-- a `next_fire_at` still owes fires.
CREATE TABLE job_versions (
    job_id       BLOB NOT NULL,
    version      INTEGER NOT NULL,
    tenant       INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    effective_at INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,
    paused_until INTEGER,
    next_fire_at INTEGER,
    fires_left   INTEGER,
    plan         TEXT NOT NULL,
    firing       TEXT NOT NULL,
    definition   TEXT NOT NULL,
    UNIQUE (job_id, version)
) STRICT;
CREATE INDEX job_versions_due ON job_versions (next_fire_at, job_id) WHERE next_fire_at IS NOT NULL;
CREATE INDEX job_versions_open ON job_versions (job_id, next_fire_at) WHERE next_fire_at IS NOT NULL;
CREATE INDEX job_versions_ended ON job_versions (ended_at, job_id, version);

-- One row per fire. `wake_at` is when somebody should look at it next: due, backoff over, or lease over. `watched`: bit 0 for a watch of
-- the start, 1 of the end, 2 of the job's success.
CREATE TABLE executions (
    id                  BLOB PRIMARY KEY,
    tenant              INTEGER NOT NULL,
    job_id              BLOB NOT NULL,
    job_version         INTEGER NOT NULL,
    fire_at             INTEGER NOT NULL,
    kind                INTEGER NOT NULL,
    state               INTEGER NOT NULL,
    reason              INTEGER,
    attempt             INTEGER NOT NULL,
    fence               INTEGER NOT NULL,
    priority            INTEGER NOT NULL,
    pool                TEXT NOT NULL,
    action              INTEGER NOT NULL,
    wake_at             INTEGER NOT NULL,
    fired_at            INTEGER NOT NULL,
    started_at          INTEGER,
    finished_at         INTEGER,
    worker              TEXT,
    outcome             INTEGER,
    error_kind          TEXT,
    error_message       TEXT,
    target              TEXT NOT NULL DEFAULT '',
    overlap             INTEGER NOT NULL DEFAULT 0,
    covers_from         INTEGER,
    queued_at           INTEGER,
    claimed_at          INTEGER,
    first_started_at    INTEGER,
    error_fp            INTEGER,
    deliveries          INTEGER NOT NULL DEFAULT 0,
    losses              INTEGER NOT NULL DEFAULT 0,
    attempts_from       INTEGER NOT NULL DEFAULT 0,
    cancel_requested_at INTEGER,
    cancel_reason       INTEGER,
    note                TEXT,
    watched             INTEGER NOT NULL DEFAULT 0,
    response_status     INTEGER,
    response_body       BLOB
) STRICT, WITHOUT ROWID;

-- The executions of each job. Fires of many jobs at once would touch a page of this table each, and cost more than all
-- else together; so a fire only appends to the tail, and when there is time the tail is sorted and folded in. What is in
-- both is the same thing.
CREATE TABLE history (
    job_id       BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    PRIMARY KEY (job_id, execution_id)
) STRICT, WITHOUT ROWID;
-- A row per batch of fires; `entries` are pairs of 16 bytes each: job id, execution id.
CREATE TABLE history_tail (
    seq     INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
) STRICT;

-- Attempts that did not end their execution. The newest one lives in the execution's own row, so that a success at the
-- first try costs no row here. A snooze keeps the number of its attempt, therefore the fence is the key.
CREATE TABLE attempts (
    execution_id  BLOB NOT NULL,
    fence         INTEGER NOT NULL,
    tenant        INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    worker        TEXT,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER NOT NULL,
    outcome       INTEGER NOT NULL,
    error_kind    TEXT,
    error_message TEXT,
    PRIMARY KEY (execution_id, fence)
) STRICT, WITHOUT ROWID;

-- What targets answered.
CREATE TABLE responses (
    execution_id BLOB NOT NULL,
    fence        INTEGER NOT NULL,
    tenant       INTEGER NOT NULL,
    status       INTEGER NOT NULL,
    truncated    INTEGER NOT NULL,
    body         BLOB NOT NULL,
    PRIMARY KEY (execution_id, fence)
) STRICT, WITHOUT ROWID;

-- Fires in [from_at, to_at] without an execution were skipped.
CREATE TABLE skips (
    job_id      BLOB NOT NULL,
    to_at       INTEGER NOT NULL,
    from_at     INTEGER NOT NULL,
    reason      INTEGER NOT NULL,
    tenant      INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, to_at, from_at, reason)
) STRICT, WITHOUT ROWID;
CREATE INDEX skips_recorded ON skips (recorded_at);

-- Instants that ran and whose executions are no longer kept, as far as a skip covers them, or a pause that is not over will.
CREATE TABLE pruned_runs (
    job_id      BLOB NOT NULL,
    fire_at     INTEGER NOT NULL,
    tenant      INTEGER NOT NULL,
    pruned_at   INTEGER NOT NULL,
    PRIMARY KEY (job_id, fire_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX pruned_runs_pruned ON pruned_runs (pruned_at);

-- Remembered answers to callers' keys.
CREATE TABLE idempotency (
    tenant      INTEGER NOT NULL,
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    status      INTEGER NOT NULL,
    body        TEXT NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- How many executions are in which state; kept by every write that changes one.
CREATE TABLE counts (
    tenant INTEGER NOT NULL,
    pool   TEXT NOT NULL,
    state  INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (tenant, pool, state)
) STRICT, WITHOUT ROWID;

-- What happened in a minute. The histograms are counts of 32 bits, little-endian, by `stats::bucket`; zeros at the end are cut.
CREATE TABLE rollups (
    minute    INTEGER NOT NULL,
    tenant    INTEGER NOT NULL,
    pool      TEXT NOT NULL,
    target    TEXT NOT NULL,
    succeeded INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    dead      INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    skipped   INTEGER NOT NULL,
    lateness  BLOB NOT NULL,
    duration  BLOB NOT NULL,
    PRIMARY KEY (minute, tenant, pool, target)
) STRICT, WITHOUT ROWID;

-- Dead executions by what they died of; a group that is empty has no row.
CREATE TABLE dead_groups (
    tenant      INTEGER NOT NULL,
    fingerprint INTEGER NOT NULL,
    target      TEXT NOT NULL,
    kind        TEXT NOT NULL,
    message     TEXT NOT NULL,
    n           INTEGER NOT NULL,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    sample      BLOB NOT NULL,
    PRIMARY KEY (tenant, fingerprint)
) STRICT, WITHOUT ROWID;
CREATE INDEX dead_groups_recent ON dead_groups (tenant, last_at);

-- Runs that may not overlap and are not over: the one whose turn it is (`started`), and those that wait for theirs, in the order
-- of their ids. Jobs whose runs may overlap have no rows here.
CREATE TABLE overlaps (
    job_id       BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    started      INTEGER NOT NULL,
    PRIMARY KEY (job_id, execution_id)
) STRICT, WITHOUT ROWID;

-- What attempts tell about themselves: the newest of it, and their logs.
CREATE TABLE progress (
    execution_id BLOB PRIMARY KEY,
    fence        INTEGER NOT NULL,
    fraction     REAL,
    message      TEXT,
    checkpoint   TEXT,
    at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE logs (
    execution_id BLOB NOT NULL,
    seq          INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    level        TEXT NOT NULL,
    message      TEXT NOT NULL,
    PRIMARY KEY (execution_id, seq)
) STRICT, WITHOUT ROWID;



-- Events on their way, one row per endpoint. Numbers are never used again: they are the events' identity towards the endpoint.
CREATE TABLE outbox (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant       INTEGER NOT NULL,
    endpoint_id  BLOB NOT NULL,
    kind         INTEGER NOT NULL,
    job_id       BLOB NOT NULL,
    execution_id BLOB,
    at           INTEGER NOT NULL,
    data         TEXT NOT NULL,
    state        INTEGER NOT NULL,
    tries        INTEGER NOT NULL,
    next_at      INTEGER NOT NULL,
    status       INTEGER,
    error        TEXT
) STRICT;
CREATE INDEX outbox_endpoint ON outbox (endpoint_id, seq);

-- Instants by which executions must have started (kind 0) or ended (kind 1). A row that is still there then is broken.
CREATE TABLE watches (
    execution_id BLOB NOT NULL,
    kind         INTEGER NOT NULL,
    job_id       BLOB NOT NULL,
    tenant       INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    PRIMARY KEY (execution_id, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX watches_due ON watches (due_at);

-- Instants by which jobs must have succeeded again. Every success moves its job's row.
CREATE TABLE success_watches (
    job_id   BLOB PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    every_ms INTEGER NOT NULL,
    due_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX success_watches_due ON success_watches (due_at);

-- Jobs with a dead execution or a broken expectation since their last success.
CREATE TABLE failing (
    job_id BLOB PRIMARY KEY,
    tenant INTEGER NOT NULL,
    since  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Small things that people write down: limits of pools (kind 0, by name) and targets (1), endpoints (2, by the digits of
-- their id), operations (3). `body` is JSON. What the store asks for while it writes has columns of its own: `slots` and
-- `paused` of limits, `paused` and `events` of endpoints (bit n stands for the event kind with code n), and which are `at_work`.
CREATE TABLE records (
    kind    INTEGER NOT NULL,
    tenant  INTEGER NOT NULL,
    id      TEXT NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL,
    slots   INTEGER,
    paused  INTEGER NOT NULL,
    events  INTEGER NOT NULL,
    at_work INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX records_at_work ON records (kind, tenant, id) WHERE at_work = 1;
