-- caller: open
-- guard: none
-- index: PRIMARY KEY
INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)
