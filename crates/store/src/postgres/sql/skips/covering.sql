-- caller: prune, of executions that ran: the skips whose ranges their instants lie in
-- guard: none: reads; one node prunes
-- index: skips_pkey
SELECT s.job_id, s.to_at, s.from_at, s.reason, s.tenant, s.recorded_at, u.fire_at
FROM unnest($1::uuid[], $2::int8[]) AS u (job_id, fire_at)
     JOIN skips AS s ON s.job_id = u.job_id AND s.to_at >= u.fire_at AND s.from_at <= u.fire_at
