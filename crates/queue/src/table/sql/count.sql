-- caller: depth, publish; at most once per second
-- guard: none
-- index: ready_turn
SELECT count(*) FROM (SELECT 1 FROM ready WHERE runner = $1::int2 LIMIT $2::int8) AS item
