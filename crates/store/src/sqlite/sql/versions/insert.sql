-- caller: put_jobs, for a version that another one follows
-- guard: the write of the job
-- index: sqlite_autoindex_job_versions_1 (job_id, version)
INSERT INTO job_versions (job_id, version, tenant, state, effective_at, ended_at, paused_until, next_fire_at, fires_left, plan,
                          firing, definition)
VALUES (:job_id, :version, :tenant, :state, :effective_at, :ended_at, :paused_until, :next_fire_at, :fires_left, :plan,
        :firing, :definition)
