-- caller: replay: what is done, where and for whom, is by the job as it is now: it may have been mended
-- guard: none: reads; deleted ones (state $2) are not found
-- index: PRIMARY KEY
SELECT id, action_kind, target, pool, priority FROM jobs WHERE id = ANY($1) AND state <> $2
