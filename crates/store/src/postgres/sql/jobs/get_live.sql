-- caller: put_jobs, to find who has which name
-- guard: only live jobs (not in state 2)
-- index: jobs_name
SELECT j.tenant, j.name, j.id
FROM unnest($1::int8[], $2::text[]) AS w (tenant, name)
     JOIN jobs AS j ON j.tenant = w.tenant AND j.name = w.name COLLATE "C" AND j.state <> 2
