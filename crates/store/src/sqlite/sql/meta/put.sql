-- caller: mark_zone_database, open
-- guard: none
-- index: PRIMARY KEY
INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)
