-- caller: cancel, claim: a running attempt is asked to stop; the first one to ask is remembered
-- guard: states ?5 and fence ?6; a lease only shrinks by this
-- index: PRIMARY KEY
UPDATE executions
SET wake_at = min(wake_at, ?2), cancel_reason = CASE WHEN cancel_requested_at IS NULL THEN ?4 ELSE cancel_reason END,
    cancel_requested_at = coalesce(cancel_requested_at, ?3), note = coalesce(note, ?7)
WHERE id = ?1 AND (1 << state) & ?5 <> 0 AND fence = ?6
RETURNING wake_at
