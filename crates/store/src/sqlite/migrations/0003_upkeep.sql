-- Notifications, expectations, operations, and what pruning looks for.

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
-- State 0 waits; a test compares. By endpoint, so that the backlog of one that is paused is never read through.
CREATE INDEX outbox_waiting ON outbox (endpoint_id, next_at, seq) WHERE state = 0;
CREATE INDEX outbox_ended ON outbox (at) WHERE state > 0;

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

CREATE INDEX skips_recorded ON skips (recorded_at);
