"""Figures 7: a thousand nodes on one server: the time until they are ready, their cost at rest, and the latency of work.

Success is verified from outside, by the public API's state of each node.
"""

import datetime
import pathlib
import shutil
import time

from .cycles import Load, instant
from .muster import make_tenant
from .postgres import Postgres
from .processes import Broken
from .rounds import OTHERS_LIMIT, metered, used
from .simulated import Agent, Simulated, memory, nodes_of

NODES, GPUS = 1000, 8
AGENTS = 5
LOOK_SECONDS = 5
HEARTBEAT_SECONDS = 10  # the default of nodes.heartbeat_seconds
ASK = {"gpus": 1}
# The database's counters: all transactions, and the assigned transaction ids, one for each transaction that wrote (and for each
# savepoint that wrote). Reading the second assigns no id.
COUNTS = ("SELECT xact_commit, xact_rollback, pg_snapshot_xmax(pg_current_snapshot())::text::bigint, "
          "pg_current_wal_lsn() - '0/0'::pg_lsn FROM pg_stat_database WHERE datname = 'muster'")
# An idle connection reports its statistics up to ten seconds later.
SETTLE_SECONDS = 11


def become_ready(bench, server):
    """Starts the fleet: how long until the API calls every node ready, each with all of its GPUs free."""
    began = time.monotonic()
    fleet = bench.keep(Simulated(bench, server, NODES, GPUS))
    fleet.wait()
    said = time.monotonic() - began
    must_be_free(server)
    return fleet, {"value": time.monotonic() - began, "said_ready_s": said}


def must_be_free(server, expected=NODES):
    """Checks that every node exists, is ready, and holds no allocation."""
    nodes = nodes_of(server)
    if len(nodes) != expected:
        raise Broken(f"there are {len(nodes)} nodes, not {expected}")
    odd = [node for node in nodes if node["state"] != "ready" or node["free"] != node["total"]
           or node["total"]["gpus"] != GPUS or node["allocations"]]
    if odd:
        raise Broken(f"{len(odd)} nodes are not ready and free, such as {odd[0]}")


def look(server):
    """The longest silence of any node at this moment, and how many are not ready."""
    began = time.monotonic()
    nodes = nodes_of(server)
    now = datetime.datetime.now(datetime.timezone.utc)
    silence = max((now - instant(node["seen_at"])).total_seconds() for node in nodes)
    return {"nodes": len(nodes), "silence_s": round(silence, 2), "took_ms": round((time.monotonic() - began) * 1000, 1),
            "not_ready": sum(node["state"] != "ready" for node in nodes),
            "unreachable": sum(node["state"] == "unreachable" for node in nodes)}


def looks_for(server, seconds):
    """Looks every few seconds for so long."""
    began, looks = time.monotonic(), []
    while True:
        due = began + LOOK_SECONDS * (len(looks) + 1)
        time.sleep(max(0.0, due - time.monotonic()))
        looks.append(look(server))
        if time.monotonic() - began >= seconds:
            return looks


def counts(postgres):
    names = ("commits", "rollbacks", "writing", "wal_bytes")
    return dict(zip(names, map(float, postgres.sql(COUNTS, "muster").split("|"))))


def rest(bench, server, postgres, fleet):
    """Measures the idle load: the only requests are our reads."""
    watched = {"muster": server.pid, "postgres": postgres.pid, "simulated": fleet.pid}
    time.sleep(SETTLE_SECONDS)
    began, before, cpu_before = time.monotonic(), counts(postgres), used(watched)
    looks = looks_for(server, bench.plan.rest_seconds)
    cpu_after, after, taken = used(watched), counts(postgres), time.monotonic() - began
    cpu = {name: (cpu_after[name] - cpu_before[name]) / taken for name in cpu_before}
    others = max(0.0, cpu.pop("machine") - sum(value for name, value in cpu.items() if name != "steal")) + cpu.pop("steal")
    return {"seconds": taken, "looks": looks, "cores": cpu, "others_cores": others,
            "per_second": {name: (after[name] - before[name]) / taken for name in before},
            "memory": {"muster": memory(server.pid), "simulated": memory(fleet.pid)}}


def noise(others, cores):
    return [f"other programs took {others / cores:.0%} of the machine"] if others > OTHERS_LIMIT * cores else []


