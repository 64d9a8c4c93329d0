-- caller: bury; the instant at which its last attempt ended stays
-- guard: states ?5
-- index: PRIMARY KEY
UPDATE executions SET state = ?2, reason = ?3, note = ?4, error_fp = NULL WHERE id = ?1 AND (1 << state) & ?5 <> 0
