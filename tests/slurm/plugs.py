"""Each part of a real cluster is killed: service, cell, adapter, agent, node. The platform reports it correctly within its bound, what can
come back comes back, and a cluster can be decommissioned from each of these states: from some of them here, from all with `--full`."""

import contextlib
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import CONFIG, cells
from deaths import node_of
from partition import cut

# Seconds from the moment a plug is pulled; the platform's own bound, and a little for the command line that asks.
DEAD_THING = 5 + 2
# Two looks of the app's own interval and the platform's allowance.
SILENT_ADAPTER = 2 * 30 + 5 + 5
# Three heartbeats of two seconds, and what the watch takes to look.
SILENT_NODE = 12
# The other members leave first; then the one on the lost node is fenced.
CUT_OFF = 120
# Placement may put the controller on that node too. It fences itself, and its removal waits for twice its `stop_after_partition`.
SELF_FENCED = 2 * 120
# The supervisor's pause before the next start of an agent is part of it.
AFTER_RETURN = 90
# A killed part stays down until the scenario has verified it.
NO_REPAIR = (CONFIG, "--repair", "off")
# The nodes have room for so many clusters beside the first.
SIDE_BY_SIDE = 3


def run(world):
    world.ready(4, "--nodes-heartbeat-seconds", "1")
    *others, last = chosen(world.options)
    print(f"    decommission from {', '.join([*others, last])}", flush=True)
    first, silent = world.cluster("plug", 1, *NO_REPAIR), None
    for batch in (others[at:at + SIDE_BY_SIDE] for at in range(0, len(others), SIDE_BY_SIDE)):
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            clusters = dict(zip(batch, pool.map(lambda state: world.cluster(state, 1, *NO_REPAIR), batch)))
            list(pool.map(lambda state: ALONE[state](clusters[state]), ALONE.keys() & clusters.keys()))
        for state in (state for state in SHARED if state in clusters):
            SHARED[state](world, clusters[state])
        silent = clusters.get("adapter")
    worker = f"{first.name}-worker-1"
    a_service(first, worker)
    an_agent(world, first, worker)
    a_node(world, first, worker)
    a_workers_cell(first, worker)
    an_adapter(world, first, silent)
    ALONE[last](first) if last in ALONE else SHARED[last](world, first)
    world.nothing_left()


def chosen(options):
    """The states to decommission from: a dead controller and two others by seed, so that three successive seeds cover all; or all. The first
    cluster waits for the silence of the adapter anyway, so a cluster without one is in the last batch, and is not the first."""
    if options.full:
        return STATES
    others = [state for state in STATES if state != "controller"]
    picked = {"controller", *(others[(2 * options.seed + at) % len(others)] for at in (0, 1))}
    return sorted((state for state in STATES if state in picked), key=lambda state: state != "adapter")


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
    (agent,) = agents_of(node_of(world, cluster, worker))
    os.kill(agent, signal.SIGKILL)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        told = member(cluster, worker)
        assert told["state"] == "active" and told["health"] in ("healthy", "unknown"), told
        time.sleep(0.5)
    cells.eventually(lambda: healthy(cluster), seconds=30)


def agents_of(node):
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and is_agent(folder, node)]


