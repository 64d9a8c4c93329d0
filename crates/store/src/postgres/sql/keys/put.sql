-- caller: put_jobs, fire, cancel, with the write
-- guard: none: an unexpired key was looked for in the same transaction
-- index: idempotency_pkey
INSERT INTO idempotency (tenant, scope, key, fingerprint, status, body, expires_at)
SELECT * FROM unnest($1::int8[], $2::text[], $3::text[], $4::bytea[], $5::int8[], $6::text[], $7::int8[])
ON CONFLICT (tenant, scope, key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body, expires_at = excluded.expires_at
