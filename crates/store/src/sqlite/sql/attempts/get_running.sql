-- caller: load_running
-- guard: none: reads; judged by the caller
-- index: PRIMARY KEY
SELECT e.state, e.id, e.job_id, e.fire_at, e.pool, e.tenant, e.job_version, e.attempt, e.priority, e.action, e.target,
       e.wake_at, e.fence, e.started_at, e.worker, e.attempts_from, e.losses, e.cancel_requested_at, e.cancel_reason,
       coalesce(v.definition, j.definition),
       CASE WHEN e.attempts_from = 0 THEN e.first_started_at
            ELSE (SELECT min(a.started_at) FROM attempts AS a WHERE a.execution_id = e.id AND a.attempt > e.attempts_from) END
FROM executions AS e CROSS JOIN jobs AS j ON j.id = e.job_id
     LEFT JOIN job_versions AS v ON v.job_id = e.job_id AND v.version = e.job_version
WHERE e.id = ?1
