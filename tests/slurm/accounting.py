"""From the first instant in which the instance says that it runs, and across restarts of the daemons, nobody's account is invalid."""

import json
import threading
import time

from cluster import CONFIG, Cluster, cells


def run(world):
    world.ready(1)
    cluster = Cluster(world, "lab")
    cluster.said("instance", "create", "slurm", "--name", "lab", "--set", "worker=1", "--config", json.dumps(CONFIG))
    began = time.monotonic()
    while cluster.json("instance", "get", "lab")["state"] != "running":
        assert time.monotonic() - began < 90, cluster.said("instance", "get", "lab")
        time.sleep(0.02)
    accepted = storm(cluster, 5)
    for service in ("slurmctld", "slurmdbd"):
        # The supervisor starts it again; submissions go on meanwhile, and may find nobody, but never an invalid account.
        before = cluster.slurm("pgrep", "-x", service)
        stopper = threading.Timer(0.5, lambda name=service: cluster.exec("pkill", "-TERM", "-x", name))
        stopper.start()
        accepted += storm(cluster, 8)
        stopper.join()
        cells.eventually(lambda name=service, old=before: restarted(cluster, name, old))
    cells.eventually(lambda: counted(cluster, accepted), seconds=30)
    states = set(states_of(cluster))
    assert states <= {"COMPLETED", "RUNNING", "PENDING"}, states
    print(f"    {accepted} jobs accepted, all of them in the accounting ({' '.join(sorted(states))}), none refused for its account", flush=True)
    cluster.gone("--force", "--reason", "the test is over")


LOOP = r"""
end=$(($(date +%s) + $1)); taken=0
while [ "$(date +%s)" -lt "$end" ]; do
    if said=$(timeout 10 sbatch --parsable --output=/dev/null --chdir=/tmp --wrap true 2>&1); then taken=$((taken + 1)); else
        case $said in *ccount*|*ssociation*) echo "REFUSED $said"; exit 1 ;; esac
    fi
done
echo $taken
"""


def storm(cluster, seconds):
    """Submits in a tight loop as two people at once; how many were taken. Only an account must never be the reason for a no."""
    results = {}

    def submit(uid):
        results[uid] = cluster.exec("sh", "-c", LOOP, "storm", str(seconds), uid=uid)

    threads = [threading.Thread(target=submit, args=(uid,)) for uid in (2000, 2001)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ran in results.values():
        assert ran.returncode == 0 and "REFUSED" not in ran.stdout, ran
    return sum(int(ran.stdout) for ran in results.values())


def restarted(cluster, service, before):
    now = cluster.exec("pgrep", "-x", service).stdout.strip()
    assert now and now != before, (service, before, now)


def states_of(cluster):
    return cluster.slurm("sacct", "-a", "-X", "-n", "-P", "-o", "state").split()


def counted(cluster, accepted):
    found = len(states_of(cluster))
    assert found >= accepted, f"{accepted} jobs were taken, and the accounting has {found}"
