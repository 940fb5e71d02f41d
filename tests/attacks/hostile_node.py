"""A hostile node: an attacker with one machine's key."""

import base64
import contextlib
import http.client
import json
import os
import subprocess
import time
import uuid

from content import repository
from python_node import Node
from testbed import AttackSucceeded, NotRun
from wire import Wire

from platform_under_test import ROOT

REFUSED = (400, 401, 403, 404, 409)
HONEST, HOSTILE = "127.0.0.11", "127.0.0.12"


def eventually(holds, seconds=15):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.1)


def placed(testbed, of, name, spec, on, other):
    """A cell of this tenant on this very node; its row."""
    testbed.node_command(other.id, "cordon", {})
    try:
        asked = {"name": name, "cpus": 1, "memory_mb": 64, "disk_mb": 64}
        operation = testbed.command(of, "allocations", asked)["operation"]
        ended = testbed.operation_end(of, operation, 30)
        assert ended["state"] == "succeeded", ended
        cell = testbed.command(of, "cells", {"name": name, "allocation": name, "spec": spec})["operation"]
        ended = testbed.operation_end(of, cell, 30)
        assert ended["state"] == "succeeded", ended
    finally:
        testbed.node_command(other.id, "uncordon", {})
    assert cell["subject_id"] in on.cells, f"{name} is not on {on.name}"
    return testbed.server.call("GET", f"/v1/projects/{of['project']['id']}/cells/{name}", token=of["token"])


class Scene:
    """Two nodes and two tenants. The first tenant has a cell on each node, the second one on the honest node alone."""

    def __init__(self, testbed):
        self.testbed, self.ours, self.theirs = testbed, testbed.attacker, testbed.bystander
        self.canary = f"canary-{uuid.uuid4().hex}"
        self.honest = Node(testbed, "honest", HONEST).join().serve()
        self.hostile = Node(testbed, "hostile", HOSTILE).join().serve()
        for of in (self.ours, self.theirs):
            testbed.command(of, "secrets", {"name": "key", "value": f"{self.canary}-{of['tenant']['slug']}"})
            testbed.server.call("PATCH", f"/v1/projects/{of['project']['id']}/trust-policy", {"unsigned_up_to": "active"},
                                token=of["token"])
            wire = Wire(testbed.server.port, of["token"])
            of["digest"], _ = wire.image(repository(of, "app"), "v1", [f"layer of {of['tenant']['slug']}".encode()])
            self.activate(of)
        spec = {"secrets": [{"secret": "key", "file": "key"}]}
        image = lambda of: {"root": {"image": of["digest"]}, **spec}
        self.mine = placed(testbed, self.ours, "mine", image(self.ours), self.hostile, self.honest)
        self.sibling = placed(testbed, self.ours, "sibling", image(self.ours), self.honest, self.hostile)
        self.foreign = placed(testbed, self.theirs, "foreign", image(self.theirs), self.honest, self.hostile)

    def activate(self, of):
        path = f"/v1/projects/{of['project']['id']}/artifacts"
        made = next(item for item in self.testbed.server.call("GET", path, token=of["token"])["items"] if item["digest"] == of["digest"])
        for state in ("staged", "canary", "active"):
            percent = {"percent": 5} if state == "canary" else {}
            self.testbed.server.call("POST", f"{path}/{made['id']}/promote", {"to": state, "reason": "it is good", **percent},
                                     token=of["token"])

    def refused(self, what, status, text, expected=REFUSED):
        text = text if isinstance(text, bytes) else str(text).encode()
        assert status in expected, f"{what}: {status} {text[:300]!r}"
        for word in (self.canary, self.foreign["id"], self.foreign["name"], self.theirs["tenant"]["slug"], self.theirs["digest"]):
            # The response may repeat ids that the node sent, and nothing else of the other tenant.
            assert word.encode() not in text or word in what, f"{what}: {word} is in the answer {text[:500]!r}"

    def stop(self):
        self.hostile.stop()
        self.honest.stop()


