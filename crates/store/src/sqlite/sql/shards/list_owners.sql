-- caller: status
-- guard: none: reads
-- index: none: 256 rows are scanned
SELECT shard, epoch, owner FROM shards ORDER BY shard
