"""A Slurm cluster of a test's own: the app published, its adapter running with a publisher's token, and one instance."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cells"))
from adapter_process import keep_token, publisher_token, start_adapter, stop_adapter  # noqa: E402
from platform_under_test import BINARY, ROOT  # noqa: E402

import sabotage  # noqa: E402
import snapshot  # noqa: E402
import world as cells  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ADAPTER = TARGET / "debug" / "muster-adapter-slurm"
IMAGE = ROOT / "target" / "apps" / "slurm"
# Where a later image names its version.
NAMED = "/usr/share/muster-release"
CONFIG = {"accounts": [{"name": "physics", "users": [{"name": "alice", "uid": 2000}, {"name": "bob", "uid": 2001}]}]}


class World(cells.World):
    """A platform with the Slurm app on its shelf and the adapter at work."""

    def __init__(self, nodes=3, *words, options=None):
        super().__init__()
        self.shape, self.options = (nodes, words), options
        self.adapter = None
        self.app, self.layout = ROOT / "apps" / "slurm", IMAGE

    def ready(self, nodes, *flags):
        """Sets up a scenario: this many nodes must exist, with this heartbeat interval if it matters."""
        there, words = self.shape
        assert nodes <= there, f"{nodes} nodes are wanted, and this platform has {there}"
        missing = [flag for flag in flags if flag.startswith("--") and flag not in words]
        assert not missing, f"{missing} are wanted, and this platform was started with {words}: put the scenario into the other lane"

    def start(self):
        nodes, words = self.shape
        self.up(nodes, *words)
        self.at = self.project()
        if self.options and self.options.sabotage:
            sabotage.plant(self)
        self.publish()
        shown = json.loads(self.at.said("-o", "json", "entitlement", "grant", "slurm", "--dry-run"))
        consent = [word for permission in shown["permissions"] for word in ("--consent", permission)]
        self.at.said("entitlement", "grant", "slurm", *consent)
        self.start_adapter()

    def publish(self, version="0.2.0", layout=None):
        key = self.folder / "signing.pem"
        if not key.exists():
            self.at.said("key", "generate", str(key))
            self.at.said("key", "create", "builds", "--file", f"{key}.pub")
        environment = {**self.clean_environment(), "MUSTER_BINARY": BINARY, "MUSTER_SERVER": f"http://127.0.0.1:{self.server.port}",
                       "MUSTER_TOKEN": self.at.tokens["tenant_admin"], "MUSTER_PROJECT": self.at.project["id"]}
        ran = subprocess.run([self.app / "publish", "--key", key, "--layout", layout or self.layout, "--version", version],
                             env=environment, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran

    def next_image(self, version):
        """An image with one more layer, which names the version in `NAMED`; its layout and digest. The other layers are the same."""
        folder, packed = self.folder / f"image-{version}", io.BytesIO()
        shutil.copytree(self.layout, folder, copy_function=os.link)
        blobs = folder / "blobs" / "sha256"

        def put(kind, data):
            digest = hashlib.sha256(data).hexdigest()
            (blobs / digest).write_bytes(data)
            return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

        def blob(described):
            return json.loads((blobs / described["digest"].split(":")[1]).read_text())

        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            info = tarfile.TarInfo(NAMED.lstrip("/"))
            info.size, info.mode = len(version), 0o644
            archive.addfile(info, io.BytesIO(version.encode()))
        index = json.loads((folder / "index.json").read_text())
        manifest = blob(index["manifests"][0])
        config = blob(manifest["config"])
        layer = put(manifest["layers"][-1]["mediaType"], packed.getvalue())
        config["rootfs"]["diff_ids"].append(layer["digest"])
        manifest["layers"].append(layer)
        manifest["config"] = put(manifest["config"]["mediaType"], json.dumps(config).encode())
        index["manifests"] = [put(manifest["mediaType"], json.dumps(manifest).encode())]
        (folder / "index.json").unlink()
        (folder / "index.json").write_text(json.dumps(index))
        return folder, index["manifests"][0]["digest"]

    def start_adapter(self):
        """With a publisher's token, and nothing else."""
        secret = publisher_token(self.server, self.at.project["id"], self.at.tokens["tenant_admin"])
        token = keep_token(self.folder / "adapter.token", secret)
        self.adapter = start_adapter([ADAPTER, "run", "--lease-seconds", "10", "--look-around-seconds", "1"],
                                     f"http://127.0.0.1:{self.server.port}", token, "slurm-test", self.folder / "adapter.log")

    def stop_adapter(self):
        stop_adapter(self.adapter)

    def close(self):
        self.stop_adapter()
        super().close()

    def logs(self):
        file = self.folder / "adapter.log"
        adapter = f"\n--- adapter\n{file.read_text(errors='replace')[-3000:]}" if file.exists() else ""
        return super().logs() + adapter + self.services()

    def services(self):
        """The last of what the daemons wrote, also of those that are gone."""
        said = ""
        for file in sorted(self.data.glob("nodes/**/logs/**/*")) + sorted(self.data.glob("nodes/**/*.log")):
            if file.is_file() and file.name != "agent.log":
                said += f"\n--- {file.relative_to(self.data)}\n{file.read_text(errors='replace')[-1500:]}"
        # Without an assertion: this reports failures, and the server may be the cause.
        listed = self.at.muster("-o", "json", "cell", "list") if hasattr(self, "at") else None
        for cell in json.loads(listed.stdout)["items"] if listed and listed.returncode == 0 else []:
            said += f"\n--- {cell['name']}\n{self.at.muster('logs', cell['name']).stdout[-3000:]}"
        return said

    def cluster(self, name="lab", workers=1, config=CONFIG, *words):
        """A cluster that runs; how long that took is in `took`. A node unpacks the image when its first cell comes, so more workers
        may take longer."""
        cluster = Cluster(self, name)
        began = time.monotonic()
        cluster.said("instance", "create", "slurm", "--name", name, "--set", f"worker={workers}", "--config", json.dumps(config),
                     *words, "--wait", "--timeout", f"{60 + 30 * workers}s", timeout=90 + 30 * workers)
        cluster.took = time.monotonic() - began
        return cluster

    def nothing_left(self):
        """No node has anything that no row speaks of, and no row speaks of anything that is not there."""
        for file in sorted(self.data.glob("nodes/*/node.json")):
            self.audit(file.parent.name)
        running = [line for line in snapshot.processes().values()
                   if any(word in line for word in ("slurm", "munged", "mariadbd")) and "muster-adapter" not in line
                   and "tests/slurm" not in line]
        assert not running, running


