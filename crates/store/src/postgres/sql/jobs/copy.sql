-- caller: put_jobs, for new jobs in bulk
-- guard: no row of this id, no live job of this name: judged before, or told by the unique indexes
-- index: jobs_pkey and jobs_name find a conflict
COPY jobs (id, shard, tenant, version, state, plan, firing, change_seq, name, tags, created_at, effective_at, paused_until,
           definition) FROM STDIN BINARY
