-- caller: replay_delivery
-- guard: the tenant, and an endpoint that is there and stays until the commit
-- index: PRIMARY KEY
UPDATE outbox SET state = $4, tries = 0, next_at = $5, status = NULL, error = NULL
WHERE seq = $1 AND tenant = $2 AND endpoint_id = $3 AND EXISTS (SELECT 1 FROM endpoints WHERE id = $3 FOR KEY SHARE)
