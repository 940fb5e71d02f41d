"""Figure 6: how long it takes to find a place and claim it, on a small fleet and on one a hundred times larger.

Beside it, the obvious way: every free slot is read, and the same planner looks at all of them. And how many claims two
processes with two workers each commit in a second.
"""

import json
import statistics
import subprocess

from . import fleet
from .durability import must_flush, trace
from .postgres import Postgres
from .processes import ROOT, TARGET, Broken, output_of
from .rounds import metered, noise, side

BINARY = TARGET / "release/examples/placement_bench"
SIZES = {"1k": 125, "100k": 12_500}  # slots → nodes
PROCESSES, WORKERS = 2, 2
SECONDS = 1  # of a round of decisions
NAIVE_MOST = 16  # decisions of a naive round: each of the asks once
PROBE = 200


def build():
    output_of(["cargo", "build", "--release", "--quiet", "-p", "muster-engine", "--example", "placement_bench"],
              timeout=3600, cwd=ROOT)


class Program:
    """The program, ready to begin."""

    def __init__(self, mode, url, **options):
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        command = [BINARY, mode, "--database", url, "--tenant", fleet.TENANT, "--project", fleet.PROJECT, *words]
        self.child = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
        if mode != "open" and self.child.stdout.readline().strip() != "ready":
            raise Broken(f"placement_bench did not begin: {self.child.communicate()[1][-2000:]}")

    def begin(self):
        self.child.stdin.write("go\n")
        self.child.stdin.flush()
        return self

    def end(self):
        try:
            out, err = self.child.communicate(timeout=120)
        except BaseException:
            self.child.kill()
            raise
        if self.child.returncode != 0:
            raise Broken(f"placement_bench failed: {err[-2000:]}")
        return json.loads(out) if out else None

    def run(self):
        return self.begin().end()


def databases(postgres):
    """One for each size, with our schema."""
    urls = {}
    for size in SIZES:
        postgres.sql(f"CREATE DATABASE fleet_{size}", "postgres")
        urls[size] = postgres.url.rsplit("/", 1)[0] + f"/fleet_{size}"
        Program("open", urls[size]).end()
    return urls


def told(rounds):
    """Medians over the rounds of one method on one size."""
    middle = lambda name: statistics.median(seen["latency_us"][name] for seen in rounds)
    return {"p50_us": middle("p50"), "p99_us": middle("p99"), "decisions": sum(seen["ok"] for seen in rounds),
            "placed": sum(seen["placed"] for seen in rounds), "rounds": rounds}


def decisions(bench, postgres, urls, how):
    """Small, large, large, small; and after every second such block the naive way once on both."""
    name = f"placement-{how}"
    bench.say(name)
    for size, nodes in SIZES.items():
        fleet.fill(postgres, f"fleet_{size}", nodes, how)
    ours = lambda size: metered(Program("ours", urls[size], seconds=SECONDS).run, {"postgres": postgres.pid})
    naive = lambda size: Program("naive", urls[size], seconds=SECONDS, most=NAIVE_MOST, warm=2).run()
    seen = {(way, size): [] for way in ("ours", "naive") for size in SIZES}
    ratios = []
    for number in range(bench.plan.blocks):
        block = {"1k": [], "100k": []}
        for size in ("1k", "100k", "100k", "1k"):
            block[size].append(ours(size))
        p50 = {size: statistics.mean(one["latency_us"]["p50"] for one in rounds) for size, rounds in block.items()}
        ratios.append(p50["100k"] / p50["1k"])
        for size in SIZES:
            seen["ours", size] += block[size]
            seen["naive", size] += [naive(size)] if number % 2 == 0 else []
    for size in SIZES:
        fleet.audit(postgres, f"fleet_{size}")
    sides = {f"decisions on {size} slots": side(seen["ours", size]) for size in SIZES}
    ways = {way: {size: told(seen[way, size]) for size in SIZES} for way in ("ours", "naive")}
    bench.add(name, {"value": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "blocks": ratios,
                     "placement": ways, "noise": noise(sides, bench.cores)})


def together(url, seconds):
    """All processes start at once; returns the sum of their commits."""
    programs = [Program("claims", url, seconds=seconds, workers=WORKERS) for _ in range(PROCESSES)]
    for program in programs:
        program.begin()
    ended = [program.end() for program in programs]
    if any(seen["refused"] for seen in ended):
        raise Broken("the fleet was full before the round was over, so the claims are not comparable")
    taken = max(seen["seconds"] for seen in ended)
    done = sum(seen["ok"] for seen in ended)
    return {"ok": done, "per_second": done / taken, "processes": ended}


def claims(bench, postgres, url):
    """Claims of all workers against the bare commits of as many clients, on the same server."""
    name, clients = "placement-claims", PROCESSES * WORKERS
    bench.say(name)
    fleet.fill(postgres, "fleet_100k", SIZES["100k"], "empty")

    def ours():
        seen = metered(lambda: together(url, SECONDS), {"postgres": postgres.pid})
        fleet.audit(postgres, "fleet_100k")
        fleet.empty_again(postgres, "fleet_100k")
        return seen

    bare = lambda: metered(lambda: postgres.pgbench(clients, 400, seconds=SECONDS), {"postgres": postgres.pid})
    ours(), bare()
    seen = {"ours": [], "bare": []}
    for _ in range(bench.plan.blocks):
        for way, work in (("ours", ours), ("bare", bare), ("bare", bare), ("ours", ours)):
            seen[way].append(work())
    sides = {way: side(rounds) for way, rounds in seen.items()}
    rate = sides["ours"]["per_second"]
    bench.add(name, {"value": rate["median"], "min": rate["min"], "max": rate["max"],
                     "beside": {"pgbench": sides["bare"]["per_second"]}, "claims": sides,
                     "noise": noise(sides, bench.cores)})
    bench.say_durability()
    alone = Program("claims", url, seconds=60, most=PROBE)
    bench.durability["claims on PostgreSQL"] = must_flush({"one client": trace(postgres.pid, bench.tmp, alone.run)})


def placement(bench):
    postgres = bench.keep(Postgres(bench.tmp))
    postgres.prepare(bench.plan.preload, 400)
    bench.versions.update(postgres.versions())
    bench.settings["postgres"] = postgres.durable_settings()
    urls = databases(postgres)
    for how in fleet.FILLS:
        if f"placement-{how}" in bench.wanted:
            decisions(bench, postgres, urls, how)
    if "placement-claims" in bench.wanted:
        claims(bench, postgres, urls["100k"])
    postgres.stop()
