"""Restate beside us: its server with a handler of three durable steps, asked over HTTP by the same generator as we are."""

import json
import os
import pathlib

from . import load
from .durability import judged, trace
from .muster import call, free_port, write_targets
from .processes import ROOT, Broken, Process, wait_for

FOLDER = ROOT / ".tools/restate"
SERVER = FOLDER / "node_modules/@restatedev/restate-server-linux-x64/bin/restate-server"
SERVICE = pathlib.Path(__file__).resolve().parent / "restate_service.mjs"
CLIENTS = 64
PROBE = 50


class Restate:
    settings = "defaults; the handler in a process of Node.js, called over HTTP/2; 64 clients"

    def __init__(self, bench):
        if not SERVER.exists():
            raise Broken("Restate is not here: tools/setup --with-bench installs it")
        folder = bench.tmp / "restate"
        folder.mkdir(mode=0o700)
        self.folder, ports = folder, {name: free_port() for name in ("ingress", "admin", "fabric", "service")}
        self.address, self.admin = f"127.0.0.1:{ports['ingress']}", f"127.0.0.1:{ports['admin']}"
        base = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        env = {**base, "RESTATE_BASE_DIR": str(folder / "data"), "RESTATE_LISTEN_MODE": "tcp", "RESTATE_BIND_IP": "127.0.0.1",
               "RESTATE_BIND_PORT": str(ports["fabric"]), "RESTATE_INGRESS__BIND_PORT": str(ports["ingress"]),
               "RESTATE_ADMIN__BIND_PORT": str(ports["admin"]), "RESTATE_ADVERTISED_HOST": "127.0.0.1", "DO_NOT_TRACK": "1",
               "RESTATE_LOG_FILTER": "warn"}
        self.process = Process("restate", [SERVER, "--no-logo"], env, folder / "log", cwd=folder)
        self.pid = self.process.pid
        serve = {**base, "RESTATE_SDK": str(FOLDER), "PORT": str(ports["service"]), "NODE_ENV": "production", "RESTATE_LOGGING": "ERROR"}
        self.service = Process("restate's handler", ["node", SERVICE], serve, folder / "service.log", cwd=folder)
        self.watched = {"restate": self.process, "restate's handler": self.service}
        self.uri = f"http://127.0.0.1:{ports['service']}"
        self.targets = write_targets(folder / "targets", ["none none none"])

    def wait(self):
        wait_for("Restate's start", self.process, self._registered, timeout=90, pause=0.2)
        self.work(1)
        return self

    def _registered(self):
        try:
            return call(self.admin, "POST", "/deployments", {"uri": self.uri, "force": True})[0]
        except (OSError, Broken, json.JSONDecodeError):
            return None

    def work(self, seconds):
        return load.ask(self, self.targets, "restate: operation/run", seconds=seconds, clients=CLIENTS)

    def flushes(self, folder):
        write = lambda: load.ask(self, self.targets, "restate: operation/run", requests=PROBE, clients=1)
        return judged({"one client": trace(self.pid, folder, write)})

    def stop(self):
        self.service.stop()
        self.process.stop()
