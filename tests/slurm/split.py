"""The controller on one node and workers on others: they grow, several at once, and shrink; MPI starts across two of them."""

import time


def run(world):
    world.ready(3)
    # A node has two CPUs: a member with both is alone there.
    size = {"memory-mb": "1024", "disk-mb": "2048"}
    places = {"here": world.at.allocate("here", cpus="2", **size), "there": world.at.allocate("there", **size)}
    assert places["here"]["node_id"] != places["there"]["node_id"], places
    cluster = world.cluster("lab", 1, {}, "--allocation", "controller=here", "--allocation", "worker=there")
    assert cluster.slurm("srun", "hostname") == "lab-worker-1"
    began = time.monotonic()
    cluster.said("member", "add", "lab", "worker", "--count", "2", "--cpus", "1", "--memory-mb", "1024", "--disk-mb", "1024", "--wait", "--timeout", "90s")
    added = time.monotonic() - began
    assert cluster.nodes() == ["lab-worker-1", "lab-worker-2", "lab-worker-3"], cluster.nodes()
    hosts = sorted(cluster.slurm("srun", "-N3", "hostname").split())
    assert hosts == ["lab-worker-1", "lab-worker-2", "lab-worker-3"], hosts
    ran = cluster.exec("srun", "-N2", "--mpi=pmix", "hostname")
    assert ran.returncode == 0 and ran.stderr == "", ran
    cluster.do("remove", "lab-worker-2")
    assert cluster.nodes() == ["lab-worker-1", "lab-worker-3"], cluster.nodes()
    assert sorted(cluster.slurm("srun", "-N2", "hostname").split()) == ["lab-worker-1", "lab-worker-3"]
    cluster.gone()
    for place in places:
        world.at.release(place)
    print(f"    created in {cluster.took:.1f} s, two added in {added:.1f} s, decommissioned in {cluster.went:.1f} s",
          flush=True)
