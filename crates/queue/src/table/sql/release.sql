-- caller: release, and what was fetched for a receiver that gave up
-- guard: none; the claim decides about duplicates
-- index: none; numbers are negative and the first one's is the lowest, so that the new rows come before all others
WITH put AS (
    INSERT INTO ready (seq, runner, pool, priority, tenant, execution_id, job_id, fire_at, job_version, attempt, action,
        target, queued_at)
    SELECT -nextval(pg_get_serial_sequence('ready', 'seq')), runner, pool, priority, tenant, execution_id, job_id,
        fire_at, job_version, attempt, action, target, queued_at
    FROM (
        SELECT *
        FROM unnest($1::int2[], $2::text[], $3::int2[], $4::int8[], $5::uuid[], $6::uuid[], $7::int8[], $8::int8[],
                $9::int8[], $10::int2[], $11::text[], $12::int8[])
            WITH ORDINALITY AS item (runner, pool, priority, tenant, execution_id, job_id, fire_at, job_version,
                attempt, action, target, queued_at, n)
        ORDER BY n DESC
    ) AS items
    RETURNING seq
)
SELECT min(seq) FROM put
