"""Figures 8: a cell with a service in it, against a container of podman with the same; one by one, and ten at once.

Ours is done when the platform has verified it: the service ready, or nothing left. podman's is done when the service responds,
or when `podman rm` returns. Checking that comes after, and is not part of the time.
"""

import statistics
import sys
import threading
import time

from . import podman
from .machine import first_line
from .processes import ROOT, Broken, output_of
from .rounds import metered, noise, side
from .simulated import memory
from .up import Cells, Up

CELLS = 3  # of a round, one after the other
TOGETHER = 10
AGENTS = 5
SETTLE_SECONDS = 5
VERBS = ("create", "destroy")


def one_by_one(maker):
    """A few in a row; the middle one counts."""
    seen = {verb: [] for verb in VERBS}
    for _ in range(CELLS):
        seen["create"].append(maker.make(0))
        maker.must_run([0])
        seen["destroy"].append(maker.remove(0))
        maker.must_be_empty()
    return {"ok": CELLS, **{verb: told(all_of, middle(all_of)) for verb, all_of in seen.items()}}


def together(maker):
    """All at the same time, until the last of them is done."""
    made, creating = at_once(maker.make)
    maker.must_run(range(TOGETHER))
    removed, destroying = at_once(maker.remove)
    maker.must_be_empty()
    return {"ok": TOGETHER, "create": told(made, creating), "destroy": told(removed, destroying)}


def middle(seen):
    return statistics.median(one["seconds"] for one in seen)


def told(seen, seconds):
    return {"ms": seconds * 1000, "all_ms": [round(one["seconds"] * 1000, 1) for one in seen],
            "steps": [one["steps"] for one in seen if "steps" in one]}


def at_once(work):
    """Runs it for every slot, each in a thread; returns the results, and the duration of all."""
    seen, failed = [], []

    def do(slot):
        try:
            seen.append(work(slot))
        except Exception as failure:  # ends the run; the parent thread reports it
            failed.append(failure)

    threads = [threading.Thread(target=do, args=(slot,), daemon=True) for slot in range(TOGETHER)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - began
    if failed:
        raise Broken(f"{len(failed)} of {TOGETHER} at once: {failed[0]}") from failed[0]
    return seen, taken


def interleave(work, ours, other, blocks, watched):
    """Both once to warm up, then A-B-B-A again and again."""
    work(ours), work(other)
    pairs = []
    for block in range(blocks):
        quartet = [metered(lambda: work(maker), watched) for maker in (ours, other, other, ours)]
        pairs.append(([quartet[0], quartet[3]], quartet[1:3]))
        print(f"  {block + 1}/{blocks}", end="\r", file=sys.stderr, flush=True)
    return pairs


def only(rounds, verb):
    """Returns the rounds of one verb. A rate stands beside the time, because noise is computed from rates."""
    shared = ("ok", "cpu_us_per_request", "others_cores")
    return [{**{key: seen[key] for key in shared}, **seen[verb], "per_second": 1000 / seen[verb]["ms"]} for seen in rounds]


def timed(rounds):
    times = [seen["ms"] for seen in rounds]
    return {**side(rounds), "ms": {"median": statistics.median(times), "min": min(times), "max": max(times)}}


def figure(pairs, verb, cores):
    """How much longer ours takes: a ratio for each block."""
    pairs = [(only(ours, verb), only(other, verb)) for ours, other in pairs]
    total = lambda rounds: sum(seen["ms"] for seen in rounds)
    ratios = [total(ours) / total(other) for ours, other in pairs]
    sides = {"ours": timed([seen for ours, _ in pairs for seen in ours]),
             "other": timed([seen for _, other in pairs for seen in other])}
    taken = [steps for seen in sides["ours"]["rounds"] for steps in seen["steps"]]
    return {"ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "blocks": ratios}, **sides,
            "steps": {name: statistics.median(steps[name] for steps in taken) for name in taken[0]},
            "noise": noise(sides, cores)}


def beside_podman(bench, up, ours, other):
    agents, servers = up.pids("agent", "run"), up.pids("server", "--stop-with-stdin")
    watched = {"server": servers[0], "agent": agents[0]}
    for ending, work, blocks in (("", one_by_one, bench.plan.cell_blocks), ("-10", together, bench.plan.ten_blocks)):
        names = {verb: f"cells-{verb}{ending}" for verb in VERBS}
        if any(name in bench.wanted for name in names.values()):
            bench.say(names["create"])
            pairs = interleave(work, ours, other, blocks, watched)
            for verb, name in names.items():
                bench.add(name, figure(pairs, verb, bench.cores))


def with_ten(bench, up, cells):
    """Memory of an agent with ten cells, and after their removal."""
    bench.say("cells-agent-10")
    agent = up.pids("agent", "run")[0]
    at_once(cells.make)
    time.sleep(SETTLE_SECONDS)
    held = memory(agent)
    at_once(cells.remove)
    time.sleep(SETTLE_SECONDS)
    bench.add("cells-agent-10", {"value": held["rss_mb"], "held": {"with ten cells": held, "after them": memory(agent)}})


def idle(bench, images):
    """Memory of an idle agent: the median of five."""
    bench.say("cells-agent")
    up = bench.keep(Up(bench, "cells-idle", AGENTS, images)).wait()
    time.sleep(bench.plan.rest_seconds)
    found = sorted((memory(pid) for pid in up.pids("agent", "run")), key=lambda one: one["rss_mb"])
    if len(found) != AGENTS:
        raise Broken(f"{len(found)} agents run, not {AGENTS}")
    up.stop()
    held = found[len(found) // 2]
    bench.add("cells-agent", {"value": held["rss_mb"], "min": found[0]["rss_mb"], "max": found[-1]["rss_mb"], "all": found,
                              "held": {f"idle for {bench.plan.rest_seconds} s": held}})


def on_cells(bench):
    missing = podman.missing()
    if missing:
        raise Broken(f"cells are measured against podman, and {', '.join(missing)} is missing: run tools/setup --with-bench")
    bench.versions.update({name: first_line([name, "--version"]) for name in ("podman", "runc", "conmon")})
    bench.settings["podman"] = {"containers.conf": podman.CONF, "run": ["--detach", "--init", "--ip", "…", *podman.LIMITS]}
    images = bench.tmp / "images"
    digest = output_of([sys.executable, ROOT / "tests/cells/image.py", images]).strip()
    if "cells-agent" in bench.wanted:
        idle(bench, images)
    if any(name != "cells-agent" for name in bench.wanted if name.startswith("cells-")):
        other = bench.keep(podman.Podman(bench.tmp / "podman")).load(images)
        up = bench.keep(Up(bench, "cells", 1, images)).wait()
        ours = Cells(up, digest, TOGETHER)
        beside_podman(bench, up, ours, other)
        if "cells-agent-10" in bench.wanted:
            with_ten(bench, up, ours)
        up.stop()
        other.stop()
