"""Three nodes on one machine: cells find each other by name, and are unreachable from outside."""

import socket
import time

import snapshot
from world import eventually, page, web

NAMES = ("a", "b", "c")


def run(world):
    said = world.up(3)
    assert said.count("ready") == 3 and "198.18.0." in said, said
    project = world.project()
    nodes, cells = set(), {}
    for name in NAMES:
        nodes.add(project.allocate(name, gpus="1")["node_id"])
        make = world.spec if name == "a" else world.hosted
        cells[name] = project.cell(name, name, make(**web(name)))
    assert len(nodes) == 3, f"the allocations are not spread: {nodes}"
    everybody_reaches_everybody(project)
    nobody_else_does(world, cells)
    what_is_inside_can_be_had(world, project)
    a_second_up_finds_everything_again(world, project)
    for name in NAMES:
        project.release(name)
    for node in ("n1", "n2", "n3"):
        world.audit(node)
    has(world.stop(), "muster down")
    has(world.said("down", "--data-dir", str(world.data)), "removed")
    has(world.said("down", "--data-dir", str(world.data)), "nothing is there")


def everybody_reaches_everybody(project):
    for here in NAMES:
        for there in NAMES:
            # Names of cells that came later are known a moment later.
            eventually(lambda: answers(project, here, there))
    for here in NAMES[1:]:
        for there in NAMES:
            pinged = ping(project, here, there)
            assert pinged.returncode == 0, f"{here} does not reach {there}: {pinged}"


def answers(project, here, there):
    got = project.exec(here, *page(there))
    assert (got.returncode, got.stdout) == (0, there), f"{here} does not get {there}'s page: {got}"


def ping(project, here, there):
    return project.exec(here, "ping", "-c", "1", "-W", "1", there)


def nobody_else_does(world, cells):
    other = world.project()
    other.allocate("other")
    other.cell("other", "other", world.hosted())
    # The same commands succeed where they are allowed.
    assert ping(other, "other", "other").returncode == 0
    for name, cell in cells.items():
        for target in (name, cell["address"]):
            refused = [ping(other, "other", target), other.exec("other", *page(target, 1))]
            # 255 is an error of `muster exec` itself.
            assert all(tried.returncode not in (0, 255) for tried in refused), f"another project reaches {target}: {refused}"
        began = time.monotonic()
        try:
            socket.create_connection((cell["address"], 8080), timeout=2).close()
        except OSError:
            assert time.monotonic() - began < 3
        else:
            raise AssertionError(f"the machine itself reaches {name} at {cell['address']}")
    other.release("other")


def what_is_inside_can_be_had(world, project):
    eventually(lambda: has(project.said("logs", "a", "--service", "talk"), "a speaks"))
    here, back = world.folder / "here", world.folder / "back"
    here.write_text("carried\n" * 1000)
    project.said("cp", str(here), "a:/tmp/there")
    project.said("cp", "a:/tmp/there", str(back))
    assert back.read_text() == here.read_text()
    ended = project.exec("a", "sh", "-c", "wc -l </tmp/there; exit 7")
    assert (ended.returncode, ended.stdout.strip()) == (7, "1000"), ended


def has(text, part):
    assert part in text, text


def a_second_up_finds_everything_again(world, project):
    """The cells do not notice that the agents and the server were away."""
    born = started(project)
    assert "cells keep running" in world.stop()
    running = [line for line in snapshot.processes().values() if "httpd" in line and "conmon" not in line]
    assert len(running) == 3, running
    world.up(3)
    assert started(project) == born, "a cell was started anew"
    answers(project, "a", "c")


def started(project):
    """When the first process of each cell was started, in the kernel's own ticks."""
    return [project.said("exec", name, "--", "cut", "-d", " ", "-f", "22", "/proc/1/stat") for name in NAMES]
