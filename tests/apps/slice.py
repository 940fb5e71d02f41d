"""An app from the catalog to running and back to nothing, with an adapter that does its work."""

import json

from shop import PYTHON, Adapter, Instance, PythonAdapter, Shop


def works(world):
    """Launched, grown, drained, resumed, replaced, upgraded, rolled back, shrunk, decommissioned: each step witnessed."""
    shop = world.shop
    adapter = Adapter(shop)
    instance = Instance(shop, "one")
    try:
        instance.launched(units=2)
        found = instance.get()
        assert (found["state"], found["health"]) == ("running", "healthy"), found
        assert found["running_witness_id"], found
        members = instance.members()
        assert sorted(m["name"] for m in members) == ["one-hub-1", "one-unit-1", "one-unit-2"], members
        for member in members:
            assert member["state"] == "active" and member["active_witness_id"] and member["app_version_id"], member

        added = instance.end(instance.member("add", component_key="unit"))
        assert added["state"] == "succeeded", json.dumps(added, indent=1)
        assert [step["name"] for step in added["steps"]] == ["claim", "provision", "join", "verify_active", "publish"], added
        assert instance.component("unit")["desired"] == 3

        drained = instance.end(instance.member("drain", members=["one-unit-3"]))
        assert drained["state"] == "succeeded", json.dumps(drained, indent=1)
        member = next(m for m in instance.members() if m["name"] == "one-unit-3")
        assert member["state"] == "drained" and member["drained_witness_id"], member
        assert instance.end(instance.member("resume", members=["one-unit-3"]))["state"] == "succeeded"

        replaced = instance.end(instance.member("replace", members=["one-unit-2"]))
        assert replaced["state"] == "succeeded", json.dumps(replaced, indent=1)
        names = sorted(m["name"] for m in instance.members(component="unit"))
        assert names == ["one-unit-1", "one-unit-3", "one-unit-4"], names

        assert instance.images() == {shop.digest}, instance.images()
        other = shop.image("v2")
        assert other != shop.digest, "the image of the other release is the same one"
        second = shop.version("1.1.0", digest=other)
        upgraded = instance.end(instance.act("upgrade", app_version="1.1.0"), seconds=120)
        assert upgraded["state"] == "succeeded", json.dumps(upgraded, indent=1)
        assert {m["app_version_id"] for m in instance.members()} == {second["id"]}, instance.members()
        assert instance.images() == {other}, instance.images()
        rolled = instance.end(instance.act("rollback"), seconds=120)
        assert rolled["state"] == "succeeded", json.dumps(rolled, indent=1)
        assert instance.images() == {shop.digest}, instance.images()

        scaled = instance.end(instance.act("scale", components=[{"component_key": "unit", "count": 1}]), seconds=120)
        assert scaled["state"] == "succeeded", json.dumps(scaled, indent=1)
        assert instance.component("unit")["current"] == 1, instance.get()

        gone = instance.end(instance.act("decommission"), seconds=120)
        assert gone["state"] == "succeeded", json.dumps(gone, indent=1)
        found = instance.get()
        assert found["state"] == "stopped" and found["stopped_witness_id"], found
        world.nothing_left()
    finally:
        adapter.stop()


def quorum(world):
    """An operation that would break a quorum is rejected before any step is requested."""
    shop = world.shop
    adapter = Adapter(shop)
    instance = Instance(shop, "small")
    try:
        instance.launched(units=1)
        problem = instance.refused("drain", "invalid_state", members=["small-hub-1"])
        assert "hub" in problem["detail"], problem
        instance.end(instance.act("decommission"), seconds=90)
        world.nothing_left()
    finally:
        adapter.stop()


def in_python(world):
    """The guide's adapter, in another language than the platform's, does the same over the same contract."""
    shop = Shop(world.replica, world.tenant, world.shop.folder, slug="example-python", document=PYTHON / "manifest.json")
    adapter = PythonAdapter(shop, shop.entitle())
    instance = Instance(shop, "snake")
    try:
        instance.launched(units=2)
        for verb in ("drain", "resume", "replace"):
            ended = instance.end(instance.member(verb, members=["snake-unit-1"]))
            assert ended["state"] == "succeeded", json.dumps(ended, indent=1)
        gone = instance.end(instance.act("decommission"), seconds=120)
        assert gone["state"] == "succeeded", json.dumps(gone, indent=1)
        world.nothing_left()
    finally:
        adapter.stop()
