"""Campanile as it is measured: `campanile bench` on the same PostgreSQL, real servers where one is killed."""

import contextlib
import datetime
import http.client
import http.server
import json
import os
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .drivers import Failed
from .servers import free_port

WORKER = Path(__file__).resolve().parent.parent / "campanile" / "worker.py"


def instant(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).isoformat(timespec="milliseconds")


def millis(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


class Campanile:
    """The binary."""

    def __init__(self, binary, work):
        self.binary = binary
        self.work = Path(work)
        self.version = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.split()[-1]

    def bench(self, which, store, timeout=180, **options):
        """Runs one benchmark: its metrics by name, and what it verified. It prints no figure if something was wrong."""
        words = [f"--{key}={value}" for key, value in options.items()]
        place = ["--store", store] if store else ["--scratch", str(self.work)]
        try:
            done = subprocess.run(
                [self.binary, "bench", which, *words, *place, "-o", "json"],
                capture_output=True, text=True, timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"campanile bench {which} was not done within {timeout} s") from None
        if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
            raise Failed(f"campanile bench {which}: {(done.stderr or done.stdout).strip()[-400:]}")
        report = json.loads(done.stdout)
        metrics = {row["metric"]: row["value"] for row in report["results"]}
        return metrics, "; ".join(report["verified"])

    @contextlib.contextmanager
    def sink(self):
        """What calls go to, the same for everybody."""
        process = subprocess.Popen([self.binary, "bench", "sink", "--delay-ms", "0"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        try:
            yield Sink(process.stdout.readline().strip().removeprefix("address="))
        finally:
            process.kill()
            process.wait()

    def server(self, store, lease=None):
        return Server(self, store, lease)


class Sink:
    """The sink of `campanile bench webhook`."""

    def __init__(self, address):
        self.address = address
        self.url = f"http://{address}/hook"

    def calls(self):
        """The numbers of the jobs that called."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("GET", "/report")
        lines = connection.getresponse().read().decode().splitlines()[2:]
        return [int(line.split(" ", 1)[0]) for line in lines]


class Server:
    """A node, as a process of its own."""

    def __init__(self, campanile, store, lease=None):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.directory = campanile.work / f"node-{self.port}"
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = f"[engine]\nlease = \"{lease}\"\n" if lease else ""
        # The target of the webhooks is this program.
        settings += "[actions]\nallow_private_targets = true\nallow_plain_http = true\n"
        config = self.directory / "campanile.toml"
        config.write_text(settings, encoding="utf-8")
        self.log = self.directory / "log"
        self.started_ms = time.time() * 1000
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [campanile.binary, "server", "--config", str(config), "--listen", f"127.0.0.1:{self.port}",
                 "--store", store, "--data-dir", str(self.directory / "data")],
                stdout=log, stderr=log,
            )

    def ready(self):
        """Waits until it answers."""
        for _ in range(1200):
            if self.process.poll() is not None:
                raise Failed(f"the node ended; see {self.log}")
            try:
                if self.call("GET", "/readyz", raw=True)[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        raise Failed("the node does not become ready")

    def call(self, method, path, body=None, raw=False, connection=None):
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        own.request(method, path, json.dumps(body) if body is not None else None, {"content-type": "application/json"})
        answer = own.getresponse()
        text = answer.read()
        if connection is None:
            own.close()
        if raw:
            return answer.status, text
        if answer.status >= 300:
            raise Failed(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)

    def create(self, jobs, callers=8):
        """Registers jobs over HTTP, a thousand in a request."""
        def some(first):
            batch = jobs[first:first + 1000]
            for result in self.call("POST", "/v1/jobs:batch", {"jobs": batch})["results"]:
                if result["status"] != 201:
                    raise Failed(f"a job was refused: {result}")
        with ThreadPoolExecutor(callers) as pool:
            list(pool.map(some, range(0, len(jobs), 1000)))

    def executions(self, job):
        return self.call("GET", f"/v1/jobs/name:{job}/executions")["data"]

    def succeeded(self):
        """How many executions the store has as succeeded."""
        counts = self.call("GET", "/v1/counts")["data"]
        return sum(count["executions"] for count in counts if count["state"] == "SUCCEEDED")

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            fields = dict(line.split(":", 1) for line in status)
        return tuple(int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Target:
    """What webhooks are sent to: it holds each for a while, and remembers who sent it."""

    def __init__(self, hold_ms):
        self.starts, self.ends = [], []
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                number = int(re.search(rb'"id":\s*(\d+)', body)[1])
                target.starts.append((number, time.time() * 1000, self.client_address[1]))
                time.sleep(hold_ms / 1000)
                try:
                    self.send_response(200)
                    self.send_header("content-length", "0")
                    self.end_headers()
                    # A node that is dead by now has not heard this; its work is not over.
                    target.ends.append((number, time.time() * 1000, self.client_address[1]))
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def worker(server, log, hold_ms):
    """An external worker, as a process of its own."""
    return subprocess.Popen([os.sys.executable, str(WORKER), server.url, str(log), str(hold_ms)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
