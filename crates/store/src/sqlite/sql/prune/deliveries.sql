-- caller: prune
-- guard: only ended ones
-- index: outbox_ended
DELETE FROM outbox WHERE seq IN (SELECT seq FROM ended_deliveries WHERE at < ?1 ORDER BY at LIMIT ?2)
