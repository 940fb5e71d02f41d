"""The loop of an adapter: leases steps, keeps the leases, and carries each step out in a thread of its own.

    def join(step): ...
    run({"join": join, ...}, name="my-adapter", version="1.0.0")

A verb is a function of a Step that returns the body of its completion, or raises Failed. It must be idempotent from its
beginning: the process may die between any two lines, and another one then runs it again under another lease.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time
from typing import Any

from .connection import Lost, Problem
from .generated_client import Client
from .generated_types import AdapterIs
from .publisher import Minted, Publisher, may
from .step import CellDead, Failed, GivenUp, MemberStepRunning, Step, Verbs, log

__all__ = ["CONTRACT", "CellDead", "Failed", "GivenUp", "MemberStepRunning", "Step", "Worker", "log", "run"]

CONTRACT = 1
LEASE, MINT = "adapter_step.lease", "operator_token.mint"


class Worker:
    """Leases steps, one project after another, and executes them."""

    def __init__(self, verbs: Verbs, name: str, version: str, *, most: int = 16, lease_seconds: int = 30, poll_seconds: int = 20) -> None:
        self.verbs, self.most, self.lease_seconds, self.poll_seconds = verbs, most, lease_seconds, poll_seconds
        self.who: AdapterIs = {"name": f"{name}-{socket.gethostname()}-{os.getpid()}"[:100], "version": version, "contract": CONTRACT}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def work(self, client: Client, project: str, stop: threading.Event) -> None:
        """Leases steps of a project until the stop event is set."""
        pause, mine = 0.2, []
        while not stop.is_set():
            mine = [thread for thread in mine if thread.is_alive()]
            if len(mine) >= self.most:
                time.sleep(0.05)
                continue
            try:
                wish = {"adapter": self.who, "most": self.most - len(mine), "wait_seconds": self.poll_seconds,
                        "lease_seconds": self.lease_seconds}
                leased, pause = client.adapter_step_lease(project, wish)["steps"], 0.2
            except (Problem, Lost) as error:
                log("no work could be requested", project=project, why=str(error))
                stop.wait(pause * random.uniform(0.5, 1))
                leased, pause = [], min(pause * 2, 15)
            for one in leased:
                step = Step(client, project, one, self.lease_seconds)
                thread = threading.Thread(target=step.carry, args=[self.verbs], daemon=True)
                mine.append(thread)
                with self._lock:
                    self._threads = [other for other in self._threads if other.is_alive()] + [thread]
                thread.start()

    def end(self, grace_seconds: float) -> None:
        """Waits a while for the steps in progress. Unfinished ones are dropped; their leases expire."""
        until = time.monotonic() + grace_seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


def run(
    verbs: Verbs,
    *,
    name: str,
    version: str,
    apps: tuple[str, ...] = (),
    most: int = 16,
    lease_seconds: int = 30,
    poll_seconds: int = 20,
    look_around_seconds: float = 15,
    grace_seconds: float = 10,
) -> None:
    """Works until SIGTERM, configured by the environment: MUSTER_SERVER, MUSTER_TOKEN_FILE (read again for each call, so that it can be
    replaced) and MUSTER_CA_FILE.

    The token is a publisher's (`operator_token.mint`): then it works for every project that is entitled to an app of the publisher's project,
    or to those of `apps`, with a token for each that is minted and renewed. Or it is an operator account's, for its project
    alone. After the signal, running steps have a while to end; unfinished ones are dropped, their leases expire, and another process
    leases them."""
    token = pathlib.Path(os.environ["MUSTER_TOKEN_FILE"])

    def connect(secret: Any) -> Client:
        return Client(os.environ["MUSTER_SERVER"], secret, ca_file=os.environ.get("MUSTER_CA_FILE"))

    client = connect(token.read_text)
    worker = Worker(verbs, name, version, most=most, lease_seconds=lease_seconds, poll_seconds=poll_seconds)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        who = _introduce(client)
        if may(who, MINT):
            if may(who, LEASE):
                threading.Thread(target=worker.work, args=[client, who["project_id"], stop], daemon=True).start()
            publisher = Publisher(client, who["project_id"], apps, connect)
            while True:
                try:
                    publisher.look(worker.work)
                except (Problem, Lost) as error:
                    log("the entitlements cannot be listed", project=who["project_id"], why=str(error))
                time.sleep(look_around_seconds * random.uniform(0.8, 1))
        worker.work(client, who["project_id"], stop)
    finally:
        stop.set()
        worker.end(grace_seconds)
        log("stopped")


def _introduce(client: Client) -> Any:
    """Returns our identity. Waits for an unreachable platform; a rejection at the start is an error, so that the deployment fails
    visibly."""
    pause = 0.2
    while True:
        try:
            who = client.whoami()
            log("connected", project=who["project_id"], account=who.get("name"))
            return who
        except (Problem, Lost) as error:
            if isinstance(error, Problem) and error.status < 500:
                raise
            log("the platform does not answer", why=str(error))
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, 15)
