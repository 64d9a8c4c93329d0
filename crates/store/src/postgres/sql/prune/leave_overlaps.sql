-- caller: prune: a day is dropped
-- guard: its executions have ended: this is what a crash may have left
-- index: none: runs that wait for each other are few
DELETE FROM "overlaps" WHERE execution_id >= $1 AND execution_id < $2
