"""An allocation is restarted and resized with a cell in it, verified by control groups from outside."""

import json
import time
from pathlib import Path

from world import eventually

GROUPS = Path("/sys/fs/cgroup")
UNIFIED = (GROUPS / "cgroup.procs").exists()
# It holds some 70 MB that the kernel cannot drop.
HOLDS = "x=$(busybox head -c 70000000 /dev/zero | busybox tr '\\0' x); while :; do sleep 1000; done"


def run(world):
    world.up(1)
    project = world.project()
    allocation = project.allocate("a", gpus="1", **{"memory-mb": "512"})
    service = {"name": "hold", "command": ["/bin/sh", "-c", HOLDS]}
    cell = project.cell("a", "a", world.spec(state=["/keep"], services=[service]))
    write(project, "/keep/x")
    write(project, "/passing")

    # A restart: new incarnations of both, other processes, state directories kept, private layer not.
    before = processes(world, allocation)
    project.said("allocation", "restart", "a", "--wait", "--timeout", "60s")
    again = json.loads(project.said("-o", "json", "cell", "get", "a"))
    assert (again["id"], again["state"], again["incarnation"]) == (cell["id"], "running", cell["incarnation"] + 1), again
    assert place(project)["incarnation"] == allocation["incarnation"] + 1
    eventually(lambda: settled(world, allocation), seconds=30)
    after = processes(world, allocation)
    assert after and not before & after, (before, after)
    assert project.exec("a", "cat", "/keep/x").stdout == "kept\n"
    assert project.exec("a", "cat", "/passing").returncode == 1

    # CPUs and memory change around it, up and down; nothing in it is restarted.
    for cpus, memory in ((2, 1024), (1, 384)):
        project.said("allocation", "resize", "a", "--cpus", str(cpus), "--memory-mb", str(memory), "--wait", "--timeout", "60s")
        assert limits(world, allocation) == (cpus * 1000, memory << 20), limits(world, allocation)
        assert after <= processes(world, allocation), "a process was ended"

    # Not below its current usage.
    eventually(lambda: holds(world, allocation, 70_000_000))
    refused = project.muster("allocation", "resize", "a", "--memory-mb", "48", "--wait", "--timeout", "60s")
    assert refused.returncode == 10 and "MiB of memory" in refused.stdout + refused.stderr, refused
    assert limits(world, allocation) == (1000, 384 << 20)
    assert after <= processes(world, allocation), "a process was ended"

    # Other GPUs: only with an explicit restart.
    assert len(gpus(project)) == 1
    refused = project.muster("allocation", "resize", "a", "--gpus", "2")
    assert refused.returncode != 0 and "--restart" in refused.stderr, refused
    project.said("allocation", "resize", "a", "--gpus", "2", "--restart", "--wait", "--timeout", "60s")
    assert len(gpus(project)) == 2
    assert project.exec("a", "cat", "/keep/x").stdout == "kept\n"
    world.audit("n1")
    project.release("a")


def write(project, path):
    written = project.exec("a", "sh", "-c", f"echo kept >{path}")
    assert written.returncode == 0, written


def place(project):
    return json.loads(project.said("-o", "json", "allocation", "get", "a"))


def gpus(project):
    return [name for name in project.exec("a", "ls", "/dev").stdout.split() if name.startswith("simulated")]


def group(world, allocation, controller):
    """The allocation's control group, as the machine has it."""
    key = json.loads((world.data / "nodes/n1/driver/key.json").read_text())
    mount = GROUPS if UNIFIED else GROUPS / controller
    return mount / "muster" / key / allocation["id"]


def processes(world, allocation):
    folder = group(world, allocation, "memory")
    return {int(pid) for file in folder.rglob("cgroup.procs") for pid in file.read_text().split()}


def settled(world, allocation):
    """The pipeline that fills its memory has ended: it holds all of it, and no process comes or goes."""
    holds(world, allocation, 70_000_000)
    first = processes(world, allocation)
    time.sleep(1)
    assert first == processes(world, allocation)


def limits(world, allocation):
    """Thousandths of a CPU, and bytes of memory."""
    cpu, memory = group(world, allocation, "cpu"), group(world, allocation, "memory")
    if UNIFIED:
        quota, period = cpu.joinpath("cpu.max").read_text().split()
        return int(quota) * 1000 // int(period), int(memory.joinpath("memory.max").read_text())
    quota = int(cpu.joinpath("cpu.cfs_quota_us").read_text())
    period = int(cpu.joinpath("cpu.cfs_period_us").read_text())
    return quota * 1000 // period, int(memory.joinpath("memory.limit_in_bytes").read_text())


def holds(world, allocation, size):
    file = "memory.current" if UNIFIED else "memory.usage_in_bytes"
    used = int((group(world, allocation, "memory") / file).read_text())
    assert used >= size, used
