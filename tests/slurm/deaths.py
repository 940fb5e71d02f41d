"""Workers that die: one whose bootstrap failed is recovered, one whose node is gone is replaced, and its job is run again by Slurm."""

import json

from cluster import cells
from partition import cut


def run(world):
    world.ready(3, "--nodes-heartbeat-seconds", "1")
    cluster = world.cluster("lab", 1)
    a_failed_bootstrap_is_recovered(world, cluster)
    a_dead_node_is_replaced(world, cluster)
    cluster.gone()


def a_failed_bootstrap_is_recovered(world, cluster):
    """Nobody takes the worker in, and whoever asked for it gives up: it is failed, and Slurm never heard of it."""
    world.stop_adapter()
    asked = cluster.json("member", "add", "lab", "worker")
    operation = (asked.get("operation") or asked)["id"]
    cells.eventually(lambda: at_join(cluster), seconds=60)
    cluster.said("operation", "cancel", operation)
    world.start_adapter()
    cells.eventually(lambda: is_("failed", cluster.members()["lab-worker-2"]["state"]), seconds=60)
    assert cluster.nodes() == ["lab-worker-1"]
    cluster.do("recover", "lab-worker-2")
    assert cluster.nodes() == ["lab-worker-1", "lab-worker-2"]
    assert cluster.slurm("srun", "--nodelist=lab-worker-2", "hostname") == "lab-worker-2"


def at_join(cluster):
    member = cluster.members().get("lab-worker-2")
    assert member and member["state"] == "joining", member


def a_dead_node_is_replaced(world, cluster):
    """Its node is cut off with a job on it. It is fenced, another comes, and the job ends there, once."""
    places = {name: node_of(world, cluster, name) for name in ("lab-controller-1", "lab-worker-1", "lab-worker-2")}
    dead = next(name for name in ("lab-worker-2", "lab-worker-1") if places[name] != places["lab-controller-1"])
    also = [name for name in places if places[name] == places[dead] and name != dead]
    job = cluster.submit("sleep 5", f"--nodelist={dead}", "--requeue")
    cells.eventually(lambda: running(cluster, job))
    with cut(world, places[dead], "link"):
        cells.eventually(lambda: unreachable(world, places[dead]), seconds=30)
        cluster.do("replace", dead, "--reason", "its node is gone")
        names = cluster.nodes()
        assert dead not in names and "lab-worker-3" in names, names
        # Slurm plans what it queues again for two minutes later.
        cluster.slurm("scontrol", "update", f"jobid={job}", "starttime=now", "reqnodelist=")
        cells.eventually(lambda: is_("COMPLETED", " ".join(cluster.job(job))), seconds=60)
    states = cluster.job(job)
    assert states.count("COMPLETED") == 1, states
    print(f"    {dead} on {places[dead]} (beside it {also}) was replaced; its job's states: {states}", flush=True)
    # Its node is heard again, and has to wipe it before the old one is gone.
    cells.eventually(lambda: is_("removed", old_state(cluster, dead)), seconds=60)


def old_state(cluster, name):
    found = cluster.muster("-o", "json", "member", "get", "lab", name)
    return json.loads(found.stdout)["state"] if found.returncode == 0 else "removed"


def node_of(world, cluster, member):
    found = cluster.json("member", "get", "lab", member)
    allocation = cluster.json("allocation", "get", found["allocation_id"])
    return json.loads(world.said("-o", "json", "node", "get", allocation["node_id"]))["name"]


def unreachable(world, node):
    assert json.loads(world.said("-o", "json", "node", "get", node))["state"] == "unreachable"


def running(cluster, job):
    assert cluster.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"


def is_(word, text):
    assert word in text, text
