"""A test's own platform, with nodes on this machine: `muster up --nodes`, a tenant, and `muster down`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from platform_under_test import BINARY, Server, actors, die_with_parent, free_port, temporary_folder  # noqa: E402

import image  # noqa: E402
import snapshot  # noqa: E402


# Reasons why parts of scenarios were not run.
NOT_RUN = []


class Failed(AssertionError):
    """A command that should have succeeded."""


class Project:
    """A project, and its people's command line."""

    def __init__(self, world):
        self.world = world
        _, self.project, self.tokens = actors(world.server)

    def muster(self, *words, **rest):
        return self.world.muster(*words, token=self.tokens["tenant_admin"], project=self.project["id"], **rest)

    def said(self, *words, **rest):
        return self.world.succeeded(self.muster(*words, **rest))

    def allocate(self, name, **flags):
        """Creates an allocation, small by default; active."""
        flags = {"cpus": "1", "memory-mb": "256", "disk-mb": "64", "strategy": "spread", **flags}
        self.said("allocation", "create", name, "--wait", "--timeout", "60s", *dashed(flags))
        return json.loads(self.said("-o", "json", "allocation", "get", name))

    def cell(self, name, allocation, spec):
        """A cell, running."""
        self.said(
            "cell", "create", name, "--allocation", allocation, "--spec", json.dumps(spec), "--wait", "--timeout", "60s")
        return json.loads(self.said("-o", "json", "cell", "get", name))

    def release(self, allocation):
        self.said("allocation", "release", allocation, "--wait", "--timeout", "90s")

    def exec(self, cell, *command, **rest):
        return self.muster("exec", cell, "--", *command, **rest)


def dashed(flags):
    return [part for name, value in flags.items() for part in (f"--{name}", value)]


class World:
    """The machine, from the view of a user of `muster up`."""

    def __init__(self):
        self.folder = temporary_folder("muster-cells")
        snapshot.OUR_FOLDERS.add(str(self.folder))
        self.data, self.images = self.folder / "data", self.folder / "images"
        self.digest = image.make(self.images)
        self.server = Server(self.data)
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def clean_environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        kept.update(HOME=str(self.folder), XDG_CONFIG_HOME=str(self.folder / "config"))
        return kept

    def begin(self, nodes, *words, environment=None, umask=-1):
        """Starts the platform, and does not wait for it."""
        self.process = subprocess.Popen(
            [BINARY, "up", "--nodes", str(nodes), "--http-listen", f"127.0.0.1:{self.server.port}", "--data-dir", self.data,
             "--images", self.images, "--limits-actor-per-second", "100000", *words],
            env={**self.clean_environment(), **(environment or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent, umask=umask)

    def up(self, nodes, *words, environment=None, umask=-1):
        """Starts the platform, and returns its output when it is ready."""
        self.begin(nodes, *words, environment=environment, umask=umask)
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("try:"):
                self.remember_nodes()
                return "".join(said)
        self.process.communicate()
        self.process = None
        raise Failed(f"`muster up` ended: {''.join(said)}{self.logs()}")

    def stop(self, number=signal.SIGTERM):
        """Ends `muster up`, and returns its output. Cells keep running."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=60)
        code, self.process = self.process.returncode, None
        if number != signal.SIGKILL and code != 0:
            raise Failed(f"`muster up` ended with {code}: {said}")
        return said

    def down(self, *words):
        return self.muster("down", "--data-dir", str(self.data), *words, timeout=120)

    def close(self):
        """Nothing is left, whatever happened."""
        try:
            if self.process:
                self.stop(signal.SIGKILL)
            self.remember_nodes()
            self.succeeded(self.down("--delete-data"))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def remember_nodes(self):
        """Records the nodes that own control groups of this test."""
        for file in self.data.glob("nodes/*/node.json"):
            snapshot.OUR_NODES.add(json.loads(file.read_text())["node_id"][-6:])

    def muster(self, *words, token=None, project=None, timeout=100, input=None):
        environment = self.clean_environment()
        environment["MUSTER_SERVER"] = f"http://127.0.0.1:{self.server.port}"
        if self.data.joinpath("operator.token").exists():
            environment["MUSTER_TOKEN"] = token or self.server.operator_token()
        if project:
            environment["MUSTER_PROJECT"] = project
        return subprocess.run(
            [BINARY, *words], env=environment, stdin=subprocess.DEVNULL if input is None else None, capture_output=True,
            text=True, timeout=timeout, input=input)

    def succeeded(self, answer):
        if answer.returncode != 0:
            raise Failed(f"{answer.args[1:]} ended with {answer.returncode}: {answer.stdout}{answer.stderr}{self.logs()}")
        return answer.stdout

    def said(self, *words, **rest):
        """Runs an operator's command that must succeed, and returns its output."""
        return self.succeeded(self.muster(*words, **rest))

    def audit(self, node):
        """Compares a node with its rows; they must agree, both ways."""
        said = self.said("node", "audit", node, "--wait", "--timeout", "60s")
        assert "no orphans, nothing missing" in said, said

    def logs(self):
        """Returns the end of the agents' logs, for failure reports."""
        logs = sorted(self.data.glob("nodes/*/agent.log"))
        return "".join(f"\n--- {log.parent.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)

    def project(self):
        return Project(self)

    def not_run(self, reason):
        """A part of a scenario that this machine cannot run. It is counted, and never as passed."""
        print(f"  NOT RUN: {reason}", flush=True)
        NOT_RUN.append(reason)

    def free_port(self):
        return free_port()

    def spec(self, **changes):
        """A cell with busybox in it, and nothing else."""
        return {"root": {"image": self.digest}, **changes}

    def hosted(self, **changes):
        """A cell with the machine's own programs: its `ping` asks without the privilege that busybox's wants."""
        folders = [folder for folder in ("/usr", "/bin", "/sbin", "/lib", "/lib64") if Path(folder).is_dir()]
        return {"root": {"host": folders}, **changes}


def web(text):
    """A service that answers, with a page of its own."""
    return {
        "services": [
            {
                "name": "web",
                "command": ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"],
                "ready": {"by": {"tcp": 8080}},
            },
            {"name": "talk", "command": ["/bin/sh", "-c", f"echo {text} speaks; exec sleep 1000000"]},
        ],
        "files": [{"path": "/www/name", "text": text}],
    }


def page(where, seconds=3):
    """Gets the page of a cell. Debian's static busybox crashes in `wget -T`, hence `timeout`."""
    return ["busybox", "timeout", str(seconds), "busybox", "wget", "-q", "-O", "-", f"http://{where}:8080/name"]


def eventually(what, seconds=15):
    """Retries until it holds: for effects that the platform completes after its response."""
    until = time.monotonic() + seconds
    while True:
        try:
            return what()
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
