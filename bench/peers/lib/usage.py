"""What a measurement costs: processor time of all who take part, and what PostgreSQL writes to its log."""

import os

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

    def __init__(self, pids, postgres=None):
        self.pids, self.postgres = pids, postgres
        self.cpu, self.wal = self.read()

    def read(self):
        return sum(map(cpu_s, self.pids)), self.postgres.wal_bytes() if self.postgres else 0

    def costs(self, n):
        """The costs of `n` jobs since then."""
        cpu, wal = self.read()
        costs = {"cpu_s_per_million": (cpu - self.cpu) * 1e6 / n}
        if self.postgres:
            costs["wal_bytes_per_job"] = (wal - self.wal) / n
        return costs
