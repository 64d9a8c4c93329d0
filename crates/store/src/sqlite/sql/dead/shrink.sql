-- caller: replay, bury, prune: one of the group is dead no more
-- guard: single writer
-- index: PRIMARY KEY
UPDATE dead_groups SET n = n - 1 WHERE tenant = ?1 AND fingerprint = ?2 RETURNING n, sample
