-- caller: fire
-- guard: the shard's epoch was checked before
-- index: INTEGER PRIMARY KEY
INSERT INTO history_tail (entries) VALUES (?1)
