"""A cell opens the GPU that its allocation holds, and no other; and the memory of a GPU is wiped.

Simulated GPUs are real device nodes without a driver: the claimed one opens as far as "no such device", the others
are denied by the control group. The wipe runs with a stand-in for the vendor's driver, whose device is a file. What needs a real GPU is
counted as NOT RUN where there is none.
"""

import json
import os
import subprocess
from pathlib import Path

from platform_under_test import BINARY, ROOT

GROUPS = Path("/sys/fs/cgroup")
GPU = Path("/dev/nvidia0")
# Between processes; the wipe is then proved within one.
CLEARED = "unproven: the driver cleared it by itself"


def run(world):
    world.up(1)
    project = world.project()
    allocation = project.allocate("a", gpus="1")
    cell = project.cell("a", "a", world.spec())
    inside = project.exec("a", "ls", "/dev").stdout.split()
    claimed = [name for name in inside if name.startswith("simulated")]
    assert len(claimed) == 1, inside
    opened = project.exec("a", "cat", f"/dev/{claimed[0]}")
    assert "No such device or address" in opened.stderr, opened
    nodes = sorted((world.data / "nodes/n1/driver/devices").iterdir())
    assert len(nodes) == 8, nodes
    number = claimed[0].removeprefix("simulated")
    for node in nodes:
        wanted = "No such device or address" if node.name.endswith(f"-{number}") else "Operation not permitted"
        said = in_group(world, allocation, cell, node)
        assert wanted in said, f"{node.name}: {said}"
    version = 2 if (GROUPS / "cgroup.procs").exists() else 1
    print(f"  simulated GPUs: 1 of {len(nodes)} opens (ENXIO), the others are refused (EPERM), on cgroup v{version}", flush=True)
    project.release("a")
    wiped_with_a_stand_in(world)
    wiped_for_real(world)


def in_group(world, allocation, cell, node):
    """Returns the result for the machine's own root when it opens a node from within the cell's control group."""
    key = json.loads((world.data / "nodes/n1/driver/key.json").read_text())
    mount = GROUPS if (GROUPS / "cgroup.procs").exists() else GROUPS / "devices"
    group = mount / "muster" / key / allocation["id"] / cell["id"] / "cgroup.procs"
    script = 'echo $$ >"$1" && exec cat "$2"'
    tried = subprocess.run(["sh", "-c", script, "sh", group, node], capture_output=True, text=True, timeout=10)
    return tried.stderr


def wiped_with_a_stand_in(world):
    """The program that the agent starts for a wipe believes what it read back, and nothing else."""
    folder = world.folder / "driver"
    folder.mkdir()
    source = ROOT / "crates/node/disk/tests/device/fake_driver.rs"
    subprocess.run([os.environ.get("RUSTC", "rustc"), "--edition", "2024", "--crate-type", "cdylib", "--crate-name", "fake", "-A", "warnings",
                    "-o", folder / "libcuda.so.1", source], check=True, cwd=ROOT)
    device, size, uuid = folder / "device", 50 << 20, "GPU-0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b"

    def wipe(uuid, fault=""):
        device.write_bytes(b"tenant's data..." * (size // 16))
        environment = {"LD_LIBRARY_PATH": str(folder), "FAKE_DEVICE": str(device), "FAKE_FAULT": fault}
        return subprocess.run([BINARY, "agent", "wipe-device", uuid], env=environment, capture_output=True, text=True, timeout=60)

    done = wipe(uuid)
    assert done.returncode == 0 and json.loads(done.stdout)["bytes"] == size, done
    assert device.read_bytes() == bytes(size), "the device still has a tenant's data"
    for fault in ("skips", "ignores", "held"):
        failed = wipe(uuid, fault)
        assert failed.returncode == 1 and "unproven" in failed.stderr and not failed.stdout, f"{fault}: {failed}"
    failed = wipe("GPU-00000000-0000-0000-0000-000000000000")
    assert failed.returncode == 1 and "unproven" in failed.stderr, failed
    print("  a wipe with a stand-in for the driver: 50 MB read back as zero, and 4 faulty ones are no success", flush=True)


def wiped_for_real(world):
    """A real GPU, if there is one: the wipe, verified by a canary. Cells with one are in the tests of crates/node/cell."""
    if not GPU.exists():
        world.not_run("the wipe of a real GPU's memory: there is no GPU on this machine")
        return
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    uuid = listed.split("UUID: ")[1].split(")")[0]
    example = ["cargo", "run", "--quiet", "--release", "-p", "muster-disk", "--example", "device_memory", "--"]
    for verb, accepted in (("prove-within", {"proved"}), ("prove", {"proved", CLEARED})):
        proved = subprocess.run([*example, verb, uuid], capture_output=True, text=True, timeout=600)
        verdict = json.loads(proved.stdout)["verdict"]
        print(f"  a real GPU, {verb}: {verdict}", flush=True)
        assert verdict in accepted, proved.stdout
