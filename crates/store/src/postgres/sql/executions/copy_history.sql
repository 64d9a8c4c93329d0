-- caller: fire, in bulk
-- guard: their executions are new
-- index: PRIMARY KEY would find a conflict
COPY history (job_id, execution_id) FROM STDIN BINARY
