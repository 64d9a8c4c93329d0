-- caller: replay, bury, prune: how many a group has left, and another sample where the old one left it
-- guard: the rows are locked
-- index: PRIMARY KEY
UPDATE dead_groups AS g
SET n = u.n, sample = coalesce(u.sample, g.sample), message = coalesce(u.message, g.message)
FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::uuid[], $5::text[]) AS u (tenant, fingerprint, n, sample, message)
WHERE g.tenant = u.tenant AND g.fingerprint = u.fingerprint
