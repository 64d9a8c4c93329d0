-- caller: the fold
-- guard: none: what is there stays
-- index: PRIMARY KEY
INSERT OR IGNORE INTO history (job_id, execution_id) VALUES (?1, ?2)
