-- caller: put_jobs, with the write
-- guard: none: an unexpired key was looked for in the same transaction
-- index: PRIMARY KEY
INSERT OR REPLACE INTO idempotency (tenant, scope, key, fingerprint, status, body, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
