-- caller: every verb that ends attempts or executions, once per batch, minute, pool and target
-- guard: single writer
-- index: PRIMARY KEY
SELECT succeeded, failed, dead, cancelled, skipped, lateness, duration
FROM rollups
WHERE minute = ?1 AND tenant = ?2 AND pool = ?3 AND target = ?4
