-- caller: put_jobs, for a new job
-- guard: no row of this id, no live job of this name
-- index: the primary key and jobs_name find the conflict
INSERT INTO jobs (id, tenant, version, state, next_fire_at, fires_left, plan, firing, change_seq, name, tags, created_at,
                  effective_at, paused_until, definition)
VALUES (:id, :tenant, :version, :state, :next_fire_at, :fires_left, :plan, :firing, :change_seq, :name, :tags, :created_at,
        :effective_at, :paused_until, :definition)
ON CONFLICT DO NOTHING
