"""The home directory is one in every cell of a cluster, on whichever node, with the same owners; and it is gone with the cluster."""

import json
from pathlib import Path

from people import Person


def run(world):
    world.ready(3)
    # A node has two CPUs: a member with both is alone there.
    size = {"cpus": "2", "memory-mb": "3072", "disk-mb": "4096"}
    places = {name: world.at.allocate(name, **size) for name in ("here", "there", "yonder")}
    assert len({place["node_id"] for place in places.values()}) == 3, places
    cluster = world.cluster("lab", 1, {}, "--allocation", "controller=here", "--allocation", "worker=there")
    cluster.said("member", "add", "lab", "worker", "--allocation", "yonder", "--wait", "--timeout", "60s")
    ada = Person(world, cluster, "tenant_admin")
    jobs_find_what_others_wrote(cluster, ada)
    owners_are_kept(world, cluster, ada)
    lies_where_the_nodes_share(world, ada)
    stays_when_members_go(cluster, ada)
    another_has_its_own(world, ada)
    cluster.gone()
    left = [path for path in shares(world) if not path.name.startswith(".")]
    assert not left, left
    stopped = evidence(world)
    assert stopped["left"] == 0 and stopped["node_id"], stopped
    for place in places:
        world.at.release(place)
    print(f"    one home on three nodes; gone with the cluster, seen by task {stopped['task_id']}", flush=True)


def jobs_find_what_others_wrote(cluster, ada):
    """A script that was written on the login node runs on every worker, and its output is found there again."""
    ada.said("sh", "-c", "printf '#!/bin/sh\\nhostname >> $HOME/seen\\n' > ~/work.sh && chmod 755 ~/work.sh")
    for worker in ("lab-worker-1", "lab-worker-2"):
        assert ada.said("sh", "-c", f"cd && sbatch --wait --parsable --nodelist={worker} --output=$HOME/%N.out ./work.sh").isdigit()
    assert sorted(ada.said("sh", "-c", "cat ~/seen").split()) == ["lab-worker-1", "lab-worker-2"]
    assert ada.said("sh", "-c", "ls ~/*.out").split() == [f"/home/{ada.login}/lab-worker-{n}.out" for n in (1, 2)]


def owners_are_kept(world, cluster, ada):
    """By number, in every cell; and one cannot read another's."""
    uid = ada.said("id", "-u")
    for cell in (cluster.controller, "lab-worker-1", "lab-worker-2"):
        assert cluster.slurm("stat", "-c", "%u %a", f"/home/{ada.login}", cell=cell) == f"{uid} 700", cell
    strange = str(int(uid) + 1)
    for cell in (cluster.controller, "lab-worker-2"):
        assert cluster.exec("cat", f"/home/{ada.login}/seen", cell=cell, uid=int(strange)).returncode != 0, cell


def lies_where_the_nodes_share(world, ada):
    """Checked from outside: it exists once, and no user of this machine owns it."""
    found = [path for path in shares(world) if (path / "home" / ada.login / "seen").is_file()]
    assert len(found) == 1, found
    owner = (found[0] / "home" / ada.login / "seen").stat().st_uid
    assert owner > 65536 and owner % 65536 == int(ada.said("id", "-u")) % 65536, owner


def stays_when_members_go(cluster, ada):
    """A worker that is removed takes nothing of it along, and one that comes later finds it."""
    cluster.do("remove", "lab-worker-2")
    assert len(ada.said("sh", "-c", "cat ~/seen").split()) == 2
    cluster.said("member", "add", "lab", "worker", "--allocation", "yonder", "--wait", "--timeout", "60s")
    assert ada.said("srun", "--nodelist=lab-worker-3", "sh", "-c", "cat ~/seen | wc -l") == "2"
    cluster.do("remove", "lab-worker-3")


def another_has_its_own(world, ada):
    other = world.cluster("other", 1, {"topology": "single_node"}, "--allocation", "controller=yonder", "--allocation", "worker=yonder")
    assert other.exec("ls", f"/home/{ada.login}/seen").returncode != 0
    assert other.exec("sh", "-c", f"mkdir -p /home/{ada.login} && echo other > /home/{ada.login}/seen").returncode == 0
    assert "other" not in ada.said("sh", "-c", "cat ~/seen")
    other.said("instance", "decommission", "other", "--wait", "--timeout", "60s")
    assert len(ada.said("sh", "-c", "cat ~/seen").split()) == 2, "the end of another cluster took files of this one"


def shares(world):
    return list((Path(world.data) / "nodes" / "shared").iterdir())


def evidence(world):
    """Returns the platform's evidence of the removal."""
    found = json.loads(world.at.said("-o", "json", "instance", "get", "lab"))
    assert found["state"] == "stopped", found
    operation = json.loads(world.at.said("-o", "json", "operation", "get", found["operation_id"]))
    seen = [thing for witness in operation["witnesses"] for thing in witness["evidence"]["checked"]]
    return next(thing for thing in seen if thing.get("what") == "what its members shared")
