"""How much longer one tenant waits while another does its worst: p99 beside the flood ÷ p99 alone, in turns."""

import contextlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import uuid

from .muster import make_tenant
from .nodes import noise
from .processes import Broken
from .rounds import metered

FLOOD = pathlib.Path(__file__).with_name("flood.py")
GROUPS = pathlib.Path("/sys/fs/cgroup")
PER_SECOND = 40


class Group:
    """A control group in which the generator has half of an ordinary process's weight: `cpu.weight` of version 2, `cpu.shares` of
    version 1. It should load the server up to its limits, not the machine; with the lowest weight it does not reach them beside others.
    If no group can be created, the generator has a low priority instead, and the report mentions it."""

    def __init__(self):
        self.folder, self.kind = None, "low priority (nice 5)"
        name = f"muster-bench-{os.getpid()}"
        for base, file, value in ((GROUPS, "cpu.weight", "50"), (GROUPS / "cpu", "cpu.shares", "512")):
            folder = base / name
            with contextlib.suppress(OSError):
                folder.mkdir()
                self.folder = folder
                # With version 1, the base of version 2 is an ordinary folder without this file.
                if not (folder / file).exists():
                    raise OSError
                (folder / file).write_text(value)
                self.kind = f"control group, {file} {value}"
                return
            self.stop()

    def command(self, command):
        return command if self.folder else ["nice", "-n", "5", *command]

    def take(self, pid):
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def stop(self):
        if self.folder:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            self.folder = None


class Flooding:
    """The generator as a process of its own, for the length of a round."""

    def __init__(self, server, group, attacker):
        self.group, self.answers = group, {}
        token, slug, project = attacker
        port = server.address.rsplit(":", 1)[1]
        self.child = subprocess.Popen(
            group.command(["setpriv", "--pdeathsig", "KILL", "--", sys.executable, str(FLOOD), port, project, f"{slug}.p0/flood"]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        group.take(self.child.pid)
        self.child.stdin.write(token + "\n")
        self.child.stdin.flush()
        time.sleep(1)  # it stands before the first request is timed

    def stop(self):
        said, _ = self.child.communicate(timeout=60)
        if self.child.returncode != 0:
            raise Broken(f"the flood ended with {self.child.returncode}")
        return json.loads(said)


def worked(server, tenant, seconds):
    """The other tenant's requests at their pace, reads and commands; the milliseconds of each. One wrong answer breaks the run."""
    token, _, project = tenant
    host, port = server.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    times, began = [], time.perf_counter()
    for number in range(seconds * PER_SECOND):
        time.sleep(max(0.0, began + number / PER_SECOND - time.perf_counter()))
        sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        path, method, body, expected = f"/v1/projects/{project}", "GET", None, 200
        if number % 4 == 3:
            path, method, expected = f"{path}/service-accounts", "POST", 201
            body = json.dumps({"name": f"a{uuid.uuid4().hex[:12]}", "permissions": ["project.get"]})
        elif number % 4 == 1:
            path += "/service-accounts?page_size=20"
        started = time.perf_counter()
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        text = answer.read()
        times.append((time.perf_counter() - started) * 1000)
        if answer.status != expected:
            raise Broken(f"the other tenant's {method} {path} was answered with {answer.status}: {text[:300]!r}")
    connection.close()
    return times


def p99(times):
    return sorted(times)[max(0, -(-len(times) * 99 // 100) - 1)]


def two_tenants(bench):
    """A-B-B-A: beside the flood, alone, alone, beside it. The limits are the defaults, of which the attacker takes all."""
    bench.say("two-tenants")
    server = bench.server("two-tenants", limits={})
    attacker, tenant = (make_tenant(server, slug, 1).split(" ") for slug in ("attacker", "other"))
    group = bench.keep(Group())
    seconds = max(4, bench.plan.seconds * 3)

    def alone():
        times = worked(server, tenant, seconds)
        return {"ok": len(times), "p99_ms": p99(times), "p50_ms": statistics.median(times), "times_ms": [round(one, 2) for one in times]}

    def beside():
        flood = Flooding(server, group, attacker)
        try:
            seen = alone()
        finally:
            answers = flood.stop()
        if not answers.get("429"):
            raise Broken(f"the flood did not reach its limits: {answers}")
        return {**seen, "flood": answers}

    beside(), alone()
    ratios, rounds, watched = [], {"ours": [], "other": []}, {"muster": server.pid}
    for _ in range(bench.plan.blocks):
        quartet = [metered(work, watched) for work in (beside, alone, alone, beside)]
        pooled = [p99(one["times_ms"] + two["times_ms"]) for one, two in ((quartet[0], quartet[3]), quartet[1:3])]
        ratios.append(pooled[0] / pooled[1])
        rounds["ours"] += [quartet[0], quartet[3]]
        rounds["other"] += quartet[1:3]
    side = lambda seen: {"ms": {"median": statistics.median(one["p99_ms"] for one in seen)}, "rounds": seen}
    others = statistics.median(one["others_cores"] for seen in rounds.values() for one in seen)
    bench.add("two-tenants", {
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "blocks": ratios},
        "ours": side(rounds["ours"]), "other": side(rounds["other"]), "flooded_by": group.kind, "noise": noise(others, bench.cores)})
    server.stop()
    group.stop()
