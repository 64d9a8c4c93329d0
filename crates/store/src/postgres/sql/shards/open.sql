-- caller: open_shards; $1 is in the order of shards, so that two nodes never wait for each other in a circle; $2 are the epochs seen
-- guard: the epoch that was seen. Waits for fires of the earlier owner, which lock the rows
-- index: shards_pkey
INSERT INTO shards AS s (shard, epoch, owner)
SELECT shard, seen + 1, $3 FROM unnest($1::int8[], $2::int8[]) WITH ORDINALITY AS o (shard, seen, turn) ORDER BY turn
ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner WHERE s.epoch = excluded.epoch - 1
RETURNING shard, epoch
