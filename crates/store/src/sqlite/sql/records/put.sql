-- caller: put_record, whatever is there
-- guard: none: the last one counts
-- index: PRIMARY KEY
INSERT INTO records (kind, tenant, id, version, body, slots, paused, events, at_work)
VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (kind, tenant, id) DO UPDATE
SET version = version + 1, body = excluded.body, slots = excluded.slots, paused = excluded.paused, events = excluded.events,
    at_work = excluded.at_work
