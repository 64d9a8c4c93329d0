-- caller: defer, extend: only when to look at it next, and why
-- guard: the rows are locked, and were judged since
-- index: PRIMARY KEY
UPDATE executions AS e
SET wake_at = u.wake_at, reason = u.reason
FROM unnest($3::uuid[], $4::int8[], $5::int2[]) AS u (id, wake_at, reason)
WHERE e.id = u.id AND e.id >= $1 AND e.id <= $2
