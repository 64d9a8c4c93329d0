-- caller: stats: all rows of the first $6 keys
-- guard: the tenant
-- index: rollups_minute
SELECT r.minute, r.pool, r.target, r.succeeded, r.failed, r.dead, r.cancelled, r.skipped, r.lateness, r.duration
FROM (SELECT DISTINCT minute, pool, target
      FROM rollups
      WHERE minute >= $1 AND minute < $2 AND tenant = $3
        AND ($4::text IS NULL OR pool = $4) AND ($5::text IS NULL OR target = $5)
      ORDER BY minute, pool, target
      LIMIT $6) AS k
     JOIN rollups AS r ON r.minute = k.minute AND r.tenant = $3 AND r.pool = k.pool AND r.target = k.target
