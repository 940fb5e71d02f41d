"""Figures of operations on members: how many are accepted in a second, and how many are executed, against peers.

All requests are public POSTs. A separate process leases the adapter's steps over the public API, each
operation has a witness that a simulated node runs, and everything is audited.
"""

import json
import time
import uuid

from . import load
from .dbos import Dbos
from .postgres import Postgres
from .processes import Broken
from .restate import Restate
from .rounds import Around
from .shop import UNIT, Adapter, Consumer, Shop
from .simulated import Simulated

ROW_BYTES = 400  # as in durable.py
NODES = 16
UNITS = 10  # members of an instance, as in a platform with 1,000 instances and 10,000 members
TENANTS = {"1": 1, "16": 16}
AT_ONCE = 64  # operations under way; the peers have as many, or what suits them better
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
SETTLE_SECONDS = 300


def uuid_of(identifier):
    """The number behind an id, as the database has it."""
    number = 0
    for letter in identifier.rpartition("_")[2]:
        number = number * 32 + ALPHABET.index(letter)
    return uuid.UUID(int=number)


class Members:
    """Instances with active members, in one tenant or several. All are drained, then all are resumed, again and again: a member
    takes one such operation at a time, so the backlog of accepted operations never exceeds the number of members."""

    def __init__(self, bench, postgres, server, name, tenants, instances):
        self.postgres, self.server, self.verb = postgres, server, "drain"
        self.file = bench.tmp / f"members-{name}.work"
        consumers = [Consumer(server, f"{name}-{number}") for number in range(tenants)]
        for consumer in consumers:
            consumer.allocate("room", instances // tenants * UNITS)
        launched = [(consumer, f"i{number}", consumer.launch(f"i{number}", UNITS, "room"))
                    for number in range(instances // tenants) for consumer in consumers]
        for consumer, _name, operation in launched:
            consumer.ended(operation)
        # In turn over all instances, and so over all tenants.
        self.members = [(consumer, instance, f"{instance}-{UNIT}-{number}")
                        for number in range(1, UNITS + 1) for consumer, instance, _operation in launched]

    def write(self, verb):
        text = lambda member: json.dumps({"members": [member]}, separators=(",", ":"))
        lines = [f"{consumer.token} {consumer.base}/app-instances/{instance}/member-operations/{verb} {text(member)}"
                 for consumer, instance, member in self.members]
        self.file.touch(mode=0o600)
        self.file.write_text("\n".join(lines) + "\n")

    def turn(self):
        """Returns the verb that all members accept now; the next call returns the other."""
        verb, self.verb = self.verb, "resume" if self.verb == "drain" else "drain"
        self.write(verb)
        return verb

    def accept(self):
        """Submits one operation of each member, without waiting."""
        verb = self.turn()
        seen = load.operations(self.server, self.file, load.CLIENTS)
        return {**seen, "verb": verb}

    def settle(self, seen):
        """Waits until everything is done, and looks whether it was all done once and audited once."""
        until = time.monotonic() + SETTLE_SECONDS
        began = time.monotonic()
        while self.count("SELECT count(*) FROM operations"):
            if time.monotonic() > until:
                raise Broken(f"operations on members have not ended after {SETTLE_SECONDS} s")
            time.sleep(0.05)
        seen["settled_s"] = round(time.monotonic() - began, 3)
        self.check(seen)

    def check(self, seen):
        acknowledged = seen.pop("acknowledged")
        ids = ",".join(f"'{uuid_of(identifier)}'" for identifier in acknowledged)
        done = self.count(f"SELECT count(*) FROM operations_finished WHERE state = 'succeeded' AND id IN ({ids})")
        texts = ",".join(f"'{identifier}'" for identifier in acknowledged)
        # Sealing follows the commit; how late it is, is another figure.
        until = time.monotonic() + 10
        while sum(audited := self.audited(texts)) < 3 * len(acknowledged) and time.monotonic() < until:
            time.sleep(0.1)
        expected = len(self.members)
        found = {"asked for": expected, "acknowledged": len(set(acknowledged)), "succeeded": done,
                 "audited as accepted": audited[0], "audited as ended": audited[1], "audited": audited[2]}
        if set(found.values()) != {expected}:
            raise Broken(f"not every operation was done once and audited once: {found}")

    def audited(self, texts):
        """Returns the number of entries for accepted and for ended ones of these, and the number of distinct operations."""
        said = lambda name: f"(entry::jsonb #>> '{{detail,{name}}}')"
        row = self.postgres.sql(f"SELECT count(*) FILTER (WHERE {said('state')} IS NULL), "
                                f"count(*) FILTER (WHERE {said('state')} = 'succeeded'), count(DISTINCT {said('operation_id')}) "
                                f"FROM audit_entries WHERE action IN ('member.drain', 'member.resume') "
                                f"AND {said('operation_id')} IN ({texts})", "muster")
        return tuple(map(int, row.split("|")))

    def count(self, query):
        return int(self.postgres.sql(query, "muster"))

    def to_drained(self):
        """Has all members drained, whatever they are now; not measured."""
        if self.verb == "drain":
            self.turn()
            self.settle(load.operations(self.server, self.file, AT_ONCE, wait=True))

    def resume(self):
        """Puts every member back to work, and waits for each: three steps, one of them the adapter's and one the witness's."""
        verb = self.turn()
        seen = load.operations(self.server, self.file, AT_ONCE, wait=True)
        return {**seen, "verb": verb}


def accept(bench, postgres, members, name, watched):
    other = lambda: postgres.pgbench(load.CLIENTS, ROW_BYTES, seconds=bench.plan.seconds)
    bench.measure(f"members-accept-{name}", Around(members.accept, after=members.settle), other, watched)


def beside(bench, figure, members, peer, watched):
    """Three-step operations of ours and a peer's, from the question to the end."""
    if figure in bench.wanted:
        peer = bench.keep(peer).wait()
        name = figure.removeprefix("durable-")
        bench.settings[name] = peer.settings
        ours = Around(members.resume, before=members.to_drained, after=members.settle)
        bench.measure(figure, ours, lambda: peer.work(bench.plan.seconds), {**watched, **peer.watched})
        bench.say_durability()
        bench.durability[name] = peer.flushes(bench.tmp)
        peer.stop()


def on_members(bench):
    postgres = bench.keep(Postgres(bench.tmp))
    url = postgres.prepare(bench.plan.preload, ROW_BYTES)
    bench.versions.update(postgres.versions())
    bench.settings["postgres"] = postgres.durable_settings()
    server = bench.server("on-members", url)
    instances = bench.plan.instances
    fleet = bench.keep(Simulated(bench, server, NODES, 8, instances * UNITS))
    fleet.wait()
    shop = Shop(server)
    adapter = bench.keep(Adapter(bench, shop))
    watched = {"muster": server, "postgres": postgres, "simulated": fleet, "adapter": adapter}
    groups = {}
    for name, tenants in TENANTS.items():
        durable = name == "1" and bench.wants("durable")
        if durable or f"members-accept-{name}" in bench.wanted:
            groups[name] = Members(bench, postgres, server, f"m{name}", tenants, instances)
            postgres.sql("ANALYZE", "muster")
            accept(bench, postgres, groups[name], name, watched)
    if bench.wants("durable"):
        beside(bench, "durable-dbos", groups["1"], Dbos(bench, postgres), watched)
        beside(bench, "durable-restate", groups["1"], Restate(bench), watched)
    for thing in (adapter, fleet, server, postgres):
        thing.stop()
