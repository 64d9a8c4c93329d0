-- caller: load_due, of some shards ($6)
-- guard: state $4
-- index: jobs_due
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing
FROM jobs AS j
WHERE (j.next_fire_at, j.id) > ($1, $2) AND j.next_fire_at < $3 AND j.state = $4 AND j.shard = ANY($6)
ORDER BY j.next_fire_at, j.id
LIMIT $5
