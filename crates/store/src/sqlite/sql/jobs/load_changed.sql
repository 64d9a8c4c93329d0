-- caller: load_changed
-- guard: none: reads
-- index: jobs_changed
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing, j.change_seq
FROM jobs AS j
WHERE j.change_seq > ?1
ORDER BY j.change_seq
LIMIT ?2
