-- caller: complete, cancel, claim: when the run is over that it waited for
-- guard: states ?4; not before its instant, should the clock have gone back since it was held
-- index: PRIMARY KEY
UPDATE executions SET state = ?2, reason = NULL, wake_at = max(?3, fire_at) WHERE id = ?1 AND (1 << state) & ?4 <> 0
