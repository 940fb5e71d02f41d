"""The agent is aborted at every point of making a cell and of giving it back: everything ends well all the same."""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import snapshot
from own_agent import OwnAgent
from world import eventually, page, web

# Unreachable points: a task that changes nothing is not journalled.
NEVER = {"inspect:journalled", "cell_inspect:journalled", "survey:journalled"}
# Tasks in a running cell are no part of a cycle; crates/node/agent/tests/wire/real_acts.rs kills an agent at each of these.
NOT_IN_A_CYCLE = ("cell_files:", "cell_service:", "cell_command:", "cell_probe:", "image_pull:")
# Always among those of the short form: amid the growing of a disk, the making of a container and a link, their removal.
ALWAYS = ("disk:lengthened", "cell_create:container-created", "attach:veth-made", "cell_destroy:container-deleted")
# An agent that starts passes these too, because of the bystander: it is aborted then, and once more in the cycle.
AT_START = {"network:recorded", "network:rules-made", "network:bridge-made", "disk:attached"}
ABORTED = -6
BYSTANDER = "4242424"


def run(world):
    with OwnAgent(world) as agent:
        chosen = sample(all_points(agent), world.points, world.seed)
        project, other = world.project(), world.project()
        allocation = other.allocate("bystander")["id"]
        service = {"name": "wait", "command": ["/bin/busybox", "sleep", BYSTANDER]}
        other.cell("bystander", "bystander", world.spec(services=[service]))
        pid = bystander()
        # The first cycle leaves intended state: the unpacked image, the project's name for its network.
        cycle(world, project, "first", stray=True)
        before = look(world)
        began = time.monotonic()
        for number, point in enumerate(chosen):
            start = time.monotonic()
            killed_at(world, project, agent, point, f"x{number}")
            eventually(lambda: same(before, look(world)))
            assert bystander() == pid, f"{point}: the bystander is another process now"
            if world.points >= len(chosen) > 20:
                print(f"    {point} ({time.monotonic() - start:.1f} s)", flush=True)
        each = (time.monotonic() - began) / len(chosen)
        print(f"  aborted at {len(chosen)} points (seed {world.seed}), {each:.1f} s each", flush=True)
        other.release("bystander")
        # `muster down` also removes orphans; the runner of the scenarios checks that.
        plant_a_stray(world, allocation)


def all_points(agent):
    """Returns the agent's own list, so that a new point is tested automatically."""
    said = agent.refusal(kill_at="?")
    assert "with real cells: " in said, said
    points = said.split("with real cells: ")[1].strip().split(", ")
    assert NEVER < set(points) and AT_START < set(points) and set(ALWAYS) < set(points), points
    return [point for point in points if point not in NEVER and not point.startswith(NOT_IN_A_CYCLE)]


def sample(points, count, seed):
    if count >= len(points):
        return points
    rest = [point for point in points if point not in ALWAYS]
    chosen = {*ALWAYS, *random.Random(seed).sample(rest, max(0, count - len(ALWAYS)))}
    return [point for point in points if point in chosen]


def killed_at(world, project, agent, point, name):
    """A whole cycle with an agent that dies at the point, once, and is started again as soon as it has."""
    agent.end()
    agent.endings.clear()
    if point in AT_START:
        agent.start(kill_at=point)
        assert agent.process.wait(10) == ABORTED, f"{point} is not passed at the start{world.logs()}"
    told = f"killed at {point},"
    seen = agent.log.read_text().count(told)
    agent.start(kill_at=f"{point}@2" if point in AT_START else point)
    assert agent.process.poll() is None, f"{point} is passed at the start, too"
    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(cycle, world, project, name, point.startswith("sweep:"))
        while not going_on.done():
            agent.tend()
            time.sleep(0.02)
        going_on.result()
    assert agent.endings == [ABORTED], f"{point}: the agent ended like this: {agent.endings}{world.logs()}"
    assert agent.log.read_text().count(told) == seen + 1, f"{point}: it died of something else{world.logs()}"


def cycle(world, project, name, stray=False):
    allocation = project.allocate(name, gpus="1")
    project.said("allocation", "resize", name, "--disk-mb", "72", "--wait", "--timeout", "60s")
    ways = {"ingress": [{"port": 8080}], "egress": True, "state": ["/var/kept"]}
    cell = project.cell(name, name, world.spec(**web(name), **ways))
    assert cell["state"] == "running", cell
    eventually(lambda: answers(project, name))
    project.said("cell", "destroy", name, "--wait", "--timeout", "60s")
    project.release(name)
    if stray:
        a_stray_is_swept(world, allocation["id"])
    world.audit("n1")


def answers(project, name):
    got = project.exec(name, *page("127.0.0.1"))
    assert (got.returncode, got.stdout) == (0, name), got


def a_stray_is_swept(world, allocation):
    """Orphans are found, and removed on demand."""
    plant_a_stray(world, allocation)
    said = world.said("node", "audit", "n1", "--repair", "--wait", "--timeout", "60s")
    assert f"{allocation} is an orphan" in said and "removed and verified" in said, said


def plant_a_stray(world, allocation):
    """A control group of an allocation that is gone."""
    key = json.loads(world.said("-o", "json", "node", "get", "n1"))["id"][-6:]
    groups = sorted(path for path in snapshot.control_groups() if path.endswith(f"/muster/{key}"))
    (Path(groups[0]) / allocation).mkdir()


def bystander():
    """Returns the process of the untouched service."""
    pids = [pid for pid, line in snapshot.processes().items() if line == f"/bin/busybox sleep {BYSTANDER}"]
    assert len(pids) == 1, pids
    return pids[0]


def look(world):
    return snapshot.take(("/run", "/dev/shm", world.folder))


def same(before, after):
    left = snapshot.difference(before, after)
    assert not left, "left behind:\n" + "\n".join(left)
