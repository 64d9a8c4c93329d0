"""The seven workloads, for a peer and for Campanile. Each verifies what it measured, or gives no figure."""

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from . import campanile as product
from .drivers import Crew, Driver, Failed
from .usage import Meter

HOUR_MS = 3_600_000
# How long anything that is measured may take.
CAP_S = 120
# How long the jobs of the cold start may take to register, which is not measured.
LOAD_CAP_S = 300
# How many jobs the costs of a server of Campanile are measured with.
COST_JOBS = 10_000
# How long a job of the failover holds its place, and how many there are.
HOLD_MS = 200
HELD_JOBS = 60


class Wrong(Exception):
    """Jobs that were lost, doubled or early."""


class TooLate(Failed):
    """Registration that ran into the instant at which the jobs are due."""


def now_ms():
    return int(time.time() * 1000)


def quantile(ordered, share):
    return ordered[min(len(ordered), max(1, math.ceil(len(ordered) * share))) - 1]


def in_time(lead_s, measure):
    """Measures with so many seconds for the registration, and with more if the machine is slower than we thought."""
    try:
        return measure(lead_s)
    except TooLate:
        return measure(4 * lead_s)


def verify(starts, n, due):
    """That each of `n` jobs started exactly once, and none before it was due."""
    seen = [0] * n
    early = 0
    for number, at in starts:
        seen[number] += 1
        early += at < due(number)
    lost, doubled = seen.count(0), sum(count > 1 for count in seen)
    if lost or doubled or early:
        raise Wrong(f"of {n}: {lost} lost, {doubled} doubled, {early} early")
    return f"{n} expected, 0 lost, 0 doubled, 0 early"


class Bench:
    """Where everything is."""

    def __init__(self, work, postgres, redis, installed, campanile, sizes):
        self.work, self.postgres, self.redis = work, postgres, redis
        self.installed, self.campanile, self.sizes = installed, campanile, sizes

    def fresh(self, config, suffix=""):
        """An empty store for this row."""
        if config.fsync:
            self.redis[config.fsync].fresh()
        else:
            self.postgres.fresh(self.database(config, suffix))

    @staticmethod
    def database(config, suffix=""):
        return (config.key + suffix).replace("/", "_").replace("-", "_")

    def driver(self, config, suffix="", **arguments):
        store = {"redis": self.redis[config.fsync].port} if config.fsync else {
            "postgres": self.postgres.database_url(self.database(config, suffix))}
        name = config.key.replace("/", "_")
        return Driver(
            self.installed[config.peer.folder].command, {"settings": config.settings, **store, **arguments},
            self.work / f"{name}.stderr",
        )

    def crew(self, config, processes=None, **arguments):
        self.fresh(config)
        crew = Crew([self.driver(config, **arguments) for _ in range(processes or config.processes)])
        crew.first.ask("setup")
        return crew

    def analyze(self, config):
        """A production database has statistics about what is in it; ours is a second old."""
        if not config.fsync:
            self.postgres.query("vacuum analyze", self.database(config))
            self.postgres.query("checkpoint")

    def meter(self, config, crew):
        server = self.redis[config.fsync] if config.fsync else self.postgres
        return Meter([driver.process.pid for driver in crew.drivers], server)

    def file(self):
        return self.work / f"starts-{threading.get_ident()}"

    def size(self, workload, config):
        sizes = self.sizes[workload]
        key = config if isinstance(config, str) else config.key
        return sizes.get(key, sizes.get("*"))


# Drain.

def drain(bench, config, workload="drain", **arguments):
    n = bench.size(workload, config)
    due = now_ms() - 1000
    with bench.crew(config, **arguments) as crew:
        crew.first.ask("fill", n=n, **{"from": due}, span=0)
        bench.analyze(config)
        meter = bench.meter(config, crew)
        began = crew.work()
        crew.wait(n, time.time() + CAP_S)
        ended = crew.settle()
        costs = meter.costs(n)
        facts = verify(crew.starts(bench.file()), n, lambda _: due)
    return {"jobs": n, "jobs_per_s": n / max(1e-3, (ended - began) / 1000), **costs}, facts