def secrets(scene):
    """Secrets and pull tokens of cells on another node, of other incarnations, of files that are none."""
    status, value = scene.hostile.secret(scene.mine["id"], scene.mine["incarnation"], {"file": "key"})
    assert status == 200 and scene.canary.encode() in value, f"the node's own cell: {status}"  # the control
    for cell in (scene.sibling, scene.foreign):
        for what in ({"file": "key"}, "artifact_pull"):
            for incarnation in (cell["incarnation"], cell["incarnation"] + 1, 0):
                scene.refused(f"secret of {cell['id']}", *scene.hostile.secret(cell["id"], incarnation, what), (404,))
    for name in ("../key", "other", "key/../key", ""):
        scene.refused("another file", *scene.hostile.secret(scene.mine["id"], scene.mine["incarnation"], {"file": name}))
    scene.refused("another incarnation",
                  *scene.hostile.secret(scene.mine["id"], scene.mine["incarnation"] + 1, {"file": "key"}), (404,))
    # A cell that does not exist is answered as one that is elsewhere.
    absent = scene.hostile.secret("cel_01h455vb4pex5vsknk084sn02q", 1, "artifact_pull")
    there = scene.hostile.secret(scene.foreign["id"], scene.foreign["incarnation"], "artifact_pull")
    assert absent[0] == there[0] and json.loads(absent[1])["detail"] == json.loads(there[1])["detail"], (absent, there)


def pull_tokens(scene):
    """The node's right to pull, used where it is not meant for."""
    status, token = scene.hostile.secret(scene.mine["id"], scene.mine["incarnation"], "artifact_pull")
    assert status == 200, token
    held = {"Authorization": f"Bearer {token.decode()}"}
    mine = f"/v2/{repository(scene.ours, 'app')}/manifests/{scene.ours['digest']}"
    theirs = f"/v2/{repository(scene.theirs, 'app')}/manifests/{scene.theirs['digest']}"
    assert scene.hostile.ask("GET", mine, headers=held)[0] == 200, "the control"
    wire = Wire(scene.testbed.server.port, token.decode())
    for what, got in (("public listener", wire.ask("GET", mine)), ("public listener, API", wire.ask("GET", "/v1/whoami")),
                      ("public listener, others", wire.ask("GET", theirs))):
        scene.refused(what, got.status, got.body, (401, 403, 404))
    status, _, text = scene.hostile.ask("GET", theirs, headers=held)
    scene.refused(f"others' repository {theirs}", status, text, (401, 403, 404))
    # With another node's certificate the right is worth nothing.
    status, _, text = scene.hostile.ask("GET", mine, headers=held, certificate=scene.honest.certificate, key=scene.honest.key)
    scene.refused("the right of another node's cell", status, text, (401, 403, 404))
    # Nor is a right of the honest node's cell that was stolen there, although the cell is of the same project; nor without a certificate.
    status, stolen = scene.honest.secret(scene.sibling["id"], scene.sibling["incarnation"], "artifact_pull")
    assert status == 200, stolen
    taken = {"Authorization": f"Bearer {stolen.decode()}"}
    assert scene.honest.ask("GET", mine, headers=taken)[0] == 200, "the control"
    status, _, text = scene.hostile.ask("GET", mine, headers=taken)
    scene.refused("a right that was stolen on another node", status, text, (401, 403, 404))
    for right in (held, taken):
        bare = scene.hostile.connect()
        bare.request("GET", mine, headers=right)
        answer = bare.getresponse()
        scene.refused("a right without a certificate", answer.status, answer.read(), (401,))
        bare.close()
    for method, path in (("PUT", mine), ("DELETE", mine), ("POST", f"/v2/{repository(scene.ours, 'app')}/blobs/uploads/")):
        status, _, text = scene.hostile.ask(method, path, {}, headers=held)
        scene.refused(f"{method} to the registry", status, text, (401, 403, 404, 405))


