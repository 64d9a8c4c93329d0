-- caller: every verb that ends attempts or executions, once per batch, minute, pool and target
-- guard: single writer
-- index: PRIMARY KEY
INSERT OR REPLACE INTO rollups (minute, tenant, pool, target, succeeded, failed, dead, cancelled, skipped, lateness, duration)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
