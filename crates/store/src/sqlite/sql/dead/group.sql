-- caller: the migration that brings groups
-- guard: the caller's
-- index: PRIMARY KEY
UPDATE executions SET error_fp = ?2 WHERE id = ?1
