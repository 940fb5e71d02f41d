"""The fleet under kill -9, partitions and pauses, verified by journals that no server reads.

Every allocation must end active, released, failed or blocked with a reason; none lost, doubled or stuck beyond its deadline;
no device in two places, none handed on unwiped.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import kills  # noqa: E402
import points  # noqa: E402
import stale_copies  # noqa: E402
from platform_under_test import Folder, PostgresDatabase  # noqa: E402

broken = []


def report(what, faults, seen):
    print(f"  {'ok' if not faults else 'BROKEN'}: {what}: {json.dumps(seen)}", flush=True)
    for fault in faults[:20]:
        print(f"    {fault}", flush=True)
    broken.extend(faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-points", type=int, default=9, help="how many points of steps to abort the server at")
    parser.add_argument("--agent-points", type=int, default=5, help="how many points of tasks to abort the agent at")
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--pauses", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["server-points", "agent-points", "stale-copies", "kills", "pauses"])
    options = parser.parse_args()
    chosen = lambda part: options.only in (None, part)  # noqa: E731
    if chosen("server-points"):
        with Folder() as folder:
            points.server_killed(folder, points.sample(points.server_points(), options.server_points, options.seed), report)
    if chosen("agent-points"):
        with Folder() as folder:
            points.agent_killed(folder, points.sample(points.AGENT_POINTS, options.agent_points, options.seed), report)
    if chosen("stale-copies"):
        with Folder() as folder:
            stale_copies.come_back(folder, report)
    if chosen("kills"):
        with Folder() as folder, PostgresDatabase() as database:
            kills.killed(folder, database, options.kills, options.seed, report)
    if chosen("pauses"):
        with Folder() as folder, PostgresDatabase() as database:
            kills.paused(folder, database, options.pauses, options.seed, report)
    if broken:
        sys.exit(f"{len(broken)} laws were broken")


if __name__ == "__main__":
    main()
