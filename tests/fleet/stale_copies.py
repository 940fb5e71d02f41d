"""A node that is partitioned, released by an operator's attestation, and comes back with its old allocations."""

import time

from judge import judge
from platform_under_test import Refused
from world import Agents, Replica, Tenant, wait_for_end


def until(what, question, seconds=60):
    deadline = time.time() + seconds
    while time.time() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.25)
    raise AssertionError(f"it never came to this: {what}")


def come_back(folder, report):
    replica = Replica(folder, settings={"nodes-heartbeat-seconds": "1"})
    replica.start()
    # More than the one that is lost: when most of a fleet falls silent, the fault is presumed to be the platform's.
    agents = Agents(folder, "n", 8, 4)
    agents.start(replica)
    tenant = Tenant(replica)
    try:
        made = tenant.create(lambda: replica, "lost", gpus=2, cpus=2)
        assert wait_for_end(replica, made["id"], tenant.token)["state"] == "succeeded"
        path = f"{tenant.base}/{made['subject_id']}"
        node = replica.call("GET", path, token=tenant.token)["node_id"]
        name = replica.call("GET", f"/v1/nodes/{node}")["name"]
        statement = {"statement": "the machine was cut off and its power is off"}

        refused = None
        try:
            replica.call("POST", f"{path}/attest", statement)
        except Refused as error:
            refused = error.status
        assert refused == 409, "what can be seen is not attested"

        agents.tell(f"partition {name}")
        until("unreachable", lambda: replica.call("GET", f"/v1/nodes/{node}")["state"] == "unreachable")
        allocation = replica.call("GET", path, token=tenant.token)
        assert allocation["state"] == "active", "a node that is not heard says nothing about what runs on it"

        released = tenant.act(lambda: replica, made["subject_id"], "release")
        waiting = until("waiting", lambda: replica.call(
            "GET", f"/v1/operations/{released['id']}", token=tenant.token).get("waiting"))
        replica.call("POST", f"{path}/attest", statement)
        ended = wait_for_end(replica, released["id"], tenant.token)
        assert ended["state"] == "succeeded", ended
        allocation = replica.call("GET", path, token=tenant.token)
        assert (allocation["state"], allocation["evidence"]) == ("released", "attested"), allocation
        slots = replica.call("GET", f"/v1/nodes/{node}/slots")["items"]
        assert sum(slot["state"] == "quarantined" for slot in slots) == 2, slots

        stale = [line for line in agents.effects() if line["allocation_id"] == made["subject_id"]]
        assert [line["effect"] for line in stale] == ["prepared"], "it still runs there, and nobody said otherwise"
        agents.tell(f"heal {name}")
        until("ready", lambda: replica.call("GET", f"/v1/nodes/{node}")["state"] == "ready")
        told = [line["effect"] for line in agents.effects() if line["allocation_id"] == made["subject_id"]]
        assert told[:2] == ["prepared", "destroyed"], f"the stale copy is destroyed before anything else: {told}"
        until("clean", lambda: all(
            slot["state"] == "approved" for slot in replica.call("GET", f"/v1/nodes/{node}/slots")["items"]))
        told = [line["effect"] for line in agents.effects() if line["allocation_id"] == made["subject_id"]]
        assert "wiped" in told, f"its slots left quarantine unwiped: {told}"
        metrics = replica.request("GET", "/metrics")[2].decode()
        counted = next(line for line in metrics.splitlines() if line.startswith("muster_stale_copies_total "))
        faults, seen = judge(replica, tenant, [agents], blocked_is_fine=False)
        report(f"a node came back with a stale copy ({counted}); it had waited: {waiting}", faults, seen)
    finally:
        agents.kill()
        replica.stop()
