-- caller: complete, of an attempt that was not claimed and was judged
-- guard: states ?2 and attempt ?3
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, attempt = attempt + 1, fence = ?5, worker = ?6, started_at = ?7, finished_at = ?8, outcome = ?9,
    reason = ?10, claimed_at = ?11, queued_at = ?12, first_started_at = coalesce(first_started_at, started_at),
    deliveries = deliveries + 1, error_kind = NULL, error_message = NULL
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3
