-- caller: a member that leaves, before it gives its locks up
-- guard: its own row
-- index: the primary key
DELETE FROM members WHERE node = $1
