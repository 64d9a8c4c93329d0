-- Timestamps are milliseconds since the Unix epoch, UTC. Ids are uuids whose first 48 bits are such an instant. States, kinds and
-- reasons are the codes of `model` (int2); all other numbers are int8, those of 64 bits stored bit for bit. Tables and
-- columns have the names that the embedded store gives them, so that an installation can be copied from there. Views and indexes
-- that hold only some states are not here but in `states.sql`.

CREATE TABLE tenants (
    id   int8 PRIMARY KEY,
    name text NOT NULL UNIQUE
);
INSERT INTO tenants (id, name) VALUES (1, 'default');

-- Numbers that grow in the order of commits: whoever takes one holds the row until it commits. `change_seq` orders the writes of
-- jobs, `limits` counts those of limits; `live_jobs` is the count of jobs that are not deleted.
CREATE TABLE counters (
    name  text PRIMARY KEY,
    value int8 NOT NULL
) WITH (fillfactor = 10);
INSERT INTO counters (name, value) VALUES ('change_seq', 0), ('last_change', 0), ('live_jobs', 0), ('limits', 0);

-- Fences of attempts. They need not be in the order of commits: those of one execution are, because its row is locked.
CREATE SEQUENCE fences AS int8 CACHE 1;

CREATE TABLE meta (
    key   text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE shards (
    shard int8 PRIMARY KEY,
    epoch int8 NOT NULL,
    owner text NOT NULL
) WITH (fillfactor = 20);

-- Nodes that are alive. The coordinator's.
CREATE TABLE members (
    node            text PRIMARY KEY,
    roles           text NOT NULL,
    version         text NOT NULL,
    address         text NOT NULL,
    started_at      int8 NOT NULL,
    seen_at         int8 NOT NULL,
    clock_offset_ms int8 NOT NULL,
    lag_ms          int8 NOT NULL,
    shards          int8 NOT NULL,
    settings        text NOT NULL DEFAULT ''
) WITH (fillfactor = 20);

-- The newest version of every job; where its fires stand is in `cursors`. `shard` is `shard_of(id)`. `plan` and `firing` are what the
-- wheel needs; `definition` is the whole document (`definition.rs`). `name` and `tags` stand in the document too, and here for the
-- queries.
CREATE TABLE jobs (
    id           uuid PRIMARY KEY,
    shard        int2 NOT NULL,
    tenant       int8 NOT NULL,
    version      int8 NOT NULL,
    state        int2 NOT NULL,
    plan         text NOT NULL,
    firing       text NOT NULL,
    change_seq   int8 NOT NULL,
    name         text COLLATE "C" NOT NULL,
    tags         text NOT NULL,
    created_at   int8 NOT NULL,
    effective_at int8 NOT NULL,
    paused_until int8,
    definition   text NOT NULL
);
CREATE INDEX jobs_changed ON jobs (change_seq);
CREATE INDEX jobs_resumable ON jobs (paused_until) WHERE paused_until IS NOT NULL;

-- The cursors of the newest versions. Apart from the jobs, because they move with every fire: a row of a job is ten times as long, and
-- each of its indexes would get an entry. A job that fires no more and counts no fires has none.
CREATE TABLE cursors (
    job_id       uuid PRIMARY KEY,
    version      int8 NOT NULL,
    next_fire_at int8,
    fires_left   int8,
    shard        int2 NOT NULL,
    CHECK (next_fire_at IS NOT NULL OR fires_left IS NOT NULL)
) WITH (fillfactor = 80);
CREATE INDEX cursors_due ON cursors (next_fire_at, job_id) INCLUDE (shard) WHERE next_fire_at IS NOT NULL;

-- Versions that another one has followed. Each governs the instants after `effective_at`, up to and including `ended_at`. One that has
-- a `next_fire_at` still owes fires.
CREATE TABLE job_versions (
    job_id       uuid NOT NULL,
    version      int8 NOT NULL,
    tenant       int8 NOT NULL,
    state        int2 NOT NULL,
    effective_at int8 NOT NULL,
    ended_at     int8 NOT NULL,
    paused_until int8,
    next_fire_at int8,
    fires_left   int8,
    plan         text NOT NULL,
    firing       text NOT NULL,
    definition   text NOT NULL,
    PRIMARY KEY (job_id, version)
);
CREATE INDEX job_versions_due ON job_versions (next_fire_at, job_id) WHERE next_fire_at IS NOT NULL;
CREATE INDEX job_versions_open ON job_versions (job_id, next_fire_at) WHERE next_fire_at IS NOT NULL;
CREATE INDEX job_versions_ended ON job_versions (ended_at, job_id, version);

-- One row per fire. `wake_at` is when somebody should look at it next: due, backoff over, or lease over. Partitioned by the day of
-- the id's instant, and what hangs on executions likewise, so that what is old is dropped and not deleted; what belongs to no
-- day that has a partition is in the default one. `watched`: bit 0 for a watch of the start, 1 of the end.
--
-- First the columns that never change, or rarely, then those that every attempt changes: of a row that is written again in its
-- page, only what lies between the first and the last change goes to the log. `partitions.rs` leaves half of a page for that.
CREATE TABLE executions (
    id                  uuid NOT NULL,
    job_id              uuid NOT NULL,
    tenant              int8 NOT NULL,
    job_version         int8 NOT NULL,
    fire_at             int8 NOT NULL,
    fired_at            int8 NOT NULL,
    attempts_from       int8 NOT NULL,
    losses              int8 NOT NULL,
    kind                int2 NOT NULL,
    priority            int2 NOT NULL,
    action              int2 NOT NULL,
    overlap             int2 NOT NULL,
    watched             int2 NOT NULL,
    covers_from         int8,
    pool                text NOT NULL,
    target              text NOT NULL,
    state               int2 NOT NULL,
    reason              int2,
    outcome             int2,
    cancel_reason       int2,
    wake_at             int8 NOT NULL,
    attempt             int8 NOT NULL,
    fence               int8 NOT NULL,
    deliveries          int8 NOT NULL,
    queued_at           int8,
    claimed_at          int8,
    first_started_at    int8,
    started_at          int8,
    finished_at         int8,
    error_fp            int8,
    cancel_requested_at int8,
    worker              text,
    error_kind          text,
    error_message       text,
    note                text,
    response_status     int8,
    response_body       bytea,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE executions_rest PARTITION OF executions DEFAULT;

-- The executions of each job. Apart from them, because it is written once, and they are written again with every attempt: an index
-- of theirs would get an entry each time.
CREATE TABLE history (
    job_id       uuid NOT NULL,
    execution_id uuid NOT NULL,
    PRIMARY KEY (job_id, execution_id)
) PARTITION BY RANGE (execution_id);
CREATE TABLE history_rest PARTITION OF history DEFAULT;

-- Attempts that did not end their execution. The newest one lives in the execution's own row, so that a success at the first
-- try costs no row here. A snooze keeps the number of its attempt, therefore the fence is the key.
CREATE TABLE attempts (
    execution_id  uuid NOT NULL,
    fence         int8 NOT NULL,
    tenant        int8 NOT NULL,
    attempt       int8 NOT NULL,
    worker        text,
    started_at    int8 NOT NULL,
    finished_at   int8 NOT NULL,
    outcome       int2 NOT NULL,
    error_kind    text,
    error_message text,
    PRIMARY KEY (execution_id, fence)
) PARTITION BY RANGE (execution_id);
CREATE TABLE attempts_rest PARTITION OF attempts DEFAULT;

-- What targets answered.
CREATE TABLE responses (
    execution_id uuid NOT NULL,
    fence        int8 NOT NULL,
    tenant       int8 NOT NULL,
    status       int8 NOT NULL,
    truncated    bool NOT NULL,
    body         bytea NOT NULL,
    PRIMARY KEY (execution_id, fence)
) PARTITION BY RANGE (execution_id);
CREATE TABLE responses_rest PARTITION OF responses DEFAULT;

-- What attempts tell about themselves: the newest of it, and their logs.
CREATE TABLE progress (
    execution_id uuid NOT NULL,
    fence        int8 NOT NULL,
    fraction     float8,
    message      text,
    checkpoint   text,
    at           int8 NOT NULL,
    PRIMARY KEY (execution_id)
) PARTITION BY RANGE (execution_id);
CREATE TABLE progress_rest PARTITION OF progress DEFAULT;

CREATE TABLE logs (
    execution_id uuid NOT NULL,
    seq          int8 NOT NULL,
    fence        int8 NOT NULL,
    at           int8 NOT NULL,
    level        text NOT NULL,
    message      text NOT NULL,
    PRIMARY KEY (execution_id, seq)
) PARTITION BY RANGE (execution_id);
CREATE TABLE logs_rest PARTITION OF logs DEFAULT;

-- Fires in [from_at, to_at] without an execution were skipped.
CREATE TABLE skips (
    job_id      uuid NOT NULL,
    to_at       int8 NOT NULL,
    from_at     int8 NOT NULL,
    reason      int2 NOT NULL,
    tenant      int8 NOT NULL,
    recorded_at int8 NOT NULL,
    PRIMARY KEY (job_id, to_at, from_at, reason)
);
CREATE INDEX skips_recorded ON skips (recorded_at);

-- Instants that ran and whose executions are no longer kept, as far as a skip covers them, or a pause that is not over will.
CREATE TABLE pruned_runs (
    job_id      uuid NOT NULL,
    fire_at     int8 NOT NULL,
    tenant      int8 NOT NULL,
    pruned_at   int8 NOT NULL,
    PRIMARY KEY (job_id, fire_at)
);
CREATE INDEX pruned_runs_pruned ON pruned_runs (pruned_at);

-- Remembered answers to callers' keys.
CREATE TABLE idempotency (
    tenant      int8 NOT NULL,
    scope       text NOT NULL,
    key         text NOT NULL,
    fingerprint bytea NOT NULL,
    status      int8 NOT NULL,
    body        text NOT NULL,
    expires_at  int8 NOT NULL,
    PRIMARY KEY (tenant, scope, key)
);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- How many executions are in which state: the sum of `n`. Every batch appends what it changes, so that nobody waits for
-- anybody; now and then the rows of a pool and state become one.
CREATE TABLE counts (
    tenant int8 NOT NULL,
    pool   text NOT NULL,
    state  int2 NOT NULL,
    n      int8 NOT NULL
);
CREATE INDEX counts_pool ON counts (tenant, pool, state);

-- What happened in a minute: the sum of its rows, which are appended and folded like counts. The histograms are counts of 32
-- bits, little-endian, by `stats::bucket`; zeros at the end are cut.
CREATE TABLE rollups (
    minute    int8 NOT NULL,
    tenant    int8 NOT NULL,
    pool      text NOT NULL,
    target    text NOT NULL,
    succeeded int8 NOT NULL,
    failed    int8 NOT NULL,
    dead      int8 NOT NULL,
    cancelled int8 NOT NULL,
    skipped   int8 NOT NULL,
    lateness  bytea NOT NULL,
    duration  bytea NOT NULL
);
CREATE INDEX rollups_minute ON rollups (minute, tenant, pool, target);

-- Dead executions by what they died of; a group that is empty has no row.
CREATE TABLE dead_groups (
    tenant      int8 NOT NULL,
    fingerprint int8 NOT NULL,
    target      text NOT NULL,
    kind        text NOT NULL,
    message     text NOT NULL,
    n           int8 NOT NULL,
    first_at    int8 NOT NULL,
    last_at     int8 NOT NULL,
    sample      uuid NOT NULL,
    PRIMARY KEY (tenant, fingerprint)
);
CREATE INDEX dead_groups_recent ON dead_groups (tenant, last_at);

-- Runs that may not overlap and are not over: the one whose turn it is (`started`), and those that wait for theirs, in the order
-- of their ids. Jobs whose runs may overlap have no rows here. (SQL has a word of this name: it is quoted everywhere.)
CREATE TABLE "overlaps" (
    job_id       uuid NOT NULL,
    execution_id uuid NOT NULL,
    started      bool NOT NULL,
    PRIMARY KEY (job_id, execution_id)
);

-- Small things that people write down: limits of pools (kind 0, by name) and targets (1), endpoints (2, by the digits of
-- their id), operations (3). `body` is JSON. What the store asks for while it writes has columns of its own: `slots` and
-- `paused` of limits, `paused` and `events` of endpoints (bit n stands for the event kind with code n), and which are `at_work`.
CREATE TABLE records (
    kind    int2 NOT NULL,
    tenant  int8 NOT NULL,
    id      text COLLATE "C" NOT NULL,
    version int8 NOT NULL,
    body    text NOT NULL,
    slots   int8,
    paused  bool NOT NULL,
    events  int8 NOT NULL,
    at_work bool NOT NULL,
    PRIMARY KEY (kind, tenant, id)
);
CREATE INDEX records_at_work ON records (kind, tenant, id) WHERE at_work;

-- Events on their way, one row per endpoint. Numbers are never used again: they are the events' identity towards the endpoint.
CREATE TABLE outbox (
    seq          int8 GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant       int8 NOT NULL,
    endpoint_id  uuid NOT NULL,
    kind         int2 NOT NULL,
    job_id       uuid NOT NULL,
    execution_id uuid,
    at           int8 NOT NULL,
    data         text NOT NULL,
    state        int2 NOT NULL,
    tries        int8 NOT NULL,
    next_at      int8 NOT NULL,
    status       int8,
    error        text
);
CREATE INDEX outbox_endpoint ON outbox (endpoint_id, seq);

-- Instants by which executions must have started (kind 0) or ended (kind 1). A row that is still there then is broken.
CREATE TABLE watches (
    execution_id uuid NOT NULL,
    kind         int2 NOT NULL,
    job_id       uuid NOT NULL,
    tenant       int8 NOT NULL,
    due_at       int8 NOT NULL,
    PRIMARY KEY (execution_id, kind)
);
CREATE INDEX watches_due ON watches (due_at);

-- Instants by which jobs must have succeeded again. Every success moves its job's row.
CREATE TABLE success_watches (
    job_id   uuid PRIMARY KEY,
    tenant   int8 NOT NULL,
    every_ms int8 NOT NULL,
    due_at   int8 NOT NULL
);
CREATE INDEX success_watches_due ON success_watches (due_at);

-- Jobs with a dead execution or a broken expectation since their last success.
CREATE TABLE failing (
    job_id uuid PRIMARY KEY,
    tenant int8 NOT NULL,
    since  int8 NOT NULL
);

-- What is ready to run, on its way to whoever runs it: the queue's. Not logged, because the store knows all of it: after a
-- crash of the server it is empty, and what waited is published again.
CREATE UNLOGGED TABLE ready (
    seq          int8 GENERATED BY DEFAULT AS IDENTITY,
    runner       int2 NOT NULL,
    pool         text NOT NULL,
    priority     int2 NOT NULL,
    tenant       int8 NOT NULL,
    execution_id uuid NOT NULL,
    job_id       uuid NOT NULL,
    fire_at      int8 NOT NULL,
    job_version  int8 NOT NULL,
    attempt      int8 NOT NULL,
    action       int2 NOT NULL,
    target       text NOT NULL,
    queued_at    int8
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ready_turn ON ready (runner, pool, priority, tenant, seq);
-- Runner 1 is external workers, who name their handlers: these take turns.
CREATE INDEX ready_handler ON ready (pool, priority, target, tenant, seq) WHERE runner = 1;
