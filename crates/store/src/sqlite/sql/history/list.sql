-- caller: list_executions of one job
-- guard: none: the execution's row is guarded by the tenant
-- index: PRIMARY KEY
SELECT execution_id FROM history WHERE job_id = ?1 AND execution_id >= ?2 AND execution_id < ?3 ORDER BY execution_id DESC
