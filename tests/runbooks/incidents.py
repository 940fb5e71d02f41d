"""The troubles of the runbooks, really made; and what must be true when the runbook was followed to its end.

Each is a generator: it makes the trouble, yields before each block that is run, and looks at the end whether the trouble is gone. One
that has nothing to do between its blocks yields `ALL` once.
"""

import json

from trouble import until

ALL = "all blocks"


def an_artifact_is_refused(world):
    """An unsigned image was pushed, and does not get beyond staged."""
    world.image("train/base", "2.1", "train")
    world.ada("key", "generate", "release.pem")
    world.ada("key", "create", "release", "--file", "release.pem.pub", "--project", "acme.train")
    world.forward("artifact", "train/base:2.1", to="staged", project="acme.train")
    refused = world.run("ada", "artifact", "promote", "train/base:2.1", "--to", "canary", "--reason", "now", "--project", "acme.train")
    assert refused.returncode != 0 and "it has no signature" in refused.stderr, refused
    yield ALL
    found = world.json("ada", "artifact", "get", "train/base:2.1", "--project", "acme.train")
    assert found["state"] == "canary", found


def a_release_is_refused(world):
    """The artifact of a release is a draft, and so the release stays one."""
    world.on_the_shelf()
    digest = world.image("fake/next", "2")
    world.sign("fake/next:2")
    manifest = json.loads((world.folder / "manifest.json").read_text())
    manifest["version"] = "2.0.0"
    manifest["artifacts"][0].update(repository="fake/next", digest=digest)
    (world.folder / "manifest.json").write_text(json.dumps(manifest))
    world.ada("app-version", "publish", "notebook", "--file", "manifest.json", "--project", "acme.apps")
    yield ALL
    found = world.json("ada", "app-version", "get", "notebook", "2.0.0", "--project", "acme.apps")
    assert found["state"] == "staged", found


def an_app_is_not_in_the_catalog(world):
    """It is hidden, and no release of it is active."""
    world.on_the_shelf_hidden()
    # The publisher's own project finds it, and needs the same consent.
    asked = world.json("ada", "entitlement", "grant", "notebook", "--dry-run", "--project", "acme.apps")["permissions"]
    world.names["--consent PERMISSION"] = " ".join(f"--consent {permission}" for permission in asked)
    yield ALL
    shown = world.json("ada", "entitlement", "list", "--project", "acme.train")["items"]
    assert len(shown) == 1, shown


def an_instance_is_stuck(world):
    """Its adapter reports a broken unit as working; then a drain that never ends blocks its decommission."""
    world.on_the_shelf()
    world.entitle()
    world.start_adapter()
    world.ada("instance", "create", "notebook", "--name", "lab", "--set", "unit=1", "--project", "acme.train", "--wait", "--timeout", "60s")
    world.ada("member", "drain", "lab", "lab-unit-1", "--project", "acme.train", "--wait", "--timeout", "60s")
    world.start_adapter(FAKE_LIE="resume")
    world.ada("member", "resume", "lab", "lab-unit-1", "--project", "acme.train")
    blocked = until(lambda: blocked_part(world), 60)
    world.names["op_…"] = blocked
    yield
    yield  # the member itself
    world.start_adapter(FAKE_STUBBORN="drain")
    yield  # retried
    world.ada("instance", "decommission", "lab", "--project", "acme.train")
    until(lambda: draining(world))
    world.start_adapter(FAKE_STUBBORN="drain")
    yield  # forced
    found = world.json("ada", "instance", "get", "lab", "--project", "acme.train")
    assert found["state"] == "stopped", found


def an_instance_is_not_healthy(world):
    """The cell of a member ends; then, with all repairs spent, that of the hub, and the instance fails."""
    world.on_the_shelf(repair={"mode": "propose", "most": 0})
    world.entitle()
    world.start_adapter()
    world.ada("instance", "create", "notebook", "--name", "lab", "--set", "unit=1", "--project", "acme.train", "--wait", "--timeout", "60s")
    end_cell(world, "lab-unit-1")
    until(lambda: member(world, "lab-unit-1")["state"] == "failed")
    found = member(world, "lab-unit-1")
    assert (found["health"], found["failure_reason"]) == ("unhealthy", "cell_ended"), found
    yield
    yield  # recovered
    until(lambda: (member(world, "lab-unit-1")["state"], member(world, "lab-unit-1")["health"]) == ("active", "healthy"))
    until(lambda: instance(world)["health"] == "healthy")
    world.ada("instance", "update", "lab", "--repair", "automatic", "--project", "acme.train")
    end_cell(world, "lab-hub-1")
    until(lambda: instance(world)["state"] == "failed")
    assert instance(world)["reason"] == "repairs_exhausted", instance(world)
    yield
    assert instance(world)["state"] == "stopped", instance(world)


