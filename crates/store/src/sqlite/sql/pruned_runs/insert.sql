-- caller: prune, of an execution that ran
-- guard: a skip covers its instant, or a pause that is not over will
-- index: none: one row; PRIMARY KEY of skips, sqlite_autoindex_jobs_1 (id)
INSERT OR IGNORE INTO pruned_runs (job_id, fire_at, tenant, pruned_at)
SELECT ?1, ?2, ?3, ?4
WHERE EXISTS (SELECT 1 FROM skips AS s WHERE s.job_id = ?1 AND s.to_at >= ?2 AND s.from_at <= ?2)
   OR EXISTS (SELECT 1 FROM paused_jobs AS j WHERE j.id = ?1 AND (j.effective_at < ?2 OR j.version = 1))
