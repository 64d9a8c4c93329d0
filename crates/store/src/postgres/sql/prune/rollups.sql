-- caller: prune
-- guard: none
-- index: rollups_minute
DELETE FROM rollups WHERE ctid = ANY (ARRAY(SELECT ctid FROM rollups WHERE minute < $1 ORDER BY minute LIMIT $2))
