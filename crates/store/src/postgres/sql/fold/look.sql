-- caller: fold: whether a count has several rows, and whether a rollup has, of minutes from $1 on before this one
-- guard: none: reads
-- index: rollups_minute; counts are few once they are folded
SELECT EXISTS (SELECT 1 FROM counts GROUP BY tenant, pool, state HAVING count(*) > 1),
       EXISTS (SELECT 1 FROM rollups
               WHERE minute >= $1 AND minute < (extract(epoch FROM date_trunc('minute', now())) * 1000)::int8
               GROUP BY minute, tenant, pool, target HAVING count(*) > 1)
