"""`muster up` is killed, early or while cells run: `muster down` finds and removes everything of it, and only that."""

import re
import signal
import time

import snapshot
from world import World, eventually, web


# Seconds after which `muster up` is killed: while it makes the wire, starts the server, has nodes join, starts agents.
MOMENTS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


def run(world):
    killed_while_cells_run(world)
    for moment in MOMENTS:
        with World() as fresh:
            fresh.begin(2)
            time.sleep(moment)
            fresh.stop(signal.SIGKILL)
            fresh.said("down", "--data-dir", str(fresh.data))


def killed_while_cells_run(world):
    with World() as other:
        addresses = set()
        for each in (world, other):
            addresses |= set(re.findall(r"198\.18\.0\.\d+", each.up(1)))
            each.tenant = each.project()
            each.tenant.allocate("a", gpus="1")
            each.tenant.cell("a", "a", each.spec(**web("a")))
        assert len(addresses) == 2, addresses
        refused = world.down()
        assert refused.returncode == 1 and "stop it first" in refused.stderr, refused
        world.stop(signal.SIGKILL)
        # What was started with it ends with it; the cell does not.
        eventually(lambda: gone(world), seconds=20)
        assert count("httpd") == 2, "a cell ended"
        world.said("down", "--data-dir", str(world.data))
        assert count("httpd") == 1, "not one cell is left, that of the other platform"
        time.sleep(0.5)
        assert other.tenant.said("exec", "a", "--", "hostname").strip() == "a"
        other.stop(signal.SIGKILL)


def gone(world):
    left = [line for line in snapshot.processes().values() if str(world.data) in line and " agent run " in line]
    assert not left, left


def count(word):
    return sum(word in line and "conmon" not in line for line in snapshot.processes().values())
