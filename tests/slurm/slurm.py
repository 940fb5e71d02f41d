"""Real Slurm on real cells: each scenario on a platform of its own, and afterwards the machine is as it was before."""

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cluster import World, cells, snapshot  # noqa: E402

# One file each, with `def run(world) -> None`, which raises if something is wrong.
SCENARIOS = ("single_node", "split", "gpus", "drains", "accounting", "deaths", "releases", "scale_in", "rotation", "login")


def play(name):
    """Plays one scenario; whether it went well."""
    began, before, fault = time.monotonic(), snapshot.take(), None
    try:
        with World() as world:
            importlib.import_module(name).run(world)
    except Exception:
        fault = traceback.format_exc()
    try:
        # What was killed takes the kernel a moment to be gone.
        cells.eventually(lambda: nothing_left(before), seconds=10)
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
    options = parser.parse_args()
    played = [play(name) for name in SCENARIOS if options.only in (None, name)]
    sys.exit(0 if all(played) else 1)


main()
