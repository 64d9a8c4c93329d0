-- caller: complete, of a death; break_watches
-- guard: one that is there stays
-- index: PRIMARY KEY
INSERT OR IGNORE INTO failing (job_id, tenant, since) VALUES (?1, ?2, ?3)
