-- caller: prune: what is left of it is written anew
-- guard: none
-- index: PRIMARY KEY
DELETE FROM skips WHERE job_id = ?1 AND to_at = ?2 AND from_at = ?3 AND reason = ?4
