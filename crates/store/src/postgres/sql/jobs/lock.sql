-- caller: put_jobs, to judge changes
-- guard: none: the caller judges
-- index: jobs_pkey, job_versions_open
SELECT j.id, j.tenant, j.version, j.state, NULL::int8, NULL::int8, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition,
       (SELECT min(v.next_fire_at) FROM job_versions AS v WHERE v.job_id = j.id AND v.next_fire_at IS NOT NULL)
FROM jobs AS j
WHERE j.id = ANY($1)
ORDER BY j.id
FOR NO KEY UPDATE OF j
