-- caller: put_deliveries
-- guard: state ?2
-- index: INTEGER PRIMARY KEY
UPDATE outbox SET state = ?3, tries = tries + 1, next_at = ?4, status = ?5, error = ?6 WHERE seq = ?1 AND state = ?2
