-- caller: every verb that may start executions: of the versions from $3 on, the first that was not over at instant $4
-- guard: none: reads
-- index: job_versions_pkey
SELECT w.execution_id, v.version, v.state, v.effective_at
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[]) AS w (execution_id, job_id, version, fire_at)
     CROSS JOIN LATERAL (SELECT version, state, effective_at
                         FROM job_versions
                         WHERE job_id = w.job_id AND version >= w.version AND ended_at >= w.fire_at
                         ORDER BY version
                         LIMIT 1) AS v
