"""The driver of APScheduler: date jobs in the SQLAlchemy store on PostgreSQL.

Defaults only, since its documentation has no page about performance: a pool of ten threads. One default had to go: a
job that is more than a second late would not run at all (`misfire_grace_time`), so there is no such limit here. There
is no registration in bulk. Only one process may use a job store (page "Frequently Asked Questions"): no failover.
"""

import pickle
import sys
import threading
import time
from datetime import datetime, timezone

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import text


def words(items):
    """`key=value` words as a dictionary."""
    return dict(item.split("=", 1) for item in items)


ARGS = words(sys.argv[1:])
STARTS = []


def job(number):
    """The job itself: it notes that it started, and does nothing."""
    STARTS.append((number, int(time.time() * 1000)))


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Driver:
    """Obeys the commands of `run`."""

    def __init__(self):
        url = ARGS["postgres"].replace("postgres://", "postgresql+psycopg2://", 1)
        self.store = SQLAlchemyJobStore(url=url)
        self.scheduler = BackgroundScheduler(
            jobstores={"default": self.store},
            executors={"default": ThreadPoolExecutor(10)},
            job_defaults={"misfire_grace_time": None},
            timezone=timezone.utc,
        )

    def add(self, number, at_ms):
        at = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
        return self.scheduler.add_job(job, "date", run_date=at, args=[number], id=str(number))

    def setup(self):
        self.scheduler.start(paused=True)

    def fill(self, n, base, start, span):
        for i in range(n):
            self.add(base + i, start + i * span // n)

    def many(self, n, start, span):
        """Many jobs for the cold start, copied from one that was added, since adding them all would take an hour."""
        first = self.add(0, start)
        state = first.__getstate__()
        with self.store.engine.begin() as connection:
            cursor = connection.connection.cursor()
            for chunk in range(1, n, 10_000):
                rows = []
                for i in range(chunk, min(n, chunk + 10_000)):
                    at = datetime.fromtimestamp((start + i * span // n) / 1000, timezone.utc)
                    state.update(id=str(i), args=(i,), next_run_time=at)
                    rows.append((str(i), at.timestamp(), pickle.dumps(state, self.store.pickle_protocol)))
                marks = ",".join(["(%s,%s,%s)"] * len(rows))
                values = [value for row in rows for value in row]
                cursor.execute(f"insert into apscheduler_jobs (id, next_run_time, job_state) values {marks}", values)

    def single(self, n, callers):
        at = int(time.time() * 1000) + 3_600_000
        numbers = iter(range(n))
        lock = threading.Lock()

        def caller():
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                self.add(number, at)

        threads = [threading.Thread(target=caller) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self):
        if not self.scheduler.running:
            self.scheduler.start(paused=True)
        self.scheduler.resume()

        def count():
            last = 0
            while True:
                time.sleep(0.02)
                if len(STARTS) != last:
                    last = len(STARTS)
                    say(f"count {last}")

        threading.Thread(target=count, daemon=True).start()

    def unfinished(self):
        with self.store.engine.connect() as connection:
            return connection.execute(text("select 1 from apscheduler_jobs limit 1")).first() is not None

    def handle(self, command, given):
        began, at = time.perf_counter(), int(time.time() * 1000)
        if command == "setup":
            self.setup()
        elif command == "fill":
            self.fill(int(given["n"]), int(given.get("base", 0)), int(given["from"]), int(given["span"]))
            return f" seconds={time.perf_counter() - began:.6f}"
        elif command == "many":
            self.many(int(given["n"]), int(given["from"]), int(given["span"]))
            return f" seconds={time.perf_counter() - began:.6f}"
        elif command == "single":
            self.single(int(given["n"]), int(given["callers"]))
            return f" seconds={time.perf_counter() - began:.6f}"
        elif command == "work":
            self.work()
            return f" at={at}"
        elif command == "settle":
            while self.unfinished():
                time.sleep(0.005)
            return f" at={int(time.time() * 1000)}"
        elif command == "starts":
            with open(given["file"], "w", encoding="utf-8") as file:
                file.writelines(f"{number} {at}\n" for number, at in STARTS)
        else:
            raise ValueError(f"unknown command {command}")
        return ""


def main():
    driver = Driver()
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "quit":
            break
        try:
            say(f"ok {command}{driver.handle(command, words(rest))}")
        except Exception as error:  # whatever it is, `run` shall hear of it
            say(f"error {command} {type(error).__name__}: {error}".replace("\n", " | "))


if __name__ == "__main__":
    main()
