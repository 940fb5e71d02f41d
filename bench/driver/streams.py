"""The delay between a commit on one replica and the event at a client of the other."""

import json
import shutil

from . import load
from .muster import Server, make_targets
from .nodes import noise
from .postgres import Postgres
from .processes import output_of
from .rounds import metered

SUBSCRIBERS = 1000
P50_MS, P99_MS = 10, 50


def listened(bench, postgres, makes, heard, targets):
    """One direction: commands on one replica, events on the other."""
    command = [load.BINARY, "events", "--address", makes.address, "--stream", heard.address, "--targets", targets, "--run",
               load.fresh_run(), "--subscribers", SUBSCRIBERS, "--count", bench.plan.events, "--postgres",
               f"127.0.0.1:{postgres.port}"]
    return json.loads(output_of(command, timeout=300))


def on_streams(bench):
    """Two replicas on one database. Only one of them seals, so the ways there and back are not alike; both must do."""
    postgres = bench.keep(Postgres(bench.tmp))
    url = postgres.prepare(bench.plan.preload, 400)
    bench.settings["postgres"] = postgres.durable_settings()
    first = bench.server("first", url)
    second = bench.keep(Server(bench.binary, bench.tmp / "second", url))
    # As in a real deployment of replicas: the same keys, and one folder for the registry's content.
    for name in ("root.key", "operator.token"):
        shutil.copy2(first.folder / name, second.folder / name)
    (second.folder / "registry").symlink_to(first.folder / "registry")
    second.start()
    bench.say("events-latency")
    targets = make_targets(first, 1, 1)
    watched = {"first": first.pid, "second": second.pid, "postgres": postgres.pid}
    ways = {"from the replica that seals": (first, second), "from the other": (second, first)}
    seen = {way: metered(lambda pair=pair: listened(bench, postgres, *pair, targets), watched) for way, pair in ways.items()}
    worst = max(seen.values(), key=lambda one: one["from_sent_ms"]["p50"])["from_sent_ms"]
    fails = [f"{way}: p99 {one['from_sent_ms']['p99']} ms" for way, one in seen.items() if one["from_sent_ms"]["p99"] > P99_MS]
    bench.add("events-latency", {"value": worst["p50"], "fails": fails, "ways": seen,
                                 "noise": noise(max(one["others_cores"] for one in seen.values()), bench.cores)})
    for thing in (second, first, postgres):
        thing.stop()
