-- caller: pulse
-- guard: none: reads; kind 2 is an endpoint; runners whose names start with $2 have no leases
-- index: executions_running, jobs_resumable, watches_due, success_watches_due, records_at_work, outbox_waiting
SELECT (SELECT value FROM counters WHERE name = 'change_seq'),
       (SELECT value FROM counters WHERE name = 'limits'),
       EXISTS (SELECT 1 FROM running_executions
               WHERE wake_at < $1 AND (worker IS NULL OR NOT starts_with(worker, $2))),
       EXISTS (SELECT 1 FROM jobs WHERE paused_until IS NOT NULL AND paused_until <= $1 AND state = $3),
       EXISTS (SELECT 1 FROM watches WHERE due_at <= $1) OR EXISTS (SELECT 1 FROM success_watches WHERE due_at <= $1),
       EXISTS (SELECT 1 FROM records WHERE at_work),
       EXISTS (SELECT 1 FROM records AS p JOIN waiting_deliveries AS o ON o.endpoint_id = p.id::uuid
               WHERE p.kind = 2 AND o.next_at <= $1 AND NOT p.paused)
