-- caller: prune
-- guard: only expired ones
-- index: idempotency_expiry
DELETE FROM idempotency
WHERE (tenant, scope, key) IN (SELECT tenant, scope, key FROM idempotency WHERE expires_at < ?1 LIMIT ?2)
