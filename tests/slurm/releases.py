"""Another release and back: the controller keeps its queue and its accounting, the workers roll, and no job is killed for it."""

from cluster import cells


def run(world):
    world.ready(2)
    cluster = world.cluster("lab", 2)
    before = cluster.submit("true")
    cells.eventually(lambda: is_("COMPLETED", cluster.job(before)[0]))
    for verb, version in (("upgrade", "0.3.0"), ("rollback", None)):
        if version:
            world.publish(version)
        job = cluster.submit("sleep 15", "--nodelist=lab-worker-1")
        held = cluster.submit("true", "--hold")
        cells.eventually(lambda: running(cluster, job))
        cluster.said("instance", verb, "lab", *(["--to", version] if version else []), "--wait", "--timeout", "200s", timeout=220)
        # The accounting has the end of a job some time after Slurm has.
        for known in (job, before):
            cells.eventually(lambda known=known: is_exactly(cluster.job(known), ["COMPLETED"]))
        cluster.slurm("scontrol", "release", held)
        cells.eventually(lambda: is_("COMPLETED", cluster.job(held)[0]), seconds=30)
        assert sorted(cluster.slurm("srun", "-N2", "hostname").split()) == ["lab-worker-1", "lab-worker-2"]
        print(f"    {verb}: the job that ran is {cluster.job(job)}, the one that was held is {cluster.job(held)}", flush=True)
    cluster.gone()


def running(cluster, job):
    assert cluster.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"


def is_exactly(states, expected):
    assert states == expected, states


def is_(word, text):
    assert word in text, text
