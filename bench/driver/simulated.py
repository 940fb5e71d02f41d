"""Nodes beside a server: a fleet of simulated ones in one process, or one real agent with simulated GPUs."""

import os
import pathlib
import re

from .muster import call
from .processes import Broken, Process, output_of, wait_for

PAGE = 200  # the most that a page of nodes may hold
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def memory(pid):
    """Resident memory in MB of 1,000,000 bytes: total, private, and mapped from files."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    field = lambda name: round(int(re.search(rf"^{name}:\s*(\d+) kB", text, re.M)[1]) * 1024 / 1e6, 2)
    return {"rss_mb": field("VmRSS"), "anon_mb": field("RssAnon"), "file_mb": field("RssFile")}


def nodes_of(server):
    """Returns every node, as an operator."""
    nodes, token = [], ""
    while True:
        query = f"?page_size={PAGE}" + (f"&page_token={token}" if token else "")
        page, _ = call(server.address, "GET", f"/v1/nodes{query}", token=server.operator)
        nodes += page["items"]
        token = page.get("next_page_token")
        if not token:
            return nodes


class Simulated:
    """A fleet that does not exist, in one process; each node is the real agent with connections of its own."""

    def __init__(self, bench, server, nodes, gpus, cpus=128):
        folder = server.folder / "simulated"
        folder.mkdir(mode=0o700)
        command = [bench.binary, "agent", "simulate", "--nodes", nodes, "--gpus", gpus, "--cpus", cpus, "--approve", "--control",
                   "--server", f"https://{server.nodes_address}", "--api", f"http://{server.address}",
                   "--token-file", server.folder / "operator.token", "--data-dir", folder]
        self.nodes = nodes
        self.process = Process("the simulated fleet", command, ENVIRONMENT, folder / "log", reads_output=True)
        self.pid = self.process.pid

    def wait(self):
        """Waits until all of its nodes are ready for work."""
        line = self.process.child.stdout.readline().strip()
        if line != f"ready nodes={self.nodes}":
            raise Broken(f"the simulated fleet said {line!r}:\n{self.process.last_words()}")

    def stop(self):
        self.process.stop()


class Agent:
    """One node as it would run on a machine: it joins with a token of its own, is approved, and serves."""

    def __init__(self, binary, folder, server, gpus):
        folder.mkdir(mode=0o700)
        self.folder, name, data = folder, folder.name, folder / "data"
        enrolment, _ = call(server.address, "POST", "/v1/nodes/enrol", {"name": name}, server.operator)
        (folder / "token").write_text(enrolment["token"])
        told = output_of([binary, "agent", "join", "--server", f"https://{server.nodes_address}", "--data-dir", data,
                          "--token-file", folder / "token", "--ca-sha256", enrolment["ca_sha256"], "--name", name,
                          "--fake-gpus", gpus], env=ENVIRONMENT)
        digest = re.search(r"--digest (\S+)", told)[1]
        call(server.address, "POST", f"/v1/nodes/{name}/approve", {"digest": digest}, server.operator, {"If-Match": "*"})
        self.process = Process("the agent", [binary, "agent", "run", "--driver", "simulated", "--data-dir", data], ENVIRONMENT, folder / "log")
        self.pid = self.process.pid

    def wait(self):
        wait_for("the agent's first hello", self.process, self._taken_up)
        return self

    def _taken_up(self):
        return True if "accepted this node" in (self.folder / "log").read_text() else None

    def stop(self):
        self.process.stop()