def is_agent(folder, node):
    try:
        line = (folder / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return line[1:3] == [b"agent", b"run"] and any(word.endswith(f"/nodes/{node}".encode()) for word in line)


def a_node(world, cluster, worker):
    node = node_of(world, cluster, worker)
    with cut(world, node, "link"):
        is_unreachable(cluster, worker, "an unreachable node")
    cells.eventually(lambda: healthy(cluster), seconds=90)


def is_unreachable(cluster, worker, what):
    # Before that its agent may have answered without the status of its cells, which is unknown too.
    within(SILENT_NODE, what, lambda: member(cluster, worker).get("health_reason") == "node_unreachable")
    told = member(cluster, worker)
    assert (told["state"], told["health"]) == ("active", "unknown"), told
    assert cluster.json("instance", "get", cluster.name)["health"] != "healthy"


def a_workers_cell(cluster, worker):
    is_dead(cluster, worker)
    cluster.do("recover", worker)
    cells.eventually(lambda: healthy(cluster), seconds=60)


def is_dead(cluster, worker):
    kill_cell(cluster, worker)
    within(DEAD_THING, "a dead cell", lambda: member(cluster, worker)["state"] == "failed")
    told = member(cluster, worker)
    assert (told["health"], told["failure_reason"]) == ("unhealthy", "cell_ended"), told
    assert cluster.json("instance", "get", cluster.name)["health"] == "degraded"


def an_adapter(world, cluster, other):
    """The other cluster goes before the adapter is back."""
    world.stop_adapter()
    within(SILENT_ADAPTER, "a silent adapter", lambda: is_silent(cluster))
    if other:
        within(SILENT_ADAPTER, "a silent adapter", lambda: is_silent(other))
        # A forced step gives an adapter a minute, and the members of the two components go one after the other.
        decommissioned(other, "a silent adapter", "--force", seconds=240)
    world.start_adapter()
    cells.eventually(lambda: healthy(cluster), seconds=60)


def is_silent(cluster):
    if cluster.json("instance", "get", cluster.name)["health"] != "unknown":
        return False
    told = member(cluster, cluster.controller)
    assert (told["state"], told["health_reason"]) == ("active", "adapter_silent"), told
    return True


def decommissioned(cluster, state, *words, seconds=60):
    began = time.monotonic()
    cluster.said("instance", "decommission", cluster.name, *words, "--wait", "--timeout", f"{seconds}s")
    assert cluster.json("instance", "get", cluster.name)["state"] == "stopped"
    print(f"    decommissioned from {state}: {time.monotonic() - began:.1f} s", flush=True)


def from_a_dead_service(cluster):
    """Its program is gone, so no restart helps."""
    worker = f"{cluster.name}-worker-1"
    cluster.slurm("mv", "/usr/sbin/slurmd", "/usr/sbin/slurmd.away", cell=worker)
    kill_service(cluster, worker, "slurmd")
    within(DEAD_THING, "a dead service", lambda: member(cluster, worker)["health"] == "unhealthy")
    assert cluster.json("instance", "get", cluster.name)["health"] == "degraded"
    decommissioned(cluster, "a dead service")


def from_a_dead_cell(cluster):
    is_dead(cluster, f"{cluster.name}-worker-1")
    decommissioned(cluster, "a dead cell")


def from_a_dead_controller(cluster):
    """There is no Slurm left to take the worker out of."""
    kill_cell(cluster, cluster.controller)
    within(DEAD_THING, "a dead controller", lambda: member(cluster, cluster.controller)["state"] == "failed")
    instance = cluster.json("instance", "get", cluster.name)
    assert (instance["state"], instance["health"]) == ("running", "unhealthy"), instance
    decommissioned(cluster, "a dead controller")


def from_a_dead_agent(world, cluster):
    ends_in_quarantine(world, cluster, "a dead agent", no_agent)


def from_a_cut_node(world, cluster):
    ends_in_quarantine(world, cluster, "a cut node", lambda world, node: cut(world, node, "link"))


@contextlib.contextmanager
def no_agent(_, node):
    """Every agent of the node is killed as soon as it is started; its cells go on."""
    over, killed = threading.Event(), []

    def kill():
        while not over.wait(0.05):
            for agent in agents_of(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(agent, signal.SIGKILL)
                    killed.append(agent)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
        assert len(set(killed)) > 1, f"the supervisor of {node} did not start another agent: {killed}"
    finally:
        over.set()
        killer.join()


def ends_in_quarantine(world, cluster, state, plug):
    """A forced decommission ends for its tenant and names what is left; what no agent has verified is not reported as removed before
    the node is back."""
    worker = f"{cluster.name}-worker-1"
    node, instance = node_of(world, cluster, worker), cluster.json("instance", "get", cluster.name)["id"]
    together = node_of(world, cluster, f"{cluster.name}-controller-1") == node
    with plug(world, node):
        is_unreachable(cluster, worker, state)
        operation = cluster.json("instance", "decommission", cluster.name, "--force")
        operation = (operation.get("operation") or operation)["id"]
        bound = CUT_OFF + SELF_FENCED * together
        cells.eventually(lambda: is_quarantined(cluster, operation, node), seconds=bound)
        assert cluster.json("instance", "get", instance)["state"] == "stopping"
    began = time.monotonic()
    cells.eventually(lambda: is_stopped(cluster, instance), seconds=AFTER_RETURN)
    print(f"    decommissioned from {state}: {time.monotonic() - began:.1f} s after its return", flush=True)


def is_quarantined(cluster, operation, node):
    found = cluster.json("operation", "get", operation)
    assert (found["state"], found.get("reason")) == ("partial", "quarantined"), found
    assert f"node {node} is unreachable" in found["message"], found


def is_stopped(cluster, instance):
    assert cluster.json("instance", "get", instance)["state"] == "stopped"


# By the name of the cluster. The first group concerns one cluster alone; the second one all that share its node.
ALONE = {"service": from_a_dead_service, "cell": from_a_dead_cell, "controller": from_a_dead_controller}
SHARED = {"agent": from_a_dead_agent, "node": from_a_cut_node}
STATES = ("service", "cell", "controller", "adapter", "agent", "node")
