-- caller: claim, complete of what was not claimed: how many of these pools are in state $3
-- guard: the rows of their limits are locked
-- index: counts_pool
SELECT c.tenant, c.pool, sum(c.n)::int8
FROM unnest($1::int8[], $2::text[]) AS u (tenant, pool)
     JOIN counts AS c ON c.tenant = u.tenant AND c.pool = u.pool AND c.state = $3
GROUP BY c.tenant, c.pool