def drain_campanile(bench, how):
    n = bench.size("drain", how)
    if how == "campanile/embedded":
        metrics, facts = bench.campanile.bench("drain", None, jobs=n, repeat=1)
        return {"jobs": n, "jobs_per_s": metrics["drain, round 1"]}, facts
    store = bench.postgres.fresh("campanile")
    if how == "campanile/pull":
        metrics, facts = bench.campanile.bench("pull", store, jobs=n, repeat=1)
        return {"jobs": n, "jobs_per_s": metrics["pull over HTTP, round 1"]}, facts
    metrics, facts = bench.campanile.bench("drain", store, jobs=n, repeat=1)
    some = min(n, COST_JOBS)
    costs = in_time(5 + some / 2000, lambda lead_s: costs_campanile(bench, some, lead_s))
    return {"jobs": n, "jobs_per_s": metrics["drain, round 1"], **costs}, facts


def costs_campanile(bench, n, lead_s):
    """What a server pays for jobs that were registered before and are all due at one instant."""
    node = bench.campanile.server(bench.postgres.fresh("campanile_costs")).ready()
    try:
        due = now_ms() + int(lead_s * 1000)
        node.create([
            {"name": f"due-{i:06}", "schedule": {"at": product.instant(due)}, "action": {"type": "NOOP"}}
            for i in range(n)
        ])
        bench.postgres.query("checkpoint")
        # The meter takes its time to read, and must have done so when the first is written, which is before it is due.
        early = due - 3000
        if now_ms() >= early:
            raise TooLate(f"registration took longer than the {lead_s:.0f} s that it was given")
        time.sleep((early - now_ms()) / 1000)
        meter = Meter([node.process.pid], bench.postgres)
        until = time.time() + CAP_S
        while node.succeeded() < n:
            if time.time() > until:
                raise Failed(f"only {node.succeeded()} of {n} jobs had succeeded when time was up")
            time.sleep(0.2)
        # Where each job stands is written a little later than what its execution came to.
        time.sleep(2)
        return meter.costs(n)
    finally:
        node.stop()


# The same with one HTTP call per job, to the sink of `campanile bench`, as a process of its own.

def call(bench, config):
    with bench.campanile.sink() as sink:
        metrics, facts = drain(bench, config, "call", call=sink.url)
        calls = sink.calls()
    n = metrics["jobs"]
    if sorted(calls) != list(range(n)):
        raise Wrong(f"{n} jobs made {len(calls)} calls, {len(set(calls))} of them different")
    return metrics, f"{facts}; the sink saw each of them once"


def call_campanile(bench, how):
    n = bench.size("call", how)
    store = None if how == "campanile/embedded" else bench.postgres.fresh("campanile")
    metrics, facts = bench.campanile.bench("webhook", store, jobs=n, repeat=1)
    # A microsecond per job is a second per million of them. Embedded, the node's time has the store's in it.
    spent = metrics["processor time of the node"] + metrics.get("processor time of the database", 0)
    costs = {"cpu_s_per_million": spent}
    if how == "campanile":
        costs["wal_bytes_per_job"] = metrics["log of the database (WAL)"]
    return {"jobs": n, "jobs_per_s": metrics["webhooks, round 1"], **costs}, facts


# Registration.

def register(bench, config):
    bulk, singles = bench.size("register", config)
    result = {"jobs": bulk, "singles": singles}
    facts = []
    with bench.crew(config, processes=1) as crew:
        if config.peer.bulk:
            took = crew.first.ask("fill", n=bulk, **{"from": now_ms() + HOUR_MS}, span=1000)
            result["bulk_per_s"] = bulk / float(took["seconds"])
            facts.append(registered(bench, config, bulk))
    with bench.crew(config, processes=1) as crew:
        took = crew.first.ask("single", n=singles, callers=64)
        result["single_per_s"] = singles / float(took["seconds"])
        facts.append(registered(bench, config, singles))
    return result, "; ".join(facts)


def registered(bench, config, n):
    if config.fsync:
        found = int(bench.redis[config.fsync].ask("zcard", "bull:bench:delayed"))
    else:
        found = int(bench.postgres.query(config.peer.count_sql, bench.database(config)))
    if found != n:
        raise Wrong(f"{n} were acknowledged and the store has {found}")
    return f"all {n} acknowledged jobs are in the store"


def register_campanile(bench, how):
    bulk, singles = bench.size("register", how)
    store = None if how == "campanile/embedded" else bench.postgres.fresh("campanile")
    metrics, facts = bench.campanile.bench("register", store, jobs=bulk, singles=singles, connections=64)
    single = next(value for name, value in metrics.items() if name.startswith("one by one over HTTP"))
    return {"jobs": bulk, "singles": singles, "bulk_per_s": metrics["bulk"], "single_per_s": single}, facts


