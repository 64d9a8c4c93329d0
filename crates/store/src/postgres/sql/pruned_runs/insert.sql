-- caller: prune, of executions that ran
-- guard: a skip covers their instant, or a pause that is not over will
-- index: skips_pkey, jobs_pkey
INSERT INTO pruned_runs (job_id, fire_at, tenant, pruned_at)
SELECT DISTINCT u.job_id, u.fire_at, u.tenant, $4::int8
FROM unnest($1::uuid[], $2::int8[], $3::int8[]) AS u (job_id, fire_at, tenant)
WHERE EXISTS (SELECT 1 FROM skips AS s WHERE s.job_id = u.job_id AND s.to_at >= u.fire_at AND s.from_at <= u.fire_at)
   OR EXISTS (SELECT 1 FROM paused_jobs AS j WHERE j.id = u.job_id AND (j.effective_at < u.fire_at OR j.version = 1))
ORDER BY u.job_id, u.fire_at
ON CONFLICT DO NOTHING
