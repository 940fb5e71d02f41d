"""Drains that never kill a job, that name their origin, and that do not overwrite a person's."""

import time

from cluster import cells


def run(world):
    world.ready(2)
    cluster = world.cluster("lab", 2)
    a_job_finishes(cluster)
    a_drain_of_a_persons_stays(cluster)
    a_worker_without_a_record_registers_again(cluster)
    a_person_who_drained_first_keeps_the_word(cluster)
    cluster.gone()


def a_job_finishes(cluster):
    # It runs until this test ends it, however long the commands below take.
    job = cluster.submit("until [ -e /tmp/enough ]; do sleep 0.1; done", "--nodelist=lab-worker-1")
    cells.eventually(lambda: running(cluster, job))
    asked = cluster.json("member", "drain", "lab", "lab-worker-1", "--reason", "maintenance")
    operation = (asked.get("operation") or asked)["id"]
    cells.eventually(lambda: is_(cluster.state("lab-worker-1"), "DRAIN"))
    assert cluster.json("member", "get", "lab", "lab-worker-1")["state"] == "draining"
    # The operation on the member itself is a child of the requested one.
    owner = cluster.reason("lab-worker-1")
    assert owner.startswith("muster op_"), owner
    time.sleep(4)
    assert cluster.json("member", "get", "lab", "lab-worker-1")["state"] == "draining", "the drain did not wait for the job"
    running(cluster, job)
    cluster.slurm("touch", "/tmp/enough", cell="lab-worker-1", uid=2000)
    cluster.said("operation", "watch", operation, timeout=90)
    cells.eventually(lambda: is_(cluster.job(job)[0], "COMPLETED"))
    assert cluster.state("lab-worker-1") == "IDLE+DRAIN+DYNAMIC_NORM", cluster.state("lab-worker-1")
    member = cluster.json("member", "get", "lab", "lab-worker-1")
    assert member["state"] == "drained" and member["drained_witness_id"], member
    assert cluster.slurm("srun", "hostname") == "lab-worker-2"
    cluster.do("resume", "lab-worker-1")
    assert cluster.state("lab-worker-1") == "IDLE+DYNAMIC_NORM"
    assert cluster.slurm("srun", "--nodelist=lab-worker-1", "hostname") == "lab-worker-1"
    print(f"    the job was COMPLETED, the drain was {owner!r}", flush=True)


def a_drain_of_a_persons_stays(cluster):
    """Drained by the platform, then again by a person with another reason: the platform's resume does not clear it."""
    cluster.do("drain", "lab-worker-1", "--reason", "maintenance")
    cluster.slurm("scontrol", "update", "nodename=lab-worker-1", "state=drain", "reason=bad disk")
    refused = cluster.muster("member", "resume", "lab", "lab-worker-1", "--wait", "--timeout", "60s")
    assert refused.returncode != 0 and "bad disk" in refused.stdout + refused.stderr, refused
    assert "DRAIN" in cluster.state("lab-worker-1") and cluster.reason("lab-worker-1") == "bad disk"
    cluster.slurm("scontrol", "update", "nodename=lab-worker-1", "state=resume")
    resumed(cluster)
    cells.eventually(lambda: at_work(cluster), seconds=60)


def at_work(cluster):
    """The retry may have put it back to work; between its end and this look, or not at all."""
    if cluster.members()["lab-worker-1"]["state"] != "active":
        cluster.muster("member", "resume", "lab", "lab-worker-1", "--wait", "--timeout", "60s")
    assert cluster.members()["lab-worker-1"]["state"] == "active", cluster.members()["lab-worker-1"]


def resumed(cluster):
    """Whatever waits for a person is tried again."""
    for operation in cluster.json("operation", "list", "--state", "blocked")["items"]:
        cluster.muster("operation", "resolve", operation["id"], "--action", "retry")
    cells.eventually(lambda: nothing_open(cluster), seconds=60)


def nothing_open(cluster):
    found = cluster.json("operation", "list")["items"]
    still = [o["id"] for o in found if o["state"] not in ("succeeded", "failed", "cancelled", "superseded", "partial")]
    assert not still, still


def a_worker_without_a_record_registers_again(cluster):
    """A controller that died before it saved its state has no record of a worker, and slurmd registers only when it starts. A drained
    worker would register undrained, so it stays without a record until its resume."""
    cluster.do("drain", "lab-worker-1")
    cluster.slurm("scontrol", "delete", "nodename=lab-worker-1")
    assert cluster.nodes() == ["lab-worker-2"], cluster.nodes()
    cluster.do("resume", "lab-worker-1", timeout="60s")
    assert cluster.slurm("srun", "--nodelist=lab-worker-1", "hostname") == "lab-worker-1"
    # One that works is registered by the adapter's reconcile, and by a drain that comes before it.
    cluster.slurm("scontrol", "delete", "nodename=lab-worker-1")
    cluster.do("drain", "lab-worker-1", timeout="60s")
    assert "DRAIN" in cluster.state("lab-worker-1"), cluster.state("lab-worker-1")
    cluster.do("resume", "lab-worker-1", timeout="60s")


def a_person_who_drained_first_keeps_the_word(cluster):
    cluster.slurm("scontrol", "update", "nodename=lab-worker-2", "state=drain", "reason=mine")
    cluster.do("drain", "lab-worker-2", "--reason", "maintenance")
    assert cluster.reason("lab-worker-2") == "mine"
    assert cluster.json("member", "get", "lab", "lab-worker-2")["state"] == "drained"


def running(cluster, job):
    assert cluster.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"


def is_(text, word):
    assert word in text, text
