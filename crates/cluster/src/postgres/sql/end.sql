-- caller: whoever finds a member dead, before its row is deleted: a stopped process may hold locks of rows and shards
-- guard: the member's row is as old as it was when it was judged
-- index: the primary key of members
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) AS ended
FROM pg_stat_activity
WHERE application_name = $3 AND datname = current_database() AND pid <> pg_backend_pid()
  AND EXISTS (SELECT FROM members WHERE node = $1 AND seen_at = $2)
