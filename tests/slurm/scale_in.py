"""Scaling in: the worker with the earliest end of its jobs is removed, and no other job is affected."""

from cluster import CONFIG, cells


def run(world):
    world.ready(3)
    cluster = world.cluster("lab", 2, {**CONFIG, "default_mem_per_cpu_mb": 100})
    # The newest goes where nothing else decides, so the older one is given the shorter job.
    short = cluster.submit("sleep 50", "--nodelist=lab-worker-1", "--time=10")
    long = cluster.submit("sleep 90", "--nodelist=lab-worker-2", "--time=120")
    for job in (short, long):
        cells.eventually(lambda job=job: is_(cluster.slurm("squeue", "-h", "-j", job, "-o", "%T"), "RUNNING"))
    cells.eventually(lambda: told(cluster), seconds=60)
    free = {name: member["free_at"] for name, member in cluster.members().items()}
    cluster.said("instance", "scale", "lab", "--set", "worker=1", "--wait", "--timeout", "120s")
    assert list(cluster.members()) == ["lab-worker-2"], cluster.members()
    # Waited for. The accounting has the end of a job some time after Slurm has.
    cells.eventually(lambda: is_exactly(cluster.job(short), ["COMPLETED"]))
    assert cluster.job(long) == ["RUNNING"], "it ran on the one that stays"
    cells.eventually(lambda: is_(cluster.job(long)[0], "COMPLETED"), seconds=90)
    assert cluster.job(long) == ["COMPLETED"], "it was not run twice"
    print(f"    free at {free}: lab-worker-1 went, the job of lab-worker-2 went on", flush=True)
    forgotten(cluster)
    cluster.gone()


def told(cluster):
    """Both ends are known: the looks are half a minute apart, so that takes a while."""
    ends = [cluster.members()[name].get("free_at") for name in ("lab-worker-1", "lab-worker-2")]
    assert all(ends) and ends[0] < ends[1], ends


def forgotten(cluster):
    """A job without a limit has no known end."""
    job = cluster.submit("sleep 600", "--time=UNLIMITED")
    cells.eventually(lambda: is_(cluster.slurm("squeue", "-h", "-j", job, "-o", "%T"), "RUNNING"))
    cells.eventually(lambda: never(cluster), seconds=60)
    cluster.slurm("scancel", job)


def never(cluster):
    assert "free_at" not in cluster.members()["lab-worker-2"]


def is_exactly(states, expected):
    assert states == expected, states


def is_(text, word):
    assert word in text, text
