-- caller: load_due: superseded versions that still owe something; of some shards, where $5 names them
-- guard: none: reads
-- index: job_versions_due
SELECT v.job_id, v.tenant, v.version, v.state, v.next_fire_at, v.fires_left, v.plan, v.firing, v.ended_at
FROM job_versions AS v JOIN jobs AS j ON j.id = v.job_id
WHERE (v.next_fire_at, v.job_id) > ($1, $2) AND v.next_fire_at < $3 AND ($5::int2[] IS NULL OR j.shard = ANY($5))
ORDER BY v.next_fire_at, v.job_id
LIMIT $4
