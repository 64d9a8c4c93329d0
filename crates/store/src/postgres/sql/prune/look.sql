-- caller: prune, of a day: whether it has executions that wait, that run, in states $3, or that a cursor has not passed
-- guard: none: reads; $4 is the instant at which the day ends
-- index: executions_waiting, executions_running, executions_unhappy, jobs_due, executions_job
SELECT EXISTS (SELECT 1 FROM executions WHERE id >= $1 AND id < $2 AND state < 4 AND state <> 2)
    OR EXISTS (SELECT 1 FROM executions WHERE id >= $1 AND id < $2 AND state = 2)
    OR EXISTS (SELECT 1 FROM executions WHERE id >= $1 AND id < $2 AND state > 4 AND state = ANY($3))
    OR (4 = ANY($3) AND EXISTS (SELECT 1 FROM executions WHERE id >= $1 AND id < $2 AND state = 4))
    OR EXISTS (SELECT 1
               FROM jobs AS j
               WHERE j.next_fire_at < $4
                 AND EXISTS (SELECT 1
                             FROM executions AS e
                             WHERE e.job_id = j.id AND e.id >= $1 AND e.id < $2 AND e.fire_at >= j.next_fire_at))
