"""Figures 9: a Slurm cluster of a controller and two workers, created, scaled by a worker and decommissioned, against a script that does it by hand.

Both have the same image, already unpacked on this machine, the same daemons, configuration and users. Ours is requested
over the public API, and is done when the platform has verified it; the script (slurm_by_hand) records, isolates and undoes nothing. A cluster is
created when a job has run on all its workers, a worker is added when Slurm reports it idle, and a cluster is removed when nothing of it is left.
"""

import itertools
import json
import os
import statistics
import sys
import time

from .cells import only, timed
from .cycles import Client, instant
from .muster import call, make_tenant
from .processes import ROOT, TARGET, Broken, Process, output_of, wait_for
from .rounds import metered, noise
from .up import ENVIRONMENT, Up

ADAPTER = TARGET / "release/muster-adapter-slurm"
LAYOUT = ROOT / "target/apps/slurm"
BY_HAND = ROOT / "bench/driver/slurm_by_hand"
WORKERS = 2
NODES = 2  # as many as it takes: each has the machine's processors to give away
USER = 2000
CONFIG = {"accounts": [{"name": "physics", "users": [{"name": "alice", "uid": USER}]}]}
VERBS = ("create", "add", "decommission")
KEYS = itertools.count(1)


def build():
    """The image and the adapter, before anything is measured and while there is a way to the outside."""
    output_of([ROOT / "apps/slurm/build"], timeout=900)
    output_of(["cargo", "build", "--release", "--locked", "--quiet", "--bin", ADAPTER.name], timeout=3600,
              cwd=ROOT / "adapters", env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)})


class Ours:
    """A platform with the app on its shelf and the adapter at work, and clusters called lab."""

    def __init__(self, bench, up):
        self.up = up
        self.token, self.slug, self.project = make_tenant(up, "lab", 1).split(" ")
        self.base = f"/v1/projects/{self.project}"
        self.environment = {**ENVIRONMENT, "HOME": str(up.folder), "MUSTER_SERVER": f"http://{up.address}", "MUSTER_TOKEN": self.token,
                            "MUSTER_PROJECT": self.project, "MUSTER_BINARY": str(up.binary)}
        key = up.folder / "signing.pem"
        self.muster("key", "generate", key)
        self.muster("key", "create", "builds", "--file", f"{key}.pub")
        output_of([ROOT / "apps/slurm/publish", "--key", key, "--layout", LAYOUT], env=self.environment)
        consent = self.post("/entitlements", {"app": "slurm", "dry_run": True})["permissions"]
        self.post("/entitlements", {"app": "slurm", "consent": consent})
        self.adapter = bench.keep(self.start_adapter())

    def muster(self, *words):
        return output_of([self.up.binary, *words], env=self.environment)

    def post(self, path, body):
        return call(self.up.address, "POST", self.base + path, body, self.token)[0]

    def start_adapter(self):
        account = self.post("/service-accounts", {"name": "adapter", "permissions": ["operator_token.mint", "entitlement.list"]})
        issued, _ = call(self.up.address, "POST", "/v1/tokens", {"name": "adapter", "service_account": account["id"]}, self.token)
        token = self.up.folder / "adapter.token"
        token.touch(mode=0o600)
        token.write_text(issued["secret"])
        environment = {**ENVIRONMENT, "MUSTER_SERVER": f"http://{self.up.address}", "MUSTER_TOKEN_FILE": str(token),
                       "MUSTER_ADAPTER_NAME": "slurm-bench"}
        adapter = Process("the adapter", [ADAPTER, "run"], environment, self.up.folder / "adapter.log")
        wait_for("the adapter", adapter, lambda: call(self.up.address, "GET", f"{self.base}/adapters", token=self.token)[0]["items"] or None)
        return adapter

    def started(self, path, body):
        """Runs an operation to its end; returns its timeline."""
        client = Client(self.up.address, self.token)
        try:
            operation, seconds = client.started(self.base + path, body, f"slurm-{next(KEYS)}")
            self.timeline = list(timeline(client, operation))
            return seconds
        finally:
            client.connection.close()

    def create(self):
        components = [{"component_key": "worker", "count": WORKERS}]
        seconds = self.started("/app-instances", {"name": "lab", "app": "slurm", "components": components, "config": CONFIG})
        began = time.perf_counter()
        said = self.muster("exec", "lab-controller-1", "--terminal=never", "--uid", USER, "--gid", USER, "--", "srun", "--chdir=/tmp",
                           f"--nodes={WORKERS}", "hostname")
        srun = time.perf_counter() - began
        must_be([f"lab-worker-{number + 1}" for number in range(WORKERS)], sorted(said.split()))
        self.timeline.append({"what": "srun", "from_ms": seconds * 1000, "to_ms": (seconds + srun) * 1000})
        return seconds + srun

    def add(self):
        seconds = self.started("/app-instances/lab/member-operations/add", {"component_key": "worker"})
        return seconds

    def decommission(self):
        seconds = self.started("/app-instances/lab/decommission", {})
        return seconds


