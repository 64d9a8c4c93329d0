-- caller: put_deliveries
-- guard: the tenant, and an endpoint that is there (kind 2) and stays until the commit
-- index: PRIMARY KEY
UPDATE outbox SET state = $4, tries = 0, next_at = $5, status = NULL, error = NULL
WHERE seq = $1 AND tenant = $2 AND endpoint_id = $3 AND EXISTS
      (SELECT 1 FROM records WHERE kind = 2 AND tenant = $2 AND id = encode(uuid_send($3), 'hex') FOR KEY SHARE)
