-- caller: open: how much is there to fold
-- guard: none: reads
-- index: none: a row per batch is scanned
SELECT coalesce(sum(length(entries)), 0) FROM history_tail
