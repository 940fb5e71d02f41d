"""The loop of an adapter: leases steps, keeps the leases, and carries each step out in a thread of its own.

    def join(step): ...
    run({"join": join, ...}, name="my-adapter", version="1.0.0")

A verb is a function of a Step that returns what is to be said of its end, or raises Failed. It must be safe to run again
from its beginning: the process may die between any two lines, and then somebody runs it again under another lease.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from .connection import Lost, Problem
from .generated_client import Client
from .generated_types import AdapterIs, AdapterTask, CellTask, LeasedStep, Ran, SnapshotMember

CONTRACT = 1


class Failed(Exception):
    """A step cannot be done; with `after`, not before so many seconds have passed. `reason` is a word in snake case."""

    def __init__(self, reason: str, message: str, after: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.after = reason, after


class GivenUp(BaseException):
    """The lease is not ours any more, so somebody else may be at the same step. No verb should catch it."""


class Step:
    """A step under a lease, and everything that is said and done under it."""

    def __init__(self, client: Client, project: str, leased: LeasedStep, lease_seconds: int) -> None:
        self.step, self.snapshot = leased["step"], leased["snapshot"]
        self._client, self._project, self._lease = client, project, lease_seconds
        self._lost, self._over = threading.Event(), threading.Event()
        self._kept = time.monotonic()
        self._asked: dict[str, int] = {}
        # By the platform's own clock, which need not agree with ours.
        self._leased_at = datetime.fromisoformat(self.step["leased_until"]) - timedelta(seconds=lease_seconds)

    @property
    def verb(self) -> str:
        return self.step["verb"]

    def member(self) -> SnapshotMember | None:
        """The member that the step is about; None for a look at the whole instance, and for one that is gone."""
        return next((one for one in self.snapshot["members"] if one["id"] == self.step.get("member_id")), None)

    def progress(self, percent: int, message: str) -> None:
        """Says how far the step is, for people. It keeps the lease too, and no longer than a heartbeat does."""
        said = self._said(percent=percent, message=message[:1000], lease_seconds=self._lease)
        self._ask(self._client.adapter_step_progress, said)

    def write_files(self, member: SnapshotMember, files: Mapping[str, str]) -> None:
        """Writes files in a member's cell, by path, each whole or not at all."""
        self.task(member, {"files": {"write": [{"path": path, "text": text} for path, text in files.items()]}})

    def remove_files(self, member: SnapshotMember, *paths: str) -> None:
        """Removes files in a member's cell; what is not there is removed already."""
        self.task(member, {"files": {"remove": list(paths)}})

    def run(self, member: SnapshotMember, *command: str) -> Ran:
        """Runs a command for its effect: one that worked under an earlier lease of this step is not run again."""
        return self.task(member, {"command": {"command": list(command)}})["ran"]

    def look(self, member: SnapshotMember, *command: str) -> Ran:
        """Runs a command for what it says: never told from an earlier lease."""
        return self.task(member, {"command": {"command": list(command)}}, fresh=True)["ran"]

    def task(self, member: SnapshotMember, act: CellTask, fresh: bool = False) -> AdapterTask:
        """Has something done in a member's cell. Its key says what for, so that a step that is run again asks for the same.
        A cell that was made anew has nothing of what was done in the one before, so the incarnation is part of the key."""
        said = json.dumps([member["id"], member["incarnation"], act], sort_keys=True)
        key = f"{next(iter(act))}-{hashlib.sha256(said.encode()).hexdigest()[:20]}"
        self._asked[key] = self._asked.get(key, 0) + 1
        key = f"{key}-{self._asked[key]}"
        anew = f"{key}-g{self.step['generation']}"
        task = self._ended(anew if fresh else key, member, act)
        if not fresh and not _worked(task) and datetime.fromisoformat(task["queued_at"]) < self._leased_at:
            # It came to nothing under an earlier lease; that key would say so for ever.
            task = self._ended(anew, member, act)
        if task["state"] != "done":
            why = task.get("message", "the node gave no reason")
            raise Failed(f"task_{task['state']}", f"{key} in {member['name']}: {why}", after=5)
        return task

    def _ended(self, key: str, member: SnapshotMember, act: CellTask) -> AdapterTask:
        wish = self._said(key=key, member_id=member["id"], act=act, wait_seconds=20)
        task = self._ask(self._client.adapter_task_create, wish)
        while task["state"] not in ("done", "failed", "expired"):
            task = self._ask(self._client.adapter_task_get, task["id"], wait_seconds=20)
        return task

    def _said(self, **fields: Any) -> Any:
        return {"generation": self.step["generation"], **fields}

    def _ask(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Asks until an answer comes. A refusal is raised; when the lease is lost everything ends here."""
        pause = 0.2
        while not self._is_lost():
            try:
                return method(self._project, self.step["id"], *arguments, **named)
            except (Problem, Lost) as error:
                if isinstance(error, Problem) and not error.passing:
                    if error.code == "fenced":
                        break
                    raise
                time.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, 5)
        raise GivenUp("the lease is lost")

    def _keep(self) -> None:
        """Heartbeats in each third of the lease, until the step is over or the lease is lost. One that gets no answer is given up
        after a third of the lease, so that there is time for others."""
        client, pause = self._client.within(self._lease / 3), self._lease / 3
        while not self._over.wait(pause * random.uniform(0.5, 1)) and not self._is_lost():
            sent = time.monotonic()
            try:
                heartbeat = self._said(lease_seconds=self._lease)
                client.adapter_step_heartbeat(self._project, self.step["id"], heartbeat)
                self._kept, pause = sent, self._lease / 3
            except (Problem, Lost) as error:
                if isinstance(error, Problem) and not error.passing:
                    return self._lost.set()
                pause = self._lease / 30

    def _is_lost(self) -> bool:
        """By the clock too: whatever a heartbeat waits for, nobody keeps a lease whose time is over."""
        return self._lost.is_set() or time.monotonic() - self._kept > self._lease

    def carry(self, verbs: Mapping[str, Callable[[Step], dict[str, Any]]]) -> None:
        """From the lease to the end."""
        self._log("a step was leased")
        threading.Thread(target=self._keep, daemon=True).start()
        try:
            end, said = self._attempt(verbs)
            try:
                self._ask(end, said)
            except Problem as error:  # a word that the platform does not take would come again at every attempt
                self._ask(self._client.adapter_step_fail, self._said(reason="report_refused", message=str(error)[:1000]))
            self._log("a step ended", message=said.get("message"), reason=said.get("reason"))
        except (GivenUp, Problem) as error:
            self._log("a step was given up", why=str(error))
        finally:
            self._over.set()

    def _attempt(self, verbs: Mapping[str, Callable[[Step], dict[str, Any]]]) -> tuple[Callable[..., Any], Any]:
        """Runs the verb, and gives what is to be said of it. A fault of the author's own fails one step, not the process."""
        try:
            if self.verb not in verbs:
                raise Failed("unsupported", f"this adapter does not know how to {self.verb}")
            said = self._said(**verbs[self.verb](self))
            json.dumps(said)  # what cannot be written is a fault like any other
            return self._client.adapter_step_complete, said
        except Failed as failed:
            later = {} if failed.after is None else {"retry_after_seconds": failed.after}
            said = self._said(reason=failed.reason, message=str(failed)[:1000], **later)
        except Problem as refusal:
            said = self._said(reason="refused", message=str(refusal)[:1000])
        except Exception as fault:
            said = self._said(reason="adapter_fault", message=f"the adapter has a fault of its own: {fault!r}"[:1000])
        return self._client.adapter_step_fail, said

    def _log(self, event: str, **fields: Any) -> None:
        log(event, step=self.step["id"], verb=self.verb, generation=self.step["generation"], **fields)


def _worked(task: AdapterTask) -> bool:
    return task["state"] == "done" and task.get("ran", {}).get("exit", 0) == 0


def log(event: str, **fields: Any) -> None:
    """One line of JSON on the standard error; no token, no file's text, nothing that a command wrote."""
    print(json.dumps({"event": event, **fields}), file=sys.stderr, flush=True)


def run(
    verbs: Mapping[str, Callable[[Step], dict[str, Any]]],
    *,
    name: str,
    version: str,
    most: int = 16,
    lease_seconds: int = 30,
    poll_seconds: int = 20,
    grace_seconds: float = 10,
) -> None:
    """Works until SIGTERM, as the environment says: MUSTER_SERVER, MUSTER_TOKEN_FILE (an operator account's token, read again
    for each call, so that it can be replaced) and MUSTER_CA_FILE. After the signal, running steps have a while to end; what
    does not is dropped, its lease lapses, and another process takes it over."""
    token = pathlib.Path(os.environ["MUSTER_TOKEN_FILE"])
    client = Client(os.environ["MUSTER_SERVER"], token.read_text, ca_file=os.environ.get("MUSTER_CA_FILE"))
    who: AdapterIs = {"name": f"{name}-{socket.gethostname()}-{os.getpid()}"[:100], "version": version, "contract": CONTRACT}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threads: list[threading.Thread] = []
    project, pause = None, 0.2
    try:
        while True:
            threads = [thread for thread in threads if thread.is_alive()]
            if len(threads) >= most:
                time.sleep(0.05)
                continue
            try:
                if project is None:
                    project = client.whoami()["project_id"]
                    log("connected", project=project)
                wish = {"adapter": who, "most": most - len(threads), "wait_seconds": poll_seconds, "lease_seconds": lease_seconds}
                leased, pause = client.adapter_step_lease(project, wish)["steps"], 0.2
            except (Problem, Lost) as error:
                if project is None and isinstance(error, Problem) and error.status < 500:
                    raise  # refused at the very beginning: whoever deployed this must see it
                log("no work could be asked for", why=str(error))
                time.sleep(pause * random.uniform(0.5, 1))
                leased, pause = [], min(pause * 2, 15)
            for one in leased:
                step = Step(client, project, one, lease_seconds)
                threads.append(threading.Thread(target=step.carry, args=[verbs], daemon=True))
                threads[-1].start()
    finally:
        until = time.monotonic() + grace_seconds
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        log("stopped")
