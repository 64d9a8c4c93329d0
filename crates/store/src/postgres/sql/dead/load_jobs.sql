-- caller: replay: what is done, where and for whom, is by the newest version of the job: it may have been mended
-- guard: none: reads; deleted ones (state $2) are not found
-- index: PRIMARY KEY
SELECT id, version, firing FROM jobs WHERE id = ANY($1) AND state <> $2
