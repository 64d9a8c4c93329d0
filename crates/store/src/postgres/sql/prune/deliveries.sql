-- caller: prune
-- guard: only ended ones: state 0 waits
-- index: outbox_ended
DELETE FROM outbox
WHERE seq = ANY (ARRAY(SELECT seq FROM outbox WHERE state > 0 AND at < $1 ORDER BY at LIMIT $2)) AND state > 0
