-- caller: load_shards
-- guard: none: reads
-- index: none: 256 rows are scanned
SELECT shard, epoch FROM shards ORDER BY shard
