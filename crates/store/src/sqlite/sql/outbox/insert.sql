-- caller: emit, in the transaction of what happened
-- guard: the endpoint wants it
-- index: INTEGER PRIMARY KEY
INSERT INTO outbox (tenant, endpoint_id, kind, job_id, execution_id, at, data, state, tries, next_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?6)
