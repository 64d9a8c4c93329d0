-- caller: claim: a run starts, or waits for its turn
-- guard: overlap::decide in the same transaction
-- index: PRIMARY KEY
INSERT OR REPLACE INTO overlaps (job_id, execution_id, started) VALUES (?1, ?2, ?3)
