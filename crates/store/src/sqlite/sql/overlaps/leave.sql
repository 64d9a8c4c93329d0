-- caller: every verb that ends an execution
-- guard: none
-- index: PRIMARY KEY
DELETE FROM overlaps WHERE job_id = ?1 AND execution_id = ?2
