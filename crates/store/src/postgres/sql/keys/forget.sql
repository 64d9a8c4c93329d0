-- caller: prune
-- guard: only expired ones; what another node forgets or renews is left to it
-- index: idempotency_expiry
DELETE FROM idempotency
WHERE (tenant, scope, key) IN (SELECT tenant, scope, key FROM idempotency
                               WHERE expires_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
