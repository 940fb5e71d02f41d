"""Servers and simulated fleets as real processes, and a tenant."""

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from platform_under_test import BINARY, Refused, Server, actors, die_with_parent, free_port  # noqa: E402

# Short timeouts, so that a kill costs seconds: an operation's lease expires after a second, a task is retried after three.
IMPATIENT = {
    "engine-lease-milliseconds": "1000",
    "engine-task-milliseconds": "3000",
    "engine-create-seconds": "45",
    "engine-release-seconds": "60",
    "engine-undo-seconds": "60",
    "nodes-heartbeat-seconds": "2",
}


class Replica(Server):
    """A server with a listener for agents."""

    def __init__(self, data, database="", settings=None):
        self.nodes_port = free_port()
        listen = {"nodes-listen": f"127.0.0.1:{self.nodes_port}"}
        super().__init__(data, database, {**IMPATIENT, **listen, **(settings or {})})

    def is_up(self):
        return self.process is not None and self.process.poll() is None


class Agents:
    """One process with some simulated nodes, and the journal of their effects."""

    def __init__(self, folder, name, nodes, gpus, options=()):
        self.folder, self.name, self.nodes, self.gpus = Path(folder), name, nodes, gpus
        self.options = list(options)
        self.journal = self.folder / f"effects-{name}.jsonl"
        self.process = None

    def start(self, replica, environment=None):
        (self.folder / f"operator-{self.name}.token").write_text(replica.operator_token())
        command = [
            BINARY, "agent", "simulate", "--nodes", str(self.nodes), "--gpus", str(self.gpus), "--cpus", "64",
            "--prefix", f"{self.name}-", "--server", f"https://127.0.0.1:{replica.nodes_port}",
            "--api", f"http://127.0.0.1:{replica.port}", "--token-file", str(self.folder / f"operator-{self.name}.token"),
            "--approve", "--control", "--data-dir", str(self.folder / f"agents-{self.name}"),
            "--journal", str(self.journal), *self.options,
        ]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        log = open(self.folder / f"agents-{self.name}.log", "ab")
        self.process = subprocess.Popen(
            command, env={**clean, **(environment or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            preexec_fn=die_with_parent)
        log.close()
        self.wait_for("ready")

    def wait_for(self, word):
        for line in self.process.stdout:
            if line.startswith(word):
                return line.strip()
        raise RuntimeError(f"the agents ended: {(self.folder / f'agents-{self.name}.log').read_text()[-2000:]}")

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def is_up(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def effects(self):
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines() if line.endswith("}")]


class Tenant:
    """Requests allocations and records the acknowledged ones."""

    def __init__(self, server):
        self.tenant, self.project, self.tokens = actors(server)
        self.token = self.tokens["tenant_admin"]
        self.base = f"/v1/projects/{self.project['id']}/allocations"
        self.acknowledged, self.lock = {}, threading.Lock()

    def ask(self, server, path, body, token=None):
        """Sends a command, and retries it with its key until a server responds."""
        key = uuid.uuid4().hex
        while True:
            try:
                return server().call("POST", path, body, token=token or self.token, key=key)
            except (OSError, ConnectionError):
                time.sleep(0.1)
            except Refused as refused:
                if refused.status in (429, 503):
                    time.sleep(0.1)
                    continue
                raise

    def create(self, server, name, **body):
        started = self.ask(server, self.base, {"name": name, **body})
        operation = started["operation"]
        with self.lock:
            self.acknowledged[operation["subject_id"]] = name
        return operation

    def act(self, server, allocation, verb, body=None):
        return self.ask(server, f"{self.base}/{allocation}/{verb}", body or {})["operation"]

    def all(self, server):
        items, token = [], None
        while True:
            query = f"?page_size=200{f'&page_token={token}' if token else ''}"
            page = server.call("GET", self.base + query, token=self.token)
            items += page["items"]
            token = page.get("next_page_token")
            if not token:
                return items


def operation(server, reference, token, wait=0):
    return server.call("GET", f"/v1/operations/{reference}?wait_seconds={wait}", token=token)


def wait_for_end(server, reference, token, seconds=90):
    """The operation once it has ended or is blocked."""
    until = time.time() + seconds
    while True:
        found = operation(server, reference, token, wait=5)
        if found["state"] in ("succeeded", "partial", "failed", "cancelled", "superseded", "blocked"):
            return found
        if time.time() > until:
            raise AssertionError(f"{reference} is stuck: {json.dumps(found, indent=1)}")
