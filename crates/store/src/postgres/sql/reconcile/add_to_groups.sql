-- caller: reconcile: adds what is missing to groups that are there, and drops those that are empty then
-- guard: none: added to what is there
-- index: PRIMARY KEY
WITH u AS (SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[]) AS u (tenant, fingerprint, n)),
     there AS (SELECT g.tenant, g.fingerprint, g.n + u.n AS n
               FROM dead_groups AS g JOIN u ON g.tenant = u.tenant AND g.fingerprint = u.fingerprint
               ORDER BY g.tenant, g.fingerprint
               FOR UPDATE OF g),
     grown AS (UPDATE dead_groups AS g SET n = there.n FROM there
               WHERE there.n > 0 AND g.tenant = there.tenant AND g.fingerprint = there.fingerprint),
     dropped AS (DELETE FROM dead_groups AS g USING there
                 WHERE there.n <= 0 AND g.tenant = there.tenant AND g.fingerprint = there.fingerprint)
SELECT tenant, fingerprint FROM there
