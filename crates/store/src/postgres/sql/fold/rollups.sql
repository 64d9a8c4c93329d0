-- caller: fold: takes rows of minutes from $1 on before this one that share their key with others, about $2
-- guard: their sums are written in the same transaction
-- index: rollups_minute
DELETE FROM rollups AS r
USING (SELECT minute, tenant, pool, target
       FROM (SELECT minute, tenant, pool, target, count(*) AS n,
                    sum(count(*)) OVER (ORDER BY minute, tenant, pool, target) AS n_so_far
             FROM rollups
             WHERE minute >= $1 AND minute < (extract(epoch FROM date_trunc('minute', now())) * 1000)::int8
             GROUP BY minute, tenant, pool, target
             HAVING count(*) > 1) AS shared
       WHERE n_so_far - n < $2::int8) AS k
WHERE r.minute = k.minute AND r.tenant = k.tenant AND r.pool = k.pool AND r.target = k.target
RETURNING r.minute, r.tenant, r.pool, r.target, r.succeeded, r.failed, r.dead, r.cancelled, r.skipped,
          r.lateness, r.duration
