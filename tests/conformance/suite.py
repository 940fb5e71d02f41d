"""Faults that every adapter must tolerate: each step repeated, failed, and killed before and after its effect; its rollback repeated; leases
lost; stale processes; and a teardown that leaves nothing. All requests and checks use the public API."""

import json
import random
import time

from platform_under_test import Refused
from wire import Strike

ENDED = ("succeeded", "partial", "failed", "cancelled", "superseded")
# The verbs by which a member goes through its life, and the step that each is about.
LIFE = ("add", "drain", "resume", "drain", "remove")
STEP_OF = {"add": "join", "drain": "drain", "resume": "resume", "remove": "remove"}


class Fault(AssertionError):
    """The adapter does not stand it."""


# Which checks of a component follow each step, and the state that a member has before it.
CHECKS_OF = {"join": "active", "resume": "active", "drain": "drained", "remove": "removed"}
BEFORE = {"join": None, "drain": "active", "resume": "drained", "remove": "drained"}


class Suite:
    def __init__(self, platform, adapter, wire, config=None, seed=1, say=print, chosen=""):
        """`chosen` limits it to the points whose label has this text, and to those that the others need."""
        self.platform, self.adapter, self.wire, self.config, self.say = platform, adapter, wire, config or {}, say
        self.server, self.token = platform.server, platform.token
        components = platform.manifest["components"]
        # Those of which there can be one more are grown and shrunk; the others come and go with the instance.
        self.grown = [c["key"] for c in components if c["count"].get("max", 1) > max(1, c["count"].get("min", 0))]
        self.fixed = [c["key"] for c in components if c["key"] not in self.grown]
        self.verbs = set(platform.manifest["operations"])
        self.struck, self.numbers, self.chosen = 0, 0, chosen
        self.chance = random.Random(seed)
        wire.cell_killer = self.kill_the_cell_of_checks

    # -- asking

    def call(self, method, path, body=None):
        return self.server.call(method, path, body, token=self.token)

    def path(self, name, *rest):
        return "/".join((f"/v1/projects/{self.platform.consumer}/app-instances", name, *rest))

    def end(self, operation, seconds=150):
        """The operation once it has ended or is blocked."""
        until = time.monotonic() + seconds
        while True:
            found = self.call("GET", f"/v1/operations/{operation['id']}?wait_seconds=5")
            if found["state"] in (*ENDED, "blocked"):
                return found
            if time.monotonic() > until:
                raise Fault(f"{found['kind']} never ends: {found.get('waiting') or found.get('message')}\n{json.dumps(found)[:2000]}")

    def members(self, name):
        return self.call("GET", self.path(name, "members?page_size=200"))["items"]

    def create(self, name, **body):
        asked = {"name": name, "app": self.platform.slug, "config": self.config,
                 "components": [{"component_key": key, "count": 1} for key in (*self.fixed, self.grown[0])], **body}
        return self.call("POST", f"/v1/projects/{self.platform.consumer}/app-instances", asked)["operation"]

    def member(self, name, verb, **body):
        return self.call("POST", self.path(name, f"member-operations/{verb}"), body)["operation"]

    # -- judging

    def calm(self, name):
        """Waits until no operation is in progress, nothing is half done, and reports match the state."""
        until = time.monotonic() + 30
        while True:
            faults = self.faults(name)
            if not faults:
                return
            if time.monotonic() > until:
                raise Fault("; ".join(faults))
            time.sleep(0.2)

    def faults(self, name):
        instance, members = self.call("GET", self.path(name)), self.members(name)
        faults = []
        if instance["state"] != "running" or not instance.get("running_witness_id"):
            faults.append(f"the instance is {instance['state']}")
        for member in members:
            witness = {"active": "active_witness_id", "drained": "drained_witness_id"}.get(member["state"])
            if witness is None or not member.get(witness):
                faults.append(f"{member['name']} is {member['state']}, witnessed by {member.get(witness or '')}")
        for component in instance["topology"]["components"]:
            there = sum(m["component_key"] == component["component_key"] for m in members)
            if component["desired"] != there:
                faults.append(f"{component['desired']} of {component['component_key']} are wanted, and {there} are there")
        open_ = self.call("GET", f"/v1/projects/{self.platform.consumer}/adapter-steps?page_size=200&instance={name}")["items"]
        faults += [f"the step {s['verb']} is {s['state']}: {s.get('message')}" for s in open_
                   if s["state"] in ("queued", "leased") and s["verb"] != "reconcile"]
        cells = self.call("GET", f"/v1/projects/{self.platform.consumer}/cells?page_size=200")["items"]
        ours = {m["cell_id"] for m in members}
        faults += [f"the cell {c['name']} is {c['state']} and no member's" for c in cells
                   if c["name"].startswith(f"{name}-") and c["state"] != "destroyed" and c["id"] not in ours]
        faults += [f"taken from a stale holder: {said}" for said in self.wire.stale]
        return faults

    def healthy(self, name):
        """By the adapter's own look at each member. It comes in its own time."""
        until = time.monotonic() + 90
        while True:
            instance = self.call("GET", self.path(name))
            if instance["health"] == "healthy":
                return
            if time.monotonic() > until:
                raise Fault(f"the instance is {instance['health']}: {[(m['name'], m['health'], m.get('health_message')) for m in self.members(name)]}")
            time.sleep(0.3)

    def shape(self, name):
        """The state that must be as before: which members there are, in which states, each where it was."""
        return sorted((m["name"], m["state"], m["incarnation"], m["cell_id"]) for m in self.members(name))

    # -- one strike

    def through(self, ask, strikes, after):
        """Submits the operation with faults on the way, and verifies that it finishes, or is rolled back and then finishes when it is
        submitted again. `after` checks the instance then. Returns the operation's end."""
        armed = [self.wire.arm(strike) for strike in strikes]
        operation = ask()
        ended = self.end(operation)
        for strike in armed:
            if not strike.fired.wait(1):
                raise Fault(f"it never came to this: {strike}; the operation is {ended['state']}: {ended.get('message')}")
            self.struck += 1
        self.haunt(armed)
        if ended["state"] == "blocked":
            self.call("POST", f"/v1/operations/{operation['id']}/resolve", {"action": "retry"})
            ended = self.end(operation)
        for strike in armed:
            if strike.what in ("kill-before", "stop") or (strike.what == "kill-after" and strike.at == "task"):
                given = self.wire.steps[strike.step["id"]]["generation"]
                if given < 2:
                    raise Fault(f"{strike}: nobody took the step over")
        told_to_fail = any(strike.what == "fail" for strike in armed)
        if ended["state"] != "succeeded" and not (told_to_fail and ended["state"] == "failed"):
            blocked = (ended.get("blocked") or {}).get("reason")
            raise Fault(f"{ended['kind']} is {ended['state']}: {blocked or ended.get('message')}")
        if not self.adapter.alive():
            raise Fault(f"the adapter ended by itself: {self.adapter.said()}")
        after(ended)
        return ended

    def haunt(self, strikes):
        """Requests that a dead or stopped process had on the wire arrive late, and must be refused."""
        for strike in strikes:
            if not strike.stale_copy or strike.what == "dropped":
                continue
            status, _, answer = self.wire.send(*strike.stale_copy)
            if status < 400:
                raise Fault(f"a stale copy's request was taken: {strike}: {status} {answer[:300]}")
        self.adapter.lay()

    # -- a member's life

    def life(self, name, component, strikes):
        """A member is added, drained, resumed, drained again and removed, with a fault at each step that has one; afterwards the
        instance is as before. Intentional failures are submitted once more."""
        before = self.shape(name)
        unit = None
        for number, verb in enumerate(LIFE):
            if verb not in self.verbs and verb != "add":
                continue
            # The second drain is before the end: only the first has the strike.
            again = verb in LIFE[:number]
            falling = [] if again else [s for s in strikes if s.verb in (STEP_OF[verb], *(("leave",) if verb == "add" else ()))]
            known = {m["name"] for m in self.members(name)}

            def ask(verb=verb):
                if verb == "add":
                    return self.member(name, "add", component_key=component)
                return self.member(name, verb, members=[unit])

            ended = self.through(ask, falling, lambda _: None)
            if verb == "add":
                unit = next(m["name"] for m in self.members(name) if m["name"] not in known)
            if ended["state"] == "failed":
                self.undone(name, verb, unit)
                anew = "recover" if verb == "add" else verb
                again = self.end(self.member(name, anew, members=[unit]))
                if again["state"] != "succeeded":
                    raise Fault(f"{anew} after an undone {verb} is {again['state']}: {again.get('message')}")
            if verb != "remove":
                state = {"add": "active", "drain": "drained", "resume": "active"}[verb]
                found = next(m for m in self.members(name) if m["name"] == unit)
                if found["state"] != state:
                    raise Fault(f"after {verb} {unit} is {found['state']}")
            self.calm(name)
        if self.shape(name) != before:
            raise Fault(f"the instance was {before}, and is {self.shape(name)}")

    def undone(self, name, verb, unit):
        """A failure has left nothing half done."""
        state = {"add": "failed", "drain": "active", "resume": "drained", "remove": "drained"}[verb]
        until = time.monotonic() + 30
        while True:
            found = next(m for m in self.members(name) if m["name"] == unit)
            if found["state"] == state:
                return
            if time.monotonic() > until:
                raise Fault(f"{verb} failed and was undone, and {unit} is {found['state']}")
            time.sleep(0.2)

    def look(self, name, strike):
        """Waits for a look at the instance; after the fault there is another one that succeeds."""
        self.wire.arm(strike)
        if not strike.fired.wait(90):
            raise Fault(f"it never came to this: {strike}")
        self.struck += 1
        since, until = time.monotonic(), time.monotonic() + 90
        while not any(e["verb"] == "reconcile" and e["instance"] == name and e["how"] == "complete" and e["at"] > since
                      for e in self.wire.ended):
            if time.monotonic() > until:
                raise Fault(f"{strike}: no look ends well afterwards")
            time.sleep(0.2)
        self.haunt([strike])
        self.healthy(name)
        self.calm(name)

    # -- the cell in which checks run

    def place_of_checks(self, verb, component):
        """Returns the component with the cell that runs the checks of such a step: its own, or another's. `leave` undoes a join, with which
        it shares the cell."""
        declared = next(c for c in self.platform.manifest["components"] if c["key"] == component)["witnesses"]
        checks = declared.get(CHECKS_OF.get(verb, "active")) or declared["active"]
        return component if checks[0]["in"] == "self" else checks[0]["in"]

    def kill_the_cell_of_checks(self, strike):
        place = self.place_of_checks(strike.verb, strike.component or self.grown[0])
        member = next(m for m in self.members(strike.step["instance"])
                      if (m["id"] == strike.step["member"] if place == strike.component else m["component_key"] == place))
        strike.lost = member["name"]
        self.platform.kill_cell(member["cell_id"])

    def loses_the_cell_of_its_checks(self, name, strike):
        """The cell in which the checks of a step run dies at the step. The lost member can be recovered, whatever waits for it; the operation
        ends, or is blocked and can be retried; and then everything is at work again, or can be removed."""
        known, unit, operation, ended = {m["name"] for m in self.members(name)}, None, None, None
        if BEFORE.get(strike.verb):
            unit = self.fresh(name, strike.component, BEFORE[strike.verb])
        self.wire.arm(strike)
        if strike.verb == "leave":
            # It removes a member whose join failed.
            self.wire.arm(Strike("join", strike.component, "complete", "fail"))
        if strike.verb != "reconcile":
            verb = next((verb for verb, step in STEP_OF.items() if step == strike.verb), "add")
            operation = self.member(name, verb, **({"members": [unit]} if unit else {"component_key": strike.component}))
        if not strike.fired.wait(90):
            raise Fault(f"it never came to this: {strike}")
        self.struck += 1
        lost = lambda: next((m for m in self.members(name) if m["name"] == strike.lost), None)  # noqa: E731
        # A removal may end meanwhile: then there is no such member any more.
        self.until(lambda: (lost() or {"state": "failed"})["state"] == "failed", f"{strike.lost} is failed, whose cell was killed", 30)
        if lost():
            self.recovered(name, strike.lost)
        if operation:
            ended = self.end(operation)
        elif strike.stale_copy:
            # Until its lease expires, a request of the dead process is not stale.
            given = lambda: self.wire.steps[strike.step["id"]]["generation"]  # noqa: E731
            self.until(lambda: given() > strike.step["generation"], f"{strike}: somebody took the look over")
        self.haunt([strike])
        if not self.adapter.alive():
            raise Fault(f"the adapter ended by itself: {self.adapter.said()}")
        if ended and ended["state"] == "blocked":
            self.call("POST", f"/v1/operations/{operation['id']}/resolve", {"action": "retry"})
            ended = self.end(operation)
        if ended and ended["state"] not in ("succeeded", "failed"):
            raise Fault(f"{ended['kind']} is {ended['state']}: {(ended.get('blocked') or {}).get('reason') or ended.get('message')}")
        # Whatever became of the member, it can be removed, and everything else is as before.
        for member in self.members(name):
            if member["name"] not in known or member["name"] == unit:
                self.done(name, "remove", member["name"])
        self.calm(name)
        self.healthy(name)

    def fresh(self, name, component, state):
        """A new member in this state."""
        known = {m["name"] for m in self.members(name)}
        ended = self.end(self.member(name, "add", component_key=component))
        unit = next((m["name"] for m in self.members(name) if m["name"] not in known), None)
        if ended["state"] != "succeeded" or unit is None:
            raise Fault(f"a {component} cannot be added: {ended['state']}: {ended.get('message')}")
        if state == "drained":
            self.done(name, "drain", unit)
        return unit

    def recovered(self, name, member):
        self.done(name, "recover", member)
        found = next(m for m in self.members(name) if m["name"] == member)
        if found["state"] != "active":
            raise Fault(f"after its recovery {member} is {found['state']}")

    def done(self, name, verb, member):
        """Runs an operation that must succeed, after any current operation on the member."""
        until = time.monotonic() + 60
        while True:
            try:
                ended = self.end(self.member(name, verb, members=[member]))
                break
            except Refused as refused:
                if time.monotonic() > until:
                    raise Fault(f"{verb} of {member} is refused: {refused}") from None
                time.sleep(1)
        if ended["state"] != "succeeded":
            raise Fault(f"{verb} of {member} is {ended['state']}: {(ended.get('blocked') or {}).get('reason') or ended.get('message')}")

    def cell_strikes(self, component):
        """The cell of the checks dies at each step of such a member, alone and with the adapter."""
        strikes = []
        for verb in ("join", "leave", "drain", "resume", "remove"):
            if verb not in ("join", "leave") and verb not in self.verbs:
                continue
            for at in ("leased", "task", "complete"):
                if at == "task" and not self.tasks_of(verb, component):
                    continue
                strikes += [Strike(verb, component, at, what) for what in ("cell", "cell-kill")]
        return strikes + [Strike("reconcile", None, "task", what) for what in ("cell", "cell-kill")]

    def loses_a_fixed_cell(self, name, strike):
        """The cell of a component that comes and goes with the instance dies while it joins or is removed. The launch ends and leaves
        nothing half done, or everything works; the decommission leads to `stopped`."""
        joins = strike.verb == "join"
        if not joins:
            self.launched(name)
        self.wire.arm(strike)
        operation = self.create(name) if joins else self.call("POST", self.path(name, "decommission"), {})["operation"]
        if not strike.fired.wait(90):
            raise Fault(f"it never came to this: {strike}")
        self.struck += 1
        ended = self.end_or_roll_back(operation)
        self.haunt([strike])
        if not self.adapter.alive():
            raise Fault(f"the adapter ended by itself: {self.adapter.said()}")
        if ended["state"] == "blocked":
            self.call("POST", f"/v1/operations/{operation['id']}/resolve", {"action": "retry"})
            ended = self.end(operation)
        if ended["state"] != "succeeded" and not (joins and ended["state"] == "failed"):
            raise Fault(f"{ended['kind']} is {ended['state']}: {(ended.get('blocked') or {}).get('reason') or ended.get('message')}")
        if joins and ended["state"] == "failed":
            self.until(lambda: not self.cells_of(name), f"nothing is left of {name}, whose launch failed", 30)
            return
        if joins:
            lost = next(m for m in self.members(name) if m["name"] == strike.lost)
            if lost["state"] == "failed":
                self.recovered(name, strike.lost)
            self.calm(name)
            self.healthy(name)
            self.taken_down(name)
        found = self.call("GET", self.path(name))
        if found["state"] != "stopped" or not found.get("stopped_witness_id") or self.cells_of(name):
            raise Fault(f"after the decommission the instance is {found['state']}, with {self.cells_of(name)}")

    def end_or_roll_back(self, operation):
        """The operation once it has ended or is blocked. What blocks one of its members is retried once, and rolled back where that can be:
        an operation waits for the decision about its members."""
        tried, until = set(), time.monotonic() + 150
        while True:
            found = self.call("GET", f"/v1/operations/{operation['id']}?wait_seconds=1")
            if found["state"] in (*ENDED, "blocked"):
                return found
            for item in found.get("items") or []:
                if item["state"] != "blocked":
                    continue
                child = self.call("GET", f"/v1/operations/{item['operation_id']}")
                if child["state"] != "blocked" or (child["id"], "compensate") in tried:
                    continue
                rolls_back = (child["id"], "retry") in tried and "compensate" in child["blocked"]["actions"]
                action = "compensate" if rolls_back else "retry"
                tried.add((child["id"], action))
                self.call("POST", f"/v1/operations/{child['id']}/resolve", {"action": action})
            if time.monotonic() > until:
                raise Fault(f"{found['kind']} never ends: {found.get('waiting') or found.get('message')}")

    def cells_of(self, name):
        cells = self.call("GET", f"/v1/projects/{self.platform.consumer}/cells?page_size=200")["items"]
        return [c["name"] for c in cells if c["name"].startswith(f"{name}-") and c["state"] != "destroyed"]

    def fixed_cell_strikes(self, component):
        """Likewise for a component of which there is one number: it joins with the launch, and is removed with the decommission."""
        return [Strike(verb, component, at, what) for verb in ("join", "remove") for at in ("leased", "task", "complete")
                if at != "task" or self.tasks_of(verb, component) for what in ("cell", "cell-kill")]

    def lose_fixed_cells(self, name, strikes):
        if "recover" not in self.verbs:
            return
        for strike in strikes:
            self.numbers += 1
            self.point(str(strike), lambda s=strike, n=f"{name}-f{self.numbers}": self.loses_a_fixed_cell(n, s))

    def lose_cells(self, name, component, strikes):
        if "recover" not in self.verbs:
            return
        for strike in strikes:
            self.point(str(strike), lambda s=strike: self.loses_the_cell_of_its_checks(name, s))

    # -- an instance's life

    def launched(self, name, strikes=(), **body):
        self.through(lambda: self.create(name, **body), strikes, lambda _: self.calm(name))

    def taken_down(self, name, strikes=()):
        self.through(lambda: self.call("POST", self.path(name, "decommission"), {})["operation"], strikes, lambda _: None)
        found = self.call("GET", self.path(name))
        if found["state"] != "stopped" or not found.get("stopped_witness_id"):
            raise Fault(f"after the decommission the instance is {found['state']}")
        left = [m["name"] for m in self.members(name) if m["state"] != "removed"]
        if left:
            raise Fault(f"left behind: {left}")

    def stale_copy_of_a_node(self, name):
        """A node is cut off, its member replaced, the node healed: the old one can do nothing, and is gone."""
        self.launched(name, shape="baremetal")
        lost = next(m for m in self.members(name) if m["component_key"] == self.grown[0])
        node = self.server.call("GET", f"/v1/nodes/{lost['node_id']}")["name"]
        with self.platform.cut(node):
            self.until(lambda: self.server.call("GET", f"/v1/nodes/{lost['node_id']}")["state"] == "unreachable", "the node is unreachable")
            ended = self.end(self.member(name, "replace", members=[lost["name"]], force=True))
            if ended["state"] != "succeeded":
                raise Fault(f"the replacement of a lost member is {ended['state']}: {json.dumps(ended)[:1500]}")
        self.until(lambda: all(m["name"] != lost["name"] for m in self.members(name)), "the old member is gone")
        self.calm(name)
        self.healthy(name)
        self.taken_down(name)

    def until(self, question, what, seconds=90):
        end = time.monotonic() + seconds
        while not question():
            if time.monotonic() > end:
                raise Fault(f"it never came to this: {what}")
            time.sleep(0.2)

    # -- choice of faults

    def tasks_of(self, verb, component):
        """Returns the number of tasks of such a step without faults."""
        counts = [self.wire.tasks.get(e["id"], {}).get(e["generation"], 0) for e in self.wire.ended
                  if (e["verb"], e["component"], e["how"]) == (verb, component, "complete")]
        return max(counts, default=0)

    def point(self, label, do, needed=False):
        if self.chosen not in label and not needed:
            return
        began = time.monotonic()
        try:
            do()
        except (Fault, Refused) as fault:
            raise Fault(f"{label}: {fault}") from None
        self.say(f"    {time.monotonic() - began:5.1f} s  {label}")

    def strikes(self, component, column):
        """One fault for each verb of a member's life: `column` chooses the kind for each verb, so that over all columns
        every verb has had every kind."""
        chosen = []
        for row, verb in enumerate(("join", "drain", "resume", "remove")):
            kinds = self.kinds(verb, component)
            chosen.append(kinds[(column + row) % len(kinds)](verb, component))
        return chosen

    def kinds(self, verb, component):
        """Everything that can happen to a step of this kind, from its lease to its end."""
        at = lambda where, what, number=1: lambda v, c: Strike(v, c, where, what, number)  # noqa: E731
        found = [at("complete", "kill-before"), at("leased", "kill-before"), at("complete", "unheard"), at("complete", "kill-after"),
                 at("complete", "stop"), at("complete", "dropped"), at("complete", "fail")]
        for number in range(1, self.tasks_of(verb, component) + 1):
            found += [at("task", "kill-after", number), at("task", "kill-before", number)]
        return found

    def short(self, name="conf"):
        """One point for each step."""
        self.point("launched, and nothing goes wrong", lambda: self.launched(name))
        component = self.grown[0]
        self.point(f"the life of a {component}, and nothing goes wrong", lambda: self.life(name, component, []))
        for strikes in (self.strikes(component, 0), [Strike("join", component, "complete", "fail"), Strike("leave", component, "complete", "kill-before")]):
            self.point(" · ".join(map(str, strikes)), lambda some=strikes: self.life(name, component, some))
        look = Strike("reconcile", None, "complete", "kill-before")
        self.point(str(look), lambda: self.look(name, look))
        self.lose_cells(name, component, self.chance.sample(self.cell_strikes(component), 2))
        down = [Strike("remove", self.fixed[0], "complete", "kill-before")] if self.fixed else []
        self.point("taken down; " + " · ".join(map(str, down)), lambda: self.taken_down(name, down))
        if self.fixed:
            up = Strike("join", self.fixed[0], "task", "kill-after")
            self.point(f"launched; {up}", lambda: self.launched(f"{name}-2", [up]))
            self.point("taken down", lambda: self.taken_down(f"{name}-2"))
            strikes = self.fixed_cell_strikes(self.fixed[0])
            at_a_task = [s for s in strikes if (s.verb, s.at, s.what) == ("remove", "task", "cell")]
            self.lose_fixed_cells(name, at_a_task + self.chance.sample([s for s in strikes if s not in at_a_task], 2))

    def full(self, name="all"):
        """Every kind at every step."""
        self.point("launched, and nothing goes wrong", lambda: self.launched(name), needed=True)
        for component in self.grown:
            self.point(f"the life of a {component}, and nothing goes wrong", lambda c=component: self.life(name, c, []))
            longest = max(len(self.kinds(verb, component)) for verb in ("join", "drain", "resume", "remove"))
            for column in range(longest):
                strikes = self.strikes(component, column)
                self.point(" · ".join(map(str, strikes)), lambda c=component, some=strikes: self.life(name, c, some))
            for at, what in (("leased", "kill-before"), ("task", "kill-after"), ("complete", "kill-before"), ("complete", "kill-after"), ("complete", "fail")):
                if at == "task" and not self.tasks_of("remove", component):
                    continue
                strikes = [Strike("join", component, "complete", "fail"), Strike("leave", component, at, what)]
                self.point(" · ".join(map(str, strikes)), lambda c=component, some=strikes: self.life(name, c, some))
        looks = [("leased", "kill-before"), ("task", "kill-before"), ("task", "kill-after"), ("complete", "kill-before"), ("complete", "unheard"), ("complete", "stop")]
        for at, what in looks:
            strike = Strike("reconcile", None, at, what)
            self.point(str(strike), lambda s=strike: self.look(name, s))
        for component in self.grown:
            self.lose_cells(name, component, self.cell_strikes(component))
        self.point("taken down", lambda: self.taken_down(name), needed=True)
        for component in self.fixed:
            for kind in self.kinds("join", component):
                up, down = kind("join", component), kind("remove", component)
                if up.what == "fail" or self.chosen not in str(up):
                    continue
                number = self.tasks_of("remove", component)
                downs = [down] if down.what != "fail" and (down.at != "task" or down.number <= number) else []
                self.numbers += 1
                again = f"{name}-{self.numbers}"
                self.point(f"launched; {up}", lambda s=up, n=again: self.launched(n, [s]))
                self.point("taken down; " + " · ".join(map(str, downs)), lambda s=downs, n=again: self.taken_down(n, s), needed=True)
            self.lose_fixed_cells(name, self.fixed_cell_strikes(component))
        if "baremetal" in self.platform.manifest["compatibility"].get("requires_capacity_shape", ["baremetal"]):
            self.point("a stale copy comes back from a partition", lambda: self.stale_copy_of_a_node(f"{name}-g"))
