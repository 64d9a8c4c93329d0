-- caller: list_versions
-- guard: the tenant
-- index: sqlite_autoindex_job_versions_1 (job_id, version)
SELECT v.job_id, v.tenant, v.version, v.state, v.next_fire_at, v.fires_left, v.plan, v.firing,
       j.created_at, v.effective_at, v.paused_until, v.definition, v.ended_at
FROM job_versions AS v JOIN jobs AS j ON j.id = v.job_id
WHERE v.job_id = ?1 AND v.tenant = ?2 AND v.version < ?3
ORDER BY v.version DESC
LIMIT ?4
