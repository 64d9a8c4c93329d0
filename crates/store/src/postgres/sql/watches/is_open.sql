-- caller: break_watches: of which watches what they wait for has not happened: the start (kind 0), or the end
-- guard: none: reads
-- index: PRIMARY KEY
SELECT u.id, u.kind
FROM unnest($3::uuid[], $4::int2[]) AS u (id, kind) JOIN open_executions AS e ON e.id = u.id
WHERE e.id >= $1 AND e.id <= $2 AND e.watched & (1 << u.kind) <> 0 AND (e.fence = 0 OR u.kind <> 0)
