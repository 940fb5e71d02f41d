"""A real server, and then a real agent process, aborted at every golden point; each must be gone on from."""

import random
import time
from pathlib import Path

from judge import judge
from platform_under_test import Refused
from world import Agents, Replica, Tenant, operation, wait_for_end

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "crates" / "server" / "engine" / "tests" / "output" / "kill_points.txt"
STATEMENT = {"statement": "the machine was cut off and its power is off"}

# The operation that causes a task of this kind. An inspection changes nothing, so nothing is journalled.
AGENT_KINDS = {"prepare": "allocation.create", "inspect": "allocation.create", "resize": "allocation.resize",
               "destroy": "allocation.release", "wipe": "allocation.release", "survey": "node.retire"}
AGENT_POINTS = [
    f"{kind}:{stage}"
    for kind in AGENT_KINDS
    for stage in ("before-effect", "after-effect-before-journal", "after-effect-before-report")
    if not (kind in ("inspect", "survey") and stage == "after-effect-before-journal")
]


# Members and instances need an app and an adapter, which this world has not: the engine's own harness kills at their points.
KINDS = ("allocation.", "cell.", "node.")


def server_points():
    points = [line.split()[0] for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return [point for point in points if point.startswith(KINDS)]


def until(what, question, seconds=60):
    deadline = time.time() + seconds
    while time.time() < deadline:
        try:
            answer = question()
        except OSError:
            answer = None
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError(f"it never came to this: {what}")


class Scene:
    """One server, some nodes, and a user that brings operations of every kind to every point."""

    def __init__(self, folder, nodes):
        # Seconds instead of half a minute until a node that was cut off counts as unreachable.
        self.replica = Replica(folder, settings={"nodes-heartbeat-seconds": "1"})
        self.replica.start()
        self.agents = Agents(folder, "n", nodes, 8)
        self.agents.start(self.replica)
        self.tenant = Tenant(self.replica)
        self.spare = [f"n-{number:04}" for number in range(nodes, 0, -1)]

    def server(self):
        return self.replica

    def close(self):
        if self.agents.is_up():
            self.agents.kill()
        self.replica.stop()

    def ended(self, reference, token=None):
        return wait_for_end(self.replica, reference, token or self.replica.operator_token())

    def state_of(self, node):
        return self.replica.call("GET", f"/v1/nodes/{node}")["state"]

    def active(self, name):
        made = self.tenant.create(self.server, name, gpus=2, cpus=2)
        ended = self.ended(made["id"])
        assert ended["state"] == "succeeded", ended
        return made["subject_id"]

    def node_of(self, allocation):
        return self.replica.call("GET", f"{self.tenant.base}/{allocation}", token=self.tenant.token)["node_id"]

    def on_node(self, node, verb, body=None):
        return self.tenant.ask(self.server, f"/v1/nodes/{node}/{verb}", body or {}, token=self.replica.operator_token())

    def begin(self, kind, undoing, name):
        """Prepares everything except the last request: calling the result sends it, and returns the operation."""
        if kind == "node.retire":
            node = self.spare.pop()
            drained = self.on_node(node, "drain")["operation"]
            assert self.ended(drained["id"])["state"] == "succeeded"
            return lambda: self.on_node(node, "retire")["operation"]
        if kind == "node.drain":
            # With something on it, so that it waits and can be taken back.
            held = self.active(name) if undoing else None
            node = self.node_of(held) if held else self.spare[-1]
            return lambda: self.cancelled(self.on_node(node, "drain")["operation"], lambda: None, undoing)
        if kind == "allocation.create":
            return lambda: self.cut_off(
                lambda: self.tenant.create(self.server, name, gpus=2, cpus=2), undoing)
        if kind == "node.audit":
            node = self.spare[-1]
            return lambda: self.on_node(node, "audit")["operation"]
        allocation = self.active(name)
        if kind.startswith("cell."):
            return self.on_cell(kind.split(".")[1], allocation, name, undoing)
        if kind == "allocation.clean":
            return self.given_up(allocation)
        verb = kind.split(".")[1]
        body = {"gpus": 3 if undoing else 1, "cpus": 4} if verb == "resize" else {}
        return lambda: self.cut_off(lambda: self.tenant.act(self.server, allocation, verb, body), undoing)

    def on_cell(self, verb, allocation, name, undoing):
        cells = f"/v1/projects/{self.tenant.project['id']}/cells"
        spec = {"root": {"host": ["/usr"]}, "services": [{"name": "main", "command": ["/bin/main"]}]}
        body = {"name": name, "allocation": allocation, "spec": spec}
        create = lambda: self.tenant.ask(self.server, cells, body)["operation"]  # noqa: E731
        if verb == "create":
            return lambda: self.cut_off(create, undoing)
        assert self.ended(create()["id"])["state"] == "succeeded"
        return lambda: self.tenant.ask(self.server, f"{cells}/{name}/{verb}", {})["operation"]

    def cut_off(self, start, undoing):
        """For a rollback, it is cancelled while the nodes are partitioned; they reconnect immediately."""
        if not undoing:
            return start()
        self.agents.tell("partition *")
        return self.cancelled(start(), lambda: self.agents.tell("heal *"), undoing)

    def cancelled(self, started, then, undoing):
        if not undoing:
            return started
        waits = lambda: operation(self.replica, started["id"], self.replica.operator_token()).get("waiting")  # noqa: E731
        until("waiting", waits)
        self.tenant.ask(self.server, f"/v1/operations/{started['id']}/cancel", {}, token=self.replica.operator_token())
        then()
        return started

    def given_up(self, allocation):
        """Released by an operator's attestation while its node is partitioned; when that is back, the platform cleans up automatically."""
        node = self.node_of(allocation)
        name = self.replica.call("GET", f"/v1/nodes/{node}")["name"]
        self.agents.tell(f"partition {name}")
        until("unreachable", lambda: self.state_of(node) == "unreachable")
        released = self.tenant.act(self.server, allocation, "release")
        self.replica.call("POST", f"{self.tenant.base}/{allocation}/attest", STATEMENT)
        assert self.ended(released["id"])["state"] == "succeeded"

        def come_back():
            self.agents.tell(f"heal {name}")
            return {"id": None, "kind": "allocation.clean", "subject_id": allocation}

        return come_back

    def settled(self, started, undoing):
        """Waits for the end of the operation, and releases everything that is left of it."""
        kind = started["kind"]
        reference = started["id"] or self.cleaning(started["subject_id"])
        ended = self.ended(reference)
        wanted = "cancelled" if undoing else "succeeded"
        assert ended["state"] == wanted, (kind, ended)
        if kind == "node.drain":
            self.on_node(started["subject_id"], "uncordon") if not undoing else None
        elif kind in ("allocation.restart", "allocation.resize") or (kind == "allocation.create" and not undoing):
            self.give_back(started["subject_id"])
        for allocation in self.tenant.all(self.replica):
            if allocation["state"] == "active":
                self.give_back(allocation["id"])

    def give_back(self, allocation):
        try:
            released = self.tenant.act(self.server, allocation, "release")
        except Refused as refused:
            assert refused.status == 409, refused
            return
        assert self.ended(released["id"])["state"] == "succeeded"

    def cleaning(self, allocation):
        def find():
            found = self.replica.call("GET", f"/v1/operations?subject={allocation}")["items"]
            return next((item["id"] for item in found if item["kind"] == "allocation.clean"), None)

        return until("an operation that cleans up", find, 90)


def parts(point):
    kind, rest = point.split("/")
    return kind, rest.startswith("-")


def server_killed(folder, points, report):
    scene = Scene(folder, 16)
    try:
        for number, point in enumerate(points):
            kind, undoing = parts(point)
            start = scene.begin(kind, undoing, f"s{number}")
            scene.replica.stop()
            scene.replica.settings["engine-kill-at"] = point
            scene.replica.start()
            started = start()
            # The sweeper starts the clean-up, and the aborted server still holds the sweeper's lease for a while.
            until(f"{point} is hit", lambda: not scene.replica.is_up(), 120)
            assert scene.replica.process.returncode == -6, f"{point}: ended with {scene.replica.process.returncode}"
            scene.replica.settings["engine-kill-at"] = ""
            scene.replica.start()
            scene.settled(started, undoing)
        faults, seen = judge(scene.replica, scene.tenant, [scene.agents], blocked_is_fine=False)
        report(f"server aborted at {len(points)} points of steps", faults, seen)
    finally:
        scene.close()


def agent_killed(folder, points, report):
    scene = Scene(folder, 8)
    try:
        for number, point in enumerate(points):
            start = scene.begin(AGENT_KINDS[point.split(":")[0]], False, f"a{number}")
            scene.agents.kill()
            scene.agents.start(scene.replica, {"MUSTER_AGENT_KILL_AT": point})
            started = start()
            scene.agents.process.wait(30)
            code = scene.agents.process.returncode
            assert code == -6, f"{point}: the agents ended with {code}"
            scene.agents.start(scene.replica)
            scene.settled(started, False)
        faults, seen = judge(scene.replica, scene.tenant, [scene.agents], blocked_is_fine=False)
        report(f"agent aborted at {len(points)} points of tasks", faults, seen)
    finally:
        scene.close()


def sample(points, count, seed):
    return points if count >= len(points) else sorted(random.Random(seed).sample(points, count), key=points.index)
