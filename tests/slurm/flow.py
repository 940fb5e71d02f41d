"""Short jobs flow through a cluster while its workers are drained, resumed, added, removed and replaced at random: the platform kills
none, requeues none, and loses none.

Two independent witnesses: the accounting, with every row that a job ever had, and the jobs themselves, each of
which reports its start and its end to a listener beside the controller.
"""

import random
import subprocess
import threading
import time
from collections import Counter

from cluster import BINARY, CONFIG, cells
from platform_under_test import die_with_parent

# A job sends a word, sleeps and sends another one. It exits with 9 if nothing listens, which is a fault of this test.
JOB = r"""#!/bin/bash
say() {
    exec 3<>"/dev/tcp/@ADDRESS@/7777" && echo "$1 $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME" >&3 && read -r answer <&3 &&
        [ "$answer" = heard ] && exec 3>&-
}
say begin || exit 9
sleep "$1"
say end || exit 9
"""
LISTENER = r"""
use IO::Socket::INET;
my $door = IO::Socket::INET->new(LocalPort => 7777, Listen => 128, ReuseAddr => 1) or die "no port: $!";
open(my $trace, ">>", "/tmp/trace") or die; $trace->autoflush(1);
print "listening\n"; STDOUT->flush();
while (my $caller = $door->accept()) { my $line = <$caller>; print $trace $line if defined $line; print $caller "heard\n"; close $caller; }
"""
# Maximum of waiting and running jobs per worker: a queue that is never empty and never long.
DEEP = 4
SUBMIT = r"""
for seconds in "$@"; do
    if said=$(timeout 60 sbatch --parsable --output=/dev/null --error=/dev/null --chdir=/tmp --mem=20 /tmp/flow-job "$seconds" 2>&1)
    then echo "$said"; else echo "REFUSED $said"; fi
done
squeue -h -o %i | wc -l
"""


