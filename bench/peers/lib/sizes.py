"""How much of everything: chosen so that a row takes seconds, for the slow ones as for the fast ones."""

# For the registration: jobs in bulk, and one by one. For lateness: jobs per second, and seconds. For the stampede:
# jobs, and how many a second are surely registered, which says how long before that second it begins.
FULL = {
    "rounds": 3,
    "drain": {
        "campanile": 60_000,
        "campanile/pull": 30_000,
        "campanile/embedded": 100_000,
        "graphile-worker/default": 4_000,
        "graphile-worker/tuned": 150_000,
        "river/default": 5_000,
        "river/tuned": 40_000,
        "bullmq/default/everysec": 10_000,
        "bullmq/tuned/everysec": 30_000,
        "bullmq/tuned/always": 30_000,
        "db-scheduler/default": 4_000,
        "db-scheduler/tuned": 20_000,
        "quartz/default": 500,
        "quartz/tuned": 800,
        "apalis/default": 5_000,
        "apalis/tuned": 50_000,
        "apscheduler/default": 1_500,
    },
    # One HTTP call per job. Those that can: the handlers of the others cannot call without a further library.
    "call": {
        "campanile": 30_000,
        "campanile/embedded": 60_000,
        "graphile-worker/tuned": 20_000,
        "river/tuned": 20_000,
        "bullmq/tuned/everysec": 20_000,
        "bullmq/tuned/always": 20_000,
        "db-scheduler/tuned": 10_000,
        "quartz/tuned": 800,
    },
    "register": {
        "*": (100_000, 3_000),
        "campanile/embedded": (200_000, 20_000),
        "quartz/tuned": (2_000, 500),
        "apscheduler/default": (0, 1_500),
    },
    "lateness": {"*": (50, 20)},
    "stampede": {
        "*": (100_000, 30_000),
        "bullmq/tuned/everysec": (100_000, 15_000),
        "bullmq/tuned/always": (100_000, 10_000),
        "db-scheduler/tuned": (30_000, 10_000),
        "quartz/tuned": (1_000, 500),
        "apscheduler/default": (1_000, 300),
    },
    "coldstart": {"*": 1_000_000},
    "failover_cap_s": 75,
}


def tenth(value):
    if isinstance(value, tuple):
        return tuple(max(100, part // 10) if part else 0 for part in value)
    return max(100, value // 10)


# Enough to see that everything works. Its figures mean nothing.
QUICK = {
    "rounds": 1,
    **{workload: {key: tenth(size) for key, size in FULL[workload].items()} for workload in ("drain", "call", "register")},
    "lateness": {"*": (50, 2)},
    "stampede": {key: (tenth(n), rate // 4) for key, (n, rate) in FULL["stampede"].items()},
    "coldstart": {"*": 10_000},
    "failover_cap_s": 10,
}
