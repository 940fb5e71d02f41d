"""`muster up --nodes` with real nodes, and a project with allocations for cells."""

import itertools
import os
import pathlib
import shutil

from .cycles import Client, instant
from .muster import LIFTED, free_port, make_tenant
from .podman import PORT, SERVICE
from .processes import Broken, Process, family, output_of, wait_for

ENVIRONMENT = {"PATH": os.environ["PATH"]}
# All processors of the machine, because podman's containers are not bound to a share of them either.
PER_SLOT = {"memory_mb": 64, "disk_mb": 64}
NAMES = itertools.count(1)


def clear(binary, data):
    """Removes nodes and everything on them, also those of a run that was killed."""
    output_of([binary, "down", "--data-dir", data, "--delete-data"], env=ENVIRONMENT)


def stand_apart():
    """Makes the next platform take the last of the sixteen blocks of addresses.

    The user ids of cells follow from the block, and are machine-wide. Other `muster up` processes outside of our
    network namespace take the first block that is free there; in here all would look free, and both would have the same ids.
    """
    for block in range(15):
        output_of(["ip", "address", "replace", f"198.18.0.{block * 16 + 1}/32", "dev", "lo"])


class Up:
    """A platform with this many nodes on this machine; from a copy of the program, like an installed one."""

    def __init__(self, bench, name, nodes, images):
        self.folder = bench.tmp / name
        self.folder.mkdir(mode=0o700)
        stand_apart()
        self.binary = pathlib.Path(shutil.copy(bench.binary, self.folder / "muster"))
        self.data, self.address, self.stopped = self.folder / "data", f"127.0.0.1:{free_port()}", False
        flags = {"nodes": nodes, "http.listen": self.address, "data.dir": self.data, "images": images, **LIFTED}
        words = [(f"--{key.replace('.', '-').replace('_', '-')}", value) for key, value in flags.items()]
        self.process = Process("muster up", [self.binary, "up", *itertools.chain(*words)], ENVIRONMENT, self.folder / "log")

    def wait(self):
        """Waits until its nodes are ready."""
        ready = lambda: "\ntry:\n" in (self.folder / "log").read_text() or None
        wait_for("muster up", self.process, ready, timeout=90)
        self.operator = (self.data / "operator.token").read_text().strip()
        return self

    def pids(self, *words):
        """Returns its descendant processes with this command prefix."""
        wanted = "\0".join(words).encode() + b"\0"
        return [pid for pid in family(self.process.pid) if wanted in command_of(pid)]

    def stop(self):
        if not self.stopped:
            self.stopped = True
            self.process.stop()
            clear(self.binary, self.data)


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Cells:
    """A project with one allocation of all processors; a slot holds one cell at a time."""

    def __init__(self, up, digest, slots):
        self.address, self.digest = up.address, digest
        self.token, _tenant, self.project = make_tenant(up, "cells", 1).split(" ")
        self.base, self.living = f"/v1/projects/{self.project}", {}
        room = {what: each * slots for what, each in PER_SLOT.items()}
        self.started(f"{self.base}/allocations", {"name": "slots", "cpus": os.cpu_count(), **room})

    def spec(self):
        ready = {"by": {"http": {"port": PORT, "path": "/"}}}
        return {"root": {"image": self.digest}, "services": [{"name": "web", "command": SERVICE, "ready": ready}]}

    def started(self, path, body):
        """An operation, from the question to the answer that it succeeded. Each on a connection of its own."""
        client = Client(self.address, self.token)
        try:
            return client.started(path, body, f"cells-{next(NAMES)}")
        finally:
            client.connection.close()

    def make(self, slot):
        """Returns the time from the request until the platform has verified the service as ready, in seconds, and step by step."""
        body = {"name": f"c{next(NAMES)}", "allocation": "slots", "spec": self.spec()}
        operation, seconds = self.started(f"{self.base}/cells", body)
        self.living[slot] = operation["subject_id"]
        return {"seconds": seconds, "steps": steps(operation, seconds)}

    def remove(self, slot):
        """Returns the time from the request until the platform has verified that nothing is left, in seconds, and step by step."""
        operation, seconds = self.started(f"{self.base}/cells/{self.living.pop(slot)}/destroy", {})
        return {"seconds": seconds, "steps": steps(operation, seconds)}

    def listed(self, state):
        client = Client(self.address, self.token)
        try:
            return client.ask("GET", f"{self.base}/cells?page_size=200&state={state}")["items"]
        finally:
            client.connection.close()

    def must_run(self, slots):
        running = [cell["id"] for cell in self.listed("running")]
        if sorted(running) != sorted(self.living[slot] for slot in slots):
            raise Broken(f"{len(running)} cells run, not one for each of {list(slots)}")

    def must_be_empty(self):
        for state in ("requested", "provisioning", "running", "destroying", "failed"):
            if self.listed(state):
                raise Broken(f"cells are {state} after all were destroyed")


def steps(operation, seconds):
    """Returns the duration of each step by the server's clock, in ms; the gaps between them; and the overhead of request and response."""
    since = lambda earlier, later: (instant(later) - instant(earlier)).total_seconds() * 1000
    taken = {step["name"]: since(step["started_at"], step["ended_at"]) for step in operation["steps"]}
    whole = since(operation["created_at"], operation["finished_at"])
    taken |= {"between them": whole - sum(taken.values()), "question and answer": seconds * 1000 - whole}
    if not any(step.get("witness_id") for step in operation["steps"]):
        raise Broken(f"{operation['kind']} succeeded without evidence")
    return {name: round(value, 1) for name, value in taken.items()}
