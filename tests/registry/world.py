"""A server with two tenants, isolated from each other, and accounts with just the permissions that a check needs."""

import time
import uuid
from pathlib import Path

from platform_under_test import Server, actors
from wire import Wire

PULL, PUSH = "repository.pull", "repository.push"
RETAG, DELETE = "repository.retag", "repository.delete"


class Project:
    """A tenant's project: its administrator, and the path of its repositories."""

    def __init__(self, server):
        self.server = server
        self.tenant, self.project, self.tokens = actors(server)
        self.id, self.token = self.project["id"], self.tokens["tenant_admin"]
        self.prefix = f"{self.tenant['slug']}.work"

    def name(self, repository):
        return f"{self.prefix}/{repository}"

    def wire(self, token=None, **more):
        return Wire(self.server.port, token or self.token, **more)

    def account(self, *permissions, seconds=None):
        """A service account's token with these rights: its id and its secret."""
        made = self.call("POST", "service-accounts", {"name": f"a{uuid.uuid4().hex[:12]}", "permissions": list(permissions)})
        asked = {"name": "test", "service_account": made["id"]}
        if seconds:
            asked["expires_in_seconds"] = seconds
        issued = self.server.call("POST", "/v1/tokens", asked, token=self.token)
        return issued["id"], issued["secret"]

    def call(self, method, path, body=None, token=None):
        """A call to the API about this project, which must succeed."""
        return self.server.call(method, f"/v1/projects/{self.id}/{path}", body, token=token or self.token)

    def audited(self, action, count):
        """Returns the tenant's audit entries of this action. They are sealed a moment after they are written, so it waits for this many."""
        path = f"/v1/audit?tenant={self.tenant['id']}&action={action}&page_size=200"
        until = time.monotonic() + 10
        while True:
            found = self.server.call("GET", path, token=self.token)["items"]
            if len(found) >= count or time.monotonic() > until:
                return found
            time.sleep(0.1)



class World:
    """The server, for as long as the `with` lasts."""

    def __init__(self, folder, **settings):
        self.data = folder / "data"
        self.data.mkdir(exist_ok=True)
        self.folder = folder
        self.server = Server(self.data, settings={name.replace("_", "-"): value for name, value in settings.items()})

    def __enter__(self):
        self.server.start()
        self.ours = Project(self.server)
        return self

    def theirs(self):
        """Another tenant's project, made when it is first needed."""
        if not hasattr(self, "_theirs"):
            self._theirs = Project(self.server)
        return self._theirs

    def __exit__(self, *_):
        if self.server.process.poll() is None:
            self.server.kill()

    def again(self, **settings):
        """Kills the server and starts it once more, where it was."""
        if self.server.process.poll() is None:
            self.server.kill()
        self.server.settings.update({name.replace("_", "-"): value for name, value in settings.items()})
        self.server.start()

    def memory(self):
        """Megabytes of memory of the server: now, and at its highest since the last reset."""
        with open(f"/proc/{self.server.process.pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines["VmRSS"].split()[0]) / 1024, int(lines["VmHWM"].split()[0]) / 1024

    def reset_peak(self):
        """Resets the peak; returns the current usage."""
        Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5")
        return self.memory()[0]

    def blobs(self):
        """The files of finished blobs."""
        return sorted(path for path in (self.data / "registry" / "blobs").rglob("*") if path.is_file())

    def uploads(self):
        return sorted(path for path in (self.data / "registry" / "uploads").rglob("*") if path.is_file())
