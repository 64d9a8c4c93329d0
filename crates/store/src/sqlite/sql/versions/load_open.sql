-- caller: load_changed: what the superseded versions of a job still owe
-- guard: none: reads
-- index: job_versions_open
SELECT v.job_id, v.tenant, v.version, v.state, v.next_fire_at, v.fires_left, v.plan, v.firing, v.ended_at
FROM job_versions AS v
WHERE v.job_id = ?1 AND v.next_fire_at IS NOT NULL
