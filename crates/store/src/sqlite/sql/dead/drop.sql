-- caller: replay, bury, prune: the group is empty
-- guard: single writer
-- index: PRIMARY KEY
DELETE FROM dead_groups WHERE tenant = ?1 AND fingerprint = ?2
