-- caller: put_jobs, for a job that is there
-- guard: the version that the change was judged by
-- index: sqlite_autoindex_jobs_1 (id)
UPDATE jobs
SET version = :version, state = :state, next_fire_at = :next_fire_at, fires_left = :fires_left, plan = :plan,
    firing = :firing, change_seq = :change_seq, name = :name, tags = :tags, effective_at = :effective_at,
    paused_until = :paused_until, definition = :definition
WHERE id = :id AND tenant = :tenant AND version = :judged_by
