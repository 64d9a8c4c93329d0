-- caller: put_record, of one that must be there
-- guard: version ?9
-- index: PRIMARY KEY
UPDATE records SET version = version + 1, body = ?4, slots = ?5, paused = ?6, events = ?7, at_work = ?8
WHERE kind = ?1 AND tenant = ?2 AND id = ?3 AND version = ?9
