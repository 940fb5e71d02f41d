"""Another release and back, each with an image of its own: the controller keeps its queue and its accounting, the workers roll, and no
job is killed for it."""

import json

from cluster import NAMED, cells


def run(world):
    world.ready(2)
    cluster = world.cluster("lab", 2)
    before = cluster.submit("true")
    cells.eventually(lambda: is_("COMPLETED", cluster.job(before)[0]))
    first = images(cluster)
    assert len(set(first.values())) == 1, first
    layout, other = world.next_image("0.3.0")
    assert other not in first.values(), "the image of the other release is the same one"
    world.publish("0.3.0", layout)
    for verb, words in (("upgrade", ["--to", "0.3.0"]), ("rollback", [])):
        job = cluster.submit("sleep 15", "--nodelist=lab-worker-1")
        held = cluster.submit("true", "--hold")
        cells.eventually(lambda: running(cluster, job))
        cluster.said("instance", verb, "lab", *words, "--wait", "--timeout", "200s", timeout=220)
        runs_from(cluster, other if verb == "upgrade" else first[cluster.controller], "0.3.0" if verb == "upgrade" else None)
        # The accounting has the end of a job some time after Slurm has.
        for known in (job, before):
            cells.eventually(lambda known=known: is_exactly(cluster.job(known), ["COMPLETED"]))
        cluster.slurm("scontrol", "release", held)
        cells.eventually(lambda: is_("COMPLETED", cluster.job(held)[0]), seconds=30)
        assert sorted(cluster.slurm("srun", "-N2", "hostname").split()) == ["lab-worker-1", "lab-worker-2"]
        print(f"    {verb}: the job that ran is {cluster.job(job)}, the one that was held is {cluster.job(held)}", flush=True)
    cluster.gone()


def images(cluster):
    """The image of each member's cell, by its digest."""
    cells_of = [cluster.controller, *cluster.members()]
    return {name: json.loads(cluster.said("-o", "json", "cell", "get", name))["spec"]["root"]["image"] for name in cells_of}


def runs_from(cluster, digest, version):
    """Every member's cell was made of this image, and has its files."""
    found = images(cluster)
    assert set(found.values()) == {digest}, (digest, found)
    for cell in found:
        named = cluster.exec("cat", NAMED, cell=cell)
        assert (named.stdout if named.returncode == 0 else None) == version, (cell, named)


def running(cluster, job):
    assert cluster.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"


def is_exactly(states, expected):
    assert states == expected, states


def is_(word, text):
    assert word in text, text
