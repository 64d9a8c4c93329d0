-- caller: put_jobs, when a job gives up a name that another one takes in the same batch
-- guard: the rows are locked; they are written right after. No name has a control character
-- index: jobs_pkey
UPDATE jobs SET name = chr(1) || id::text WHERE id = ANY($1)