# Lateness and stampede: the same, but for how close together the jobs are.

def lateness(bench, config):
    rate, seconds = bench.size("lateness", config)
    return in_time(3, lambda lead_s: timed(bench, config, rate * seconds, seconds * 1000, lead_s))


def stampede(bench, config):
    n, rate = bench.size("stampede", config)
    return in_time(2 + 1.2 * n / rate, lambda lead_s: timed(bench, config, n, 1000, lead_s))


def timed(bench, config, n, span, lead_s):
    """Registers `n` jobs due within `span` with the workers running, and looks at how late each starts."""
    with bench.crew(config) as crew:
        crew.work()
        first = now_ms() + int(lead_s * 1000)
        crew.first.ask("fill", n=n, **{"from": first}, span=span)
        if now_ms() >= first:
            raise TooLate(f"registration took longer than the {lead_s:.0f} s that it was given")
        crew.wait(n, first / 1000 + span / 1000 + CAP_S)
        ended = crew.settle()
        starts = crew.starts(bench.file())
    def due(number):
        return first + number * span // n
    facts = verify(starts, n, due)
    late = sorted(at - due(number) for number, at in starts)
    last = max(at for _, at in starts)
    return {
        "jobs": n, "p50_ms": quantile(late, 0.5), "p99_ms": quantile(late, 0.99), "max_ms": late[-1],
        "last_start_s": (last - first) / 1000, "durable_s": (ended - first) / 1000,
    }, facts


def lateness_campanile(bench, how):
    rate, seconds = bench.size("lateness", how)
    store = None if how == "campanile/embedded" else bench.postgres.fresh("campanile")
    metrics, facts = bench.campanile.bench("lateness", store, rate=rate, seconds=seconds)
    return {
        "jobs": rate * seconds, "p50_ms": metrics["lateness p50"], "p99_ms": metrics["lateness p99"],
        "max_ms": metrics["lateness max"],
    }, facts


def stampede_campanile(bench, how):
    n, rate = bench.size("stampede", how)
    store = None if how == "campanile/embedded" else bench.postgres.fresh("campanile")

    def attempt(lead_s):
        try:
            return bench.campanile.bench("stampede", store, jobs=n, ahead=math.ceil(lead_s))
        except Failed as error:
            raise TooLate(str(error)) if "longer than --ahead" in str(error) else error

    metrics, facts = in_time(2 + 1.2 * n / rate, attempt)
    return {
        "jobs": n, "p50_ms": metrics["lateness p50"], "p99_ms": metrics["lateness p99"],
        "last_start_s": metrics["last start after the second began"],
        "durable_s": metrics["all durable after the second began"],
    }, facts


# Cold start. What is registered once is used in all rounds.

def load(bench, config):
    """Registers the jobs that are not due while this is measured. How many seconds that took."""
    n = bench.size("coldstart", config)
    began = time.time()
    bench.fresh(config, "_cold")
    with Crew([bench.driver(config, "_cold")]) as crew:
        crew.first.ask("setup")
        crew.first.ask("many", timeout=LOAD_CAP_S, n=n, **{"from": now_ms() + HOUR_MS}, span=HOUR_MS)
    if not config.fsync:
        bench.postgres.query("vacuum analyze", bench.database(config, "_cold"))
        bench.postgres.query("checkpoint")
    return time.time() - began


def coldstart(bench, config, number):
    n = bench.size("coldstart", config)
    base = 10_000_000 + number
    with Crew([bench.driver(config, "_cold")]) as crew:
        if config.peer.language == "python":
            crew.first.ask("setup")
        crew.first.ask("fill", n=1, base=base, **{"from": now_ms() - 1000}, span=0)
    began = time.time() * 1000
    driver = bench.driver(config, "_cold")
    with Crew([driver]) as crew:
        crew.work()
        crew.wait(1, time.time() + CAP_S)
        time.sleep(2)
        resident, highest = driver.memory()
        starts = driver.starts(bench.file())
    if [start[0] for start in starts] != [base]:
        raise Wrong(f"expected job {base} alone, and there started {starts[:5]}")
    result = {"jobs": n, "first_fire_s": (starts[0][1] - began) / 1000, "resident_mb": resident / 1e6,
              "peak_mb": highest / 1e6}
    if config.fsync:
        result["store_mb"] = int(bench.redis[config.fsync].info("used_memory_rss")) / 1e6
    else:
        size = bench.postgres.query("select pg_database_size(current_database())", bench.database(config, "_cold"))
        result["store_mb"] = int(size) / 1e6
    return result, "the due job ran once, and no other"