def tasks_and_reports(scene):
    """Reports on tasks of another node, observations of its cells, polls in its session."""
    task = next(task for task in scene.honest.tasks if task["act"]["kind"] == "cell_create")
    report = {"task_id": task["id"], "incarnation": task["incarnation"], "generation": task["generation"] + 1, "ending": "failed",
              "findings": {"present": False, "incarnation": 0, "devices": [], "residue": [],
                           "amount": {"cpus": 0, "memory_mb": 0, "disk_mb": 0}}}
    for generation in (task["generation"], task["generation"] + 1):
        said = scene.hostile.say("report", {"session": scene.hostile.session, "reports": [{**report, "generation": generation}]})
        assert said["refused"] == [task["id"]], said
    for cell in (scene.foreign, scene.sibling):
        observed = {"cell": {"allocation_id": cell["allocation_id"], "cell_id": cell["id"], "incarnation": cell["incarnation"]},
                    "alive": False, "boot_id": "x", "services": []}
        said = scene.hostile.say("observe", {"session": scene.hostile.session, "cells": [observed]})
        assert said["refused"] == [cell["id"]], said
    for verb, body in (("poll", {"wait_seconds": 0}), ("report", {"reports": []}), ("observe", {"cells": []}),
                       ("inventory", {"inventory": scene.hostile.inventory}),
                       ("secret", {"cell_id": scene.foreign["id"], "incarnation": 1, "what": "artifact_pull"})):
        for session in (scene.hostile.session + 1, -1):
            status, _, text = scene.hostile.ask("POST", f"/node/v1/{verb}", {"session": session, **body})
            scene.refused(f"{verb} of {scene.foreign['id']} in another session", status, text)
    # Cells of other nodes that a hello claims stay their nodes': here they are orphans to destroy.
    with scene.hostile.lock:
        claimed = {"allocation_id": scene.foreign["allocation_id"], "cell_id": scene.foreign["id"],
                   "incarnation": scene.foreign["incarnation"]}
        own = [{"allocation_id": cell["allocation_id"], "cell_id": cell_id, "incarnation": cell["incarnation"]}
               for cell_id, cell in scene.hostile.cells.items()]
        places = [{"allocation_id": allocation, "incarnation": place["incarnation"]}
                  for allocation, place in scene.hostile.sandboxes.items()]
        welcome = scene.hostile.say("hello", {
            "agent_version": "0.0.1", "inventory": scene.hostile.inventory, "address": HOSTILE,
            "sandboxes": [*places, {"allocation_id": scene.foreign["allocation_id"], "incarnation": 1}], "cells": [*own, claimed]})
        scene.hostile.session = welcome["session"]
    assert scene.foreign["allocation_id"] in [place["allocation_id"] for place in welcome["stale_allocations"]], welcome
    scene.hostile.hello()
    # Nothing of all this was believed.
    for of, name in ((scene.theirs, "foreign"), (scene.ours, "sibling")):
        cell = scene.testbed.server.call("GET", f"/v1/projects/{of['project']['id']}/cells/{name}", token=of["token"])
        assert cell["state"] == "running", cell
    for task in scene.hostile.tasks:
        cell = (task["act"].get("cell") or {}).get("cell_id")
        assert cell in (None, scene.mine["id"]), f"a task about {cell} came to the hostile node"


def streams(scene):
    """The hostile node joins a stream that was requested to another node's cell."""
    of = scene.theirs
    made = scene.testbed.command(of, "cells/foreign/streams", {"command": {"command": ["id"]}})
    stream = made.get("id") or made["stream"]["id"]
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode()}
    # The tenant waits at its end, so that there is something to take.
    waiting = http.client.HTTPConnection("127.0.0.1", scene.testbed.server.port, timeout=30)
    waiting.request("GET", f"/v1/streams/{stream}", headers={**upgrade, "Authorization": f"Bearer {of['token']}"})
    try:
        for _ in range(3):
            status, _, text = scene.hostile.ask("GET", f"/node/v1/streams/{stream}", headers=upgrade)
            scene.refused("another node's stream", status, text, (404,))
            time.sleep(0.3)
    finally:
        waiting.close()


def certificates(scene):
    """Certificates for another node: by renewal, by the subject of a request, at the public listener, by a used token."""
    name = scene.honest.name
    key, request = scene.hostile.request_of("other", f"/CN={scene.honest.id}/O={name}")
    renewed = scene.hostile.say("renew", {"csr": request})
    file = scene.hostile.folder / "other.crt"
    file.write_text(renewed["certificate"])
    before = scene.testbed.server.call("GET", f"/v1/nodes/{scene.honest.id}")
    with scene.hostile.lock:
        scene.hostile.certificate, scene.hostile.key = file, key
    # It names the hostile node whatever the request: the sessions are its own, and the honest node's continues.
    scene.hostile.hello()
    status, value = scene.hostile.secret(scene.foreign["id"], scene.foreign["incarnation"], {"file": "key"})
    scene.refused(f"secret of {scene.foreign['id']} after a renewal", status, value, (404,))
    with scene.honest.lock:
        scene.honest.poll_once()
    after = scene.testbed.server.call("GET", f"/v1/nodes/{scene.honest.id}")
    assert before["certificate_until"] == after["certificate_until"], (before, after)
    for token in ("", "mst_join_wrong", "x" * 200):
        status, _, text = scene.hostile.ask("POST", "/node/v1/join", {
            "token": token, "csr": request, "name": name, "agent_version": "0", "inventory": scene.hostile.inventory})
        scene.refused("join without a token", status, text, (400, 401, 429))
    # A name that is taken is not had by asking for it.
    enrolment = scene.testbed.server.call("POST", "/v1/nodes/enrol", {"name": "third"})
    status, _, text = scene.hostile.ask("POST", "/node/v1/join", {
        "token": enrolment["token"], "csr": request, "name": name, "agent_version": "0", "inventory": scene.hostile.inventory})
    assert status != 200 or json.loads(text)["name"] == "third", text
    # The certificate is no credential of the API's, and the API's credentials are none of a node's.
    for path in ("/v1/whoami", "/v1/nodes", "/metrics", "/openapi.json"):
        status, _, text = scene.hostile.ask("GET", path)
        scene.refused(f"{path} at the nodes' listener", status, text, (401, 404))
    context = scene.hostile.connect()
    context.request("POST", "/node/v1/poll", json.dumps({"session": 1, "wait_seconds": 0}),
                    {"Content-Type": "application/json", "Authorization": f"Bearer {scene.testbed.server.operator_token()}"})
    answer = context.getresponse()
    scene.refused("an operator's token instead of a certificate", answer.status, answer.read(), (401,))
    context.close()


