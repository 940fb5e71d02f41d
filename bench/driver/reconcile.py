"""A thousand instances with ten thousand members on one server: how late looks at them begin, how soon reads are answered
meanwhile, and whether a million operations of the past make anything slower."""

import statistics
import time

from . import load
from .crowd import INSTANCES, fill_instances, fill_past
from .cycles import percentile
from .members import NODES, UNITS, Members
from .muster import call
from .nodes import noise
from .postgres import Postgres
from .processes import Broken
from .rounds import metered
from .looker import Looker
from .shop import Adapter, Shop
from .simulated import Simulated

EVERY = 30  # seconds between two looks at an instance
READERS = 4
P99_MS = 50


class World:
    """Real instances with members on simulated nodes, and the rest of the thousand."""

    def __init__(self, bench):
        self.bench = bench
        self.postgres = bench.keep(Postgres(bench.tmp))
        self.server = bench.server("on-crowd", self.postgres.prepare(0, 1))
        instances = bench.plan.crowd
        self.fleet = bench.keep(Simulated(bench, self.server, NODES, 8, instances * UNITS))
        self.fleet.wait()
        self.shop = Shop(self.server, EVERY)
        adapter = bench.keep(Adapter(bench, self.shop))
        began = time.monotonic()
        self.members = Members(bench, self.postgres, self.server, "crowd", 1, instances)
        self.made = {"instances": instances, "members": instances * UNITS, "seconds": time.monotonic() - began}
        adapter.stop()
        self.consumer = self.members.members[0][0]
        self.looker = bench.keep(Looker(self.server, self.consumer.project, self._operator_token(), EVERY))
        first = self.postgres.sql("SELECT id FROM instances ORDER BY id LIMIT 1", "muster")
        fill_instances(self.postgres, first, INSTANCES - instances, EVERY)
        self.watched = {"muster": self.server.pid, "postgres": self.postgres.pid, "simulated": self.fleet.pid}

    def _operator_token(self):
        base = f"/v1/projects/{self.shop.project}"
        listed, _ = call(self.server.address, "GET", f"{base}/entitlements?published=true", token=self.shop.secret)
        asked = {"entitlement": listed["items"][0]["id"]}
        return call(self.server.address, "POST", f"{base}/operator-tokens", asked, self.shop.secret)[0]["secret"]

    def reads(self):
        """A file of questions: an instance, a page of them, a member, a page of them, an operation, again and again."""
        get = lambda path: self.consumer.get(self.consumer.base + path)
        instances = get("/app-instances?page_size=50")["items"]
        operations = self.consumer.get(f"/v1/operations?project={self.consumer.project}&page_size=50")["items"]
        lines = []
        for instance, operation in zip(instances, operations):
            base = f"{self.consumer.base}/app-instances/{instance['name']}"
            member = get(f"/app-instances/{instance['name']}/members?page_size=1")["items"][0]["name"]
            for path in (base, f"{self.consumer.base}/app-instances?page_size=50", f"{base}/members/{member}", f"{base}/members",
                         f"/v1/operations/{operation['id']}"):
                lines.append(f"{self.consumer.token} {path}")
        file = self.bench.tmp / "reads.work"
        file.touch(mode=0o600)
        file.write_text("\n".join(lines * 400) + "\n")
        return file

    def read(self, seconds):
        seen = load.operations(self.server, self.reads(), READERS, seconds=seconds)
        seen.pop("acknowledged")
        self.alive()
        return seen

    def alive(self):
        if self.looker.failed:
            raise Broken(f"the adapter failed: {self.looker.failed[0]}") from self.looker.failed[0]

    def done(self):
        """Operations from accepted to succeeded, a round of all real members."""
        self.members.to_drained()
        seen = self.members.resume()
        self.members.settle(seen)
        self.alive()
        return seen


def lag(bench, world):
    """Measures looks without other load, after one round of all instances."""
    time.sleep(EVERY * 1.5)
    since = time.monotonic()
    seen = metered(lambda: time.sleep(bench.plan.looks_seconds) or {"ok": 1}, world.watched)
    world.alive()
    late = world.looker.lags(since)
    if len(late) < INSTANCES * bench.plan.looks_seconds / EVERY / 4:
        raise Broken(f"only {len(late)} looks in {bench.plan.looks_seconds} s")
    told = {name: percentile(late, share) for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    cores = {who: value / 1e6 / bench.plan.looks_seconds for who, value in seen["cpu_us_per_request"].items()}
    bench.add("apps-reconcile-lag", {"value": told["p99"], **told, "max_s": max(late), "looks": len(late), "cores": cores,
                                     "per_second": len(late) / bench.plan.looks_seconds, "made": world.made, "repeated": world.looker.repeated,
                                     "noise": noise(seen["others_cores"], bench.cores)})


def reading(bench, world):
    seen = metered(lambda: world.read(bench.plan.seconds * 4), world.watched)
    bench.add("apps-read", {"value": seen["latency_ms"]["p99"], "reads": seen, "noise": noise(seen["others_cores"], bench.cores)})


def measured(bench, world):
    """Operations and reads, some rounds of each."""
    done = [world.done() for _ in range(bench.plan.decay_rounds)]
    reads = [world.read(bench.plan.seconds * 2) for _ in range(bench.plan.decay_rounds)]
    return {"per_second": statistics.median(one["per_second"] for one in done),
            "read_p99_ms": statistics.median(one["latency_ms"]["p99"] for one in reads), "done": done, "reads": reads}


def decay(bench, world):
    """The same before and after; the smaller of the two ratios counts."""
    world.done()
    before = measured(bench, world)
    began = time.monotonic()
    fill_past(world.postgres, bench.plan.past)
    filled = time.monotonic() - began
    world.done()
    after = measured(bench, world)
    operations, reads = after["per_second"] / before["per_second"], before["read_p99_ms"] / after["read_p99_ms"]
    bench.add("apps-decay", {"value": min(operations, reads), "operations": operations, "reads_ratio": reads, "before": before,
                             "after": after, "past": bench.plan.past, "filled_s": filled, "repeated": world.looker.repeated})


def on_crowd(bench):
    world = World(bench)
    if "apps-reconcile-lag" in bench.wanted:
        bench.say("apps-reconcile-lag")
        lag(bench, world)
    if "apps-read" in bench.wanted:
        bench.say("apps-read")
        reading(bench, world)
    if "apps-decay" in bench.wanted:
        bench.say("apps-decay")
        decay(bench, world)
    for thing in (world.looker, world.fleet, world.server, world.postgres):
        thing.stop()
