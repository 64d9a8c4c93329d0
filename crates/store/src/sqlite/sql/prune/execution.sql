-- caller: prune
-- guard: state ?2, which is final; and cursors of its job's versions that have passed it, or fire no more
-- index: PRIMARY KEY
DELETE FROM executions
WHERE id = ?1 AND state = ?2
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = executions.job_id AND jobs.next_fire_at <= executions.fire_at)
  AND NOT EXISTS (SELECT 1 FROM job_versions AS v WHERE v.job_id = executions.job_id AND v.next_fire_at <= executions.fire_at)
RETURNING tenant, pool, job_id, error_fp, fire_at, kind, deliveries
