-- caller: emit: who of these tenants wants to hear of any of the kinds in mask $2
-- guard: the tenants; whoever deletes one waits until the event is written, and deletes that too
-- index: endpoints_tenant
SELECT id, tenant, events, job_id, tag FROM endpoints WHERE tenant = ANY($1) AND events & $2 <> 0 ORDER BY id
FOR KEY SHARE
