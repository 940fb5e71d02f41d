"""The figures of `make bench` and their goals."""

import sys

from .muster import Server
from .rounds import interleave

SEAL_LIMIT_MS = 1000

# name → description, and goal; some have none, and are reported to detect changes
FIGURES = {
    "postgres-1x1": ("durable commands on PostgreSQL ÷ pgbench; 1 tenant × 1 project", ">=", 0.35),
    "postgres-16x16": ("durable commands on PostgreSQL ÷ pgbench; 16 tenants × 16 projects", ">=", 0.35),
    "sqlite-1x1": ("durable commands on SQLite ÷ raw FULL commits; 1 tenant × 1 project", ">=", 0.5),
    "sqlite-16x16": ("durable commands on SQLite ÷ raw FULL commits; 16 tenants × 16 projects", ">=", 0.5),
    "dstack-list": ("list of 50 projects ÷ dstack's", ">=", 20),
    "dstack-small": ("a small thing in a project: service account ÷ dstack's secret", ">=", 20),
    "dstack-project": ("a project ÷ dstack's, which makes an RSA key with each", ">=", 20),
    "tuned-list": ("as dstack-list; dstack without background work", ">=", 20),
    "tuned-small": ("as dstack-small; dstack without background work", ">=", 20),
    "placement-empty": ("p50 of a placement with its claim, 100,000 slots ÷ 1,000; all free", "<=", 1.5),
    "placement-half": ("the same; every second node held", "<=", 1.5),
    "placement-full": ("the same; everything held, so that most are told no", "<=", 1.5),
    "placement-random": ("the same; seven slots of ten held, at random", "<=", 1.5),
    "placement-claims": ("committed claims a second, 2 processes × 2 workers, 100,000 slots", ">=", 1000),
    "fleet-ready": ("1,000 nodes × 8 GPUs on PostgreSQL: from nothing until all are ready, s", "", None),
    "fleet-silence": ("the longest that any of them was not heard of at rest, s; none unreachable", "<=", 20),
    "fleet-memory": ("the server's memory (RSS) with them at rest, MB", "", None),
    "fleet-processor": ("the server's processor time with them at rest, % of a core", "", None),
    "fleet-commits": ("transactions of the database with them at rest, each second", "", None),
    "fleet-simulated": ("memory (RSS) of the process that simulates all of them, MB", "", None),
    "fleet-create": ("an allocation of 1 GPU, 16 clients: from the question until active, p50, ms", "", None),
    "fleet-release": ("the same, from asking for its release until released, p50, ms", "", None),
    "fleet-cycles": ("the same, whole cycles of both, each second", "", None),
    "fleet-agent": ("memory (RSS) of one idle agent with 8 GPUs, MB", "<=", 15),
    "cells-create": ("a cell: from the question until its service is seen ready ÷ podman run until it answers", "<=", 1.5),
    "cells-destroy": ("a cell: from the question until nothing is seen left of it ÷ podman rm", "<=", 1.5),
    "cells-create-10": ("ten cells at once, until all are ready ÷ ten podman run at once", "", None),
    "cells-destroy-10": ("ten cells at once, until all are gone ÷ ten podman rm at once", "", None),
    "cells-agent": ("memory (RSS) of one idle agent that can make cells, MB", "<=", 15),
    "cells-agent-10": ("the same with ten cells, MB", "", None),
    "registry-small-push": ("small images pushed by HEAD, POST, PATCH, PUT, then the manifest ÷ docker-registry's", ">=", 3),
    "registry-small-put": ("the same without PATCH: the content comes with the PUT", ">=", 3),
    "registry-manifest-get": ("GET of a manifest, by tag and by digest ÷ docker-registry's", ">=", 8),
    "registry-push-256": ("a layer of 256 MB pushed in one stream ÷ docker-registry's", ">=", 1.2),
    "registry-pull-256": ("a layer of 256 MB pulled, from the page cache ÷ docker-registry's", ">=", 1.0),
    "registry-tuned-push": ("as registry-small-push; docker-registry without its logs", ">=", 3),
    "registry-tuned-get": ("as registry-manifest-get; docker-registry without its logs", ">=", 8),
    "registry-memory": ("by how much a fresh server grows while 1 GiB comes in and goes out, MB", "<=", 64),
    "members-accept-1": ("operations on members accepted ÷ pgbench, 16 clients; 1 tenant", ">=", 0.35),
    "members-accept-16": ("operations on members accepted ÷ pgbench, 16 clients; 16 tenants", ">=", 0.35),
    "durable-dbos": ("operations of three steps from accepted to succeeded ÷ DBOS workflows of three steps, same PostgreSQL", ">=", 8),
    "durable-restate": ("operations of three steps from accepted to succeeded ÷ Restate handlers with three ctx.run", ">=", 3),
    "events-latency": ("from a POST on one replica to 1,000 listeners on the other, p50, ms; p99 within 50", "<=", 10),
    "apps-reconcile-lag": ("1,000 instances with 10,000 members: how late looks at them begin, p99, s", "<=", 5),
    "apps-read": ("the same: instances, members and operations read meanwhile, p99, ms", "<=", 50),
    "apps-decay": ("the same after 1,000,000 finished operations ÷ before; operations a second, and p99 of reads", ">=", 0.9),
    "two-tenants": ("p99 of a tenant's requests while another does its worst within default limits ÷ alone", "<=", 3),
    "slurm-create": ("a Slurm cluster with two workers: from the question until a job ran on both ÷ the same by a script", "<=", 1.5),
    "slurm-add": ("one more worker, until the platform has seen it idle ÷ by a script, until Slurm says idle", "<=", 2),
    "slurm-decommission": ("the cluster is taken down, until nothing is seen left of it ÷ by a script", "<=", 1.5),
    "signature-verify": ("one decision about a signature, the slowest ordinary kind, ms", "<=", 10),
    "start": ("start to first authenticated answer on an existing store, ms", "<=", 300),
    "memory": ("idle memory (RSS) 10 s after the start, MB", "<=", 40),
}


