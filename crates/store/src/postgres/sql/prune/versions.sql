-- caller: prune
-- guard: nothing is owed
-- index: job_versions_pkey
DELETE FROM job_versions AS v USING unnest($1::uuid[], $2::int8[]) AS u (job_id, version)
WHERE v.job_id = u.job_id AND v.version = u.version AND v.next_fire_at IS NULL
