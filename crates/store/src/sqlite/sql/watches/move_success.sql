-- caller: complete, of a success; break_watches
-- guard: none
-- index: PRIMARY KEY
UPDATE success_watches SET due_at = ?2 WHERE job_id = ?1
