-- caller: prune, of a day: whether it has executions that wait, that run, that ended in states $3, well if $5, or that a cursor has not passed
-- guard: none: reads; $4 is the instant at which the day ends
-- index: executions_waiting, executions_running, executions_unhappy, cursors_due, job_versions_due, PRIMARY KEY of history and executions
SELECT EXISTS (SELECT 1 FROM waiting_executions WHERE id >= $1 AND id < $2)
    OR EXISTS (SELECT 1 FROM running_executions WHERE id >= $1 AND id < $2)
    OR EXISTS (SELECT 1 FROM unhappy_executions WHERE id >= $1 AND id < $2 AND state = ANY($3))
    OR ($5 AND EXISTS (SELECT 1 FROM happy_executions WHERE id >= $1 AND id < $2))
    OR EXISTS (SELECT 1
               FROM cursors AS c
               WHERE c.next_fire_at < $4
                 AND EXISTS (SELECT 1
                             FROM history AS h JOIN executions AS e ON e.id = h.execution_id
                             WHERE h.job_id = c.job_id AND h.execution_id >= $1 AND h.execution_id < $2
                               AND e.id >= $1 AND e.id < $2 AND e.fire_at >= c.next_fire_at))
    OR EXISTS (SELECT 1
               FROM job_versions AS v
               WHERE v.next_fire_at < $4
                 AND EXISTS (SELECT 1
                             FROM history AS h JOIN executions AS e ON e.id = h.execution_id
                             WHERE h.job_id = v.job_id AND h.execution_id >= $1 AND h.execution_id < $2
                               AND e.id >= $1 AND e.id < $2 AND e.fire_at >= v.next_fire_at))
