-- caller: reconcile: groups that are lost; what is known of them is in their newest member
-- guard: there is no such group, or it has come meanwhile: then it is added to
-- index: executions_dead
INSERT INTO dead_groups AS g (tenant, fingerprint, target, kind, message, n, first_at, last_at, sample)
SELECT u.tenant, u.fingerprint, e.target, coalesce(e.error_kind, ''), coalesce(e.error_message, ''), u.n, e.finished_at,
       e.finished_at, e.id
FROM unnest($1::int8[], $2::int8[], $3::int8[]) AS u (tenant, fingerprint, n)
     CROSS JOIN LATERAL (SELECT id, target, error_kind, error_message, finished_at
                         FROM dead_executions
                         WHERE tenant = u.tenant AND error_fp = u.fingerprint AND finished_at IS NOT NULL
                         ORDER BY id DESC
                         LIMIT 1) AS e
WHERE u.n > 0
ORDER BY u.tenant, u.fingerprint
ON CONFLICT (tenant, fingerprint) DO UPDATE SET n = g.n + excluded.n
