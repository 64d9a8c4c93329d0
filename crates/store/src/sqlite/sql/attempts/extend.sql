-- caller: extend
-- guard: states ?2 and fence ?3; a lease never shrinks
-- index: PRIMARY KEY
UPDATE executions
SET wake_at = max(wake_at, ?4)
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND fence = ?3
RETURNING wake_at
