-- caller: put_jobs, to find who has which name
-- guard: only live jobs
-- index: jobs_name
SELECT j.tenant, j.name, j.id
FROM unnest($1::int8[], $2::text[]) AS w (tenant, name)
     JOIN live_jobs AS j ON j.tenant = w.tenant AND j.name = w.name COLLATE "C"
