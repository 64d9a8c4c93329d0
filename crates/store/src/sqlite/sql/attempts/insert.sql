-- caller: complete, of an attempt that another one follows
-- guard: the completion that went before
-- index: PRIMARY KEY
INSERT INTO attempts (execution_id, fence, tenant, attempt, worker, started_at, finished_at, outcome, error_kind,
                      error_message)
SELECT id, ?2, tenant, ?3, worker, ?4, ?5, ?6, ?7, ?8 FROM executions WHERE id = ?1
