-- caller: list_endpoints
-- guard: the tenant
-- index: endpoints_tenant
SELECT id, tenant, url, events, job_id, tag, paused, created_at FROM endpoints WHERE tenant = $1 ORDER BY id
