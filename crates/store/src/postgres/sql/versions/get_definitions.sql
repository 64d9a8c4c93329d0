-- caller: claim, extend: what attempts of superseded versions run by
-- guard: none: reads
-- index: job_versions_pkey
SELECT v.job_id, v.version, v.definition
FROM unnest($1::uuid[], $2::int8[]) AS w (job_id, version)
     JOIN job_versions AS v ON v.job_id = w.job_id AND v.version = w.version
