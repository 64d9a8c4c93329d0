-- caller: fire; cancel, of fires that have not come: born in state $1, and ended for reason $3 at $4 with note $5
-- guard: the shard's epoch was checked before; what is there stays
-- index: PRIMARY KEY
WITH born AS (
    INSERT INTO executions (id, tenant, job_id, job_version, fire_at, kind, state, reason, attempt, fence, priority, pool, action,
                            wake_at, fired_at, finished_at, target, overlap, covers_from, deliveries, losses, attempts_from,
                            note, watched)
    SELECT u.id, u.tenant, u.job_id, u.job_version, u.fire_at, u.kind, $1::int2, $3::int2, 0, 0, u.priority, u.pool, u.action,
           u.wake_at, $2::int8, $4::int8, u.target, u.overlap, u.covers_from, 0, 0, 0, $5::text, u.watched
    FROM unnest($6::uuid[], $7::int8[], $8::uuid[], $9::int8[], $10::int8[], $11::int2[], $12::int2[], $13::text[], $14::int2[],
                $15::int8[], $16::text[], $17::int2[], $18::int8[], $19::int2[])
         AS u (id, tenant, job_id, job_version, fire_at, kind, priority, pool, action, wake_at, target, overlap, covers_from,
               watched)
    ORDER BY u.id
    ON CONFLICT (id) DO NOTHING
    RETURNING id, job_id
)
INSERT INTO history (job_id, execution_id) SELECT job_id, id FROM born
RETURNING execution_id
