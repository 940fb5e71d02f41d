"""Workers that die: one with a failed bootstrap is recovered, one that was partitioned for a while comes back automatically, and one on a
lost node is replaced, and Slurm runs its job again."""

import json
import time

from cluster import cells
from drains import resumed
from partition import cut


def run(world):
    world.ready(3, "--nodes-heartbeat-seconds", "1")
    cluster = world.cluster("lab", 1)
    a_failed_bootstrap_is_recovered(world, cluster)
    a_worker_that_slurm_set_down_comes_back(world, cluster)
    a_dead_node_is_replaced(world, cluster)
    cluster.gone()


def a_failed_bootstrap_is_recovered(world, cluster):
    """No adapter joins the worker, and the request is cancelled: it is failed, and Slurm has no record of it."""
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


def a_worker_that_slurm_set_down_comes_back(world, cluster):
    """Its node is partitioned for longer than SlurmdTimeout, so Slurm sets it down, and keeps it down when the node is back. The adapter returns
    it to service. A drain while it is down keeps the way back."""
    at_controller = node_of(world, cluster, "lab-controller-1")
    worker = next(name for name in sorted(cluster.members()) if node_of(world, cluster, name) != at_controller)
    with cut(world, node_of(world, cluster, worker), "link"):
        cells.eventually(lambda: is_("DOWN", cluster.state(worker)), seconds=60)
        assert "Not responding" in cluster.reason(worker), cluster.reason(worker)
    back = time.monotonic()
    cells.eventually(lambda: at_work(cluster, worker), seconds=75)
    print(f"    {worker}: down for its silence, and at work {time.monotonic() - back:.1f} s after its node was back", flush=True)
    # Down again by Slurm's own reason, and drained before the adapter looks: the drain replaces that reason.
    world.stop_adapter()
    cluster.slurm("scontrol", "update", f"nodename={worker}", "state=down", "reason=Not responding")
    asked = cluster.json("member", "drain", "lab", worker)
    world.start_adapter()
    cluster.said("operation", "watch", (asked.get("operation") or asked)["id"])
    assert "DOWN" in cluster.state(worker) and "DRAIN" in cluster.state(worker), cluster.state(worker)
    assert cluster.reason(worker).startswith("muster "), cluster.reason(worker)
    cluster.do("resume", worker, timeout="60s")
    # A node that a person set down is returned by that person alone.
    cluster.slurm("scontrol", "update", f"nodename={worker}", "state=down", "reason=bad disk")
    cluster.do("drain", worker, timeout="60s")
    assert cluster.reason(worker) == "bad disk", cluster.reason(worker)
    refused = cluster.muster("member", "resume", "lab", worker, "--wait", "--timeout", "60s")
    assert refused.returncode != 0 and "bad disk" in refused.stdout + refused.stderr, refused
    cluster.slurm("scontrol", "update", f"nodename={worker}", "state=resume")
    resumed(cluster)
    cells.eventually(lambda: is_("active", cluster.members()[worker]["state"]), seconds=30)
    assert cluster.slurm("srun", f"--nodelist={worker}", "hostname") == worker


def at_work(cluster, worker):
    told = cluster.members()[worker]
    assert (told["state"], told["health"]) == ("active", "healthy"), told
    assert cluster.state(worker).split("+")[0].rstrip("*") in ("IDLE", "MIXED", "ALLOCATED"), cluster.state(worker)


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
        # Slurm delays requeued jobs by two minutes.
        cluster.slurm("scontrol", "update", f"jobid={job}", "starttime=now", "reqnodelist=")
        cells.eventually(lambda: is_("COMPLETED", " ".join(cluster.job(job))), seconds=60)
    states = cluster.job(job)
    assert states.count("COMPLETED") == 1, states
    print(f"    {dead} on {places[dead]} (beside it {also}) was replaced; its job's states: {states}", flush=True)
    # Its node reconnects, and has to wipe the old one before that is removed.
    cells.eventually(lambda: is_("removed", old_state(cluster, dead)), seconds=60)


def old_state(cluster, name):
    found = cluster.muster("-o", "json", "member", "get", "lab", name)
    return json.loads(found.stdout)["state"] if found.returncode == 0 else "removed"


def node_of(world, cluster, member):
    found = cluster.json("member", "get", cluster.name, member)
    allocation = cluster.json("allocation", "get", found["allocation_id"])
    return json.loads(world.said("-o", "json", "node", "get", allocation["node_id"]))["name"]


def unreachable(world, node):
    assert json.loads(world.said("-o", "json", "node", "get", node))["state"] == "unreachable"


def running(cluster, job):
    assert cluster.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"


def is_(word, text):
    assert word in text, text
