-- caller: open_shards; $1 is in the order of shards, so that two nodes never wait for each other in a circle
-- guard: none: whoever opens last owns. Waits for fires of the earlier owner, which lock the rows
-- index: shards_pkey
INSERT INTO shards AS s (shard, epoch, owner)
SELECT shard, 1, $2 FROM unnest($1::int8[]) WITH ORDINALITY AS o (shard, turn) ORDER BY turn
ON CONFLICT (shard) DO UPDATE SET epoch = s.epoch + 1, owner = excluded.owner
RETURNING shard, epoch
