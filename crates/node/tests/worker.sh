#!/usr/bin/env bash
# A whole worker: runs "$@" for each execution of the pool $POOL, with the payload on stdin. Needs curl and jq.
api=${CAMPANILE_URL:-http://127.0.0.1:8080}/internal/v1/executions me=$HOSTNAME-$$ pool=${POOL:?which pool}
call() { curl -sS --fail --retry 9 --retry-connrefused -H content-type:application/json -d @- "$api/$1"; }
while got=$(jq -n --arg me "$me" --arg pool "$pool" '{worker_id: $me, capacity: 1, pools: [$pool], wait_ms: 30000}' | call claim); do
  work=$(jq -c '.executions[]' <<<"$got") && [ "$work" ] || continue
  while sleep "$(jq .heartbeat_ms/1000 <<<"$work")"; do
    jq --arg me "$me" '{worker_id: $me, executions: [{id: .execution_id, fence_token}]}' <<<"$work" | call heartbeat; done >/dev/null &
  if out=$(jq -c .payload <<<"$work" | "$@"); then status=SUCCEEDED; else status=FAILED; fi
  kill $! && wait $! 2>/dev/null
  jq --arg status "$status" --arg out "${out:0:60000}" '{$status, fence_token, result: $out}' <<<"$work" | call "$(jq -r .execution_id <<<"$work")/complete"
done
