"""Clients that request an allocation, wait until it is active, release it, and wait until it is released.

Plain threads with a connection each that stays open: a client waits far more than it works, so Python is fast enough.
Their cost is reported beside the figures (`generator`).
"""

import datetime
import http.client
import itertools
import json
import threading
import time

from .processes import Broken

WAIT_SECONDS = 30
GIVE_UP_SECONDS = 120
ENDED = ("succeeded", "partial", "failed", "cancelled", "superseded", "blocked")


def percentile(values, share):
    """The value at or below which this share of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def told(seconds):
    """Quantiles of durations, and all durations in the order of their ends."""
    values = [value * 1000 for value in seconds]
    return {"p50_ms": percentile(values, 0.5), "p90_ms": percentile(values, 0.9), "p99_ms": percentile(values, 0.99),
            "min_ms": min(values), "max_ms": max(values), "all_ms": [round(value, 1) for value in values]}


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


class Client:
    """One connection, one question at a time."""

    def __init__(self, address, token):
        host, port = address.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_SECONDS + 30)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method, path, body=None, key=""):
        headers = {**self.headers, "Idempotency-Key": key} if key else self.headers
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if not 200 <= answer.status < 300:
            raise Broken(f"{method} {path} was answered with {answer.status}: {text[:500].decode(errors='replace')}")
        return json.loads(text)

    def started(self, path, body, key):
        """Submits an operation and waits for its end; returns the operation, and its duration."""
        began = time.perf_counter()
        operation = self.ask("POST", path, body, key)["operation"]
        while operation["state"] not in ENDED:
            if time.perf_counter() - began > GIVE_UP_SECONDS:
                raise Broken(f"{operation['kind']} has not ended after {GIVE_UP_SECONDS} s: {operation}")
            operation = self.ask("GET", f"/v1/operations/{operation['id']}?wait_seconds={WAIT_SECONDS}")
        taken = time.perf_counter() - began
        if operation["state"] != "succeeded":
            raise Broken(f"{operation['kind']} ended as {operation['state']}: {operation}")
        return operation, taken

    def must_be(self, allocation, state):
        found = self.ask("GET", allocation)["state"]
        if found != state:
            raise Broken(f"{allocation} is {found} after its operation succeeded, not {state}")

    def cycle(self, base, name, ask):
        """One allocation from the first question to the last answer; looking whether it is true is not part of the time."""
        made, create = self.started(base, {"name": name, **ask}, f"create-{name}")
        allocation = f"{base}/{made['subject_id']}"
        self.must_be(allocation, "active")
        given_back, release = self.started(f"{allocation}/release", {}, f"release-{name}")
        self.must_be(allocation, "released")
        worked = [(instant(one["finished_at"]) - instant(one["created_at"])).total_seconds() for one in (made, given_back)]
        return create, release, *worked


class Load:
    """This many cycles, from this many concurrent clients."""

    def __init__(self, address, token, project, clients, count, ask):
        self.address, self.token, self.base = address, token, f"/v1/projects/{project}/allocations"
        self.clients, self.ask = clients, ask
        self.names, self.done, self.failed = iter([f"cycle-{number}" for number in range(count)]), [], []

    def work(self):
        client = Client(self.address, self.token)
        try:
            # The list's iterator is shared; taking the next of it is one step of the interpreter.
            for name in itertools.takewhile(lambda _name: not self.failed, self.names):
                self.done.append(client.cycle(self.base, name, self.ask))
        except Exception as failure:  # ends the run; the parent thread reports it
            self.failed.append(failure)
        finally:
            client.connection.close()

    def run(self):
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(self.clients)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - began
        if self.failed:
            raise Broken(f"after {len(self.done)} cycles: {self.failed[0]}") from self.failed[0]
        create, release, made, given_back = zip(*self.done)
        return {"ok": len(self.done), "seconds": taken, "per_second": len(self.done) / taken, "non2xx": 0,
                "create": told(create), "release": told(release),
                "operation": {"create": told(made), "release": told(given_back)}}
