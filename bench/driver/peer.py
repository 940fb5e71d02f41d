"""dstack's server, as its package starts it, with a folder and a database of its own."""

import json
import os
import secrets

from .muster import call, free_port, write_targets
from .processes import ROOT, Broken, Process, wait_for

PROGRAM = ROOT / ".tools/bench-venv/bin/dstack"
# No background work: its only switch that could make it faster here.
TUNED = {"DSTACK_SERVER_BACKGROUND_PROCESSING_DISABLED": "1"}


class Dstack:
    def __init__(self, folder, tuned):
        folder.mkdir(mode=0o700)
        self.folder, self.token, self.port = folder, secrets.token_urlsafe(24), free_port()
        self.address = f"127.0.0.1:{self.port}"
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "DSTACK_SERVER_DIR": str(folder / "server"),
               "DSTACK_SERVER_ADMIN_TOKEN": self.token, "DSTACK_DO_NOT_UPDATE_DEFAULT_PROJECT": "1",
               # It would ask the clouds' own addresses for credentials.
               "DSTACK_DEFAULT_CREDS_DISABLED": "1", **(TUNED if tuned else {})}
        command = [PROGRAM, "server", "--host", "127.0.0.1", "--port", self.port]
        self.process = Process("dstack", command, env, folder / "log", cwd=folder)
        self.pid = self.process.pid

    def wait(self):
        wait_for("dstack's start", self.process, self._healthy, timeout=90, pause=0.2)
        return self

    def _healthy(self):
        try:
            return call(self.address, "GET", "/healthcheck")[0]
        except (OSError, Broken, json.JSONDecodeError):
            return None

    def make_projects(self, count):
        """Creates projects up to this total; it starts with one."""
        for number in range(count - 1):
            call(self.address, "POST", "/api/projects/create", {"project_name": f"p{number}"}, self.token)
        found, _ = call(self.address, "POST", "/api/projects/list", {}, self.token)
        if len(found) != count:
            raise Broken(f"dstack lists {len(found)} projects, not {count}")
        return write_targets(self.folder / "targets", [f"{self.token} none main"])

    def stop(self):
        self.process.stop()
