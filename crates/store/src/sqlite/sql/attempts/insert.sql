-- caller: complete, of an attempt that another one follows; replay, of the newest: what is there stays
-- guard: the change of its execution
-- index: PRIMARY KEY
INSERT OR IGNORE INTO attempts (execution_id, fence, tenant, attempt, worker, started_at, finished_at, outcome, error_kind,
                                error_message)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
