-- caller: every member, about once per second and at every doorbell: writes its own row, and reads those of all
-- guard: none; a row that others have deleted is written anew
-- index: the primary key finds the row; the table has one row per node
WITH db AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 AS now_ms
), locks AS MATERIALIZED (
    SELECT coalesce(array_agg(objid::int8) FILTER (WHERE classid = $9::int4::oid), '{}') AS members,
           coalesce(bool_or(classid = $10::int4::oid), false) AS is_led
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND classid IN ($9::int4::oid, $10::int4::oid)
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), me AS (
    INSERT INTO members AS m (node, roles, version, address, started_at, seen_at, clock_offset_ms, lag_ms, shards, settings)
    SELECT $1, $2, $3, $4, coalesce($5, now_ms), now_ms, $6, $7, $8, $11 FROM db
    ON CONFLICT (node) DO UPDATE SET roles = excluded.roles, seen_at = excluded.seen_at,
        clock_offset_ms = excluded.clock_offset_ms, lag_ms = excluded.lag_ms, shards = excluded.shards
    RETURNING m.node, m.roles, m.started_at, m.seen_at
)
SELECT me.node, me.roles, me.started_at, me.seen_at, db.now_ms,
       locks.members AS locks, locks.is_led
FROM me, db, locks
UNION ALL
SELECT m.node, m.roles, m.started_at, m.seen_at, db.now_ms, NULL, NULL
FROM members m, db
WHERE m.node <> $1
