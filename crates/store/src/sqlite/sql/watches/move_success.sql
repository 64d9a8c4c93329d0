-- caller: complete, of a success
-- guard: only forward
-- index: PRIMARY KEY
UPDATE success_watches SET due_at = ?2 + every_ms WHERE job_id = ?1 AND due_at < ?2 + every_ms
