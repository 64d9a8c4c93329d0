-- Notifications, expectations, operations, and what pruning looks for.

-- Who wants to hear of what; bit n of `events` stands for the event kind with code n.
CREATE TABLE endpoints (
    id         BLOB PRIMARY KEY,
    tenant     INTEGER NOT NULL,
    url        TEXT NOT NULL,
    events     INTEGER NOT NULL,
    job_id     BLOB,
    tag        TEXT,
    paused     INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX endpoints_tenant ON endpoints (tenant, id);

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

-- Work on many executions; `spec` and `progress` are the engine's.
CREATE TABLE operations (
    id         BLOB PRIMARY KEY,
    tenant     INTEGER NOT NULL,
    kind       INTEGER NOT NULL,
    state      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    progress   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX operations_tenant ON operations (tenant, id);
-- State 0 is at work; a test compares.
CREATE INDEX operations_running ON operations (id) WHERE state = 0;

CREATE INDEX skips_recorded ON skips (recorded_at);
