-- caller: put_record, of one that must not be there
-- guard: no row of this key
-- index: PRIMARY KEY
INSERT OR IGNORE INTO records (kind, tenant, id, version, body, slots, paused, events, at_work)
VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8)
