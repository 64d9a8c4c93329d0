-- caller: recall
-- guard: tenant and scope are the key's namespace
-- index: idempotency_pkey
SELECT fingerprint, status, body FROM idempotency WHERE tenant = $1 AND scope = $2 AND key = $3 AND expires_at > $4
