-- caller: open_shards
-- guard: none: whoever opens last owns
-- index: INTEGER PRIMARY KEY
INSERT INTO shards (shard, epoch, owner) VALUES (?1, 1, ?2)
ON CONFLICT (shard) DO UPDATE SET epoch = epoch + 1, owner = excluded.owner
RETURNING epoch
