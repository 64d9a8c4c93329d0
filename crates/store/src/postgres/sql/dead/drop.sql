-- caller: replay, bury, prune: the groups are empty
-- guard: the rows are locked
-- index: PRIMARY KEY
DELETE FROM dead_groups AS g
USING unnest($1::int8[], $2::int8[]) AS u (tenant, fingerprint)
WHERE g.tenant = u.tenant AND g.fingerprint = u.fingerprint
