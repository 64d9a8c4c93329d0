-- caller: claim, complete, where rows that were read without a lock are written by several statements: in the order of their ids
-- guard: rows that somebody has written since `seen` are left out, and so miss in the count
-- index: PRIMARY KEY
SELECT count(*)
FROM (
    SELECT 1
    FROM executions AS e JOIN unnest($3::uuid[], $4::int4[]) AS u (id, seen) ON e.id = u.id
    WHERE e.id >= $1 AND e.id <= $2 AND (u.seen IS NULL OR e.xmin = u.seen)
    ORDER BY e.id
    FOR UPDATE OF e
) AS locked
