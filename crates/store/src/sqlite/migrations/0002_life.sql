-- The whole life of an execution: who it is done to, how runs overlap, how often it was handed out, what it told, who asked
-- it to stop; and what is counted of it.

-- Jobs get a new table rather than new columns, because the wheel reads most of them: they must lie before what may be large.
CREATE TABLE jobs_2 (
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
    target             TEXT NOT NULL,
    catch_up_mode      INTEGER NOT NULL,
    catch_up_n         INTEGER NOT NULL,
    catch_up_age_ms    INTEGER NOT NULL,
    catch_up_drip_ms   INTEGER NOT NULL,
    overlap            INTEGER NOT NULL,
    start_within_ms    INTEGER,
    finish_within_ms   INTEGER,
    success_every_ms   INTEGER,
    blackouts          TEXT NOT NULL,
    change_seq         INTEGER NOT NULL,
    name               TEXT NOT NULL,
    schedule           TEXT NOT NULL,
    starts_at          INTEGER,
    max_fires          INTEGER,
    max_attempts       INTEGER NOT NULL,
    backoff            INTEGER NOT NULL,
    initial_delay_ms   INTEGER NOT NULL,
    max_delay_ms       INTEGER NOT NULL,
    total_timeout_ms   INTEGER,
    timeout_ms         INTEGER NOT NULL,
    tags               TEXT NOT NULL,
    created_at         INTEGER NOT NULL,
    paused_until       INTEGER,
    action_config      TEXT NOT NULL,
    payload            TEXT NOT NULL
) STRICT;
-- The target of a worker's job (action 2) is its handler.
INSERT INTO jobs_2
SELECT id, tenant, version, state, updated_at, plan, next_fire_at, fires_left, ends_at, spread_ms, priority, pool, action_kind,
       CASE WHEN action_kind = 2 AND json_valid(action_config)
            THEN coalesce(json_extract(action_config, '$.handler'), '') ELSE '' END,
       catch_up_mode, catch_up_n, catch_up_age_ms, 0, 0, NULL, NULL, NULL, '', change_seq, name, schedule, starts_at,
       max_fires, max_attempts, backoff, initial_delay_ms, max_delay_ms, NULL, timeout_ms, tags, created_at, NULL,
       action_config, payload
FROM jobs ORDER BY rowid;
DROP TABLE jobs;
ALTER TABLE jobs_2 RENAME TO jobs;
CREATE UNIQUE INDEX jobs_name ON jobs (tenant, name) WHERE state <> 2;
CREATE INDEX jobs_due ON jobs (next_fire_at >> 18, id, next_fire_at) WHERE next_fire_at IS NOT NULL;
CREATE INDEX jobs_changed ON jobs (change_seq);
CREATE INDEX jobs_resumable ON jobs (paused_until) WHERE paused_until IS NOT NULL;

-- Executions may be many, and are not rewritten. `watched`: bit 0 for a watch of the start, 1 of the end, 2 of the job's success.
ALTER TABLE executions ADD COLUMN target TEXT NOT NULL DEFAULT '';
ALTER TABLE executions ADD COLUMN overlap INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN covers_from INTEGER;
ALTER TABLE executions ADD COLUMN queued_at INTEGER;
ALTER TABLE executions ADD COLUMN claimed_at INTEGER;
ALTER TABLE executions ADD COLUMN first_started_at INTEGER;
ALTER TABLE executions ADD COLUMN error_fp INTEGER;
ALTER TABLE executions ADD COLUMN deliveries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN attempts_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN cancel_requested_at INTEGER;
ALTER TABLE executions ADD COLUMN cancel_reason INTEGER;
ALTER TABLE executions ADD COLUMN note TEXT;
ALTER TABLE executions ADD COLUMN watched INTEGER NOT NULL DEFAULT 0;
UPDATE executions SET deliveries = attempt WHERE attempt > 0;
UPDATE executions SET target = coalesce((SELECT target FROM jobs WHERE id = executions.job_id), '') WHERE action = 2;
CREATE INDEX executions_dead ON executions (tenant, error_fp, id) WHERE state = 5;

-- How many executions are in which state; kept by every write that changes one.
CREATE TABLE counts (
    tenant INTEGER NOT NULL,
    pool   TEXT NOT NULL,
    state  INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (tenant, pool, state)
) STRICT, WITHOUT ROWID;
INSERT INTO counts (tenant, pool, state, n) SELECT tenant, pool, state, count(*) FROM executions GROUP BY tenant, pool, state;

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
