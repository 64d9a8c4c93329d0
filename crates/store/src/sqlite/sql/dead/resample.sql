-- caller: replay, bury, prune, when the sample of the group was the one that left it
-- guard: single writer
-- index: PRIMARY KEY
UPDATE dead_groups SET sample = ?3, message = ?4 WHERE tenant = ?1 AND fingerprint = ?2
