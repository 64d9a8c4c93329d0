-- Timestamps are milliseconds since the Unix epoch, UTC. Ids are 16 bytes. States, kinds and reasons are the codes of
-- `model`; durations of 64 bits are stored bit for bit.

CREATE TABLE tenants (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO tenants (id, name) VALUES (1, 'default');

-- Numbers that grow: change_seq, fence; and the count of live jobs.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('change_seq', 0), ('fence', 0), ('live_jobs', 0);

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE shards (
    shard INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL
) STRICT;

-- What the wheel reads comes first, what may be large comes last: a scan for the wheel never touches overflow pages.
-- A table with row ids, unlike the others: its rows are wide, and the inner pages of a table without them hold whole rows.
CREATE TABLE jobs (
    id                 BLOB NOT NULL UNIQUE,
    tenant             INTEGER NOT NULL,
    version            INTEGER NOT NULL,
    state              INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    plan               TEXT NOT NULL,
    next_fire_at       INTEGER,
    fires_left         INTEGER,
    ends_at            INTEGER,
    spread_ms          INTEGER NOT NULL,
    priority           INTEGER NOT NULL,
    pool               TEXT NOT NULL,
    action_kind        INTEGER NOT NULL,
    catch_up_mode      INTEGER NOT NULL,
    catch_up_n         INTEGER NOT NULL,
    catch_up_age_ms    INTEGER NOT NULL,
    change_seq         INTEGER NOT NULL,
    name               TEXT NOT NULL,
    schedule           TEXT NOT NULL,
    starts_at          INTEGER,
    max_fires          INTEGER,
    max_attempts       INTEGER NOT NULL,
    backoff            INTEGER NOT NULL,
    initial_delay_ms   INTEGER NOT NULL,
    max_delay_ms       INTEGER NOT NULL,
    timeout_ms         INTEGER NOT NULL,
    tags               TEXT NOT NULL,
    created_at         INTEGER NOT NULL,
    action_config      TEXT NOT NULL,
    payload            TEXT NOT NULL
) STRICT;
-- Names are unique among jobs that are not deleted (state 2).
CREATE UNIQUE INDEX jobs_name ON jobs (tenant, name) WHERE state <> 2;
-- Cursors by slots of 2^18 ms (four minutes), and within a slot by job. In the order of instants, every job of a batch
-- would touch a page of its own; so, jobs that were created together lie together, and the reader sorts a slot.
CREATE INDEX jobs_due ON jobs (next_fire_at >> 18, id, next_fire_at) WHERE next_fire_at IS NOT NULL;
CREATE INDEX jobs_changed ON jobs (change_seq);

-- One row per fire. `wake_at` is when somebody should look at it next: due, backoff over, or lease over.
CREATE TABLE executions (
    id            BLOB PRIMARY KEY,
    tenant        INTEGER NOT NULL,
    job_id        BLOB NOT NULL,
    job_version   INTEGER NOT NULL,
    fire_at       INTEGER NOT NULL,
    kind          INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    reason        INTEGER,
    attempt       INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    pool          TEXT NOT NULL,
    action        INTEGER NOT NULL,
    wake_at       INTEGER NOT NULL,
    fired_at      INTEGER NOT NULL,
    started_at    INTEGER,
    finished_at   INTEGER,
    worker        TEXT,
    outcome       INTEGER,
    error_kind    TEXT,
    error_message TEXT
) STRICT, WITHOUT ROWID;
-- The codes in the next three lines are the only place where SQL spells states (and the two queries that use them): a
-- test compares them with `lifecycle`. As comparisons, because SQLite builds a table for every IN list it evaluates.
CREATE INDEX executions_waiting ON executions (wake_at, id) WHERE state < 4 AND state <> 2;
CREATE INDEX executions_running ON executions (wake_at, id) WHERE state = 2;
CREATE INDEX executions_unhappy ON executions (id) WHERE state > 4;

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
