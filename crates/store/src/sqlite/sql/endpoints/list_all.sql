-- caller: load_deliveries; the writer, to know who wants to hear of what
-- guard: none: reads
-- index: none: there are few
SELECT id, tenant, url, events, job_id, tag, paused, created_at FROM endpoints
