-- caller: put_endpoint
-- guard: the tenant of one that is there
-- index: endpoints_pkey
INSERT INTO endpoints AS e (id, tenant, url, events, job_id, tag, paused, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE
SET url = excluded.url, events = excluded.events, job_id = excluded.job_id, tag = excluded.tag, paused = excluded.paused,
    created_at = excluded.created_at
WHERE e.tenant = excluded.tenant
