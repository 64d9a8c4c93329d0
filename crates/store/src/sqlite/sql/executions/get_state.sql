-- caller: claim, extend, complete, cancel: to say why a guarded write did not happen
-- guard: none: reads
-- index: PRIMARY KEY
SELECT tenant, state, attempt, fence, outcome, finished_at, worker FROM executions WHERE id = ?1