def timeline(client, operation, since=None, name=""):
    """When each step of an operation and of its parts began and ended, in ms since it was accepted."""
    since = since or instant(operation["created_at"])
    after = lambda text: round((instant(text) - since).total_seconds() * 1000, 1)
    name = name or operation["kind"]
    yield {"what": name, "from_ms": after(operation["created_at"]), "to_ms": after(operation["finished_at"])}
    for step in operation["steps"]:
        if step.get("started_at") and step.get("ended_at"):
            yield {"what": f"{name}: {step['name']}", "from_ms": after(step["started_at"]), "to_ms": after(step["ended_at"]),
                   "attempts": step["attempts"]}
    for item in operation.get("items") or []:
        if item.get("operation_id"):
            part = client.ask("GET", f"/v1/operations/{item['operation_id']}")
            yield from timeline(client, part, since, f"{part['kind']} {item['name']}")


class ByHand:
    """The same by a script."""

    def __init__(self, folder):
        self.folder, self.stopped = folder, False
        folder.mkdir(mode=0o755)
        self.run("unpack", LAYOUT)

    def run(self, *words):
        began = time.perf_counter()
        said = output_of([BY_HAND, self.folder, *words], env=ENVIRONMENT)
        return said, time.perf_counter() - began

    def create(self):
        said, seconds = self.run("create", WORKERS)
        must_be([f"hand-worker-{number + 1}" for number in range(WORKERS)], said.split())
        return seconds

    def add(self):
        return self.run("add", "hand-worker-3", 13)[1]

    def decommission(self):
        return self.run("down")[1]

    def stop(self):
        if not self.stopped:
            self.stopped = True
            self.clear(self.folder)

    @staticmethod
    def clear(folder):
        """Whatever became of it, nothing of it is left."""
        output_of([BY_HAND, folder, "down"], env=ENVIRONMENT)


def must_be(wanted, found):
    if wanted != found:
        raise Broken(f"a job ran on {found}, not on {wanted}")


def round_of(maker):
    """One cluster from nothing to nothing."""
    seen = {"ok": 1}
    for verb in VERBS:
        seconds = getattr(maker, verb)()
        seen[verb] = {"ms": seconds * 1000, "timeline": getattr(maker, "timeline", None)}
    return seen


def figure(pairs, verb, cores):
    """How much longer ours takes: a ratio for each block."""
    pairs = [(only(ours, verb), only(other, verb)) for ours, other in pairs]
    ratios = [sum(seen["ms"] for seen in ours) / sum(seen["ms"] for seen in other) for ours, other in pairs]
    sides = {"ours": timed([seen for ours, _ in pairs for seen in ours]),
             "other": timed([seen for _, other in pairs for seen in other])}
    return {"ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "blocks": ratios}, **sides,
            "slurm": verb, "noise": noise(sides, cores)}


def on_slurm(bench):
    images = bench.tmp / "no-images"
    images.mkdir()
    other = bench.keep(ByHand(bench.tmp / "by-hand"))
    up = bench.keep(Up(bench, "cells-slurm", NODES, images)).wait()
    ours = Ours(bench, up)
    bench.say("slurm-create")
    watched = {"server": up.pids("server", "--stop-with-stdin")[0], "agent": up.pids("agent", "run")[0], "adapter": ours.adapter.pid}
    round_of(ours), round_of(other)
    pairs = []
    for block in range(bench.plan.slurm_blocks):
        quartet = [metered(lambda maker=maker: round_of(maker), watched) for maker in (ours, other, other, ours)]
        pairs.append(([quartet[0], quartet[3]], quartet[1:3]))
        print(f"  {block + 1}/{bench.plan.slurm_blocks}", end="\r", file=sys.stderr, flush=True)
    for verb in VERBS:
        bench.add(f"slurm-{verb}", figure(pairs, verb, bench.cores))
    bench.settings["slurm"] = {"workers": WORKERS, "config": CONFIG, "image": json.loads((LAYOUT / "index.json").read_text())["manifests"][0]["digest"]}
    ours.adapter.stop()
    up.stop()
    other.stop()
