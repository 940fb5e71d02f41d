"""DBOS beside us: a process for each core with durable workflows, on the same PostgreSQL as we have."""

import json
import os
import pathlib
import threading

from .durability import judged, trace
from .processes import CORES, ROOT, Broken, Process

PYTHON = ROOT / ".tools/dbos-venv/bin/python"
SIDE = pathlib.Path(__file__).resolve().parent / "dbos_side.py"
THREADS = 8  # of each process; more of them are not faster
PROBE = 50


class Dbos:
    settings = f"{len(CORES)} processes × {THREADS} threads, a connection for each thread; all else default"

    def __init__(self, bench, postgres):
        self.postgres = postgres
        url = postgres.url.rsplit("/", 1)[0] + "/dbos"
        if not PYTHON.exists():
            raise Broken("DBOS is not here: tools/setup --with-bench installs it")
        postgres.sql("CREATE DATABASE dbos", "postgres")
        self.sides = [self._side(bench, url, number) for number in range(len(CORES))]

    def _side(self, bench, url, number):
        env = {"PATH": os.environ["PATH"], "HOME": str(bench.tmp), "DBOS_SYSTEM_DATABASE_URL": url, "DBOS__VMID": f"side-{number}"}
        side = Process("dbos", [PYTHON, "-P", SIDE, THREADS], env, bench.tmp / "dbos.log", reads_output=True)
        # One after the other: the first makes the tables.
        if side.child.stdout.readline().strip() != "ready":
            raise Broken(f"DBOS did not start:\n{side.last_words()}")
        return side

    def wait(self):
        self.watched = {f"dbos {number}": side for number, side in enumerate(self.sides)}
        return self

    def _tell(self, line, sides):
        """All of these at once."""
        answers = [None] * len(sides)

        def one(number, side):
            side.child.stdin.write(f"{line}\n")
            side.child.stdin.flush()
            answers[number] = side.child.stdout.readline()

        threads = [threading.Thread(target=one, args=pair) for pair in enumerate(sides)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not all(answers):
            raise Broken(f"DBOS ended by itself:\n{self.sides[0].last_words()}")
        found = [json.loads(answer) for answer in answers]
        failed = [why for one in found for why in one["failed"]]
        if failed:
            raise Broken(f"a workflow of DBOS failed: {failed[0]}")
        return found

    def work(self, seconds):
        found = self._tell(seconds, self.sides)
        return {"ok": sum(one["ok"] for one in found), "seconds": max(one["seconds"] for one in found),
                "per_second": sum(one["per_second"] for one in found), "sides": found}

    def flushes(self, folder):
        """Not held against it: whether it flushes less than we do is for the reader to know."""
        work = lambda: self._tell(f"x{PROBE}", self.sides[:1])[0]
        return judged({"one client": trace(self.postgres.pid, folder, work)})

    def stop(self):
        for side in self.sides:
            side.stop()
