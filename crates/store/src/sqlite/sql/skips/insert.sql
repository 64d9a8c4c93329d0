-- caller: put_jobs, fire
-- guard: the caller's; a repeated skip is the same row
-- index: PRIMARY KEY
INSERT OR IGNORE INTO skips (job_id, to_at, from_at, reason, tenant, recorded_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
