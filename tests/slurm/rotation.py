"""The cluster's key is rotated: when it is revoked, also if the adapter dies half way, and automatically after an unverified removal."""

import subprocess
import time

from cluster import BINARY, CONFIG, cells
from deaths import node_of, unreachable
from partition import cut

KEY = "/run/muster/secrets/munge.key"
PARTITIONS = {"partitions": [{"name": "main", "default": True}, {"name": "spare"}]}


def run(world):
    world.ready(3, "--nodes-heartbeat-seconds", "1")
    cluster = world.cluster("lab", 1, {**CONFIG, **PARTITIONS, "default_mem_per_cpu_mb": 100})
    cluster.do("add", "worker")
    # A person keeps this one closed, and it stays so whatever we do.
    cluster.slurm("scontrol", "update", "partitionname=spare", "state=DOWN")
    on_request_with_jobs_running(world, cluster)
    an_adapter_that_dies_half_way(world, cluster)
    a_worker_that_left_unseen(world, cluster)
    assert partitions(cluster) == {"main": "up", "spare": "down"}, partitions(cluster)
    seen = told(cluster)
    assert any("key" in text for text in seen), seen
    print(f"    the timeline says {seen}", flush=True)
    cluster.gone()


def on_request_with_jobs_running(world, cluster):
    old, content = key(cluster), stolen(cluster)
    long = cluster.submit("sleep 40", "--nodelist=lab-worker-1")
    cells.eventually(lambda: is_(cluster.slurm("squeue", "-h", "-j", long, "-o", "%T"), "RUNNING"))
    loops = [sruns(world, cluster, number) for number in (1, 2, 3)]
    time.sleep(2)
    began = time.monotonic()
    cluster.said("runtime-secret", "revoke", old, "--reason", "in a screenshot")
    cells.eventually(lambda: changed(cluster, old), seconds=90)
    took = time.monotonic() - began
    time.sleep(3)
    cluster.slurm("touch", "/tmp/enough", uid=2000)
    ran = [loop.communicate(timeout=120) for loop in loops]
    assert all(loop.returncode == 0 for loop in loops), ran
    refuses(cluster, content)
    cells.eventually(lambda: is_(cluster.job(long)[0], "COMPLETED"), seconds=90)
    for worker in ("lab-worker-1", "lab-worker-2"):
        assert cluster.slurm("timeout", "90", "srun", f"--nodelist={worker}", "hostname") == worker
    untouched(cluster)
    counts = [said.strip() for said, _ in ran]
    print(f"    changed in {took:.1f} s with sruns running ({', '.join(counts)})", flush=True)


def an_adapter_that_dies_half_way(world, cluster):
    """Killed while it holds jobs: the next process finishes, and jobs start again."""
    for _ in range(2):
        old = key(cluster)
        job = cluster.submit("sleep 3", "--nodelist=lab-worker-2")
        cluster.said("runtime-secret", "revoke", old, "--reason", "again")
        cells.eventually(lambda: is_(partitions(cluster)["main"], "down"), seconds=60)
        world.stop_adapter()
        world.start_adapter()
        cells.eventually(lambda: changed(cluster, old), seconds=90)
        cells.eventually(lambda: is_(partitions(cluster)["main"], "up"), seconds=10)
        cells.eventually(lambda job=job: is_(cluster.job(job)[0], "COMPLETED"), seconds=90)
    assert cluster.slurm("timeout", "90", "srun", "-N2", "hostname").split(), "both run jobs"
    untouched(cluster)


def a_worker_that_left_unseen(world, cluster):
    places = {name: node_of(world, cluster, name) for name in ("lab-controller-1", "lab-worker-1", "lab-worker-2")}
    dead = next(name for name in ("lab-worker-2", "lab-worker-1") if places[name] != places["lab-controller-1"])
    # A worker on the same node would be cut off too. It would rightly keep the old key until it can be reached again.
    for beside in [name for name in places if name != dead and places[name] == places[dead]]:
        cluster.do("remove", beside)
    old, content = key(cluster), stolen(cluster)
    with cut(world, places[dead], "link"):
        cells.eventually(lambda: unreachable(world, places[dead]), seconds=30)
        cluster.do("replace", dead, "--reason", "its node is gone")
        cells.eventually(lambda: changed(cluster, old), seconds=90)
        refuses(cluster, content)
        assert cluster.slurm("timeout", "90", "srun", "--nodelist=lab-worker-3", "hostname") == "lab-worker-3"
        listed = cluster.json("runtime-secret", "list", "--purpose", "cluster_bootstrap")["items"]
        assert [secret["id"] for secret in listed if not secret.get("revoked_at")] == [key(cluster)], listed
    cells.eventually(lambda: gone(cluster, dead), seconds=60)
    # A verified wipe is no reason to rotate it again.
    known = key(cluster)
    cluster.do("add", "worker")
    cluster.do("remove", "lab-worker-4")
    time.sleep(5)
    assert key(cluster) == known, "a witnessed removal needs no new key"
    print(f"    {dead} was cut off, and the key was changed by itself", flush=True)


