-- caller: look
-- guard: none; what is found may be gone when somebody wants to take it
-- index: ready_turn for nodes, ready_handler for workers: from one lane to the next, whatever each of them holds
WITH RECURSIVE nodes AS (
    (
        SELECT pool, priority, tenant, seq
        FROM ready
        WHERE runner = 0 AND (pool, priority, tenant) > ($1::text, $2::int2, $3::int8)
        ORDER BY pool, priority, tenant, seq
        LIMIT 1
    )
    UNION ALL
    SELECT next.pool, next.priority, next.tenant, next.seq
    FROM nodes AS lane
    CROSS JOIN LATERAL (
        SELECT pool, priority, tenant, seq
        FROM ready
        WHERE runner = 0 AND (pool, priority, tenant) > (lane.pool, lane.priority, lane.tenant)
        ORDER BY pool, priority, tenant, seq
        LIMIT 1
    ) AS next
), workers AS (
    (
        SELECT pool, priority, target, tenant, seq
        FROM ready
        WHERE runner = 1 AND (pool, priority, target, tenant) > ($4::text, $5::int2, $6::text, $7::int8)
        ORDER BY pool, priority, target, tenant, seq
        LIMIT 1
    )
    UNION ALL
    SELECT next.pool, next.priority, next.target, next.tenant, next.seq
    FROM workers AS lane
    CROSS JOIN LATERAL (
        SELECT pool, priority, target, tenant, seq
        FROM ready
        WHERE runner = 1 AND (pool, priority, target, tenant) > (lane.pool, lane.priority, lane.target, lane.tenant)
        ORDER BY pool, priority, target, tenant, seq
        LIMIT 1
    ) AS next
)
(SELECT 0::int2 AS runner, pool, priority, ''::text AS target, tenant, seq FROM nodes LIMIT $8::int8)
UNION ALL
(SELECT 1::int2 AS runner, pool, priority, target, tenant, seq FROM workers LIMIT $8::int8)
