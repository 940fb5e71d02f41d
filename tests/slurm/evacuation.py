"""Nodes that are drained under a cluster: a worker moves without its job being killed, and the controller stays until it is forced."""

import json

from cluster import cells


def run(world):
    world.ready(3)
    cluster = world.cluster("lab", 2)
    places = {name: node_of(world, cluster, name) for name in ("lab-controller-1", "lab-worker-1", "lab-worker-2")}
    home = places["lab-controller-1"]
    old = next(name for name in ("lab-worker-2", "lab-worker-1") if places[name] != home)
    a_worker_moves_under_its_job(world, cluster, old, places[old])
    a_controller_stays(world, cluster, home)
    cluster.gone()


def a_worker_moves_under_its_job(world, cluster, old, node):
    # It runs until this test ends it, however long the commands below take.
    job = cluster.submit("until [ -e /tmp/enough ]; do sleep 0.1; done", f"--nodelist={old}")
    cells.eventually(lambda: running(cluster, job))
    plan = drain(world, node, "--dry-run")["plan"]["items"]
    assert [(item["name"], item["action"]) for item in plan] == [(old, "replace")], plan
    assert "its successor becomes active before it is removed; capacity is available now" in plan[0]["message"], plan
    drained = drain(world, node)["operation"]["id"]
    cells.eventually(lambda: at_work(cluster, "lab-worker-3"), seconds=60)
    # The new one works, and the old one is not taken out before its job is done.
    cells.eventually(lambda: is_(cluster.state(old), "DRAIN"))
    running(cluster, job)
    assert cluster.members()[old]["state"] == "draining", cluster.members()[old]
    assert cluster.slurm("srun", "--nodelist=lab-worker-3", "hostname") == "lab-worker-3"
    assert operation(world, drained)["state"] == "running"
    cluster.slurm("touch", "/tmp/enough", cell=old, uid=2000)
    cells.eventually(lambda: is_(operation(world, drained)["state"], "succeeded"), seconds=60)
    cells.eventually(lambda: is_(cluster.job(job)[0], "COMPLETED"))
    assert old not in cluster.nodes() and "lab-worker-3" in cluster.nodes(), cluster.nodes()
    assert node_of(world, cluster, "lab-worker-3") != node
    world.said("node", "uncordon", node)
    print(f"    {old} left {node} after its job was COMPLETED", flush=True)


def a_controller_stays(world, cluster, node):
    before = cluster.json("member", "get", "lab", "lab-controller-1")
    drained = drain(world, node)["operation"]["id"]
    # Workers beside it move; it waits, with the reason.
    cells.eventually(lambda: waits(world, drained), seconds=60)
    waiting = operation(world, drained)
    item = next(item for item in waiting["items"] if item["name"] == "lab-controller-1")
    assert item["state"] == "pending" and "old-first" in item["message"], item
    after = cluster.json("member", "get", "lab", "lab-controller-1")
    assert after["state"] == "active" and after["incarnation"] == before["incarnation"], after
    assert cluster.slurm("srun", "hostname").startswith("lab-worker-")
    world.said("operation", "cancel", drained)
    cells.eventually(lambda: is_(operation(world, drained)["state"], "cancelled"), seconds=30)
    print(f"    {waiting['waiting']}", flush=True)


def waits(world, drained):
    """Nothing else is under way: only the controller is waited for."""
    found = operation(world, drained)
    assert found["state"] == "running" and (found.get("waiting") or "").startswith("lab-controller-1 is replaced old-first"), found


def drain(world, node, *words):
    return json.loads(world.said("-o", "json", "node", "drain", node, "--reason", "firmware", *words))


def operation(world, found):
    return json.loads(world.said("-o", "json", "operation", "get", found))


def node_of(world, cluster, member):
    found = cluster.json("member", "get", "lab", member)
    allocation = cluster.json("allocation", "get", found["allocation_id"])
    return json.loads(world.said("-o", "json", "node", "get", allocation["node_id"]))["name"]


def at_work(cluster, name):
    member = cluster.members().get(name)
    assert member and member["state"] == "active", member


def running(cluster, job):
    assert cluster.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"


def is_(text, word):
    assert word in text, text
