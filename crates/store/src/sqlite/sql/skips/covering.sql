-- caller: prune, of an execution that ran: the skips whose range its instant lies in
-- guard: none: reads
-- index: PRIMARY KEY
SELECT job_id, to_at, from_at, reason, tenant, recorded_at FROM skips WHERE job_id = ?1 AND to_at >= ?2 AND from_at <= ?2
