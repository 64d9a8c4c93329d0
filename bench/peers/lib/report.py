"""The results for people: tables with medians, spread and ratios, and bars as plain SVG."""

import math
import statistics
from html import escape

# What is shown of a workload: the metric, its heading, its unit, and whether more is better.
SHOWN = {
    "drain": [("jobs_per_s", "drain", "jobs/s", True),
              ("cpu_s_per_million", "drain: processor time, database included", "s per million jobs", False),
              ("wal_bytes_per_job", "drain: WAL", "bytes per job", False)],
    "call": [("jobs_per_s", "one HTTP call per job", "jobs/s", True),
             ("cpu_s_per_million", "one HTTP call per job: processor time, database included", "s per million jobs", False),
             ("wal_bytes_per_job", "one HTTP call per job: WAL", "bytes per job", False)],
    "register": [("bulk_per_s", "registration in bulk", "jobs/s", True),
                 ("single_per_s", "registration one by one, 64 callers", "jobs/s", True)],
    "lateness": [("p50_ms", "lateness p50", "ms", False), ("p99_ms", "lateness p99", "ms", False),
                 ("max_ms", "lateness max", "ms", False)],
    "stampede": [("last_start_s", "stampede: last start", "s", False),
                 ("durable_s", "stampede: all durable", "s", False)],
    "coldstart": [("first_fire_s", "cold start: exec to first fire", "s", False),
                  ("resident_mb", "cold start: resident memory", "MB", False),
                  ("store_mb", "cold start: the store (on disk; in memory for Redis)", "MB", False)],
    "failover": [("recovered_s", "failover: kill to everything done", "s", False)],
}

TITLES = {
    "drain": "Drain: no-op jobs that were registered before, until the last is durably done",
    "call": "One HTTP call per job, to a sink that answers at once: jobs that were registered before, until the last is durably done",
    "register": "Registration",
    "lateness": "Lateness: from the instant at which a job is due to its start",
    "stampede": "Stampede: everything due within one second",
    "coldstart": "Cold start with jobs that are due later",
    "failover": "Failover: a process that holds work is killed",
}

BASE = "campanile"


def number(value):
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.2f}".rstrip("0").rstrip(".")


def summarize(results):
    """Median, lowest and highest of every metric of every row."""
    groups = {}
    for cell in results["cells"]:
        row = groups.setdefault((cell["workload"], cell["row"]), {"label": cell["label"], "values": {}, "problems": []})
        if cell.get("error"):
            row["problems"].append(cell["error"])
        for metric, value in cell.get("metrics", {}).items():
            row["values"].setdefault(metric, []).append(value)
    summary = {}
    for (workload, key), row in groups.items():
        metrics = {
            metric: {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}
            for metric, values in row["values"].items()
        }
        summary.setdefault(workload, {})[key] = {"label": row["label"], "metrics": metrics, "problems": row["problems"]}
    return summary


def is_rate(metric):
    """Whether rows with different numbers of jobs can be compared as they are."""
    return "_per_" in metric


def ratio(metric, mine, base, more_is_better):
    """How many times better Campanile is than the row; below one where the row wins."""
    # Milliseconds are the finest that is measured.
    floor = 1 if metric.endswith("_ms") else 1e-9
    mine, base = max(mine, floor), max(base, floor)
    return base / mine if more_is_better else mine / base


def markdown(results, summary):
    lines = [f"Campanile {results['campanile']}, {results['date']}, {results['machine']}.", "",
             f"PostgreSQL {results['postgres']} ({results['postgres_settings']}).", ""]
    if results.get("redis"):
        lines += [f"Redis {results['redis']}.", ""]
    lines += ["Median of the rounds, (lowest to highest). *Ratio* is how many times better Campanile on PostgreSQL is; "
              "**below 1 the row is better than Campanile**.", ""]
    for workload, rows in summary.items():
        shown = [entry for entry in SHOWN[workload]
                 if any(entry[0] in row["metrics"] for row in rows.values())]
        lines += [f"### {TITLES[workload]}", ""]
        heads = "".join(f" {heading} ({unit}) | ratio |" for _, heading, unit, _ in shown)
        lines += [f"| | jobs | rounds |{heads}", "|---|---|---|" + "---|---|" * len(shown)]
        base = rows.get(BASE, {"metrics": {}})["metrics"]
        for key, row in rows.items():
            lines.append(table_row(key, row, base, shown))
        lines.append("")
        for row in rows.values():
            for problem in sorted(set(row["problems"])):
                lines.append(f"- {row['label']}: **{problem}**")
        for note in results["notes"].get(workload, []):
            lines.append(f"- {note}")
        if lines[-1] != "":
            lines.append("")
    missing = results.get("refused", {})
    if missing:
        lines += ["Not measured, since they could not be installed:", ""]
        lines += [f"- {name}: {why}" for name, why in missing.items()]
        lines.append("")
    return "\n".join(lines)


def beyond_too(metric, metrics):
    """Of rounds of which some were not done when time was up, the others have a median."""
    beyond = metrics.get("more_than_s")
    if metric != "recovered_s" or beyond is None:
        return ""
    return f"; more than {number(beyond['max'])} in {beyond['rounds']} of {metrics['jobs']['rounds']}"