class Flow:
    def __init__(self, world, cluster, options):
        self.world, self.cluster, self.chance = world, cluster, random.Random(options.seed)
        self.workers, self.jobs, self.sabotage = options.workers, options.jobs, options.sabotage
        self.lock, self.busy, self.over = threading.Lock(), set(), threading.Event()
        self.accepted, self.done, self.faults, self.open = [], Counter(), [], 0

    # -- jobs

    def listen(self):
        """Runs for as long as this test does."""
        environment = {**self.world.clean_environment(), "MUSTER_SERVER": f"http://127.0.0.1:{self.world.server.port}",
                       "MUSTER_TOKEN": self.world.at.tokens["tenant_admin"], "MUSTER_PROJECT": self.world.at.project["id"]}
        self.listener = subprocess.Popen([BINARY, "exec", self.cluster.controller, "--", "perl", "-e", LISTENER], env=environment,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                         preexec_fn=die_with_parent)
        said = self.listener.stdout.readline()
        assert said == "listening\n", said + self.listener.stdout.read()
        address = self.cluster.slurm("hostname", "-I").split()[0]
        self.cluster.slurm("sh", "-c", 'printf "%s" "$1" >/tmp/flow-job; chmod 755 /tmp/flow-job', "write", JOB.replace("@ADDRESS@", address))

    def submit(self):
        """All jobs, as fast as the cluster takes them."""
        while len(self.accepted) < self.jobs:
            most = min(25, self.jobs - len(self.accepted))
            # One in four takes long enough to expose a drain that does not wait.
            lengths = [f"{self.chance.uniform(*((4, 6) if self.chance.random() < 0.25 else (0.1, 1.0))):.1f}" for _ in range(most)]
            said = self.cluster.slurm("sh", "-c", SUBMIT, "submit", *lengths, uid=2000).split("\n")
            refused = [line for line in said if not line.isdigit()]
            assert not refused, refused
            self.accepted += said[:-1]
            waiting = int(said[-1])
            while waiting > DEEP * self.workers:
                time.sleep(0.5)
                waiting = int(self.cluster.slurm("sh", "-c", "squeue -h -o %i | wc -l"))

    # -- changes of the workers

    def operate(self, chance):
        """One verb after another until all jobs are in and each verb was there."""
        while not self.over.is_set():
            with self.lock:
                verb, name = self.choose(chance)
                if name:
                    self.busy.add(name)
            if verb is None:
                time.sleep(0.2)
                continue
            try:
                if verb == "add":
                    self.cluster.said("member", "add", "lab", "worker", "--wait", "--timeout", "240s", timeout=270)
                else:
                    self.cluster.do(verb, name, "--reason", "flow", timeout="240s")
                self.done[verb] += 1
            except Exception as fault:
                self.faults.append(f"{verb} {name}: {fault}")
                self.over.set()
            finally:
                with self.lock:
                    self.busy.discard(name)
                    self.open -= verb == "add"

    def choose(self, chance):
        """Chooses a verb and a member, such that half of the workers keep working and the count stays within the capacity."""
        members = {name: member["state"] for name, member in self.cluster.members().items() if member["state"] != "removed"}
        active = [name for name, state in members.items() if state == "active" and name not in self.busy]
        drained = [name for name, state in members.items() if state == "drained" and name not in self.busy]
        wishes = []
        if len(members) + self.open < self.workers + 1:
            wishes += ["add"] * 2
        if len(active) > self.workers // 2:
            wishes += ["drain"] * 3 + ["remove"] * (1 if len(members) > self.workers - 1 else 0)
            if len(members) + self.open < self.workers + 2:
                wishes += ["replace"] * 2
        if drained:
            wishes += ["resume"] * 3
        # Verbs that were not used yet come first.
        verb = chance.choice([wish for wish in wishes if not self.done[wish]] or wishes or [None])
        if verb == "add":
            self.open += 1
            return verb, None
        pool = drained if verb == "resume" else active
        return (verb, chance.choice(sorted(pool))) if verb else (None, None)

    # -- the verdict

    def settle(self):
        for name, member in self.cluster.members().items():
            if member["state"] == "drained":
                self.cluster.do("resume", name)
        cells.eventually(self.queue_is_empty, seconds=180)
        cells.eventually(self.all_ended, seconds=30)

    def queue_is_empty(self):
        waiting = self.cluster.slurm("squeue", "-h", "-o", "%i %T %r")
        assert not waiting, waiting

    def rows(self):
        said = self.cluster.slurm("sacct", "-a", "-X", "-n", "-P", "-D", "-S", "now-1day", "-o", "jobid,state,exitcode,nodelist")
        return [line.split("|") for line in said.split("\n") if line]

    def all_ended(self):
        """Asserts that the accounting has every job and its end: it gets both some time after slurmctld."""
        rows = self.rows()
        open_ = [row for row in rows if row[1] in ("PENDING", "RUNNING", "REQUEUED")]
        missing = set(self.accepted) - {row[0] for row in rows}
        assert not open_ and not missing, (open_, missing)

    def judge(self):
        """Every accepted job has one row, COMPLETED, and sent each of its two words once."""
        rows, faults = {}, list(self.faults)
        for row in self.rows():
            rows.setdefault(row[0], []).append(row[1:])
        words = {}
        for line in self.cluster.slurm("cat", "/tmp/trace").split("\n"):
            word, job, restart, node = line.split()
            words.setdefault(job, []).append((word, restart, node))
        for job in self.accepted:
            found = rows.get(job, [])
            if len(found) != 1 or found[0][:2] != ["COMPLETED", "0:0"]:
                faults.append(f"job {job}: the accounting has {found or 'nothing'}; it said {words.get(job)}")
            elif [(word, restart) for word, restart, _ in words.get(job, [])] != [("begin", "0"), ("end", "0")]:
                faults.append(f"job {job}: the accounting has {found}, but it said {words.get(job)}")
        strange = set(words) - set(self.accepted)
        if strange:
            faults.append(f"nobody submitted these: {strange}")
        return faults


def run(world):
    options = world.options
    cluster = world.cluster("lab", options.workers, CONFIG)
    flow = Flow(world, cluster, options)
    flow.listen()
    began = time.monotonic()
    threads = [threading.Thread(target=flow.operate, args=(random.Random(options.seed * 100 + number),)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        flow.submit()
        wanted = {"drain", "resume", "add", "remove", "replace"}
        late = time.monotonic() + 60
        while not flow.over.is_set() and not wanted <= set(flow.done) and time.monotonic() < late:
            time.sleep(0.2)
    finally:
        flow.over.set()
        for thread in threads:
            thread.join()
    flow.settle()
    took, faults = time.monotonic() - began, flow.judge()
    flow.listener.kill()
    flow.listener.wait()
    done = ", ".join(f"{count} × {verb}" for verb, count in sorted(flow.done.items()))
    print(f"    {len(flow.accepted)} jobs on {options.workers} workers in {took:.0f} s (seed {options.seed}), meanwhile {done}", flush=True)
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:20])
    assert options.sabotage or wanted <= set(flow.done), f"not all verbs were there: {flow.done}"
    cluster.gone("--force", "--reason", "the test is over")
