-- caller: extend, complete
-- guard: the attempt's fence was compared before
-- index: PRIMARY KEY
INSERT INTO logs (execution_id, seq, fence, at, level, message) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
