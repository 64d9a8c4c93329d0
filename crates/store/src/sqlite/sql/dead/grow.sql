-- caller: complete: executions died of the same thing
-- guard: single writer
-- index: PRIMARY KEY
INSERT INTO dead_groups (tenant, fingerprint, target, kind, message, n, first_at, last_at, sample)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (tenant, fingerprint) DO UPDATE
SET message = excluded.message, n = n + excluded.n, first_at = min(first_at, excluded.first_at),
    last_at = max(last_at, excluded.last_at), sample = excluded.sample
