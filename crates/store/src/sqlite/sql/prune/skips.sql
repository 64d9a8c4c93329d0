-- caller: prune
-- guard: only those whose range is over: a blackout that lasts is recorded again and again
-- index: skips_recorded
DELETE FROM skips
WHERE (job_id, to_at, from_at, reason) IN
      (SELECT job_id, to_at, from_at, reason FROM skips WHERE recorded_at < ?1 AND to_at < ?1 ORDER BY recorded_at LIMIT ?2)
