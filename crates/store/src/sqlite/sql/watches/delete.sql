-- caller: claim, of a first attempt; break_watches
-- guard: none
-- index: PRIMARY KEY
DELETE FROM watches WHERE execution_id = ?1 AND kind = ?2
