-- caller: fire, advance: to compare epochs in the same transaction
-- guard: none: reads
-- index: none: 256 rows are scanned
SELECT shard, epoch FROM shards