def instance(world):
    return world.json("ada", "instance", "get", "lab", "--project", "acme.train")


def member(world, name):
    return world.json("ada", "member", "get", "lab", name, "--project", "acme.train")


def end_cell(world, name):
    answer = world.agents.tell(f"kill * {member(world, name)['cell_id']}")
    assert answer.startswith("ok"), answer


def blocked_part(world):
    """Returns the blocked operation on the member itself."""
    found = world.json("ada", "operation", "list", "--state", "blocked", "--project", "acme.train")["items"]
    return next((operation["id"] for operation in found if operation["kind"].startswith("member.")), None)


def draining(world):
    found = world.json("ada", "member", "list", "lab", "--project", "acme.train")["items"]
    return any(member["state"] == "draining" for member in found)


def a_platforms_app_is_stuck(world):
    """No adapter runs."""
    world.on_the_shelf()
    world.entitle()
    world.adapter_token()
    account = world.json("ada", "service-account", "get", "adapter", "--project", "acme.apps")["id"]
    world.ada("instance", "create", "notebook", "--name", "lab", "--set", "unit=1", "--project", "acme.train")
    created = world.json("ada", "operation", "list", "--project", "acme.train")["items"]
    world.names["op_…"] = next(operation["id"] for operation in created if operation["kind"] == "instance.create")
    world.names["SERVICE_ACCOUNT"] = account
    until(lambda: "no adapter has leased" in world.operator("operation", "list", "--platform", "--all"), 60)
    yield
    yield  # its account and its token
    yield  # another token
    world.start_adapter()
    yield  # it continues
    yield  # the operator's permissions
    found = world.json("ada", "instance", "get", "lab", "--project", "acme.train")
    assert found["state"] == "running", found


def usage_does_not_add_up(world):
    """An allocation was created by hand and never released."""
    world.ada("allocation", "create", "a1", "--gpus", "2", "--project", "acme.train", "--wait", "--timeout", "60s")
    world.names["alc_…"] = world.json("ada", "allocation", "get", "a1", "--project", "acme.train")["id"]
    yield ALL
    found = world.json("ada", "allocation", "get", world.names["alc_…"], "--project", "acme.train")
    assert found["state"] == "released", found


def nothing_gets_placed(world):
    """Both nodes are cordoned, and a request is queued."""
    node = cordoned(world)
    world.ada("allocation", "create", "a1", "--gpus", "4", "--wait-until", "10m", "--project", "acme.train")
    world.names["gpu-17"] = node
    yield ALL
    until(lambda: world.json("ada", "allocation", "get", "a1", "--project", "acme.train")["state"] == "active")


def cordoned(world):
    """All nodes; the name of one."""
    nodes = [node["name"] for node in world.json("operator", "node", "list")["items"]]
    for node in nodes:
        world.operator("node", "cordon", node, "--reason", "a trial")
    return nodes[0]


def a_node_is_unreachable(world):
    """Its cable is cut."""
    world.names["gpu-17"] = node = world.json("operator", "node", "list")["items"][0]["name"]
    assert world.agents.tell(f"partition {node}").startswith("ok")
    until(lambda: world.json("operator", "node", "get", node)["state"] == "unreachable")
    yield ALL
    assert world.agents.tell(f"heal {node}").startswith("ok")
    until(lambda: world.json("operator", "node", "get", node)["state"] == "ready")


def a_slot_is_quarantined(world):
    """An operator did it."""
    world.names["gpu-17"] = node = world.json("operator", "node", "list")["items"][0]["name"]
    slot = world.json("operator", "slot", "list", node)["items"][0]["id"]
    world.operator("slot", "quarantine", slot, "--reason", "it is hot")
    yield ALL


def an_operation_is_blocked(world):
    """A node fails to wipe released resources."""
    world.ada("allocation", "create", "a1", "--gpus", "1", "--project", "acme.train", "--wait", "--timeout", "60s")
    assert world.agents.tell("fail * 1").startswith("ok")
    world.ada("allocation", "release", "a1", "--project", "acme.train")
    found = until(lambda: world.json("operator", "operation", "list", "--platform", "--state", "blocked")["items"], 60)
    world.names["op_…"] = found[0]["id"]
    assert world.agents.tell("fail * 0").startswith("ok")
    yield ALL
    until(lambda: world.json("operator", "operation", "get", world.names["op_…"])["state"] == "succeeded", 60)


INCIDENTS = (an_artifact_is_refused, a_release_is_refused, an_app_is_not_in_the_catalog, an_instance_is_stuck,
             an_instance_is_not_healthy, a_platforms_app_is_stuck, usage_does_not_add_up, nothing_gets_placed, a_node_is_unreachable, a_slot_is_quarantined,
             an_operation_is_blocked)
