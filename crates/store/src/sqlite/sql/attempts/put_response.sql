-- caller: complete
-- guard: the completion that went before
-- index: PRIMARY KEY
INSERT OR REPLACE INTO responses (execution_id, fence, tenant, status, truncated, body)
SELECT id, ?2, tenant, ?3, ?4, ?5 FROM executions WHERE id = ?1
