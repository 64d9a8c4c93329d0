-- caller: pulse
-- guard: none: reads; kind 2 is an endpoint; runners whose names start with ?2 have no leases
-- index: none for endpoints, which are few; the others by executions_running, jobs_resumable, watches_due and so on
SELECT (SELECT value FROM counters WHERE name = 'change_seq'),
       (SELECT value FROM counters WHERE name = 'limits'),
       EXISTS (SELECT 1 FROM running_executions
               WHERE wake_at < ?1 AND (worker IS NULL OR substr(worker, 1, length(?2)) <> ?2)),
       EXISTS (SELECT 1 FROM jobs WHERE paused_until IS NOT NULL AND paused_until <= ?1 AND state = ?3),
       EXISTS (SELECT 1 FROM watches WHERE due_at <= ?1) OR EXISTS (SELECT 1 FROM success_watches WHERE due_at <= ?1),
       EXISTS (SELECT 1 FROM records WHERE at_work = 1),
       EXISTS (SELECT 1 FROM records AS p CROSS JOIN waiting_deliveries AS o ON o.endpoint_id = unhex(p.id)
               WHERE p.kind = 2 AND o.next_at <= ?1 AND NOT p.paused)
