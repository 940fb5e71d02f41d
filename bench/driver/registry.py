"""Figures 9: images pushed to our registry and pulled from it, against Debian's docker-registry on the same disk.

Both do the same requests, byte for byte except for the name of the repository and our token: ours authenticates and authorizes
each request, theirs is configured without authentication. The generator has one core and the server the other.
"""

import pathlib
import re

from . import load
from .docker_registry import DEFAULTS, PROGRAM, TUNED, DockerRegistry
from .durability import judged, must_flush, trace_named
from .machine import first_line
from .muster import audit_entries, make_pusher
from .processes import Broken

LARGE_MB, STREAMED_MB = 256, 1024
PULLS = 6  # of a round
PROBE = 10  # images, for counting flushes
PROMISES = 3  # of an image: two blobs and a manifest, each acknowledged by itself
IMAGES = {"registry-small-push": "push", "registry-small-put": "put"}
TUNED_IMAGES = {"registry-tuned-push": "push"}


def large(side, verb, run, each):
    """Megabytes a second, because that is what a reader knows of layers."""
    seen = load.registry(side, verb, run=run, each=each, megabytes=LARGE_MB)
    return {**seen, "per_second": seen["bytes"] / seen["seconds"] / 1e6, "unit": "MB"}


def preload(bench, sides):
    """Both registries hold images before the first round; gives the run that they are of, and how many each client has."""
    each = max(20, bench.plan.preload // 160)
    run = load.fresh_run()
    for side in sides:
        load.registry(side, "push", run=run, each=each)
    return run, each


def small(bench, ours, other, watched, figures, blocks):
    for name, verb in figures.items():
        bench.measure(name, lambda: load.registry(ours, verb, seconds=bench.plan.seconds),
                      lambda: load.registry(other, verb, seconds=bench.plan.seconds), watched, blocks)


def manifests(bench, name, ours, other, watched, preloaded, blocks):
    run, each = preloaded
    get = lambda side: load.registry(side, "manifests", run=run, each=each, seconds=bench.plan.seconds)
    bench.measure(name, lambda: get(ours), lambda: get(other), watched, blocks)


def layers(bench, ours, other, watched):
    push = lambda side: large(side, "layer-push", load.fresh_run(), 1)
    bench.measure("registry-push-256", lambda: push(ours), lambda: push(other), watched)
    if "registry-pull-256" in bench.wanted:
        run = load.fresh_run()
        for side in (ours, other):
            large(side, "layer-push", run, 1)
            load.registry(side, "layer-pull", run=run, each=1, megabytes=LARGE_MB, compare=True)
    pull = lambda side: large(side, "layer-pull", run, PULLS)
    bench.measure("registry-pull-256", lambda: pull(ours), lambda: pull(other), watched)


def flushes(bench, side):
    """One client pushes a few images; returns the flushes, and the share of directories."""

    def push():
        seen = load.registry(side, "push", each=PROBE, clients=1)
        return {**seen, "ok": seen["ok"] * PROMISES}

    return {"one client": trace_named(side.pid, bench.tmp, push)}


def durability(bench, ours, other):
    bench.say_durability()
    bench.durability["muster's registry"] = must_flush(flushes(bench, ours))
    # No requirement: its flushes are reported for the reader.
    bench.durability["docker-registry"] = judged(flushes(bench, other))


def must_be_audited(ours):
    """Every image that was acknowledged is one entry of the audit, exactly."""
    found = audit_entries(ours) - ours.entries_before
    if found != ours.pushed:
        raise Broken(f"{ours.pushed} images were acknowledged, but the audit has {found} new entries")


def field(pid, name):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{name}:\s*(\d+) kB", text, re.M)[1]) * 1024 / 1e6


def growth(side):
    """By how much a fresh server grows while a gigabyte comes in and goes out again, at its highest."""
    before = field(side.pid, "VmRSS")
    pathlib.Path(f"/proc/{side.pid}/clear_refs").write_text("5")  # resets the peak to the current usage
    run = load.fresh_run()
    for verb in ("layer-push", "layer-pull"):
        load.registry(side, verb, run=run, each=1, megabytes=STREAMED_MB)
    high = field(side.pid, "VmHWM")
    return {"before_mb": round(before, 1), "high_mb": round(high, 1), "grown_mb": round(high - before, 1)}


def memory(bench):
    bench.say("registry-memory")
    ours = bench.server("registry-memory", core="server")
    make_pusher(ours)
    # Restarted: the memory of a login by password stays with the process, and would hide that of a transfer.
    ours.stop()
    ours.start()
    other = bench.keep(DockerRegistry(bench.tmp / "docker-registry-memory")).wait()
    found = {"muster": growth(ours), "docker-registry": growth(other)}
    ours.stop(), other.stop()
    bench.add("registry-memory", {"value": found["muster"]["grown_mb"], "streamed": found})


def beside(bench, ours):
    """The figures that are ratios, but for those of a tuned peer."""
    other = bench.keep(DockerRegistry(bench.tmp / "docker-registry")).wait()
    watched = {"muster": ours, "docker-registry": other}
    preloaded = preload(bench, (ours, other))
    small(bench, ours, other, watched, IMAGES, bench.plan.blocks)
    manifests(bench, "registry-manifest-get", ours, other, watched, preloaded, bench.plan.blocks)
    layers(bench, ours, other, watched)
    durability(bench, ours, other)
    other.stop()


def beside_tuned(bench, ours):
    other = bench.keep(DockerRegistry(bench.tmp / "docker-registry-tuned", tuned=True)).wait()
    watched = {"muster": ours, "docker-registry": other}
    preloaded = preload(bench, (ours, other))
    small(bench, ours, other, watched, TUNED_IMAGES, bench.plan.tuned_blocks)
    manifests(bench, "registry-tuned-get", ours, other, watched, preloaded, bench.plan.tuned_blocks)
    other.stop()


def on_registry(bench):
    if not pathlib.Path(PROGRAM).exists():
        raise Broken("the registry is measured against docker-registry, which is missing: run tools/setup --with-bench")
    bench.versions["docker-registry"] = first_line([PROGRAM, "--version"])
    bench.settings["docker-registry"] = {"default": DEFAULTS, "tuned": TUNED, "authentication": "none"}
    wanted = {name for name in bench.wanted if name.startswith("registry-")}
    tuned, alone = {name for name in wanted if "tuned" in name}, wanted & {"registry-memory"}
    if wanted - alone:
        ours = bench.server("registry", core="server")
        make_pusher(ours)
        if wanted - alone - tuned:
            beside(bench, ours)
        if tuned:
            beside_tuned(bench, ours)
        must_be_audited(ours)
        ours.stop()
    if alone:
        memory(bench)
