-- caller: emit: who of these tenants wants to hear of any of the kinds in mask $2
-- guard: the tenants; whoever deletes one waits until the event is written, and deletes that too
-- index: records_pkey
SELECT id::uuid, tenant, events, (body::json ->> 'job')::uuid, body::json ->> 'tag'
FROM records
WHERE kind = 2 AND tenant = ANY($1) AND events & $2 <> 0
ORDER BY id
FOR KEY SHARE
