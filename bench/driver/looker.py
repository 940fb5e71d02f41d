"""A minimal adapter that records the arrival of each look at an instance: observed from outside, that is the start of a reconcile.

It leases many steps at once over the public API, reports every member as healthy, and ends each step immediately. The
next look at an instance is due by the manifest: a number of seconds after the platform accepted the last one's end.
"""

import queue
import threading
import time

from .cycles import Client
from .processes import Broken

WORKERS = 8
MOST = 64


class Looker:
    def __init__(self, server, project, token, every):
        self.server, self.base, self.token, self.every = server, f"/v1/projects/{project}/adapter-steps", token, every
        self.steps, self.failed, self.stopping = queue.Queue(), [], False
        self.ended_at, self.late, self.repeated = {}, [], 0
        self.threads = [threading.Thread(target=self._guard, args=(work,), daemon=True)
                        for work in (self._lease, *([self._carry] * WORKERS))]
        for thread in self.threads:
            thread.start()

    def _guard(self, work):
        client = Client(self.server.address, self.token)
        try:
            work(client)
        except Exception as failure:  # the driver looks for it
            if not self.stopping:
                self.failed.append(failure)
        finally:
            client.connection.close()

    def _ask(self, client, path, body):
        """A server that cannot answer now is asked again, as every adapter does; it is counted."""
        while True:
            try:
                return client.ask("POST", self.base + path, body)
            except Broken as broken:
                if "answered with 503" not in str(broken) or self.stopping:
                    raise
                self.repeated += 1
                time.sleep(0.05)

    def _lease(self, client):
        asked = {"adapter": {"name": "looker", "version": "1", "contract": 1}, "most": MOST, "wait_seconds": 5, "lease_seconds": 60}
        while not self.stopping:
            leased = self._ask(client, "/lease", asked)["steps"]
            now = time.monotonic()
            for one in leased:
                if one["step"]["verb"] == "reconcile":
                    before = self.ended_at.get(one["step"]["instance_id"])
                    if before is not None:
                        self.late.append((now, now - before - self.every))
                self.steps.put(one)

    def _carry(self, client):
        while not self.stopping:
            try:
                one = self.steps.get(timeout=1)
            except queue.Empty:
                continue
            step, body = one["step"], {"generation": one["step"]["generation"], "message": "all is well"}
            if step["verb"] == "reconcile":
                body["members"] = [{"member_id": member["id"], "incarnation": member["incarnation"], "health": "healthy"}
                                   for member in one["snapshot"]["members"]]
            sent = time.monotonic()
            self._ask(client, f"/{step['id']}/complete", body)
            self.ended_at[step["instance_id"]] = sent

    def lags(self, since):
        """How late each look since then began, in seconds; those on suspicion came before they were due, and are left out."""
        return [max(0.0, late) for at, late in list(self.late) if at >= since and late > -1]

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join(timeout=10)
