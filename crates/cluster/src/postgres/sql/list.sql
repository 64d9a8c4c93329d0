-- caller: members
-- guard: none
-- index: the whole table: one row per node
SELECT node, roles, version, address, started_at, clock_offset_ms, lag_ms, shards, settings,
       greatest(floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 - seen_at, 0) AS silent_ms
FROM members
ORDER BY node COLLATE "C"
