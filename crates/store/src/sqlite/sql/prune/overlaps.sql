-- caller: prune
-- guard: the execution was deleted before
-- index: PRIMARY KEY
DELETE FROM overlaps WHERE job_id = ?1 AND execution_id = ?2
