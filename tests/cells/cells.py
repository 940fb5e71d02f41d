"""Real cells on real nodes: each scenario on a platform of its own, and afterwards the machine is as it was before."""

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import snapshot  # noqa: E402
from world import NOT_RUN, World, eventually  # noqa: E402

# One file each, with `def run(world) -> None`, which raises if something is wrong.
SCENARIOS = ("judge", "simulated", "refusals", "up", "keys", "anew", "artifacts", "devices", "memory", "crash", "cycles", "journal", "kills", "partition", "disks")


def play(name, options):
    """Plays one scenario; whether it went well."""
    began, before, fault = time.monotonic(), snapshot.take(), None
    try:
        with World() as world:
            world.cycles, world.points, world.seed = options.cycles, options.points, options.seed
            world.hold = options.hold
            importlib.import_module(name).run(world)
    except Exception:
        fault = traceback.format_exc()
    try:
        # The kernel takes a moment to remove killed processes.
        eventually(lambda: nothing_left(before), seconds=5)
    except AssertionError as left:
        fault = f"{fault or ''}{left}"
    print(f"  {'BROKEN' if fault else 'ok'}: {name} ({time.monotonic() - began:.1f} s)", flush=True)
    if fault:
        print(fault, flush=True)
    return not fault


def nothing_left(before):
    left = snapshot.difference(before, snapshot.take())
    assert not left, "left behind:\n" + "\n".join(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SCENARIOS, help="play this one alone")
    parser.add_argument("--cycles", type=int, default=10, help="how often the scenario `cycles` goes round")
    parser.add_argument("--points", type=int, default=8, help="where `kills` and `partition` strike; 1000 are all")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--hold", type=float, default=3, help="for how many seconds `disks` keeps each disk full")
    options = parser.parse_args()
    played = [play(name, options) for name in SCENARIOS if options.only in (None, name)]
    print(f"cells: {played.count(True)} ok, {played.count(False)} BROKEN, {len(NOT_RUN)} parts NOT RUN", flush=True)
    sys.exit(0 if all(played) else 1)


main()
