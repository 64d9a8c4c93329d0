"""What a measurement costs: processor time of all who take part, and what PostgreSQL writes to its log."""

import os

from .servers import Postgres

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """Processor seconds of a process, with its children, those that ended included."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        # What follows the name, which may have any characters in it: the state, and so on.
        fields = stat.read().rpartition(")")[2].split()
    own_and_ended = sum(map(int, fields[11:15])) / TICKS_PER_S
    return own_and_ended + sum(map(living_cpu_s, children(pid)))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as listed:
        return listed.read().split()


def living_cpu_s(pid):
    try:
        return cpu_s(pid)
    except (FileNotFoundError, ProcessLookupError):
        # It ended just now; its parent has its time.
        return 0


class Meter:
    """Counts from when it is made."""

    def __init__(self, workers, server):
        self.workers, self.server = workers, server
        self.before = self.totals()

    def totals(self):
        """Of what is known: the processes of a server that is not ours are not."""
        known = {}
        if self.server.pids:
            known["cpu_s_per_million"] = 1e6 * sum(map(cpu_s, [*self.workers, *self.server.pids]))
        if isinstance(self.server, Postgres):
            known["wal_bytes_per_job"] = self.server.wal_bytes()
        return known

    def costs(self, n):
        """What `n` jobs have cost since then."""
        return {cost: (total - self.before[cost]) / n for cost, total in self.totals().items()}
