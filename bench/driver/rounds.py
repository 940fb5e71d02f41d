"""A-B-B-A, again and again: the machine's noise affects both sides equally, and only the ratio is reported."""

import statistics
import sys
import time

from .processes import cpu_seconds, family, machine_cpu_seconds, own_cpu_seconds

COV_LIMIT = 0.15
OTHERS_LIMIT = 0.15  # of all processors, used by programs that are not part of the measurement


def used(watched):
    """Processor seconds until now of each watched process with its children, of our generators, and of the machine."""
    now = {name: cpu_seconds(pid, True) + sum(cpu_seconds(child) for child in family(pid)[1:])
           for name, pid in watched.items()}
    busy, steal = machine_cpu_seconds()
    return {**now, "generator": own_cpu_seconds(), "machine": busy, "steal": steal}


class Around:
    """A round with something to be done before it and after it, in which nothing is measured."""

    def __init__(self, work, before=lambda: None, after=lambda _seen: None):
        self.work, self.before, self.after = work, before, after

    def __call__(self):
        self.before()
        self.after(self.work())


def metered(work, watched):
    """Runs one round, and records the processor time of each program meanwhile."""
    work = work if isinstance(work, Around) else Around(work)
    work.before()
    before, started = used(watched), time.monotonic()
    seen = work.work()
    after, taken = used(watched), time.monotonic() - started
    work.after(seen)
    spent = {name: after[name] - before[name] for name in before}
    ours = sum(value for name, value in spent.items() if name not in ("machine", "steal"))
    others = max(0.0, spent.pop("machine") - ours) + spent.pop("steal")
    per_request = {name: round(value * 1e6 / max(1, seen["ok"]), 1) for name, value in spent.items()}
    return {**seen, "cpu_us_per_request": per_request, "others_cores": round(others / taken, 3)}


def side(rounds):
    rates = [seen["per_second"] for seen in rounds]
    cov = statistics.stdev(rates) / statistics.mean(rates) if len(rates) > 1 else 0.0
    return {"per_second": {"median": statistics.median(rates), "min": min(rates), "max": max(rates)}, "cov": cov,
            "unit": rounds[0].get("unit", ""), "rounds": rounds}


def noise(sides, cores):
    reasons = [f"{name} varies by {data['cov']:.0%}" for name, data in sides.items() if data["cov"] > COV_LIMIT]
    others = statistics.median(seen["others_cores"] for data in sides.values() for seen in data["rounds"])
    if others > OTHERS_LIMIT * cores:
        reasons.append(f"other programs took {others / cores:.0%} of the machine")
    return reasons


def sealing(rounds):
    """Returns the worst sealing lag, over all rounds that watched it."""
    watched = [seen["sealed"] for seen in rounds if seen.get("sealed")]
    if not watched:
        return None
    return {"lag_max_ms": max(seen["lag_max_ms"] for seen in watched),
            "after_end_ms": max(seen["after_end_ms"] for seen in watched),
            "acknowledged": sum(seen["acknowledged"] for seen in watched),
            "entries": sum(seen["entries"] for seen in watched)}


def interleave(ours, other, blocks, watched, cores):
    """Both sides once to warm up, then `blocks` times A-B-B-A; a ratio for each block."""
    ours(), other()
    pairs = []
    for block in range(blocks):
        quartet = [metered(work, watched) for work in (ours, other, other, ours)]
        pairs.append(([quartet[0], quartet[3]], quartet[1:3]))
        print(f"  {block + 1}/{blocks}", end="\r", file=sys.stderr, flush=True)
    total = lambda rounds: sum(seen["per_second"] for seen in rounds)
    ratios = [total(a) / total(b) for a, b in pairs]
    sides = {"ours": side([seen for a, _ in pairs for seen in a]), "other": side([seen for _, b in pairs for seen in b])}
    return {"ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "blocks": ratios},
            **sides, "sealing": sealing(sides["ours"]["rounds"]), "noise": noise(sides, cores)}
