-- caller: load_changed
-- guard: none: reads; numbers are in the order of commits, so that none comes later
-- index: jobs_changed, cursors_pkey
SELECT j.id, j.tenant, j.version, j.state, c.next_fire_at, c.fires_left, j.plan, j.firing, j.change_seq
FROM jobs AS j LEFT JOIN cursors AS c ON c.job_id = j.id
WHERE j.change_seq > $1
ORDER BY j.change_seq
LIMIT $2
