-- caller: claim, complete: once per batch and pool
-- guard: the tenant; kind ?2
-- index: PRIMARY KEY
SELECT slots, paused FROM records WHERE tenant = ?1 AND kind = ?2 AND id = ?3
