"""Figures 4 and 5: how soon our server answers, and how little it holds. Nothing to compare with but the goal."""

import pathlib
import re
import statistics
import time

from . import load
from .muster import make_targets, seconds_to_answer

IDLE_SECONDS = 10


def memory_mb(pid):
    """RSS counts pages that are shared with others in full; PSS counts its share of them."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    field = lambda name: int(re.search(rf"^{name}:\s*(\d+) kB", text, re.M)[1]) * 1024 / 1e6
    return {"rss_mb": round(field("Rss"), 1), "pss_mb": round(field("Pss"), 1)}


def existing_store(bench):
    """A store with some life in it, stopped in good order."""
    server = bench.server("alone")
    load.ask(server, make_targets(server, 1, 1), "service_account_create", requests=bench.plan.preload)
    server.stop()
    return server


def start(bench, server):
    bench.say("start")
    taken = []
    for _ in range(bench.plan.starts + 1):
        taken.append(seconds_to_answer(server) * 1000)
        server.stop()
    taken = taken[1:]  # the first brings the program into memory
    bench.add("start", {"value": statistics.median(taken), "min": min(taken), "max": max(taken), "all_ms": taken})


def memory(bench, server):
    bench.say("memory")
    server.start()
    time.sleep(IDLE_SECONDS)
    found = memory_mb(server.pid)
    server.stop()
    bench.add("memory", {"value": found["rss_mb"], **found})


def alone(bench):
    server = existing_store(bench)
    if "start" in bench.wanted:
        start(bench, server)
    if "memory" in bench.wanted:
        memory(bench, server)
