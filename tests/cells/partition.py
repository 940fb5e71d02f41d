"""A node is cut off at each step of making and giving back: all ends well after healing, and nothing is given twice."""

import json
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from contextlib import contextmanager
from pathlib import Path

import snapshot
from world import eventually, page, web

# Packets dropped at the node's own link, incoming and outgoing. "link" is the cable itself.
TENTH = "numgen random mod 100 < 10 drop"
DROPS = {"link": None, "deaf": ("counter drop", "accept"), "mute": ("accept", "counter drop"), "lossy": (TENTH, TENTH)}
# Seconds after a request; the first one is before it.
MOMENTS = (-0.1, 0.1, 0.3, 0.7)
# Every operation ends within this many seconds after healing.
CONVERGES = 10
STALE = "4343434"


def run(world):
    world.up(2, "--nodes-heartbeat-seconds", "1")
    project = world.project()
    cases, hold = chosen(world.points, world.seed)
    took = [a_cell_comes_and_goes(world, project, *case, hold) for case in cases]
    times = f"{2 * len(cases)} times for {hold} s (seed {world.seed})"
    print(f"  cut off {times}; at most {max(took):.1f} s from healing to the end", flush=True)
    cells_find_each_other_again(world, project)
    a_stale_copy_is_gone_before_its_sandbox_is_recreated(world, project)
    for node in ("n1", "n2"):
        world.audit(node)


def chosen(points, seed):
    """The fault while a cell is made, the one while it is given back, and the moment; and for how many seconds."""
    cases = [(fault, fault, moment) for moment in MOMENTS for fault in DROPS]
    if points >= len(cases):
        # Three heartbeats and more: the node counts as unreachable.
        return cases, 4
    faults = random.Random(seed).sample(list(DROPS), len(DROPS))
    return list(zip(faults[::2], faults[1::2], random.Random(seed).sample(MOMENTS, 2))), 2


def a_cell_comes_and_goes(world, project, first, second, moment, hold):
    """The seconds that the slower of both took after healing."""
    node = node_of(world, project.allocate("cut", gpus="1"))
    made = cut_off(world, node, first, moment, hold, lambda: project.cell("cut", "cut", world.spec(**web("cut"))))
    eventually(lambda: answers(project, "cut", "127.0.0.1"), CONVERGES)
    gone = cut_off(world, node, second, moment, hold, lambda: project.release("cut"))
    world.audit(node)
    if hold > 2:
        print(f"    {first} at {moment} s: {made:.1f} s and {gone:.1f} s", flush=True)
    return max(made, gone)


