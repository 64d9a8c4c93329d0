-- caller: extend
-- guard: states ?2, attempt ?3, fence ?4; a lease never shrinks
-- index: PRIMARY KEY
UPDATE executions
SET wake_at = max(wake_at, ?5)
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3 AND fence = ?4