def load_campanile(bench):
    n = bench.size("coldstart", "campanile")
    began = time.time()
    store = bench.postgres.fresh("campanile_cold")
    node = bench.campanile.server(store).ready()
    try:
        at = now_ms() + HOUR_MS
        for first in range(0, n, 50_000):
            if time.time() > began + LOAD_CAP_S:
                raise Failed(f"only {first} of {n} jobs were registered when time was up")
            node.create([
                {"name": f"far-{i:07}", "schedule": {"at": product.instant(at + i * HOUR_MS // n)},
                 "action": {"type": "NOOP"}}
                for i in range(first, min(n, first + 50_000))
            ])
        # Due all the time, so that it is due when a node starts.
        node.create([{"name": "tick", "schedule": {"every": "1s"}, "action": {"type": "NOOP"}}])
    finally:
        node.stop()
    bench.postgres.query("vacuum analyze", "campanile_cold")
    bench.postgres.query("checkpoint")
    return time.time() - began


def coldstart_campanile(bench):
    n = bench.size("coldstart", "campanile")
    time.sleep(1.1)
    node = bench.campanile.server(bench.postgres.database_url("campanile_cold"))
    try:
        node.ready()
        started = None
        until = time.time() + 60
        while started is None:
            times = [product.millis(e["started_at"]) for e in node.executions("tick") if e.get("started_at")]
            started = min((at for at in times if at >= node.started_ms), default=None)
            if time.time() > until:
                raise Failed("no fire within a minute")
            time.sleep(0.05)
        time.sleep(2)
        resident, highest = node.memory()
    finally:
        node.stop()
    size = bench.postgres.query("select pg_database_size(current_database())", "campanile_cold")
    return {"jobs": n, "first_fire_s": (started - node.started_ms) / 1000, "resident_mb": resident / 1e6,
            "peak_mb": highest / 1e6, "store_mb": int(size) / 1e6}, "a due job ran"


# Failover. It is all about waiting, so that all rows of a round run side by side.

def read_log(path):
    events = {"S": {}, "E": {}}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        kind, number, at = line.split()
        events[kind].setdefault(int(number), []).append(int(at))
    return events


def judge_failover(victim, other, killed_ms, n, cap_s):
    """How long it took after the kill. What the dead one had begun must run again, and nothing else may."""
    ended = set(victim["E"]) | set(other["E"])
    held = set(victim["S"]) - set(victim["E"])
    result = {"jobs": n, "held": len(held)}
    if not held:
        raise Failed("the process that was killed held nothing")
    missing = set(range(n)) - ended
    if missing:
        result["more_than_s"] = cap_s
        return result, f"{len(missing)} of {n} had not run again after {cap_s} s"
    doubled = [i for i in range(n) if len(victim["S"].get(i, [])) + len(other["S"].get(i, [])) > 1]
    # A job that ended in the dead process may not have been written down yet: it rightly runs again. One that the dead
    # process never had must not.
    strange = set(doubled) - set(victim["S"])
    if strange:
        raise Wrong(f"{len(strange)} jobs ran twice that the dead process never had")
    last = max(max(times) for times in other["E"].values())
    result["recovered_s"] = max(0, last - killed_ms) / 1000
    return result, f"all {n} ran to their end; {len(doubled)} ran twice, {len(held)} were held by the dead process"


def failover(bench, config, cap_s):
    logs = [bench.work / f"failover-{bench.database(config)}-{k}" for k in range(2)]
    for log in logs:
        log.unlink(missing_ok=True)
    bench.fresh(config, "_failover")
    pair = [bench.driver(config, "_failover", log=log, hold=HOLD_MS, failover="yes") for log in logs]
    with Crew(pair) as crew:
        pair[0].ask("setup")
        crew.work()
        time.sleep(2)
        pair[0].ask("fill", n=HELD_JOBS, **{"from": now_ms() - 1000}, span=0)
        # apalis at its defaults looks for work every 30 s.
        until = time.time() + 45
        while True:
            events = [read_log(log) for log in logs]
            held = [len(set(e["S"]) - set(e["E"])) for e in events]
            if max(held) > 0:
                break
            if time.time() > until:
                raise Failed("nobody took any work")
            time.sleep(0.02)
        # In the middle of the first jobs, so that what is held is what the peer's settings let it hold.
        time.sleep(HOLD_MS / 2000)
        held = [len(set(e["S"]) - set(e["E"])) for e in map(read_log, logs)]
        victim = held.index(max(held))
        pair[victim].kill()
        killed = now_ms()
        while time.time() * 1000 < killed + cap_s * 1000:
            events = [read_log(log) for log in logs]
            if len(set(events[0]["E"]) | set(events[1]["E"])) == HELD_JOBS:
                break
            time.sleep(0.05)
        events = [read_log(log) for log in logs]
    return judge_failover(events[victim], events[1 - victim], killed, HELD_JOBS, cap_s)


def failover_node(bench, _how, cap_s):
    """Two nodes with webhooks; one of them is killed."""
    store = bench.postgres.fresh("campanile_failover")
    target = product.Target(HOLD_MS)
    nodes = []
    try:
        nodes = [bench.campanile.server(store).ready()]
        nodes.append(bench.campanile.server(store).ready())
        time.sleep(3)
        due = now_ms() + 1000
        nodes[1].create([
            {"name": f"held-{i:03}", "schedule": {"at": product.instant(due)}, "payload": {"id": i},
             "action": {"type": "WEBHOOK", "url": target.url}}
            for i in range(HELD_JOBS)
        ])
        while not target.starts:
            time.sleep(0.005)
        time.sleep(HOLD_MS / 2000)
        nodes[0].kill()
        killed = now_ms()
        # Requests of the dead node are answered to nobody; what counts is what the store says.
        until = killed / 1000 + cap_s
        last = None
        while time.time() < until:
            states = nodes[1].call("GET", "/v1/executions?limit=200")["data"]
            if len(states) == HELD_JOBS and all(e["state"] == "SUCCEEDED" for e in states):
                last = max(product.millis(e["finished_at"]) for e in states)
                break
            time.sleep(0.1)
        again = sum(1 for i in range(HELD_JOBS) if sum(s[0] == i for s in target.starts) > 1)
    finally:
        for node in nodes:
            node.kill()
        target.close()
    if last is None:
        return {"jobs": HELD_JOBS, "more_than_s": cap_s}, f"not all had run again after {cap_s} s"
    if again == 0:
        raise Failed("the node that was killed held nothing")
    return ({"jobs": HELD_JOBS, "held": again, "recovered_s": max(0, last - killed) / 1000},
            f"all {HELD_JOBS} succeeded; {again} were sent twice")


def failover_worker(bench, how, cap_s):
    """One node and two external workers; one of the workers is killed."""
    lease = "3s" if how.endswith("tuned") else None
    name = how.replace("/", "_").replace("-", "_")
    store = bench.postgres.fresh(name)
    logs = [bench.work / f"failover-{name}-{k}" for k in range(2)]
    for log in logs:
        log.unlink(missing_ok=True)
    node = bench.campanile.server(store, lease)
    workers = []
    try:
        node.ready()
        workers = [product.worker(node, log, HOLD_MS) for log in logs]
        time.sleep(1)
        due = now_ms() + 1000
        node.create([
            {"name": f"held-{i:03}", "schedule": {"at": product.instant(due)}, "payload": {"id": i},
             "action": {"type": "WORKER", "handler": "hold"}}
            for i in range(HELD_JOBS)
        ])
        while not read_log(logs[0])["S"]:
            time.sleep(0.02)
        time.sleep(HOLD_MS / 2000)
        workers[0].kill()
        killed = now_ms()
        while time.time() * 1000 < killed + cap_s * 1000:
            events = [read_log(log) for log in logs]
            if len(set(events[0]["E"]) | set(events[1]["E"])) == HELD_JOBS:
                break
            time.sleep(0.05)
        events = [read_log(log) for log in logs]
    finally:
        for worker in workers:
            worker.kill()
        node.kill()
    return judge_failover(events[0], events[1], killed, HELD_JOBS, cap_s)


def side_by_side(calls, at_once=None):
    """Runs them all at once, or so many: their results, or what went wrong, in order."""
    def attempt(call):
        try:
            return call()
        except Exception as error:  # one that fails must not hide the others
            return error
    with ThreadPoolExecutor(at_once or len(calls)) as pool:
        return list(pool.map(attempt, calls))


PEER_CELLS = {"drain": drain, "call": call, "register": register, "lateness": lateness, "stampede": stampede}
CAMPANILE_CELLS = {
    "drain": drain_campanile, "call": call_campanile, "register": register_campanile, "lateness": lateness_campanile,
    "stampede": stampede_campanile,
}
