#!/usr/bin/env python3
"""An adapter in Python, on the generated client and the standard library alone; docs/guides/write-an-adapter.md walks through it.

Its app has a `hub`, with a file for each member in its cell, and `unit`s, which work when their file contains UP. The
platform's witnesses (manifest.json) read the same files.
"""

import os

from muster import Problem
from muster.adapter import CellDead, Failed, run

# The expected content of a member's file, by the member's state.
SHOULD = {"active": "UP", "drained": "DRAINED"}


def hub_of(step):
    """Returns the hub that holds the files: the step's own member if that is a hub, else the first hub that works."""
    member = step.member()
    if member and member["component_key"] == "hub":
        return member
    works = ("active", "draining", "drained")
    hubs = [one for one in step.snapshot["members"] if one["component_key"] == "hub" and one["state"] in works]
    return hubs[0] if hubs else None


def path_of(member):
    return "/run/example/" + ("hub" if member["component_key"] == "hub" else member["name"])


def mark(step, word):
    """Writes the member's file."""
    hub, member = hub_of(step), step.member()
    if hub is None:
        raise Failed("no_hub", "no active hub yet; a unit needs one", after=2)
    files = {path_of(member): f"{word}\n"}
    if hub["id"] == member["id"]:
        # A recreated hub has lost the files of its units.
        units = (one for one in step.snapshot["members"] if one["component_key"] == "unit" and one["state"] in SHOULD)
        files |= {path_of(unit): f"{SHOULD[unit['state']]}\n" for unit in units}
    step.progress(50, f"setting {member['name']} to {word} in the hub")
    step.write_files(hub, files)
    return {"message": f"{member['name']} is {word}", "adapter_detail": {"file_says": word}}


def join(step):
    return mark(step, "UP")


def drain(step):
    return mark(step, "DRAINED")


def resume(step):
    return mark(step, "UP")


def remove(step):
    """Has the hub forget the member. A hub that is not there has forgotten it."""
    hub, member = hub_of(step), step.member()
    if hub is None or member is None or hub["unreachable"]:
        return {"message": "there is no hub that could know it"}
    try:
        step.remove_files(hub, path_of(member))
    except (CellDead, Problem) as refusal:
        # A dead or absent cell takes no task and holds nothing; the platform verifies that itself.
        return {"message": str(refusal)}
    return {"message": f"{member['name']} is withdrawn"}


def reconcile(step):
    """Reports the members' health: the content of each file against the expected one."""
    hub, reports = hub_of(step), []
    for member in step.snapshot["members"]:
        if hub is None or hub["unreachable"] or member["state"] not in SHOULD:
            continue
        ran = step.look(hub, "/bin/cat", path_of(member))
        says = ran["stdout"].strip() if ran["exit"] == 0 else "nothing"
        reports.append({
            "member_id": member["id"],
            "incarnation": member["incarnation"],
            "health": "healthy" if says == SHOULD[member["state"]] else "unhealthy",
            "message": f"the hub reports {says}",
        })
    return {"message": f"reconciled {len(reports)} members", "members": reports}


if __name__ == "__main__":
    verbs = {"join": join, "leave": remove, "drain": drain, "resume": resume, "remove": remove, "reconcile": reconcile}
    run(verbs, name="example-python", version="1.0.0", lease_seconds=int(os.environ.get("EXAMPLE_LEASE_SECONDS", "30")))