def gone(cluster, name):
    assert name not in cluster.members(), cluster.members()


def key(cluster):
    """The secret that every member is known to have."""
    found = cluster.json("member", "get", "lab", "lab-controller-1")
    return found["adapter_detail"]["munge"]["secret"]


def changed(cluster, old):
    members = [cluster.json("member", "get", "lab", "lab-controller-1"), *cluster.members().values()]
    members = [member for member in members if member["state"] == "active"]
    keys = {member["name"]: member["adapter_detail"]["munge"]["secret"] for member in members}
    assert len(set(keys.values())) == 1 and old not in keys.values(), f"{keys}, and {old} is the old one"
    assert {member["health"] for member in members} == {"healthy"}, members


def stolen(cluster):
    """Returns the key itself, as an attacker on a worker has it."""
    return cluster.slurm("base64", "-w0", KEY, cell=next(iter(cluster.members())))


def refuses(cluster, content):
    """A credential that was made with that key is worth nothing to the controller, and one of its own is."""
    script = f"""set -e
        mkdir -p /tmp/thief && cd /tmp/thief && echo {content} | base64 -d >key && chmod 400 key && chmod 700 .
        [ -S socket ] || munged --force --key-file=key --socket=/tmp/thief/socket --pid-file=pid --seed-file=seed --log-file=log
        munge --no-input --socket=/tmp/thief/socket | unmunge --socket=/tmp/thief/socket >/dev/null || exit 7
        munge --no-input | unmunge >/dev/null || exit 8
        munge --no-input --socket=/tmp/thief/socket | unmunge; code=$?
        kill $(cat pid); rm -rf /tmp/thief; exit $code"""
    ran = cluster.exec("sh", "-c", script.replace("set -e", "set -u"))
    assert ran.returncode not in (0, 7, 8) and "Invalid credential" in ran.stdout + ran.stderr, ran


def sruns(world, cluster, number):
    """Starts one short job after the other until it is stopped, and returns how many; fails if one of them does."""
    script = "n=0; while [ ! -e /tmp/enough ]; do timeout 100 srun -n1 true || exit 1; n=$((n + 1)); done; echo $n"
    environment = {**world.clean_environment(), "MUSTER_SERVER": f"http://127.0.0.1:{world.server.port}",
                   "MUSTER_TOKEN": world.at.tokens["tenant_admin"], "MUSTER_PROJECT": world.at.project["id"]}
    return subprocess.Popen([BINARY, "exec", cluster.controller, "--uid", "2000", "--gid", "2000", "--", "sh", "-c", script],
                            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def partitions(cluster):
    lines = cluster.slurm("sinfo", "-h", "-o", "%R %a").split("\n")
    return dict(line.split() for line in set(lines))


def untouched(cluster):
    """No job was run twice, killed or lost."""
    states = set(cluster.slurm("sacct", "-a", "-X", "-n", "-P", "-D", "-o", "state").split("\n"))
    assert states <= {"COMPLETED", "RUNNING", "PENDING"}, cluster.slurm("sacct", "-a", "-X", "-D")


def told(cluster):
    """Messages about it in the project's timeline."""
    stream = ("--project", cluster.world.at.project["id"], "--event-type", "dev.muster.member.health_changed.v1", "--all")
    events = [event["data"] for event in cluster.json("event", "list", *stream)["items"]]
    return [f"{data['before']} → {data['health']}: {data['message']}" for data in events if data["name"] == cluster.controller][-4:]


def is_(text, word):
    assert word in text, text
