-- caller: fetch
-- guard: SKIP LOCKED; what others are taking is left to them
-- index: ready_turn
DELETE FROM ready
WHERE ctid = ANY (ARRAY(
    SELECT item.ctid
    FROM unnest($1::text[], $2::int2[], $3::int8[], $4::int8[], $5::int8[])
        AS lane (pool, priority, tenant, from_seq, quota)
    CROSS JOIN LATERAL (
        SELECT ready.ctid
        FROM ready
        WHERE runner = 0 AND pool = lane.pool AND priority = lane.priority
            AND tenant = lane.tenant AND seq >= lane.from_seq
        ORDER BY seq
        LIMIT lane.quota
        FOR UPDATE SKIP LOCKED
    ) AS item
))
RETURNING seq, pool, priority, tenant, execution_id, job_id, fire_at, job_version, attempt, action, target, queued_at
