"""Figures 1 and 2: our durable commands against the bare commits of the same database."""

import json
import pathlib
import subprocess
import sys

from . import load
from .durability import must_flush, trace
from .muster import make_targets
from .postgres import Postgres
from .processes import Broken

RAW = pathlib.Path(__file__).resolve().parent / "raw_sqlite.py"
# About as large as the answer to our command, which the server keeps for replays.
ROW_BYTES = 400
SHAPES = {"1x1": (1, 1), "16x16": (16, 16)}
COMMAND = "service_account_create"
PROBE = 200  # writes of one client, for counting flushes


def fill(bench, group, server):
    """The tenants of each wanted shape, and a table that is not empty."""
    targets = {}
    for shape, (tenants, projects) in SHAPES.items():
        if f"{group}-{shape}" in bench.wanted:
            targets[shape] = make_targets(server, tenants, projects)
            load.ask(server, targets[shape], COMMAND, requests=bench.plan.preload)
    return targets


def compare(bench, group, server, targets, other, watched):
    for shape, file in targets.items():
        ours = lambda file=file: load.ask(server, file, COMMAND, seconds=bench.plan.seconds, watch_seal=True)
        bench.measure(f"{group}-{shape}", ours, lambda: other(bench.plan.seconds), watched)


def our_flushes(bench, server, pid, targets):
    file = next(iter(targets.values()))
    alone = lambda: load.ask(server, file, COMMAND, requests=PROBE, clients=1)
    many = lambda: load.ask(server, file, COMMAND, requests=PROBE * 5)
    return {"one client": trace(pid, bench.tmp, alone), "many clients": trace(pid, bench.tmp, many)}


def on_postgres(bench):
    postgres = bench.keep(Postgres(bench.tmp))
    url = postgres.prepare(bench.plan.preload, ROW_BYTES)
    bench.versions.update(postgres.versions())
    bench.settings["postgres"] = postgres.durable_settings()
    server = bench.server("on-postgres", url)
    targets = fill(bench, "postgres", server)
    postgres.sql("ANALYZE", "muster")
    other = lambda seconds: postgres.pgbench(load.CLIENTS, ROW_BYTES, seconds=seconds)
    compare(bench, "postgres", server, targets, other, {"muster": server, "postgres": postgres})
    bench.say_durability()
    alone = lambda: postgres.pgbench(1, ROW_BYTES, transactions=PROBE)
    many = lambda: postgres.pgbench(load.CLIENTS, ROW_BYTES, transactions=PROBE * 5 // load.CLIENTS)
    theirs = {"one client": trace(postgres.pid, bench.tmp, alone), "many clients": trace(postgres.pid, bench.tmp, many)}
    bench.durability["muster on PostgreSQL"] = must_flush(our_flushes(bench, server, postgres.pid, targets))
    bench.durability["pgbench"] = must_flush(theirs)
    server.stop()
    postgres.stop()


class RawSqlite:
    """The bare loop; each call is a fresh process on the same file."""

    def __init__(self, folder):
        self.file = folder / "raw.db"

    def begin(self, synchronous, seconds, rows=0, most=10**9):
        words = [sys.executable, RAW, self.file, synchronous, ROW_BYTES, rows, seconds, most]
        child = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdout.readline()  # ready
        return child

    @staticmethod
    def end(child):
        try:
            out, _ = child.communicate("go\n", timeout=120)
        except BaseException:
            child.kill()
            raise
        if child.returncode != 0:
            raise Broken("the raw SQLite loop failed")
        return json.loads(out)

    def run(self, synchronous, seconds, rows=0):
        return self.end(self.begin(synchronous, seconds, rows))

    def flushes(self, folder):
        child = self.begin("FULL", 60, most=PROBE)
        return {"one client": trace(child.pid, folder, lambda: self.end(child))}


def on_sqlite(bench):
    server, raw = bench.server("on-sqlite"), RawSqlite(bench.tmp)
    targets = fill(bench, "sqlite", server)
    # Without the flush: how much faster the loop could be, and so how little Python takes of it.
    ceiling = raw.run("OFF", 0.5, rows=bench.plan.preload)["per_second"]
    bench.settings["raw SQLite"] = {"journal_mode": "WAL", "synchronous": "FULL", "ceiling_without_flush": round(ceiling)}
    compare(bench, "sqlite", server, targets, lambda seconds: raw.run("FULL", seconds), {"muster": server})
    bench.say_durability()
    bench.durability["muster on SQLite"] = must_flush(our_flushes(bench, server, server.pid, targets))
    bench.durability["raw SQLite"] = must_flush(raw.flushes(bench.tmp))
    server.stop()