def tell_rest(bench, seen):
    """The figures of a fleet at rest."""
    shared = {"noise": noise(seen["others_cores"], bench.cores)}
    silence = max(one["silence_s"] for one in seen["looks"])
    lost = [f"{one['not_ready']} nodes not ready" for one in seen["looks"] if one["not_ready"]]
    bench.add("fleet-silence", {"value": silence, "fails": lost, "rest": seen, **shared})
    own = seen["memory"]["muster"]
    bench.add("fleet-memory", {"value": own["rss_mb"], **own, **shared})
    bench.add("fleet-processor", {"value": seen["cores"]["muster"] * 100, "cores": seen["cores"], **shared})
    bench.add("fleet-commits", {"value": seen["per_second"]["commits"], "per_second": seen["per_second"], **shared})
    simulated = seen["memory"]["simulated"]
    bench.add("fleet-simulated", {"value": simulated["rss_mb"], **simulated, **shared})


def work(bench, server, postgres, fleet):
    """Allocations come and go; then all must be as it was."""
    token, _tenant, project = make_tenant(server, "fleet", 1).split(" ")
    ask = lambda count: Load(server.address, token, project, bench.plan.clients, count, ASK)
    watched = {"muster": server.pid, "postgres": postgres.pid, "simulated": fleet.pid}
    before = counts(postgres)
    seen = metered(ask(bench.plan.cycles).run, watched)
    time.sleep(SETTLE_SECONDS)
    after = counts(postgres)
    must_be_free(server)
    seen["per_cycle"] = {name: round((after[name] - before[name]) / seen["ok"], 1) for name in before}
    return seen


def tell_work(bench, seen):
    """The figures of a fleet that works."""
    shared = {"noise": noise(seen["others_cores"], bench.cores)}
    for verb in ("create", "release"):
        inner = seen["operation"][verb]
        bench.add(f"fleet-{verb}", {"value": seen[verb]["p50_ms"], **seen[verb], "operation": inner, **shared})
    load = {name: value for name, value in seen.items() if name not in ("create", "release", "operation")}
    bench.add("fleet-cycles", {"value": seen["per_second"], "load": load, **shared})


class Idle:
    """Some agents beside their own server, from the first hello until they are measured.

    Several, because the placement of a program by the kernel changes its size by some tenths of a megabyte. And of a copy, like
    an installed program: of a file that the linker has just written the kernel maps less.
    """

    def __init__(self, bench):
        folder = bench.tmp / "agents"
        folder.mkdir(mode=0o700)
        binary = pathlib.Path(shutil.copy(bench.binary, folder / "muster"))
        self.server = bench.server("agents-alone")
        self.agents = [bench.keep(Agent(binary, folder / f"alone-{number}", self.server, GPUS)).wait()
                       for number in range(AGENTS)]
        self.since = time.monotonic()

    def tell(self, bench):
        """Waits for the rest of their idle time, then reports."""
        bench.say("fleet-agent")
        time.sleep(max(0.0, self.since + bench.plan.rest_seconds - time.monotonic()))
        must_be_free(self.server, AGENTS)
        found = sorted((memory(agent.pid) for agent in self.agents), key=lambda one: one["rss_mb"])
        middle = found[len(found) // 2]
        bench.add("fleet-agent", {"value": middle["rss_mb"], "min": found[0]["rss_mb"], "max": found[-1]["rss_mb"], **middle,
                                  "all": found, "after_s": round(time.monotonic() - self.since)})
        for thing in (*self.agents, self.server):
            thing.stop()


def on_nodes(bench):
    """All of them; the lone agents rest while the fleet is at work."""
    idle = Idle(bench) if "fleet-agent" in bench.wanted else None
    if any(name != "fleet-agent" for name in bench.wanted if name.startswith("fleet-")):
        thousand(bench)
    if idle:
        idle.tell(bench)


def thousand(bench):
    postgres = bench.keep(Postgres(bench.tmp))
    url = postgres.prepare(0, 1)
    bench.versions.update(postgres.versions())
    bench.settings["postgres"] = postgres.durable_settings()
    server = bench.server("on-nodes", url)
    bench.say("fleet-ready")
    fleet, ready = become_ready(bench, server)
    bench.add("fleet-ready", ready)
    bench.say("fleet-silence")
    tell_rest(bench, rest(bench, server, postgres, fleet))
    bench.say("fleet-create")
    tell_work(bench, work(bench, server, postgres, fleet))
    fleet.stop()
    server.stop()
    postgres.stop()
