-- caller: publish
-- guard: none; the claim decides about duplicates
-- index: none; the new rows go into ready_turn and ready_handler
WITH put AS (
    INSERT INTO ready (runner, pool, priority, tenant, execution_id, job_id, fire_at, job_version, attempt, action,
        target, queued_at)
    SELECT runner, pool, priority, tenant, execution_id, job_id, fire_at, job_version, attempt, action,
        target, queued_at
    FROM unnest($1::int2[], $2::text[], $3::int2[], $4::int8[], $5::uuid[], $6::uuid[], $7::int8[], $8::int8[],
            $9::int8[], $10::int2[], $11::text[], $12::int8[])
        WITH ORDINALITY AS item (runner, pool, priority, tenant, execution_id, job_id, fire_at, job_version, attempt,
            action, target, queued_at, n)
    ORDER BY n
    RETURNING seq
)
SELECT min(seq) FROM put
