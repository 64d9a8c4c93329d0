-- caller: whoever finds a member dead
-- guard: its row is as old as it was when it was judged
-- index: the primary key
DELETE FROM members WHERE node = $1 AND seen_at = $2
