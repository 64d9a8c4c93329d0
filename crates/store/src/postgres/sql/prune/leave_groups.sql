-- caller: prune: a day is dropped, its dead leave their groups, so many each; whose sample goes gets another one
-- guard: nobody writes executions of the day, from $4 to $5
-- index: PRIMARY KEY, executions_dead
WITH u AS (SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[]) AS u (tenant, fingerprint, n)),
     there AS (SELECT g.tenant, g.fingerprint, g.n - u.n AS n, g.sample >= $4 AND g.sample < $5 AS sample_goes
               FROM dead_groups AS g JOIN u ON g.tenant = u.tenant AND g.fingerprint = u.fingerprint
               ORDER BY g.tenant, g.fingerprint
               FOR UPDATE OF g),
     next AS (SELECT t.tenant, t.fingerprint, t.n, e.id, e.error_message,
                     t.n <= 0 OR (t.sample_goes AND e.id IS NULL) AS is_empty
              FROM there AS t LEFT JOIN LATERAL
                   (SELECT id, error_message
                    FROM dead_executions
                    WHERE tenant = t.tenant AND error_fp = t.fingerprint AND (id < $4 OR id >= $5)
                    ORDER BY id DESC
                    LIMIT 1) AS e ON t.sample_goes AND t.n > 0),
     dropped AS (DELETE FROM dead_groups AS g USING next AS x
                 WHERE x.is_empty AND g.tenant = x.tenant AND g.fingerprint = x.fingerprint)
UPDATE dead_groups AS g
SET n = x.n, sample = coalesce(x.id, g.sample),
    message = CASE WHEN x.id IS NULL THEN g.message ELSE coalesce(x.error_message, '') END
FROM next AS x
WHERE NOT x.is_empty AND g.tenant = x.tenant AND g.fingerprint = x.fingerprint
