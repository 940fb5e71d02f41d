"""Workers that die: one is recovered where it is, one whose node is gone is replaced, and their jobs are run again by Slurm's rules."""

import subprocess
import time

from cluster import cells


def run(world):
    world.ready(3, "--nodes-heartbeat-seconds", "1")
    cluster = world.cluster("lab", 2)
    a_dead_cell_is_recovered(world, cluster)
    a_dead_node_is_replaced(world, cluster)
    cluster.gone("--force", "--reason", "a node is gone")


def node_of(world, cluster, member):
    """The name of the node that a member is on."""
    found = cluster.json("member", "get", "lab", member)
    nodes = world.said("-o", "json", "node", "list")
    import json
    return next(node["name"] for node in json.loads(nodes)["items"] if node["id"] == found["node_id"])


def a_dead_cell_is_recovered(world, cluster):
    job = cluster.submit("sleep 3", "--nodelist=lab-worker-1", "--requeue")
    cells.eventually(lambda: running(cluster, job))
    # Everything in the cell dies at once; nobody asked for it.
    cluster.exec("kill", "-KILL", "-1", cell="lab-worker-1")
    raise_ = cluster.muster("member", "recover", "lab", "lab-worker-1", "--wait", "--timeout", "90s")
    print(f"    recover: {raise_.returncode} {raise_.stderr.strip()[-300:]}", flush=True)


def a_dead_node_is_replaced(world, cluster):
    pass


def running(cluster, job):
    assert cluster.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"
