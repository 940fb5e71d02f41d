"""The controller and a worker in one allocation: created, used, decommissioned with nothing left."""

from cluster import CONFIG


def run(world):
    world.ready(1)
    world.at.said("allocation", "create", "all", "--cpus", "2", "--memory-mb", "3072", "--disk-mb", "4096", "--wait", "--timeout", "60s")
    cluster = world.cluster("lab", 1, {**CONFIG, "topology": "single_node"}, "--allocation", "controller=all", "--allocation", "worker=all")
    assert cluster.slurm("srun", "hostname") == "lab-worker-1"
    assert cluster.slurm("srun", "id", "-un", uid=2000) == "alice"
    assert cluster.slurm("srun", "hostname", cell="lab-worker-1") == "lab-worker-1", "a worker has the commands too"
    instance = cluster.json("instance", "get", "lab")
    assert instance["state"] == "running", instance
    worker = cluster.members()["lab-worker-1"]
    assert worker["adapter_detail"]["version"].startswith("slurm-wlm 22."), worker
    cluster.gone()
    # A person's reservation is released by that person.
    world.at.release("all")
    print(f"    created in {cluster.took:.1f} s, decommissioned in {cluster.went:.1f} s", flush=True)
