-- caller: prune
-- guard: no skip covers the instant any more, and no pause that is not over will
-- index: pruned_runs_pruned, PRIMARY KEY of skips, sqlite_autoindex_jobs_1 (id)
DELETE FROM pruned_runs
WHERE (job_id, fire_at) IN
      (SELECT r.job_id, r.fire_at FROM pruned_runs AS r
       WHERE r.pruned_at < ?1
         AND NOT EXISTS (SELECT 1 FROM skips AS s WHERE s.job_id = r.job_id AND s.to_at >= r.fire_at AND s.from_at <= r.fire_at)
         AND NOT EXISTS (SELECT 1 FROM paused_jobs AS j WHERE j.id = r.job_id AND (j.effective_at < r.fire_at OR j.version = 1))
       ORDER BY r.pruned_at LIMIT ?2)
