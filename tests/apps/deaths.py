"""Adapters that die, and machines that do."""

import json

from shop import Adapter, Instance, until


def adapter_dies(world):
    """An adapter that dies in the middle loses its lease; another takes over with a higher generation."""
    shop = world.shop
    instance = Instance(shop, "mortal")
    counter = shop.folder / "deaths"
    dying = Adapter(shop, "dying", FAKE_DIE_AT="join:after", FAKE_DIE_TIMES="1", FAKE_DIE_FILE=str(counter))
    other = None
    try:
        created = instance.create(units=1)
        until("it died", lambda: dying.process.poll() is not None)
        other = Adapter(shop, "other")
        ended = instance.end(created, seconds=90)
        assert ended["state"] == "succeeded", json.dumps(ended, indent=1)
        steps = shop.server.call("GET", f"/v1/projects/{shop.consumer}/adapter-steps?page_size=200&instance=mortal", token=shop.token)["items"]
        assert max(step["generation"] for step in steps) >= 2, steps
    finally:
        dying.stop()
        if other:
            other.stop()


def stale_copy(world):
    """A node is cut off, its member replaced, the node healed: the old one can do nothing, and is destroyed."""
    shop, server = world.shop, world.shop.server
    adapter = Adapter(shop)
    instance = Instance(shop, "haunted")
    try:
        # Each on a whole machine, so that one can be lost without the other.
        instance.launched(units=1, shape="baremetal")
        unit = next(m for m in instance.members(component="unit"))
        node = server.call("GET", f"/v1/nodes/{unit['node_id']}")["name"]
        hub = next(m for m in instance.members(component="hub"))
        assert hub["node_id"] != unit["node_id"], "the test needs them apart"
        world.agents.tell(f"partition {node}")
        until("unreachable", lambda: server.call("GET", f"/v1/nodes/{unit['node_id']}")["state"] == "unreachable")
        replaced = instance.end(instance.member("replace", members=[unit["name"]], force=True), seconds=90)
        assert replaced["state"] == "succeeded", json.dumps(replaced, indent=1)
        old = next(m for m in instance.members() if m["name"] == unit["name"])
        assert old["state"] == "removing" and old["fenced"], old
        new = next(m for m in instance.members() if m["name"] == "haunted-unit-2")
        assert new["state"] == "active", new
        world.agents.tell(f"heal {node}")
        until("removed", lambda: all(m["name"] != unit["name"] for m in instance.members()), seconds=60)
        gone = next(m for m in instance.members(state="removed") if m["name"] == unit["name"])
        assert gone["removed_witness_id"], gone
        instance.end(instance.act("decommission"), seconds=90)
        world.nothing_left()
    finally:
        adapter.stop()