class Bench:
    """State shared by all figures: folder, durations, results, and clean-up."""

    def __init__(self, binary, tmp, stack, plan, wanted, cores):
        self.binary, self.tmp, self.stack, self.plan, self.wanted, self.cores = binary, tmp, stack, plan, wanted, cores
        self.figures, self.durability, self.settings, self.versions = {}, {}, {}, {}

    def wants(self, group):
        return any(name == group or name.startswith(group + "-") for name in self.wanted)

    def keep(self, thing):
        """Whatever was started is stopped when the run ends, the last first."""
        self.stack.callback(thing.stop)
        return thing

    def server(self, name, database_url="", core=None, **more):
        return self.keep(Server(self.binary, self.tmp / name, database_url, core, **more)).start()

    def say(self, name):
        print(f"  {name}: {FIGURES[name][0]}", file=sys.stderr, flush=True)

    def say_durability(self):
        print("  counting flushes", file=sys.stderr, flush=True)

    def add(self, name, result):
        if name not in self.wanted:
            return
        text, relation, goal = FIGURES[name]
        value = result["ratio"]["median"] if "ratio" in result else result["value"]
        if goal is None:
            self.figures[name] = {"what": text, "goal": "", "met": None, **result}
            return
        met = value >= goal if relation == ">=" else value <= goal
        met = met and not result.get("fails")
        sealed = result.get("sealing")
        if sealed:
            met = met and max(sealed["lag_max_ms"], sealed["after_end_ms"]) <= SEAL_LIMIT_MS
        self.figures[name] = {"what": text, "goal": f"{relation} {goal}", "met": met, **result}

    def measure(self, name, ours, other, watched, blocks=None):
        """One figure that is a ratio, if it is wanted."""
        if name in self.wanted:
            self.say(name)
            pids = {label: thing.pid for label, thing in watched.items()}
            self.add(name, interleave(ours, other, blocks or self.plan.blocks, pids, self.cores))