def cut_off(world, node, fault, moment, hold, ask):
    """Submits an operation while the node is partitioned from some moment on for a while, and waits for its end."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask) if moment > 0 else None
        time.sleep(max(0, moment))
        with cut(world, node, fault):
            asked = asked or pool.submit(ask)
            time.sleep(hold)
        healed = time.monotonic()
        try:
            asked.result(CONVERGES)
        except TimeoutError:
            raise AssertionError(f"{fault} at {moment} s: no end {CONVERGES} s after healing{world.logs()}") from None
        return time.monotonic() - healed


@contextmanager
def cut(world, node, fault):
    """The node is cut off in this way for as long as this lasts."""
    if fault == "link":
        tell(world, "wire", "ip", "link", "set", "dev", node, "down")
    else:
        into, out = DROPS[fault]
        for chain, hook, link, verdict in (("in", "input", "iifname", into), ("out", "output", "oifname", out)):
            tell(world, node, "nft", f"add table inet cut; add chain inet cut {chain} "
                 f"{{ type filter hook {hook} priority -400; }}; add rule inet cut {chain} {link} eth0 {verdict}")
    try:
        yield
        rules = "" if fault == "link" else tell(world, node, "nft", "list table inet cut")
        assert "counter packets 0 " not in rules, f"nothing was dropped: {rules}"
    finally:
        if fault == "link":
            tell(world, "wire", "ip", "link", "set", "dev", node, "up")
        else:
            tell(world, node, "nft", "delete table inet cut")


def tell(world, place, *words):
    """Has a program do something in the network namespace of a node, or in that of the wire."""
    ground = json.loads((world.data / "nodes" / "up.json").read_text())["kind"]["cells"]
    inside = Path(ground["run"]) / ground["key"] / "net" / place
    done = subprocess.run(["nsenter", f"--net={inside}", "--", *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def node_of(world, allocation):
    return json.loads(world.said("-o", "json", "node", "get", allocation["node_id"]))["name"]


def answers(project, here, there):
    got = project.exec(here, *page(there, 1))
    assert got.returncode == 0, got


def cells_find_each_other_again(world, project):
    nodes = {}
    for name in ("a", "b"):
        nodes[name] = node_of(world, project.allocate(name, gpus="1"))
        project.cell(name, name, world.spec(**web(name)))
    assert nodes["a"] != nodes["b"], nodes
    eventually(lambda: answers(project, "a", "b"))
    with cut(world, nodes["b"], "link"):
        lost = project.exec("a", *page("b", 1))
        assert lost.returncode not in (0, 255), f"there is another way: {lost}"
    eventually(lambda: answers(project, "a", "b"), CONVERGES)
    project.release("a")
    project.release("b")


def a_stale_copy_is_gone_before_its_sandbox_is_recreated(world, project):
    lost = project.allocate("lost", gpus="8")
    node = node_of(world, lost)
    service = {"name": "wait", "command": ["/bin/busybox", "sleep", STALE]}
    project.cell("lost", "lost", world.spec(services=[service]))
    # The other node has too little left for the request below.
    project.allocate("other", gpus="1")
    pid = stale_copy()
    asks = ("allocation", "create", "next", "--gpus", "8", "--memory-mb", "256", "--disk-mb", "64")
    with ThreadPoolExecutor(2) as pool:
        with cut(world, node, "link"):
            eventually(lambda: is_in(world, node, "unreachable"))
            released = pool.submit(project.release, "lost")
            eventually(lambda: attested(world, project))
            released.result(CONVERGES)
            gone = json.loads(project.said("-o", "json", "allocation", "get", lost["id"]))
            assert (gone["state"], gone["evidence"]) == ("released", "attested"), gone
            refused = project.muster(*asks, "--wait", "--timeout", "20s")
            assert refused.returncode != 0, f"given although somebody may still be there: {refused}"
            granted = pool.submit(project.said, *asks, "--wait-until", "10m", "--wait", "--timeout", "60s")
            time.sleep(2)
            assert not granted.done(), granted
            assert stale_copy() == pid, "what nobody can reach was ended by somebody"
            written = len(journal(world, node))
        granted.result(CONVERGES + 10)
    assert not stale_copies(), "granted while the stale copy was there"
    # First the removal of the stale copy, then the promised wipe, and only then another allocation's.
    since = journal(world, node)[written:]
    first = since[0]
    assert (first["kind"], first["allocation_id"], first.get("task_id")) == ("destroy", lost["id"], None), since
    order = [(line["kind"], line["what"]) for line in since]
    assert order.index(("destroy", "done")) < order.index(("wipe", "done")) < order.index(("prepare", "begun")), order
    project.release("next")
    project.release("other")


def is_in(world, node, state):
    seen = json.loads(world.said("-o", "json", "node", "get", node))
    assert seen["state"] == state, seen


def attested(world, project):
    """The operator's word, which is taken as soon as the release waits for the node."""
    words = ("allocation", "attest", "lost", "--statement", "it was powered off")
    word = world.muster(*words, project=project.project["id"])
    assert word.returncode == 0, word


def stale_copies():
    return [pid for pid, line in snapshot.processes().items() if line == f"/bin/busybox sleep {STALE}"]


def stale_copy():
    found = stale_copies()
    assert len(found) == 1, found
    return found[0]


def journal(world, node):
    file = world.data / "nodes" / node / "driver" / "journal.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]
