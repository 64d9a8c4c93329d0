-- caller: the fold, once all entries up to ?1 are folded
-- guard: none
-- index: INTEGER PRIMARY KEY
DELETE FROM history_tail WHERE seq <= ?1
