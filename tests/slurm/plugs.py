"""Each part of a real cluster is killed: service, cell, adapter, agent, node. The platform reports it correctly
within its bound, and the cluster can be decommissioned from each of these states."""

import os
import signal
import time
from pathlib import Path

from cluster import CONFIG, cells
from deaths import node_of
from partition import cut

# Seconds from the moment a plug is pulled; the platform's own bound, and a little for the command line that asks.
DEAD_THING = 5 + 2
# Two looks of the app's own interval and the platform's allowance.
SILENT_ADAPTER = 2 * 30 + 5 + 5
# A killed part stays down until the scenario has verified it.
NO_REPAIR = (CONFIG, "--repair", "off")


def run(world):
    world.ready(3, "--nodes-heartbeat-seconds", "1")
    cluster = world.cluster("plug", 1, *NO_REPAIR)
    worker = "plug-worker-1"
    a_service(cluster, worker)
    an_agent(world, cluster, worker)
    a_node(world, cluster, worker)
    a_workers_cell(cluster, worker)
    an_adapter(world, cluster)
    the_controllers_cell(cluster)
    cluster.gone("--force")
    for pull in (a_dead_worker, a_cut_node):
        cluster = world.cluster("plug", 1, *NO_REPAIR)
        pull(world, cluster)



def member(cluster, name):
    component = name.split("-")[1]
    return cluster.members(component)[name]


def within(seconds, what, told):
    """Waits until it is reported, and prints how long that took; fails after the bound."""
    began = time.monotonic()
    while not told():
        assert time.monotonic() - began <= seconds, f"{what} was not told within {seconds} s"
        time.sleep(0.1)
    print(f"    {what}: told after {time.monotonic() - began:.1f} s (bound {seconds} s)", flush=True)


def healthy(cluster):
    instance = cluster.json("instance", "get", cluster.name)
    assert (instance["state"], instance["health"]) == ("running", "healthy"), instance


def processes(cell):
    """The processes of a cell, as the machine has them: number, number inside, and command line."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and cell in (folder / "cgroup").read_text():
                inside = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("NSpid:"))
                yield int(folder.name), int(inside.split()[-1]), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue


def kill_service(cluster, name, program):
    pids = [pid for pid, _, line in processes(member(cluster, name)["cell_id"]) if program in line.split(" ")[0]]
    assert pids, f"no {program} in {name}"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def kill_cell(cluster, name):
    """The first process of its cell, and nothing else: the kernel ends the others."""
    cell = member(cluster, name)["cell_id"]
    first = [pid for pid, inside, _ in processes(cell) if inside == 1]
    assert len(first) == 1, first
    os.kill(first[0], signal.SIGKILL)
    cells.eventually(lambda: empty(cell))


def empty(cell):
    assert not list(processes(cell))


def a_service(cluster, worker):
    kill_service(cluster, worker, "slurmd")
    within(DEAD_THING, "a dead service", lambda: member(cluster, worker)["health"] == "unhealthy")
    told = member(cluster, worker)
    assert told["state"] == "active" and "service worker" in told["health_message"], told
    cells.eventually(lambda: healthy(cluster), seconds=60)


def an_agent(world, cluster, worker):
    """The supervisor restarts the agent; running cells continue, and are never reported dead."""
    node = node_of(world, cluster, worker)
    agents = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and is_agent(folder, node)]
    assert len(agents) == 1, agents
    os.kill(agents[0], signal.SIGKILL)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        told = member(cluster, worker)
        assert told["state"] == "active" and told["health"] in ("healthy", "unknown"), told
        time.sleep(0.5)
    cells.eventually(lambda: healthy(cluster), seconds=30)


def is_agent(folder, node):
    try:
        line = (folder / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return line[1:3] == [b"agent", b"run"] and any(word.endswith(f"/nodes/{node}".encode()) for word in line)


def a_node(world, cluster, worker):
    node = node_of(world, cluster, worker)
    with cut(world, node, "link"):
        # Three heartbeats of two seconds, and what the watch takes to look.
        within(12, "an unreachable node", lambda: member(cluster, worker)["health"] == "unknown")
        told = member(cluster, worker)
        assert (told["state"], told["health_reason"]) == ("active", "node_unreachable"), told
        assert cluster.json("instance", "get", cluster.name)["health"] != "healthy"
    cells.eventually(lambda: healthy(cluster), seconds=90)


def a_workers_cell(cluster, worker):
    kill_cell(cluster, worker)
    within(DEAD_THING, "a dead cell", lambda: member(cluster, worker)["state"] == "failed")
    told = member(cluster, worker)
    assert (told["health"], told["failure_reason"]) == ("unhealthy", "cell_ended"), told
    assert cluster.json("instance", "get", cluster.name)["health"] == "degraded"
    cluster.do("recover", worker)
    cells.eventually(lambda: healthy(cluster), seconds=60)


def an_adapter(world, cluster):
    world.stop_adapter()
    within(SILENT_ADAPTER, "a silent adapter", lambda: cluster.json("instance", "get", cluster.name)["health"] == "unknown")
    told = member(cluster, cluster.controller)
    assert (told["state"], told["health_reason"]) == ("active", "adapter_silent"), told
    world.start_adapter()
    cells.eventually(lambda: healthy(cluster), seconds=60)


def the_controllers_cell(cluster):
    kill_cell(cluster, cluster.controller)
    within(DEAD_THING, "a dead controller", lambda: member(cluster, cluster.controller)["state"] == "failed")
    instance = cluster.json("instance", "get", cluster.name)
    assert (instance["state"], instance["health"]) == ("running", "unhealthy"), instance


def a_dead_worker(world, cluster):
    kill_cell(cluster, "plug-worker-1")
    cluster.gone()


def a_cut_node(world, cluster):
    """Unknown state is not reported as removed: the decommission waits for the node with that reason, and ends when it is back."""
    node = node_of(world, cluster, "plug-worker-1")
    with cut(world, node, "link"):
        cells.eventually(lambda: unreachable(cluster), seconds=30)
        cluster.said("instance", "decommission", cluster.name, "--force")
        time.sleep(5)
        assert cluster.json("instance", "get", cluster.name)["state"] == "stopping"
    cells.eventually(lambda: stopped(cluster), seconds=90)
    world.nothing_left()


def unreachable(cluster):
    assert member(cluster, "plug-worker-1").get("health_reason") == "node_unreachable"


def stopped(cluster):
    assert cluster.json("instance", "get", cluster.name)["state"] == "stopped"
