-- caller: replay, bury, prune, when the sample of a group was among those that left it
-- guard: the tenants
-- index: executions_dead
SELECT u.tenant, u.fingerprint, e.id, e.error_message
FROM unnest($1::int8[], $2::int8[]) AS u (tenant, fingerprint)
     CROSS JOIN LATERAL (SELECT id, error_message
                         FROM dead_executions
                         WHERE tenant = u.tenant AND error_fp = u.fingerprint
                         ORDER BY id DESC
                         LIMIT 1) AS e