class Cluster:
    """One instance, as its people have it: the command line, and Slurm's own commands through it."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.controller = f"{name}-controller-1"

    def muster(self, *words, **rest):
        return self.world.at.muster(*words, **{"timeout": 270, **rest})

    def said(self, *words, **rest):
        return self.world.at.said(*words, **{"timeout": 270, **rest})

    def json(self, *words):
        return json.loads(self.said("-o", "json", *words))

    def exec(self, *command, cell=None, uid=0):
        return self.muster("exec", cell or self.controller, "--uid", str(uid), "--gid", str(uid), "--", *command)

    def slurm(self, *command, cell=None, uid=0):
        """Runs a Slurm command that must succeed, and returns its output."""
        ran = self.exec(*command, cell=cell, uid=uid)
        assert ran.returncode == 0, (ran, self.world.logs())
        return ran.stdout.strip()

    def state(self, worker):
        """Slurm's own words for a node."""
        line = self.slurm("scontrol", "-o", "show", "node", worker)
        return next(word.removeprefix("State=") for word in line.split() if word.startswith("State="))

    def reason(self, worker):
        line = self.slurm("scontrol", "-o", "show", "node", worker)
        return line.partition(" Reason=")[2].rpartition(" [")[0]

    def nodes(self):
        return sorted(self.slurm("sinfo", "-h", "-N", "-o", "%N").split())

    def submit(self, script, *words, uid=2000):
        """A batch job; its number."""
        return self.slurm("sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", *words, "--wrap", script, uid=uid)

    def job(self, number):
        """The state of a job, by the accounting's own word."""
        said = self.slurm("sacct", "-X", "-n", "-P", "-D", "-j", number, "-o", "state")
        return said.split("\n")

    def members(self, component="worker"):
        path = f"/v1/projects/{self.world.at.project['id']}/app-instances/{self.name}/members?page_size=200"
        found = self.world.server.call("GET", path, token=self.world.at.tokens["tenant_admin"])["items"]
        return {member["name"]: member for member in found if member["component_key"] == component}

    def do(self, verb, *words, timeout="120s"):
        """An operation on members that must succeed."""
        return self.said("member", verb, self.name, *words, "--wait", "--timeout", timeout)

    def gone(self, *words):
        """Decommissioned, with nothing left of it anywhere."""
        began = time.monotonic()
        self.said("instance", "decommission", self.name, *words, "--wait", "--timeout", "60s")
        self.went = time.monotonic() - began
        self.world.nothing_left()
