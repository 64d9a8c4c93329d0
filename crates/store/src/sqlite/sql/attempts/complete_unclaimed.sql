-- caller: complete, of an attempt that was not claimed
-- guard: states ?2 and attempt ?3
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, attempt = attempt + 1, fence = ?5, worker = ?6, started_at = ?7, finished_at = ?8, outcome = ?9,
    reason = ?10, error_kind = ?11, error_message = ?12
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3
