-- caller: load_due, of some shards ($6)
-- guard: state $4
-- index: cursors_due, jobs_pkey
SELECT j.id, j.tenant, j.version, j.state, c.next_fire_at, c.fires_left, j.plan, j.firing
FROM cursors AS c JOIN jobs AS j ON j.id = c.job_id
WHERE (c.next_fire_at, c.job_id) > ($1, $2) AND c.next_fire_at < $3 AND j.state = $4 AND c.shard = ANY($6)
ORDER BY c.next_fire_at, c.job_id
LIMIT $5
