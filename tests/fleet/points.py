"""A real server, and then a real agent process, aborted at the golden points; each must be gone on from."""

import random
import time
from pathlib import Path

from judge import judge
from world import Agents, Replica, Tenant, wait_for_end

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "crates" / "operations" / "tests" / "output" / "kill_points.txt"

# What it takes to come to a point: the harness in crates/operations reaches the rest, with a node that misbehaves on demand.
REACHED = ("allocation.create/", "allocation.release/", "allocation.restart/", "allocation.resize/")
AGENT_POINTS = [
    f"{kind}:{stage}"
    for kind in ("prepare", "inspect", "resize", "destroy", "wipe")
    for stage in ("before-effect", "after-effect-before-journal", "after-effect-before-report")
    if not (kind == "inspect" and stage == "after-effect-before-journal")
]


def server_points():
    lines = [line.split()[0] for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return [point for point in lines if point.startswith(REACHED) and "/-" not in point]


def begin(tenant, server, kind, number):
    """An operation of this kind, on an allocation made for it; says which operation to watch."""
    if kind == "allocation.create":
        return lambda: tenant.create(server, f"p{number}", gpus=2, cpus=2)
    made = tenant.create(server, f"p{number}", gpus=2, cpus=2)
    ended = wait_for_end(server(), made["id"], tenant.token)
    assert ended["state"] == "succeeded", ended
    verb = kind.split(".")[1]
    body = {"gpus": 1, "cpus": 4} if verb == "resize" else {}
    return lambda: tenant.act(server, made["subject_id"], verb, body)


def server_killed(folder, points, report):
    replica = Replica(folder)
    replica.start()
    agents = Agents(folder, "n", 2, 8)
    agents.start(replica)
    tenant = Tenant(replica)
    try:
        for number, point in enumerate(points):
            act = begin(tenant, lambda: replica, point.split("/")[0], f"s{number}")
            replica.stop()
            replica.settings["engine-kill-at"] = point
            replica.start()
            started = act()
            for _ in range(200):
                if not replica.is_up():
                    break
                time.sleep(0.05)
            assert not replica.is_up(), f"{point} was never hit"
            assert replica.process.returncode == -6, f"{point}: the server ended with {replica.process.returncode}"
            replica.settings["engine-kill-at"] = ""
            replica.start()
            ended = wait_for_end(replica, started["id"], tenant.token)
            assert ended["state"] == "succeeded", (point, ended)
            if point.split("/")[0] != "allocation.release":
                released = tenant.act(lambda: replica, started["subject_id"], "release")
                assert wait_for_end(replica, released["id"], tenant.token)["state"] == "succeeded"
        faults, seen = judge(replica, tenant, [agents], parked_is_fine=False)
        report(f"server aborted at {len(points)} points of steps", faults, seen)
    finally:
        agents.kill()
        replica.stop()


def agent_killed(folder, points, report):
    replica = Replica(folder)
    replica.start()
    agents = Agents(folder, "n", 2, 8)
    agents.start(replica)
    tenant = Tenant(replica)
    kinds = {"prepare": "allocation.create", "inspect": "allocation.create", "resize": "allocation.resize",
             "destroy": "allocation.release", "wipe": "allocation.release"}
    try:
        for number, point in enumerate(points):
            act = begin(tenant, lambda: replica, kinds[point.split(":")[0]], f"a{number}")
            agents.kill()
            agents.start(replica, {"MUSTER_AGENT_KILL_AT": point})
            started = act()
            agents.process.wait(30)
            assert agents.process.returncode == -6, f"{point}: the agent ended with {agents.process.returncode}"
            agents.start(replica)
            ended = wait_for_end(replica, started["id"], tenant.token)
            assert ended["state"] == "succeeded", (point, ended)
            if started["kind"] != "allocation.release":
                released = tenant.act(lambda: replica, started["subject_id"], "release")
                assert wait_for_end(replica, released["id"], tenant.token)["state"] == "succeeded"
        faults, seen = judge(replica, tenant, [agents], parked_is_fine=False)
        report(f"agent aborted at {len(points)} points of tasks", faults, seen)
    finally:
        if agents.is_up():
            agents.kill()
        replica.stop()


def sample(points, count, seed):
    return points if count >= len(points) else sorted(random.Random(seed).sample(points, count), key=points.index)
