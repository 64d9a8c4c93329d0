-- caller: break_watches: of which watches what they wait for has not happened: the start (kind 0), or the end
-- guard: none: reads; every state from 4 on is final
-- index: PRIMARY KEY
SELECT u.id, u.kind
FROM unnest($3::uuid[], $4::int2[]) AS u (id, kind) JOIN executions AS e ON e.id = u.id
WHERE e.id >= $1 AND e.id <= $2 AND e.watched & (1 << u.kind) <> 0 AND e.state < 4 AND (e.fence = 0 OR u.kind <> 0)
