-- caller: complete
-- guard: the change of its execution
-- index: PRIMARY KEY
INSERT OR REPLACE INTO responses (execution_id, fence, tenant, status, truncated, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
