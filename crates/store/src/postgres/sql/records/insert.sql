-- caller: put_record, of one that must not be there
-- guard: no row of this key
-- index: records_pkey
INSERT INTO records (kind, tenant, id, version, body, slots, paused, events, at_work)
VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8)
ON CONFLICT (kind, tenant, id) DO NOTHING
