"""Allocate, make a cell, use it, give it back, many times over: afterwards the machine is as it was before."""

import time

import snapshot
from world import eventually, page, web


def run(world):
    world.up(1)
    project = world.project()
    # The first cycle leaves intended state: the unpacked image, the project's name for its network.
    cycle(world, project, 0)
    before = look(world)
    began = time.monotonic()
    for number in range(1, world.cycles + 1):
        cycle(world, project, number)
    each = (time.monotonic() - began) / world.cycles
    eventually(lambda: same(before, look(world)))
    print(f"  {world.cycles} cycles, {each:.2f} s each", flush=True)
    world.audit("n1")


def cycle(world, project, number):
    name = f"x{number}"
    project.allocate(name, gpus="1")
    ingress = {"ingress": [{"port": 8080}], "state": ["/var/kept"]}
    project.cell(name, name, world.spec(**web(name), **ingress))
    project.said("exec", name, "--", "sh", "-c", "echo used >/var/kept/file; cat /var/kept/file")
    project.said("cp", str(world.images / "index.json"), f"{name}:/tmp/index.json")
    project.said("exec", name, "--", *page("127.0.0.1"))
    project.release(name)


def look(world):
    return snapshot.take(("/run", "/dev/shm", world.folder))


def same(before, after):
    left = snapshot.difference(before, after)
    assert not left, "left behind:\n" + "\n".join(left)
