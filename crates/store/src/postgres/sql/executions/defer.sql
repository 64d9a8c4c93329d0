-- caller: defer, extend: only when to look at it next, and why
-- guard: the rows are locked, and were judged since; or they are still as the transaction `seen` wrote them
-- index: PRIMARY KEY
UPDATE executions AS e
SET wake_at = u.wake_at, reason = u.reason
FROM unnest($3::uuid[], $4::int8[], $5::int2[], $6::int4[]) AS u (id, wake_at, reason, seen)
WHERE e.id = u.id AND e.id >= $1 AND e.id <= $2 AND (u.seen IS NULL OR e.xmin = u.seen)
