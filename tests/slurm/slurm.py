"""Real Slurm on real cells: after each scenario the platform holds nothing of it, and at the end the machine is as it was before.

The scenarios of a lane share a platform, because publishing the app and unpacking its image on every node takes longer than most of
them. Lanes run at the same time, each in namespaces of its own. After a scenario that is broken the next one gets a new platform.
"""

import argparse
import importlib
import os
import re
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cluster import World, cells, snapshot  # noqa: E402
from platform_under_test import seed_of_samples  # noqa: E402

# One file each, with `def run(world) -> None`, which raises if something is wrong. `releases` leaves a newer release behind, so it
# is the last of its lane.
SCENARIOS = (
    "single_node", "split", "gpus", "drains", "evacuation", "people", "homes", "scale_in", "login", "accounting", "releases", "deaths", "plugs", "rotation", "flow", "steps",
)
# Scenarios that wait for leases and lost nodes have their own lane; unlisted ones run with the others.
LANES = {"smoke": (), "rough": ("deaths", "plugs", "rotation", "flow", "steps")}
# A run without --only takes one pair of these, by MUSTER_SEED: two successive seeds cover all, and MUSTER_SEED=all does at once.
SAMPLED = (("deaths", "flow"), ("rotation", "steps"))
# Nodes of a platform, and how it is started. A lost node must be noticed in seconds in the one lane, and none be lost in the other.
SHAPES = {"smoke": (3,), "rough": (4, "--nodes-heartbeat-seconds", "2")}

# Objects that a node creates with its first cell and keeps; they are removed with the platform, which is checked at the end.
KEPT = (("cgroup", re.compile(r"/muster/[^/]+$")), ("file", re.compile(r"^/run/muster/[^/]+/[^/]+/[^/]+/(cells/runc|networks|networks/networks)$")))


def lane_of(name):
    return next((lane for lane, names in LANES.items() if name in names), "smoke")


def left_out():
    """Returns the scenarios that another seed plays."""
    if os.environ.get("MUSTER_SEED", "all") == "all":
        return ()
    return tuple(name for at, pair in enumerate(SAMPLED) if at != seed_of_samples() % len(SAMPLED) for name in pair)


class Lane:
    """A platform that some scenarios share."""

    def __init__(self, shape, options):
        self.shape, self.options = shape, options
        self.world, self.before = None, snapshot.take()

    def play(self, name):
        """Plays one scenario; whether it went well."""
        began, fault = time.monotonic(), None
        try:
            if self.world is None:
                self.world = World(*self.shape, options=self.options)
                self.world.start()
            ready, before = time.monotonic() - began, snapshot.take()
            importlib.import_module(name).run(self.world)
            # The kernel takes a moment to remove killed processes.
            cells.eventually(lambda: nothing_left(before, KEPT), seconds=10)
        except Exception:
            fault = traceback.format_exc()
            ready = 0
        started = f", after {ready:.1f} s for the platform" if ready > 1 else ""
        print(f"  {'BROKEN' if fault else 'ok'}: {name} ({time.monotonic() - began - ready:.1f} s{started})", flush=True)
        if fault:
            print(fault, flush=True)
            self.close()
        return not fault

    def close(self):
        """Ends the platform; whether the machine is as it was."""
        if self.world is None:
            return True
        try:
            self.world.close()
            cells.eventually(lambda: nothing_left(self.before), seconds=10)
        except Exception:
            print(f"  BROKEN: the platform went down badly\n{traceback.format_exc()}", flush=True)
            return False
        finally:
            self.world = None
        return True


def nothing_left(before, kept=()):
    left = snapshot.difference(before, snapshot.take(), [*snapshot.ignored(), *kept])
    assert not left, "left behind:\n" + "\n".join(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="play this one alone; several times: these")
    parser.add_argument("--lane", choices=list(LANES), help="play those of this lane")
    parser.add_argument("--workers", type=int, default=4, help="of the cluster in `flow`")
    parser.add_argument("--jobs", type=int, default=120, help="that flow through it")
    parser.add_argument("--seed", type=int, default=seed_of_samples(), help="of what happens to its workers meanwhile, and of samples")
    parser.add_argument("--sabotage", action="store_true", help="have `flow` run an app whose drains are a lie: it must be broken")
    parser.add_argument("--strikes", default="", metavar="TEXT", help="with `--only steps --full`: those whose label has this text")
    parser.add_argument("--full", action="store_true", help="have `steps` strike at every request of every step, and `plugs` decommission from every state")
    options = parser.parse_args()
    well, lanes = True, {}
    unplayed = () if options.only else left_out()
    for name in SCENARIOS:
        if name in unplayed and options.lane in (None, lane_of(name)):
            print(f"  not played with this seed: {name}", flush=True)
            continue
        if (options.only and name not in options.only) or options.lane not in (None, lane_of(name)):
            continue
        shape = SHAPES[lane_of(name)]
        # A worker and the controller take a CPU each, and a node has two; three more are for those that take another's place.
        if name == "flow" and options.workers > 4:
            shape = ((options.workers + 5) // 2, *shape[1:])
        if shape not in lanes:
            for lane in lanes.values():
                well &= lane.close()
            lanes = {shape: Lane(shape, options)}
        well &= lanes[shape].play(name)
    for lane in lanes.values():
        well &= lane.close()
    sys.exit(0 if well else 1)


main()
