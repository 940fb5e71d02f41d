"""A cell opens the GPU that its allocation holds, and no other; and the test prints the extent of its proof on this machine.

Simulated GPUs are real device nodes without a driver: the claimed one opens as far as "no such device", the others
are denied by the control group. The version of control groups is printed, and so are the checks that need a real GPU.
"""

import json
import subprocess
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
GPU = Path("/dev/nvidia0")


def run(world):
    world.up(1)
    project = world.project()
    allocation = project.allocate("a", gpus="1")
    cell = project.cell("a", "a", world.spec())
    inside = project.exec("a", "ls", "/dev").stdout.split()
    claimed = [name for name in inside if name.startswith("pretended")]
    assert len(claimed) == 1, inside
    opened = project.exec("a", "cat", f"/dev/{claimed[0]}")
    assert "No such device or address" in opened.stderr, opened
    nodes = sorted((world.data / "nodes/n1/driver/devices").iterdir())
    assert len(nodes) == 8, nodes
    number = claimed[0].removeprefix("pretended")
    for node in nodes:
        wanted = "No such device or address" if node.name.endswith(f"-{number}") else "Operation not permitted"
        said = in_group(world, allocation, cell, node)
        assert wanted in said, f"{node.name}: {said}"
    version = 2 if (GROUPS / "cgroup.procs").exists() else 1
    print(f"  pretended GPUs: 1 of {len(nodes)} opens (ENXIO), the others are refused (EPERM), on cgroup v{version}", flush=True)
    project.release("a")
    real()


def in_group(world, allocation, cell, node):
    """Returns the result for the machine's own root when it opens a node from within the cell's control group."""
    key = json.loads((world.data / "nodes/n1/driver/key.json").read_text())
    mount = GROUPS if (GROUPS / "cgroup.procs").exists() else GROUPS / "devices"
    group = mount / "muster" / key / allocation["id"] / cell["id"] / "cgroup.procs"
    script = 'echo $$ >"$1" && exec cat "$2"'
    tried = subprocess.run(["sh", "-c", script, "sh", group, node], capture_output=True, text=True, timeout=10)
    return tried.stderr


def real():
    """A real GPU, if there is one: the wipe, verified by a canary. Cells with one are in the tests of crates/node/cell."""
    if not GPU.exists():
        print("  a real GPU: unproven, there is none here (device isolation, wiping of device memory)", flush=True)
        return
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    uuid = listed.split("UUID: ")[1].split(")")[0]
    example = ["cargo", "run", "--quiet", "--release", "-p", "muster-disk", "--example", "device_memory", "--"]
    proved = subprocess.run([*example, "prove", uuid], capture_output=True, text=True, timeout=600)
    print(f"  a real GPU: {json.loads(proved.stdout)['verdict']}", flush=True)
