-- caller: reconcile
-- guard: single writer
-- index: PRIMARY KEY
UPDATE dead_groups SET n = n + ?3 WHERE tenant = ?1 AND fingerprint = ?2 RETURNING n
