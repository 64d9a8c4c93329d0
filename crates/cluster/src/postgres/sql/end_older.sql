-- caller: a new session of a member: ends its older ones, which may hold shards and not know that they are cut off
-- guard: sessions of our own name that hold our member's lock; the shared connections of the node do not
-- index: none
SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid)) AS ended
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid = $1::int4::oid AND l.objid = $2::int4::oid
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND a.application_name = current_setting('application_name') AND a.pid <> pg_backend_pid()
