"""Adapters that report success without doing the work: the platform's own verification rejects each."""

import json

from shop import Adapter, Instance, until

CHECK = "check 0"


def blocked(instance, operation):
    """The operation, or the part of it, that is blocked."""
    ended = instance.end(operation)
    assert ended["state"] == "blocked", json.dumps(ended, indent=1)
    reason = ended["blocked"]["reason"]
    assert CHECK in reason and "/run/fake" in reason, f"it does not say which witness failed: {reason}"
    return ended


def every_verb(world):
    """An adapter that reports success without doing it is rejected for every verb, and the operation names the failed witness."""
    shop = world.shop
    honest = Adapter(shop, "honest")
    instance = Instance(shop, "told")
    instance.launched(units=3)
    honest.stop()
    liar = Adapter(shop, "liar", FAKE_LIE="join,drain,resume,remove")
    try:
        blocked(instance, instance.member("add", component_key="unit"))
        blocked(instance, instance.member("drain", members=["told-unit-1"]))
        states = {m["name"]: m["state"] for m in instance.members()}
        assert states["told-unit-4"] == "joining" and states["told-unit-1"] == "draining", states
        # A removal drains first, and fails at that lie.
        blocked(instance, instance.member("remove", members=["told-unit-2"]))
        assert {m["name"]: m["state"] for m in instance.members()}["told-unit-2"] != "removed"
        # Replacing adds first: the new one never works, and the old one keeps working.
        replace = instance.member("replace", members=["told-unit-3"])
        until("a part is blocked", lambda: "blocked" in (shop.server.call(
            "GET", f"/v1/operations/{replace['id']}", token=shop.token).get("waiting") or ""))
        assert {m["name"]: m["state"] for m in instance.members()}["told-unit-3"] == "active"
        liar.stop()
        mended = Adapter(shop, "mended")
        try:
            for found in shop.server.call("GET", "/v1/operations?page_size=200&project=" + shop.consumer, token=shop.token)["items"]:
                if found["state"] == "blocked":
                    shop.server.call("POST", f"/v1/operations/{found['id']}/resolve", {"action": "retry"}, token=shop.token)
                    ended = instance.end(found)
                    assert ended["state"] == "succeeded", json.dumps(ended, indent=1)
            assert instance.end(replace)["state"] == "succeeded"
            drained = Adapter(shop, "resume-liar", FAKE_LIE="resume")
            mended.stop()
            blocked(instance, instance.member("resume", members=["told-unit-1"]))
            drained.stop()
        finally:
            mended.stop()
    finally:
        liar.stop()


def forgers(world):
    """An adapter that overwrites the probe's own program inside the cell is refused too."""
    shop = world.shop
    honest = Adapter(shop, "honest")
    instance = Instance(shop, "forged")
    instance.launched(units=2)
    drained = instance.end(instance.member("drain", members=["forged-unit-2"]))
    assert drained["state"] == "succeeded", json.dumps(drained, indent=1)
    honest.stop()
    forger = Adapter(shop, "forger", FAKE_FORGE="drain,remove")
    try:
        for verb, name in (("drain", "forged-unit-1"), ("remove", "forged-unit-2")):
            blocked(instance, instance.member(verb, members=[name]))
            # A command in the same cell believes it, so the witness was not deceived for want of an attack.
            told = next(m for m in instance.members() if m["name"] == name)["adapter_detail"]
            says = "DRAINED" if verb == "drain" else "UP"
            assert told == {"file_says": says, "test_ends_with": 1}, told
    finally:
        forger.stop()


def join_fails(world):
    """An accepted add with a failing join is rolled back, and the component has its previous desired count."""
    shop = world.shop
    honest = Adapter(shop, "honest")
    instance = Instance(shop, "half")
    instance.launched(units=1)
    honest.stop()
    failing = Adapter(shop, "failing", FAKE_FAIL="join=no_license")
    try:
        ended = instance.end(instance.member("add", component_key="unit"))
        assert ended["state"] == "failed" and "no_license" in ended["message"], json.dumps(ended, indent=1)
        member = next(m for m in instance.members() if m["name"] == "half-unit-2")
        assert (member["state"], member["failure_reason"]) == ("failed", "adapter_failed"), member
        assert instance.component("unit")["desired"] == 1, instance.get()
    finally:
        failing.stop()
