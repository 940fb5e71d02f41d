"""The judge: compares the platform's records with the agents' own journals, by plain counting."""

LIVING = ("requested", "placing", "provisioning", "active", "releasing", "wiping")


class Story:
    """The actual history of the nodes, from their journals alone."""

    def __init__(self, agents):
        self.faults = []
        self.places = {}  # (node, allocation) -> (incarnation, devices)
        self.dirty = {}  # (node, device) -> allocation
        self.prepared = {}
        for group in agents:
            for line in group.effects():
                self.take(line)

    def take(self, line):
        node, allocation, effect = line["node"], line["allocation_id"], line["effect"]
        if effect == "violation":
            self.faults.append(f"{node} was asked for a violation: {line}")
        elif effect == "prepared":
            once = (node, allocation, line["incarnation"])
            if once in self.prepared:
                self.faults.append(f"{once} was prepared twice")
            self.prepared[once] = line
            self.occupy(node, allocation, line["devices"])
            self.places[node, allocation] = (line["incarnation"], sorted(line["devices"]))
        elif effect == "resized":
            self.occupy(node, allocation, line["devices"])
            self.places[node, allocation] = (line["incarnation"], sorted(line["devices"]))
        elif effect == "destroyed":
            self.places.pop((node, allocation), None)
        elif effect == "wiped":
            for device in line["devices"]:
                self.dirty.pop((node, device), None)

    def occupy(self, node, allocation, devices):
        for device in devices:
            for (where, other), (_, held) in self.places.items():
                if where == node and other != allocation and device in held:
                    self.faults.append(f"{device} of {node} went to {allocation} while {other} had it")
            before = self.dirty.get((node, device))
            if before not in (None, allocation):
                self.faults.append(f"{device} of {node} went from {before} to {allocation} unwiped")
            self.dirty[node, device] = allocation


def judge(server, tenant, agents, blocked_is_fine=True):
    """Checks every invariant, and returns the violations."""
    faults = []
    story = Story(agents)
    faults += story.faults
    allocations = {allocation["id"]: allocation for allocation in tenant.all(server)}
    for lost in set(tenant.acknowledged) - set(allocations):
        faults.append(f"{lost} was acknowledged and is gone")
    by_name = {}
    for allocation in allocations.values():
        by_name.setdefault(allocation["name"], []).append(allocation)
    for name, same in by_name.items():
        if len(same) > 1 and name in tenant.acknowledged.values():
            faults.append(f"{name} is there {len(same)} times")

    blocked, reasons = 0, {}
    places = {allocation: (node, *found) for (node, allocation), found in story.places.items()}
    for allocation in allocations.values():
        state, where = allocation["state"], places.get(allocation["id"])
        if state == "active":
            if where is None:
                faults.append(f"{allocation['id']} is active and has no place")
            elif where[1] != allocation["incarnation"]:
                faults.append(f"{allocation['id']} is active with incarnation {allocation['incarnation']}, not {where[1]}")
            elif len(where[2]) != allocation["held"]["gpus"]:
                faults.append(f"{allocation['id']} holds {allocation['held']['gpus']} GPUs and has {where[2]}")
            if allocation.get("evidence") is None and "evidence" in allocation:
                faults.append(f"{allocation['id']} is active without evidence")
        elif state in ("released", "failed"):
            if where is not None:
                faults.append(f"{allocation['id']} is {state} and still has a place on {where[0]}")
            if any(allocation["held"].values()):
                faults.append(f"{allocation['id']} is {state} and holds {allocation['held']}")
        else:
            now = server.call("GET", f"/v1/operations/{allocation['operation_id']}", token=tenant.token)
            if now["state"] == "blocked" and now["blocked"]["reason"] and blocked_is_fine:
                blocked += 1
                why = f"{now['kind']}: {now['blocked']['reason']}"
                reasons[why] = reasons.get(why, 0) + 1
            else:
                faults.append(f"{allocation['id']} is {state}, and {now['id']} is {now['state']}: {now.get('waiting')}")

    # Free and held amounts add up to the total, on every node.
    held = {}
    for allocation in allocations.values():
        if allocation["state"] in LIVING and allocation.get("node_id"):
            for thing, amount in allocation["held"].items():
                held.setdefault(allocation["node_id"], {}).setdefault(thing, 0)
                held[allocation["node_id"]][thing] += amount
    token = None
    while True:
        page = server.call("GET", f"/v1/nodes?page_size=200{f'&page_token={token}' if token else ''}")
        for node in page["items"]:
            for thing in ("gpus", "cpus", "memory_mb", "disk_mb"):
                mine = held.get(node["id"], {}).get(thing, 0)
                if node["total"][thing] != node["free"][thing] + mine and thing != "gpus":
                    faults.append(f"{node['name']}: {node['free'][thing]} free and {mine} held of {node['total'][thing]} {thing}")
        token = page.get("next_page_token")
        if not token:
            break
    # Nothing that can be claimed is dirty.
    states = {}
    for allocation in allocations.values():
        states[allocation["state"]] = states.get(allocation["state"], 0) + 1
    for (node, device), by in story.dirty.items():
        owner = allocations.get(by)
        if owner is not None and owner["state"] in ("released", "failed") and owner.get("evidence") != "attested":
            slots = server.call("GET", f"/v1/nodes/{node}/slots")["items"]
            slot = next((slot for slot in slots if slot["device"] == device), None)
            if slot and slot["state"] == "approved" and not slot.get("allocation_id"):
                faults.append(f"{device} of {node} is free, and was not wiped after {by}")
    return faults, {"allocations": len(allocations), "blocked": blocked, **({"why": reasons} if reasons else {}), **states,
                    "effects": sum(len(group.effects()) for group in agents)}
