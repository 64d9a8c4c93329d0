"""An external worker of Campanile for the failover: claims, holds its place for a while, completes.

    worker.py URL LOG HOLD_MS

It writes what it starts and ends to LOG at once, so that it can be killed at any time.
"""

import json
import os
import sys
import threading
import time
import urllib.request

URL, LOG, HOLD = sys.argv[1], sys.argv[2], int(sys.argv[3]) / 1000
ME = f"worker-{os.getpid()}"
FILE = os.open(LOG, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
CAPACITY = 10


def call(path, body):
    request = urllib.request.Request(
        f"{URL}/internal/v1/executions/{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def note(what, number):
    os.write(FILE, f"{what} {number} {int(time.time() * 1000)}\n".encode())


def one():
    while True:
        claim = {"worker_id": ME, "capacity": 1, "pools": ["short"], "handlers": ["hold"], "wait_ms": 5000}
        for execution in call("claim", claim)["executions"]:
            number = execution["payload"]["id"]
            note("S", number)
            time.sleep(HOLD)
            done = {"status": "SUCCEEDED", "fence_token": execution["fence_token"]}
            call(f"{execution['execution_id']}/complete", done)
            note("E", number)


for _ in range(CAPACITY):
    threading.Thread(target=one, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
