"""A place for people: they come by SSH with a key of the project's people, and have the cluster's commands under their own names."""

import json
import subprocess

from cluster import CONFIG, cells
from people import Person


def run(world):
    world.ready(2)
    cluster = world.cluster("lab", 1, {**CONFIG, "default_mem_per_cpu_mb": 100})
    cluster.do("add", "login")
    key = world.folder / "person"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    place, me = endpoint(cluster), Person(world, cluster, "tenant_admin").login
    assert ssh(world, place, me, "true").returncode != 0, "nobody has said that this key is somebody's"
    public = key.with_suffix(".pub").read_text().strip()
    made = json.loads(cluster.said("-o", "json", "ssh-key", "create", "laptop", "--public-key", public))
    cells.eventually(lambda: said(world, place, me, "true"), seconds=30)
    has_the_commands(world, place, me)
    is_no_way_in_but_by_key(world, place, me)
    # The host's key is its own and kept with the member, or clients would get a host key warning when it is recreated.
    kept = cluster.slurm("cat", "/var/lib/muster-login/host_key.pub", cell="lab-login-1")
    assert host_key(place) == kept.split()[1], kept
    assert not cluster.slurm("sh", "-c", "ls /etc/ssh | grep host_key || true", cell="lab-login-1"), "the image has a key"
    cluster.said("ssh-key", "delete", made["id"])
    cells.eventually(lambda: refused(world, place, me), seconds=30)
    cluster.gone()


def has_the_commands(world, place, me):
    assert said(world, place, me, "id -un; hostname; pwd") == f"{me}\nlab-login-1\n/home/{me}"
    assert said(world, place, me, "srun -n1 sh -c 'id -un; hostname'") == f"{me}\nlab-worker-1"
    assert "lab-worker-1" in said(world, place, me, "sinfo -h -N -o %N")
    # Held, so that it is still queued at the next command, however long a login takes.
    job = said(world, place, me, "cd /tmp && sbatch --hold --parsable --output=/dev/null --wrap true")
    assert said(world, place, me, f"squeue -h -j {job} -o '%i %u'") == f"{job} {me}"
    said(world, place, me, f"scontrol release {job}")
    cells.eventually(lambda: is_(said(world, place, me, f"sacct -X -n -P -j {job} -o user,state"), f"{me}|COMPLETED"), seconds=60)
    print(f"    {me} has srun, sbatch, sinfo, squeue and sacct over ssh at {place[0]}:{place[1]}", flush=True)


def is_no_way_in_but_by_key(world, place, me):
    # Neither as root nor as any other user, in the configuration or not.
    for other in ("root", "alice", "slurm", "munge"):
        assert ssh(world, place, other, "true").returncode != 0, f"{other} came in"
    offered = subprocess.run(
        ["ssh", *OPTIONS, "-p", str(place[1]), "-o", "PreferredAuthentications=none", f"{me}@{place[0]}", "true"],
        capture_output=True, text=True, timeout=30)
    assert "Permission denied (publickey)." in offered.stderr, offered


OPTIONS = ("-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
           "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "IdentityAgent=none")


def ssh(world, place, user, command):
    words = ["ssh", *OPTIONS, "-i", world.folder / "person", "-o", "IdentitiesOnly=yes", "-p", str(place[1]), f"{user}@{place[0]}"]
    return subprocess.run([*words, command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)


def said(world, place, user, command):
    ran = ssh(world, place, user, command)
    assert ran.returncode == 0, ran
    return ran.stdout.strip()


def refused(world, place, me):
    assert ssh(world, place, me, "true").returncode == 255


def endpoint(cluster):
    """Where it is reached from outside: a port of its node."""
    found = cluster.json("instance", "endpoints", "lab")["endpoints"]
    ssh = next(one for one in found if one["name"] == "ssh")
    return ssh["node_address"], ssh["node_port"]


def host_key(place):
    scanned = subprocess.run(["ssh-keyscan", "-p", str(place[1]), "-t", "ed25519", place[0]], capture_output=True, text=True, timeout=30)
    keys = [line.split()[-1] for line in scanned.stdout.splitlines() if not line.startswith("#")]
    assert len(keys) == 1, scanned
    return keys[0]


def is_(text, word):
    assert word in text, text
