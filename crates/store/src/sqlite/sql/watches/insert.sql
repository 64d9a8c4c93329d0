-- caller: fire
-- guard: the fire that went before
-- index: PRIMARY KEY
INSERT INTO watches (execution_id, kind, job_id, tenant, due_at) VALUES (?1, ?2, ?3, ?4, ?5)
