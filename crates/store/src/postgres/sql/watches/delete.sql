-- caller: claim, of first attempts; break_watches
-- guard: none
-- index: PRIMARY KEY
DELETE FROM watches AS w
USING unnest($1::uuid[], $2::int2[]) AS u (execution_id, kind)
WHERE w.execution_id = u.execution_id AND w.kind = u.kind