def table_row(key, row, base, shown):
    metrics = row["metrics"]
    jobs = metrics.get("jobs", {}).get("max")
    rounds = max((entry["rounds"] for entry in metrics.values()), default=0)
    cells = [row["label"], f"{jobs:,.0f}" if jobs else "", str(rounds)]
    for metric, _, _, more_is_better in shown:
        found = metrics.get(metric)
        if found is None:
            beyond = metrics.get("more_than_s")
            known = beyond and metric == "recovered_s"
            cells += [f"more than {number(beyond['max'])}" if known else "", ""]
            continue
        spread = f" ({number(found['min'])} to {number(found['max'])})" if found["rounds"] > 1 else ""
        text = f"{number(found['median'])}{spread}{beyond_too(metric, metrics)}"
        compared = ""
        if metric in base and key != BASE:
            times = ratio(metric, found["median"], base[metric]["median"], more_is_better)
            # Who took so long for fewer jobs would have taken longer for as many.
            fewer = not is_rate(metric) and jobs < base["jobs"]["max"]
            compared = f"more than {number(times)}" if fewer and times > 1 else "" if fewer else number(times)
        cells += [text, compared]
    return "| " + " | ".join(cells) + " |"


# The plot.

WIDTH, LABELS, BARS, ROW, TOP = 900, 300, 430, 20, 34


def svg(results, summary):
    """Bars of the medians with the spread, one panel per metric. The axis is logarithmic."""
    parts, y = [], 10
    parts.append(text(10, y + 16, f"Campanile {results['campanile']} and its peers, {results['date']}", 15, weight=600))
    y += 26
    parts.append(text(10, y + 12, f"{results['machine']}; median, spread from lowest to highest; logarithmic axes", 11))
    y += 24
    for workload, rows in summary.items():
        for metric, heading, unit, more_is_better in SHOWN[workload]:
            found = entries(rows, metric)
            if found:
                panel, height = bars(found, f"{heading}, {unit}; {'more' if more_is_better else 'less'} is better", y)
                parts += panel
                y += height
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" '
            f'viewBox="0 0 {WIDTH} {y + 10}" font-family="system-ui, sans-serif">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n')


def entries(rows, metric):
    """What a panel shows: key, label and figures. Who was not done when time was up has a bar as long as that time."""
    base = rows.get(BASE, {"metrics": {}})["metrics"].get("jobs", {}).get("max")
    found = []
    for key, row in rows.items():
        jobs = row["metrics"].get("jobs", {}).get("max")
        label = row["label"] if is_rate(metric) or jobs in (None, base) else f"{row['label']} ({jobs:,.0f} jobs)"
        if metric in row["metrics"]:
            found.append((key, label, row["metrics"][metric]))
        elif metric == "recovered_s" and "more_than_s" in row["metrics"]:
            found.append((key, label, {**row["metrics"]["more_than_s"], "beyond": True}))
    return found


def text(x, y, words, size, weight=400, anchor="start", fill="#1c1c1c"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
            f'fill="{fill}">{escape(words)}</text>')


def bars(rows, title, y):
    floor = 1 if ", ms;" in title else 0.001
    values = [max(floor, entry[key]) for _, _, entry in rows for key in ("min", "max")]
    low = 10 ** math.floor(math.log10(min(values)) - 0.001)
    high = 10 ** math.ceil(math.log10(max(values)) + 0.001)
    if high <= low:
        high = low * 10

    def at(value):
        share = (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return LABELS + share * BARS

    parts = [text(10, y + 20, title, 13, weight=600)]
    bottom = y + TOP + len(rows) * ROW
    power = low
    while power <= high * 1.001:
        x = at(power)
        parts.append(f'<line x1="{x:.1f}" y1="{y + TOP - 4}" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>')
        parts.append(text(x, bottom + 12, f"{power:,g}", 10, anchor="middle", fill="#666666"))
        power *= 10
    for k, (key, label, entry) in enumerate(rows):
        top = y + TOP + k * ROW
        fill = "#b4531f" if key.startswith(BASE) else "#5b7c99"
        if entry.get("beyond"):
            fill = "#c9c9c9"
        width = max(2.0, at(entry["median"]) - LABELS)
        parts.append(text(LABELS - 8, top + 13, label, 11, anchor="end"))
        parts.append(f'<rect x="{LABELS}" y="{top + 3}" width="{width:.1f}" height="{ROW - 7}" fill="{fill}"/>')
        middle = top + 3 + (ROW - 7) / 2
        left, right = at(entry["min"]), at(entry["max"])
        parts.append(f'<line x1="{left:.1f}" y1="{middle}" x2="{right:.1f}" y2="{middle}" stroke="#111111"/>')
        for x in (left, right):
            parts.append(f'<line x1="{x:.1f}" y1="{middle - 4}" x2="{x:.1f}" y2="{middle + 4}" stroke="#111111"/>')
        spread = f" ({number(entry['min'])} to {number(entry['max'])})" if entry["rounds"] > 1 else ""
        beyond = "more than " if entry.get("beyond") else ""
        parts.append(text(LABELS + BARS + 8, top + 13, beyond + number(entry["median"]) + spread, 11))
    return parts, TOP + len(rows) * ROW + 28