def large_claims(scene):
    """Requests of a node of the maximum size, repeatedly: sandboxes, cells, notes and observations of unknown objects."""
    ids = [f"{number:026d}" for number in range(10_000)]
    base = {"agent_version": "0.0.1", "address": HOSTILE}
    bodies = (
        ("hello", {**base, "inventory": scene.hostile.inventory, "cells": [],
                   "sandboxes": [{"allocation_id": f"alc_{number}", "incarnation": 1} for number in ids]}),
        ("hello", {**base, "inventory": {**scene.hostile.inventory, "notes": ["x" * 1000] * 3000}, "cells": [], "sandboxes": []}),
        ("observe", {"session": scene.hostile.session, "cells": [
            {"cell": {"allocation_id": f"alc_{number}", "cell_id": f"cel_{number}", "incarnation": 1}, "alive": False, "boot_id": "x",
             "services": []} for number in ids[:2000]]}),
    )
    found = {}
    for verb, body in bodies * 3:
        status, _, text = scene.hostile.ask("POST", f"/node/v1/{verb}", body)
        found[status] = found.get(status, 0) + 1
        assert status in (200, 400, 409, 413, 429), (verb, status, text[:300])
    scene.testbed.note(f"large claims: {found}")
    scene.hostile.hello()


CHECKS = (secrets, pull_tokens, tasks_and_reports, streams, certificates, large_claims)


def hostile_node(testbed):
    """A node requests objects of another node and of other tenants. All checks run, so that one run reports all faults."""
    scene, faults = Scene(testbed), []
    try:
        with testbed.bystanders():
            for check in CHECKS:
                try:
                    check(scene)
                except Exception as error:  # noqa: BLE001
                    faults.append(f"{check.__name__}: {type(error).__name__}: {error}")
    finally:
        scene.stop()
    testbed.note(f"{len(CHECKS) - len(faults)} of {len(CHECKS)} checks held")
    assert not faults, "\n".join(faults)


def false_address(testbed):
    """A hello with another machine's address: neighbours of a network must not send their packets there, nor accept any from it."""
    scene, stolen = Scene(testbed), "192.0.2.66"
    try:
        eventually(lambda: scene.honest.neighbours().get(scene.mine["id"]) == HOSTILE)
        assert scene.foreign["id"] not in scene.hostile.neighbours(), "a neighbour of another tenant's network"
        for address in (stolen, HONEST, "0.0.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1", "not an address"):
            # The hello may be rejected; then the node continues in its old session.
            with contextlib.suppress(AssertionError):
                scene.hostile.hello(address=address)
            time.sleep(1)
            told = scene.honest.neighbours()
            if told.get(scene.mine["id"]) != HOSTILE:
                raise AttackSucceeded(f"the false address {address} was passed on to neighbours: {told}")
            assert told[scene.sibling["id"]] == told[scene.foreign["id"]] == HONEST, told
            if address == stolen:
                # The operator learns of it, and the address that is used stays until they approve another one.
                node = testbed.server.call("GET", f"/v1/nodes/{scene.hostile.id}")
                found = (node["address"], node["reported_address"], node["needs_approval"])
                assert found == (HOSTILE, stolen, True), node
                changed = [event for event in testbed.server.call("GET", "/v1/events?event_type=dev.muster.node.address_changed.v1")["items"]
                           if scene.hostile.id in event["subject"]]
                assert changed, "no event says that the node reports another address"
        assert testbed.server.call("GET", f"/v1/nodes/{scene.honest.id}")["address"] == HONEST
    finally:
        scene.stop()


def shared_files(testbed):
    """Root on one node attacks another one through the file system that both share; with a real agent, on a platform of its own."""
    if os.geteuid() != 0:
        raise NotRun("real cells need root")
    ended = subprocess.run([ROOT / "tests/alone", "python3", "tests/attacks/shared_files.py"], capture_output=True, text=True, timeout=400,
                           env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    for line in ended.stdout.splitlines():
        print(f"         {line}", flush=True)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"


ATTACKS = (hostile_node, false_address, shared_files)
