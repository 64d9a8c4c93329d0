-- caller: prune: what is left of them is written anew
-- guard: none
-- index: skips_pkey
DELETE FROM skips AS s
USING unnest($1::uuid[], $2::int8[], $3::int8[], $4::int2[]) AS u (job_id, to_at, from_at, reason)
WHERE s.job_id = u.job_id AND s.to_at = u.to_at AND s.from_at = u.from_at AND s.reason = u.reason
