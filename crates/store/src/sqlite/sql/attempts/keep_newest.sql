-- caller: replay: the attempt in the execution's row gets a row of its own
-- guard: the caller's; what is there stays
-- index: PRIMARY KEY
INSERT OR IGNORE INTO attempts (execution_id, fence, tenant, attempt, worker, started_at, finished_at, outcome, error_kind,
                                error_message)
SELECT id, fence, tenant, attempt, worker, started_at, finished_at, outcome, error_kind, error_message
FROM executions
WHERE id = ?1 AND fence > 0 AND started_at IS NOT NULL AND finished_at IS NOT NULL AND outcome IS NOT NULL
