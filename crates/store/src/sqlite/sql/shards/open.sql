-- caller: open_shards
-- guard: the epoch that was seen
-- index: INTEGER PRIMARY KEY
INSERT INTO shards AS s (shard, epoch, owner) VALUES (?1, ?2 + 1, ?3)
ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner WHERE s.epoch = excluded.epoch - 1
RETURNING epoch
