-- caller: prune
-- guard: none
-- index: skips_recorded
DELETE FROM skips
WHERE (job_id, to_at, from_at, reason) IN
      (SELECT job_id, to_at, from_at, reason FROM skips WHERE recorded_at < ?1 ORDER BY recorded_at LIMIT ?2)
