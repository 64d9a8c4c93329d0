-- caller: put_jobs, fire, cancel, before the write
-- guard: tenant and scope are the key's namespace
-- index: idempotency_pkey
SELECT k.turn - 1, i.fingerprint, i.status, i.body, i.expires_at
FROM unnest($1::int8[], $2::text[], $3::text[]) WITH ORDINALITY AS k (tenant, scope, key, turn)
     JOIN idempotency AS i ON i.tenant = k.tenant AND i.scope = k.scope AND i.key = k.key
