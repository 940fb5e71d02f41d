"""Attacks on a node that two tenants share, through what the server sends to its agent."""

import base64
import struct
import threading
import time
import uuid

from platform_under_test import Refused


def rsa_key(length):
    """A public key of this many bytes, without a private half."""
    fields = (b"ssh-rsa", b"\x01\x00\x01", b"\x00\xc1" + bytes(length))
    return "ssh-rsa " + base64.b64encode(b"".join(struct.pack(">I", len(field)) + field for field in fields)).decode()


def allocation(testbed, of, name, seconds=45):
    """An allocation on the one node there is; active within this time."""
    asked = {"name": name, "cpus": 1, "memory_mb": 64, "disk_mb": 64}
    operation = testbed.command(of, "allocations", asked)["operation"]
    ended = testbed.operation_end(of, operation, seconds)
    assert ended["state"] == "succeeded", f"{name} is {ended['state']} after {seconds} s: {ended}"
    return operation["subject_id"]


def node_stays_in_use(testbed, nodes=1, others=()):
    """The other tenant's work continues during the attack, on this many nodes; the others are the attacker's."""
    began = time.monotonic()
    for number in range(3):
        made = allocation(testbed, testbed.bystander, f"mine-{uuid.uuid4().hex[:6]}")
        asked = {"name": f"cell-{number}", "allocation": made, "spec": {"root": {"host": ["/usr"]}}}
        operation = testbed.command(testbed.bystander, "cells", asked)["operation"]
        ended = testbed.operation_end(testbed.bystander, operation, 45)
        assert ended["state"] == "succeeded", ended
    testbed.note(f"3 allocations with cells in {time.monotonic() - began:.1f} s")
    found = [node for node in testbed.server.call("GET", "/v1/nodes")["items"] if node["name"] not in others]
    assert [node["state"] for node in found] == ["ready"] * nodes, found


def ssh_keys(testbed):
    """As many and as large SSH keys as a person may have, in many cells of one node."""
    testbed.agent()
    of, refusals, taken = testbed.attacker, {}, 0
    allocation(testbed, of, "box")
    with testbed.bystanders():
        for number in range(16):
            spec = {"root": {"host": ["/usr"]}, "people": True}
            testbed.command(of, "cells", {"name": f"people-{number}", "allocation": "box", "spec": spec})
        for number in range(60):
            # Keys that are too large are refused; of those that fit, there are 20 for a person.
            length = 5000 if number % 3 == 2 else 600 + number
            try:
                testbed.command(of, "ssh-keys", {"name": f"key-{number}", "public_key": rsa_key(length)})
                taken += 1
            except Refused as refused:
                refusals[refused.status] = refusals.get(refused.status, 0) + 1
        node_stays_in_use(testbed)
    testbed.note(f"{taken} keys taken, refused: {refusals}")
    assert 0 < taken <= 20 and set(refusals) <= {400, 409, 429}, (taken, refusals)


def large_cells(testbed):
    """Cells with the largest specification that is taken, all at once, toward one node; and some that are larger."""
    # The simulated agent holds what a real one has on its disk: every cell of every node that it plays.
    testbed.agent_most_mb = 256
    testbed.agent()
    of, answers = testbed.attacker, []
    allocation(testbed, of, "box")

    def create(number):
        environment = {f"V{part}": "x" * 30_000 for part in range(30 if number % 6 == 5 else 4)}
        files = [{"path": f"/etc/large-{part}", "text": "x" * 250_000} for part in range(2)]
        spec = {"root": {"host": ["/usr"]}, "environment": environment, "files": files if number % 6 != 5 else []}
        asked = {"name": f"large-{number}", "allocation": "box", "spec": spec}
        try:
            testbed.command(of, "cells", asked)
            answers.append(202)
        except Refused as refused:
            answers.append(refused.status)

    with testbed.bystanders():
        for wave in range(5):
            creators = [threading.Thread(target=create, args=(wave * 12 + number,), daemon=True) for number in range(12)]
            for creator in creators:
                creator.start()
            for creator in creators:
                creator.join()
        node_stays_in_use(testbed)
        # Reading all of them at once does not cost the server its memory either.
        status, _, text = testbed.server.request("GET", f"/v1/projects/{of['project']['id']}/cells?page_size=200", token=of["token"])
        assert status == 200 and len(text) < 6 << 20, (status, len(text))
    testbed.note(f"{answers.count(202)} of {len(answers)} taken")
    assert answers.count(202) > 0 and answers.count(400) == 10 and set(answers) <= {202, 400, 413, 429}, answers


def queued_operations(testbed):
    """Hundreds of operations on one node are accepted from one tenant before another tenant requests one."""
    testbed.agent()
    of, accepted, lock = testbed.attacker, [], threading.Lock()
    boxes = [f"box-{number}" for number in range(8)]
    for box in boxes:
        allocation(testbed, of, box)

    def flood(box):
        for number in range(60):
            asked = {"name": f"{box}-{number}", "allocation": box, "spec": {"root": {"host": ["/usr"]}}}
            testbed.command(of, "cells", asked)
            with lock:
                accepted.append(number)

    with testbed.bystanders():
        flooders = [threading.Thread(target=flood, args=(box,), daemon=True) for box in boxes]
        for flooder in flooders:
            flooder.start()
        for flooder in flooders:
            flooder.join()
        waiting = len(accepted) - len([cell for cell in cells(testbed, of) if cell["state"] == "running"])
        began = time.monotonic()
        allocation(testbed, testbed.bystander, "one", seconds=30)
        taken = time.monotonic() - began
    testbed.note(f"{len(accepted)} accepted, {waiting} of them under way, the other tenant's one took {taken:.1f} s")


def cells(testbed, of):
    """Every cell of the project."""
    items, path = [], f"/v1/projects/{of['project']['id']}/cells?page_size=200"
    page = testbed.server.call("GET", path, token=of["token"])
    items += page["items"]
    while page.get("next_page_token"):
        page = testbed.server.call("GET", f"{path}&page_token={page['next_page_token']}", token=of["token"])
        items += page["items"]
    return items


ATTACKS = (ssh_keys, large_cells, queued_operations)
