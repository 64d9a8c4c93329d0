-- caller: copy
-- guard: none: reads
-- index: shards_pkey
SELECT shard, epoch, owner FROM shards ORDER BY shard
