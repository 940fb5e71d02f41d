"""A step under a lease: the argument of an adapter's verb, and all requests under it."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Self

from .connection import Lost, Problem
from .generated_client import Client
from .generated_types import AdapterTask, CellTask, File, LeasedStep, Ran, RuntimeSecret, SnapshotMember

Verbs = Mapping[str, Callable[["Step"], dict[str, Any]]]


class Failed(Exception):
    """A step failed; with `after`, it may be retried after this many seconds. `reason` is a word in snake case."""

    def __init__(self, reason: str, message: str, after: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.after = reason, after


class CellDead(Failed):
    """A task could not be done because the cell is dead. Nothing can be done in it any more: a removal leaves it out, and every other verb
    lets this pass, which fails the step without a retry."""


class MemberStepRunning(Failed):
    """The platform refused a change of a look because of a step of a member. Leave it out: the next look may repair."""


class GivenUp(BaseException):
    """The lease is lost, so another process may execute the same step. No verb should catch it."""


class Step:
    """A step under a lease, and all requests under it."""

    def __init__(self, client: Client, project: str, leased: LeasedStep, lease_seconds: int) -> None:
        self.step, self.snapshot = leased["step"], leased["snapshot"]
        # The platform and the project, for whatever this class has no method for.
        self.client, self.project = client, project
        self._lease = lease_seconds
        self._lost, self._over = threading.Event(), threading.Event()
        # Shared with the copies that `beside_member_steps` gives.
        self._kept, self._asked, self._change = [time.monotonic()], {}, "changes"
        # By the platform's own clock, which need not agree with ours.
        self._leased_at = datetime.fromisoformat(self.step["leased_until"]) - timedelta(seconds=lease_seconds)

    # -- its subject

    @property
    def verb(self) -> str:
        return self.step["verb"]

    def member(self) -> SnapshotMember | None:
        """Returns the member of the step; None for a look at the instance, and for a removed member."""
        return next((one for one in self.snapshot["members"] if one["id"] == self.step.get("member_id")), None)

    def members_of(self, component: str) -> list[SnapshotMember]:
        """The members of a component, in the order of the snapshot."""
        return [one for one in self.snapshot["members"] if one["component_key"] == component]

    def beside_member_steps(self) -> Self:
        """Returns the same step, for changes that are safe beside steps of members. A look has a snapshot from its start, so the platform
        rejects its changes while a step of a member is open (MemberStepRunning). Requests through this are executed anyway."""
        other = copy.copy(self)
        other._change = "concurrent"
        return other

    # -- reports

    def progress(self, percent: int, message: str) -> None:
        """Reports the progress of the step, for people. It also renews the lease, exactly like a heartbeat."""
        said = self._said(percent=percent, message=message[:1000], lease_seconds=self._lease)
        self._ask(self.client.adapter_step_progress, said)

    def detail(self, said: dict[str, Any]) -> None:
        """Replaces the details of the member, for people."""
        self._ask(self.client.adapter_step_progress, self._said(adapter_detail=said, lease_seconds=self._lease))

    # -- tasks in cells

    def write_files(self, member: SnapshotMember, files: Mapping[str, str | File]) -> None:
        """Writes files in a member's cell, by path, each whole or not at all. A file is its text, or a mapping with `text` and with `mode`
        (octal digits), `uid` and `gid`."""
        whole = [{"path": path, **({"text": file} if isinstance(file, str) else file)} for path, file in files.items()]
        self.task(member, {"files": {"write": whole}})

    def remove_files(self, member: SnapshotMember, *paths: str) -> None:
        """Removes files in a member's cell; a missing file counts as removed."""
        self.task(member, {"files": {"remove": list(paths)}})

    def secret_file(self, member: SnapshotMember, secret: str, file: str, **owner: int) -> None:
        """Writes a secret in a member's cell, as /run/muster/secrets/FILE. It is named by reference: the adapter never holds it. `uid`
        and `gid` set the owner of the file."""
        self.task(member, {"files": {"secrets": [{"secret": secret, "file": file, **owner}]}})

    def start_service(self, member: SnapshotMember, name: str) -> None:
        """Starts a service of a member's cell, unless it runs; done when it is ready."""
        self.task(member, {"service": {"name": name, "action": "start"}})

    def stop_service(self, member: SnapshotMember, name: str) -> None:
        """Stops a service of a member's cell, unless it does not run; done when no process of it is left."""
        self.task(member, {"service": {"name": name, "action": "stop"}})

    def restart_service(self, member: SnapshotMember, name: str, anew: bool = False) -> None:
        """Stops a service and starts it; `anew` also where that was done under an earlier lease of this step."""
        self.task(member, {"service": {"name": name, "action": "restart"}}, fresh=anew)

    def run(self, member: SnapshotMember, *command: str, anew: bool = False, **more: Any) -> Ran:
        """Runs a command for its effect: one that worked under an earlier lease of this step is not run again, unless something else was
        done in that cell since; with `anew` it is. `more` is what the API has beside the command: `timeout_seconds`, `environment`, `stdin`,
        `uid`, `gid`."""
        return self.task(member, {"command": {"command": list(command), **more}}, fresh=anew)["ran"]

    def look(self, member: SnapshotMember, *command: str, **more: Any) -> Ran:
        """Runs a command for its output: never answered from an earlier lease. It is declared to change nothing; for a command that does,
        use `run(…, anew=True)`."""
        return self.task(member, {"command": {"command": list(command), **more}}, fresh=True, effect="reads")["ran"]

    def probe(self, member: SnapshotMember, *command: str, sees: tuple[str, ...] = (), **more: Any) -> Ran:
        """Runs a check beside a member's cell, as the platform runs its witnesses: from the image's own files."""
        act: CellTask = {"probe": {"command": list(command), "sees": list(sees), **more}}
        return self.task(member, act, fresh=True, effect="reads")["ran"]

    def task(self, member: SnapshotMember, act: CellTask, fresh: bool = False, effect: str | None = None) -> AdapterTask:
        """Executes a task in a member's cell. The key is derived from the request, so that a rerun step requests the same task.
        A recreated cell has none of the effects of its predecessor, so the incarnation is part of the key."""
        said = json.dumps([member["id"], member["incarnation"], act], sort_keys=True)
        key = f"{next(iter(act))}-{hashlib.sha256(said.encode()).hexdigest()[:20]}"
        self._asked[key] = self._asked.get(key, 0) + 1
        key = f"{key}-{self._asked[key]}"
        anew = f"{key}-g{self.step['generation']}"
        effect = effect or self._change
        task = self._ended(anew if fresh else key, member, act, effect)
        if not fresh and not _worked(task) and datetime.fromisoformat(task["queued_at"]) < self._leased_at:
            # It failed under an earlier lease; that key would return the failure for ever.
            task = self._ended(anew, member, act, effect)
        if task["state"] == "done":
            return task
        why = f"{key} in {member['name']}: {task.get('message', 'the node gave no reason')}"
        if task.get("reason") == "cell_dead":
            raise CellDead("cell_dead", why)
        raise Failed(f"task_{task['state']}", why, after=5)

    # -- shared secrets

    def shared_secret(self, name: str, bytes: int = 32) -> str:
        """Returns the id of the material that the members of this instance share under this name, for `secret_file`: the last issued one that
        is not revoked, or else this many fresh random bytes. The manifest lists the permissions `runtime_secret.issue`, `runtime_secret.list` and
        `runtime_secret.cluster_bootstrap`."""
        return self.shared_secret_after(name, bytes)

    def shared_secret_after(self, name: str, bytes: int = 32, after: str | None = None) -> str:
        """The same, but never material issued before this time, for example the snapshot's `unwitnessed_at`: it may be compromised
        since. The adapter must ensure that every member has it, and then call `shared_secret_only`."""
        known = self._shared(name)
        since = datetime.fromisoformat(after) if after else None
        good = [s for s in known if "revoked_at" not in s and (since is None or datetime.fromisoformat(s["created_at"]) > since)]
        if good:
            return max(good, key=lambda secret: datetime.fromisoformat(secret["created_at"]))["id"]
        # Two steps that find none at the same moment must come by the same one, and one that follows others must not come by one of these.
        instance = self.snapshot["instance_id"]
        wish = {"purpose": "cluster_bootstrap", "name": name, "bytes": bytes, "instance": instance}
        issue = self.client.runtime_secret_issue
        return self._insist(issue, self.project, wish, idempotency_key=f"{instance}-{name}-{len(known)}")["id"]

    def shared_secret_only(self, name: str, keep: str) -> None:
        """Has all material of this name revoked but this. It needs the permission `runtime_secret.revoke`."""
        for secret in self._shared(name):
            if "revoked_at" not in secret and secret["id"] != keep:
                wish = {"reason": "every member has received another one"}
                revoke = self.client.runtime_secret_revoke
                self._insist(revoke, self.project, secret["id"], wish, idempotency_key=f"revoke-{secret['id']}")

    def _shared(self, name: str) -> list[RuntimeSecret]:
        instance = self.snapshot["instance_id"]
        listed = pages(lambda **page: self._insist(self.client.runtime_secret_list, self.project, purpose="cluster_bootstrap", **page))
        return [one for one in listed if one["name"] == name and one.get("instance_id") == instance]

    # -- requests

    def _ended(self, key: str, member: SnapshotMember, act: CellTask, effect: str) -> AdapterTask:
        wish = self._said(key=key, member_id=member["id"], act=act, effect=effect, wait_seconds=20)
        try:
            task = self._ask(self.client.adapter_task_create, wish)
        except Problem as refusal:
            if refusal.code == "member_step_running":
                raise MemberStepRunning(refusal.code, refusal.detail, after=5) from None
            if refusal.code == "too_many_tasks":  # the next lease may ask for as many again
                raise Failed(refusal.code, refusal.detail, after=0) from None
            raise
        while task["state"] not in ("done", "failed", "expired"):
            task = self._ask(self.client.adapter_task_get, task["id"], wait_seconds=20)
        return task

    def _said(self, **fields: Any) -> Any:
        return {"generation": self.step["generation"], **fields}

    def _ask(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self._insist(method, self.project, self.step["id"], *arguments, **named)

    def _insist(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Asks until an answer comes. A refusal is raised; when the lease is lost everything ends here."""
        pause = 0.2
        while not self._is_lost():
            try:
                return method(*arguments, **named)
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
        client, pause = self.client.within(self._lease / 3), self._lease / 3
        while not self._over.wait(pause * random.uniform(0.5, 1)) and not self._is_lost():
            sent = time.monotonic()
            try:
                heartbeat = self._said(lease_seconds=self._lease)
                client.adapter_step_heartbeat(self.project, self.step["id"], heartbeat)
                self._kept[0], pause = sent, self._lease / 3
            except (Problem, Lost) as error:
                if isinstance(error, Problem) and not error.passing:
                    return self._lost.set()
                pause = self._lease / 30

    def _is_lost(self) -> bool:
        """Checks the clock too: a lease is lost when its time is over, even if a heartbeat hangs."""
        return self._lost.is_set() or time.monotonic() - self._kept[0] > self._lease

    def carry(self, verbs: Verbs) -> None:
        """From the lease to the end."""
        self._log("a step was leased")
        threading.Thread(target=self._keep, daemon=True).start()
        try:
            end, said = self._attempt(verbs)
            try:
                for refused in (self._ask(end, said) or {}).get("refused_reports", []):
                    self._log("a report on a member was rejected", **refused)
            except Problem as error:  # a word that the platform does not take would come again at every attempt
                self._ask(self.client.adapter_step_fail, self._said(reason="report_refused", message=str(error)[:1000]))
            self._log("a step ended", message=said.get("message"), reason=said.get("reason"))
        except (GivenUp, Problem) as error:
            self._log("a step was abandoned", why=str(error))
        finally:
            self._over.set()

    def _attempt(self, verbs: Verbs) -> tuple[Callable[..., Any], Any]:
        """Runs the verb, and returns its completion or failure. An exception of the author's code fails one step, not the process."""
        try:
            if self.verb not in verbs:
                raise Failed("unsupported", f"this adapter does not support {self.verb}")
            said = self._said(**verbs[self.verb](self))
            json.dumps(said)  # what cannot be written is a fault like any other
            return self.client.adapter_step_complete, said
        except Failed as failed:
            later = {} if failed.after is None else {"retry_after_seconds": failed.after}
            said = self._said(reason=failed.reason, message=str(failed)[:1000], **later)
        except Problem as refusal:
            said = self._said(reason="refused", message=str(refusal)[:1000])
        except Exception as fault:
            said = self._said(reason="adapter_fault", message=f"the adapter has an internal error: {fault!r}"[:1000])
        return self.client.adapter_step_fail, said

    def _log(self, event: str, **fields: Any) -> None:
        log(event, step=self.step["id"], verb=self.verb, generation=self.step["generation"], **fields)


def _worked(task: AdapterTask) -> bool:
    return task["state"] == "done" and task.get("ran", {}).get("exit", 0) == 0


def pages(ask: Callable[..., Any]) -> Iterator[Any]:
    """Everything that a list has, page by page."""
    token: dict[str, str] = {}
    while True:
        page = ask(page_size=200, **token)
        yield from page["items"]
        if "next_page_token" not in page:
            return
        token = {"page_token": page["next_page_token"]}


def log(event: str, **fields: Any) -> None:
    """One line of JSON on the standard error; no token, no file's text, nothing that a command wrote."""
    print(json.dumps({"event": event, **fields}), file=sys.stderr, flush=True)
