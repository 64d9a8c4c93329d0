"""The drivers of the peers as processes: what they are told and what they answer, line by line."""

import queue
import subprocess
import threading
import time


class Failed(Exception):
    """A driver that said so, died, or took too long."""


class Driver:
    """One process of a peer."""

    def __init__(self, command, arguments, errors):
        self.errors = errors
        words = [f"{key}={value}" for key, value in arguments.items() if value not in (None, "")]
        with open(errors, "ab") as log:
            self.process = subprocess.Popen(
                [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
            )
        self.count = 0
        self.answers = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            kind, _, rest = line.strip().partition(" ")
            if kind == "count":
                self.count = int(rest)
            elif kind in ("ok", "error"):
                self.answers.put((kind, rest))
        self.answers.put(("error", f"the process ended; see {self.errors}"))

    def send(self, command, **given):
        words = [command, *(f"{key}={value}" for key, value in given.items())]
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def answer(self, timeout=120):
        try:
            kind, rest = self.answers.get(timeout=timeout)
        except queue.Empty:
            raise Failed(f"no answer within {timeout} s") from None
        if kind == "error":
            raise Failed(rest)
        return dict(word.split("=", 1) for word in rest.split(" ")[1:])

    def ask(self, command, timeout=120, **given):
        self.send(command, **given)
        return self.answer(timeout)

    def starts(self, file):
        self.ask("starts", file=file)
        with open(file, encoding="utf-8") as lines:
            return [tuple(map(int, line.split())) for line in lines]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def memory(self):
        """Resident memory in bytes, now and at its highest."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            fields = dict(line.split(":", 1) for line in status)
        return tuple(int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))


class Crew:
    """The processes of a peer that share the work. The first one also registers."""

    def __init__(self, drivers):
        self.drivers = drivers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for driver in self.drivers:
            driver.kill()

    @property
    def first(self):
        return self.drivers[0]

    def work(self):
        """All begin; the instant at which the first of them did, in milliseconds."""
        for driver in self.drivers:
            driver.send("work")
        return min(int(driver.answer()["at"]) for driver in self.drivers)

    def wait(self, n, until):
        """Waits until `n` jobs have started, all together."""
        while sum(driver.count for driver in self.drivers) < n:
            if time.time() > until:
                done = sum(driver.count for driver in self.drivers)
                raise Failed(f"only {done} of {n} jobs had started when time was up")
            if any(driver.process.poll() is not None for driver in self.drivers):
                raise Failed(f"a process ended; see {self.first.errors}")
            time.sleep(0.01)

    def settle(self):
        """The instant at which the store had everything as done, in milliseconds."""
        return int(self.first.ask("settle", timeout=60)["at"])

    def starts(self, file):
        return [start for driver in self.drivers for start in driver.starts(file)]
