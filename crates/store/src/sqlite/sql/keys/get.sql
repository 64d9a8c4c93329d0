-- caller: put_jobs, fire, before the write; recall
-- guard: tenant and scope are the key's namespace
-- index: PRIMARY KEY
SELECT fingerprint, status, body, expires_at FROM idempotency WHERE tenant = ?1 AND scope = ?2 AND key = ?3 AND expires_at > ?4
