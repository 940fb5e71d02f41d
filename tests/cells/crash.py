"""`muster up` is killed, early or while cells run: `muster down` finds and removes everything of it, and only that."""

import json
import re
import signal
import subprocess
import time

import snapshot
from platform_under_test import die_with_parent
from world import World, eventually, web


# Seconds after which `muster up` is killed: while it makes the wire, starts the server, has nodes join, starts agents.
MOMENTS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


def run(world):
    killed_while_cells_run(world)
    with World() as fresh:
        killed_while_an_image_is_unpacked(fresh)
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
        eventually(lambda: serving(2))
        refused = world.down()
        assert refused.returncode == 1 and "stop it first" in refused.stderr, refused
        world.stop(signal.SIGKILL)
        # Its child processes end with it; the cell does not.
        eventually(lambda: gone(world), seconds=20)
        serving(2)
        world.said("down", "--data-dir", str(world.data))
        assert count("httpd") == 1, "not one cell is left, that of the other platform"
        time.sleep(0.5)
        assert other.tenant.said("exec", "a", "--", "hostname").strip() == "a"
        other.stop(signal.SIGKILL)


def killed_while_an_image_is_unpacked(world):
    """`muster up` alone is killed: `muster down` reports removal only when no agent works any more, and checks again when repeated."""
    world.up(1)
    tenant = world.project()
    allocation = tenant.allocate("a")
    (agent,) = agents(world)
    # The last call of an unpacking takes longer than an agent waits for its work.
    held = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=syncfs", "-e", "inject=syncfs:delay_enter=30000000", "-p", str(agent)],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
    try:
        eventually(lambda: traced(agent))
        tenant.said("cell", "create", "a", "--allocation", "a", "--spec", json.dumps(world.spec()))
        partial = world.data / "nodes/n1/driver/images/partial"
        eventually(lambda: unpacked(partial))
        world.stop(signal.SIGKILL)
        said = world.said("down", "--data-dir", str(world.data))
        assert "removed" in said and not agents(world), (said, agents(world))
        assert not list(partial.iterdir()), "an agent went on unpacking after `muster down`"
    finally:
        held.kill()
        held.wait()
    # A second one looks again: an order that was under way may have made something after the first.
    late = world.data / f"nodes/n1/driver/disks/{allocation['id']}.disk"
    late.write_bytes(b"left" * 4096)
    assert "removed" in world.said("down", "--data-dir", str(world.data)) and not late.exists()
    assert "nothing is there" in world.said("down", "--data-dir", str(world.data))


def agents(world):
    """Processes that work in a node's folder, by their numbers."""
    return [int(pid) for pid, line in snapshot.processes().items() if str(world.data) in line and " agent run " in line]


def traced(pid):
    assert "TracerPid:\t0" not in snapshot.text(f"/proc/{pid}/status"), "it is not traced yet"


def unpacked(partial):
    assert list(partial.glob("*/image.json")), "the image is not unpacked yet"


def gone(world):
    left = [line for line in snapshot.processes().values() if str(world.data) in line and " agent run " in line]
    assert not left, left


def serving(cells):
    assert count("httpd") == cells, snapshot.processes()


def count(word):
    return sum(word in line and "conmon" not in line for line in snapshot.processes().values())
