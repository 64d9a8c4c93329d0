-- caller: load_deliveries: each endpoint is asked for its own, so that what waits for a paused one is not even read
-- guard: none: reads
-- index: outbox_waiting
SELECT d.seq, d.tenant, d.endpoint_id, d.kind, d.job_id, d.execution_id, d.at, d.data, d.state, d.tries, d.next_at, d.status,
       d.error, p.id, p.tenant, p.url, p.events, p.job_id, p.tag, p.paused, p.created_at
FROM endpoints AS p CROSS JOIN LATERAL
     (SELECT * FROM waiting_deliveries AS o WHERE o.endpoint_id = p.id AND o.next_at <= $1 ORDER BY o.next_at, o.seq LIMIT $3)
     AS d
WHERE NOT p.paused AND p.id <> ALL($2)
ORDER BY d.next_at, d.seq
LIMIT $3
