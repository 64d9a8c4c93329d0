-- caller: prune: a day is dropped
-- guard: its executions have ended: this is what a crash may have left
-- index: PRIMARY KEY
DELETE FROM watches WHERE execution_id >= $1 AND execution_id < $2
