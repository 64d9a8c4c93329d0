-- caller: load_deliveries: each endpoint is asked for its own, so that what waits for a paused one is not even read
-- guard: none: reads; kind 2 is an endpoint
-- index: outbox_waiting
SELECT d.seq, d.tenant, d.endpoint_id, d.kind, d.job_id, d.execution_id, d.at, d.data, d.state, d.tries, d.next_at, d.status,
       d.error, p.kind, p.tenant, p.id, p.version, p.body
FROM records AS p CROSS JOIN LATERAL
     (SELECT * FROM waiting_deliveries AS o WHERE o.endpoint_id = p.id::uuid AND o.next_at <= $1 ORDER BY o.next_at, o.seq LIMIT $3)
     AS d
WHERE p.kind = 2 AND NOT p.paused AND p.id <> ALL($2)
ORDER BY d.next_at, d.seq
LIMIT $3
