-- caller: prune, of superseded versions that owe nothing
-- guard: none: reads
-- index: job_versions_ended
SELECT ended_at, job_id, version FROM job_versions
WHERE ended_at < $1 AND (ended_at, job_id, version) > ($2, $3, $4) AND next_fire_at IS NULL
ORDER BY ended_at, job_id, version
LIMIT $5
