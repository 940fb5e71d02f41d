"""From the first moment the instance is running, and across restarts of the daemons, no account is invalid.

Users submit in tight loops from before that moment on. Earlier rejections do not count; from then on an account must never be
the reason of a rejection, although slurmctld and slurmdbd are ended again and again, and users are added meanwhile.
"""

import json
import threading
import time
from datetime import datetime

from cluster import Cluster, cells

# Each added to the accounting on its own: the more there are, the more can be lost to a slurmctld that starts just then.
PEOPLE = [{"name": f"person{number}", "uid": 2000 + number} for number in range(12)]
CONFIG = {"accounts": [{"name": "physics", "users": PEOPLE[:6]}, {"name": "biology", "users": PEOPLE[6:]}]}
# The users that submit: the first, and the last of the added ones.
LOUD = (2000, 2005, 2011)
# slurmctld saves its queue some seconds late: after a SIGKILL it loses the last jobs, also without Muster. So it gets a SIGTERM.
RESTARTS = (("slurmctld", "TERM"), ("slurmdbd", "TERM"), ("slurmctld", "TERM"), ("slurmdbd", "KILL"), ("slurmctld", "TERM"))
WORDS = ("ccount", "ssociation")

LOOP = r"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin; taken=0
until [ -e /tmp/enough ]; do
    began=$(date +%s.%N)
    if said=$(timeout 20 sbatch --parsable --output=/dev/null --chdir=/tmp --mem=10 --wrap true 2>&1); then taken=$((taken + 1))
    else echo "$began $said" | tr '\n' ' '; echo; fi
done
echo "taken $taken"
"""
# While an account is being added, slurmctld ends: an association that is pushed to it just then is lost to it, although sacctmgr reports
# no error.
DISTURB = r"""
for wait in 0.05 0.15; do
    until pgrep -x sacctmgr >/dev/null; do sleep 0.01; done
    sleep "$wait"; pkill -TERM -x slurmctld; sleep 1.5
done
"""
# A person adds users by hand, which has slurmdbd push to slurmctld all the time.
ADD = r"""
number=0
until [ -e /tmp/enough ]; do
    number=$((number + 1)); timeout 20 sacctmgr -i add user "guest$number" account=physics >/dev/null 2>&1 || sleep 0.2
done
echo "added $number"
"""


def run(world):
    world.ready(1)
    cluster = Cluster(world, "lab")
    cluster.said("instance", "create", "slurm", "--name", "lab", "--set", "worker=1", "--config", json.dumps(CONFIG))
    results = {}
    cells.eventually(lambda: succeeds(cluster.exec("true")), seconds=60)
    background = [threading.Thread(target=disturb, args=(cluster,))]
    background += [threading.Thread(target=submit, args=(cluster, uid, results)) for uid in LOUD]
    for thread in background:
        thread.start()
    since = first_instant(world, cluster)
    background[0].join()
    background.append(threading.Thread(target=lambda: results.update(guests=cluster.exec("sh", "-c", ADD))))
    background[-1].start()
    time.sleep(2)
    for service, signal in RESTARTS:
        before = cluster.slurm("pgrep", "-x", service)
        cluster.slurm("pkill", f"-{signal}", "-x", service)
        cells.eventually(lambda name=service, old=before: restarted(cluster, name, old), seconds=40)
        time.sleep(1)
    cluster.slurm("touch", "/tmp/enough")
    for thread in background:
        thread.join()
    accepted = judge(results, since)
    everybody_is_taken(cluster)
    cells.eventually(lambda: counted(cluster, accepted), seconds=60)
    states = set(states_of(cluster))
    assert states <= {"COMPLETED", "RUNNING", "PENDING"}, states
    print(f"    {accepted} jobs accepted over {len(RESTARTS)} restarts, all of them in the accounting ({' '.join(sorted(states))}), none "
          f"refused for its account; meanwhile a person {results['guests'].stdout.strip()} users", flush=True)
    cluster.gone("--force", "--reason", "the test is over")


def disturb(cluster):
    cluster.exec("timeout", "60", "sh", "-c", DISTURB)


def submit(cluster, uid, results):
    results[uid] = cluster.exec("sh", "-c", LOOP, uid=uid)


def first_instant(world, cluster):
    """Returns the time at which the instance became running, by the platform's own clock, which is the cells' too."""
    path, began = f"/v1/projects/{world.at.project['id']}/app-instances/lab", time.monotonic()
    while True:
        found = world.server.call("GET", path, token=world.at.tokens["tenant_admin"])
        if found["state"] == "running":
            return datetime.fromisoformat(found["updated_at"]).timestamp()
        assert time.monotonic() - began < 120, cluster.said("instance", "get", "lab")
        time.sleep(0.02)


def judge(results, since):
    """Returns the number of accepted jobs; fails if a job was rejected for its account after that time."""
    taken = 0
    for uid in LOUD:
        ran = results[uid]
        lines = ran.stdout.strip().split("\n")
        assert ran.returncode == 0 and lines[-1].startswith("taken "), ran
        taken += int(lines[-1].split()[1])
        late = [line for line in lines[:-1] if float(line.split()[0]) >= since and any(word in line for word in WORDS)]
        assert not late, f"after {since} {uid} was refused {len(late)} times: {late[:3]}"
    assert taken > 20, f"only {taken} jobs were taken: {results}"
    return taken


def everybody_is_taken(cluster):
    """Also for the users that did not submit."""
    for person in PEOPLE:
        cluster.submit("true", "--mem=10", uid=person["uid"])


def succeeds(ran):
    assert ran.returncode == 0, ran


def restarted(cluster, service, before):
    now = cluster.exec("pgrep", "-x", service).stdout.strip()
    assert now and now != before, (service, before, now)


def states_of(cluster):
    return cluster.slurm("sacct", "-a", "-X", "-n", "-P", "-o", "state").split()


def counted(cluster, accepted):
    found = len(states_of(cluster))
    assert found >= accepted, f"{accepted} jobs were taken, and the accounting has {found}"
