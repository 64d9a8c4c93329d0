-- caller: load_due: superseded versions that still owe something
-- guard: none: reads
-- index: job_versions_due
SELECT v.job_id, v.tenant, v.version, v.state, v.next_fire_at, v.fires_left, v.plan, v.firing, v.ended_at
FROM job_versions AS v
WHERE v.next_fire_at IS NOT NULL AND (v.next_fire_at, v.job_id) > (?1, ?2) AND v.next_fire_at < ?3
ORDER BY v.next_fire_at, v.job_id
