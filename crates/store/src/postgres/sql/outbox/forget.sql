-- caller: delete_record of an endpoint: what waits for it, a slice at a time
-- guard: state 0 waits
-- index: outbox_waiting
DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox WHERE endpoint_id = $1 AND state = 0 LIMIT $2)
