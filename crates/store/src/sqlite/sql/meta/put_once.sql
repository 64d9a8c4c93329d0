-- caller: open
-- guard: a value that is there stays
-- index: PRIMARY KEY
INSERT OR IGNORE INTO meta (key, value) VALUES (?1, ?2)
