-- caller: the migration that brings groups: executions that were dead before
-- guard: none: reads
-- index: executions_dead
SELECT id, tenant, target, outcome, error_kind, error_message, coalesce(finished_at, fire_at)
FROM executions
WHERE state = 5 AND error_fp IS NULL
