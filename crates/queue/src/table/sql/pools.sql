-- caller: pools
-- guard: none
-- index: ready_turn: from one pool and priority to the next, and of each at most as many rows as are counted
WITH RECURSIVE parts AS (
    (SELECT runner, pool, priority FROM ready ORDER BY runner, pool, priority LIMIT 1)
    UNION ALL
    SELECT next.runner, next.pool, next.priority
    FROM parts AS part
    CROSS JOIN LATERAL (
        SELECT runner, pool, priority
        FROM ready
        WHERE (runner, pool, priority) > (part.runner, part.pool, part.priority)
        ORDER BY runner, pool, priority
        LIMIT 1
    ) AS next
)
SELECT part.runner, part.pool, sum(counted.waiting)::int8 AS waiting, min(counted.oldest) AS oldest
FROM parts AS part
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(item.queued_at) AS oldest
    FROM (
        SELECT queued_at
        FROM ready
        WHERE runner = part.runner AND pool = part.pool AND priority = part.priority
        LIMIT $1::int8
    ) AS item
) AS counted
GROUP BY part.runner, part.pool
