-- caller: delete_record of an endpoint: what waits for it, a slice at a time
-- guard: only what waits
-- index: outbox_waiting
DELETE FROM outbox WHERE seq IN (SELECT seq FROM waiting_deliveries WHERE endpoint_id = $1 LIMIT $2)
