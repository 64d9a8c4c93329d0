-- caller: fire, advance: to compare epochs; nobody takes these shards over before the transaction ends
-- guard: none: the caller compares
-- index: shards_pkey
SELECT shard, epoch FROM shards WHERE shard = ANY($1) ORDER BY shard FOR SHARE
