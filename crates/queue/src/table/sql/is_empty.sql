-- caller: publish, of a node that is alone, when nothing is believed to wait
-- guard: none; what others put meanwhile is received like everything
-- index: ready_turn
SELECT NOT EXISTS (SELECT 1 FROM ready WHERE runner = 0) AND NOT EXISTS (SELECT 1 FROM ready WHERE runner = 1)
